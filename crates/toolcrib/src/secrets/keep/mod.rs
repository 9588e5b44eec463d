//! The keep: credentials by name in a folder of the person's, a file for each, whole or as it was at any moment.

mod disk;
mod entry;
mod error;
mod lock;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use toolcrib_config::Hidden;

use disk::{Disk, RealDisk, private_folder};
use entry::{Entry, digits};
pub use error::KeepError;
pub use lock::KeepLock;

/// How long a change waits for that of another process: it takes as long as writing a small file.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the key to what is kept is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// In the keyring where there is one, else nowhere.
    #[default]
    Auto,
    /// In the keyring, and nothing is kept without one.
    Keyring,
    /// Nowhere: files that only their owner can read.
    File,
}

/// Credentials that outlive a host. Clones are the same keep, as are those of other processes with its folder.
#[derive(Clone, Debug)]
pub struct Keep {
    folder: PathBuf,
    #[allow(dead_code)]
    storage: Storage,
    disk: Arc<dyn Disk>,
}

impl Keep {
    /// Nothing is touched yet: a folder that is missing is made when something is kept in it.
    pub fn open(folder: PathBuf, storage: Storage) -> Self {
        Self { folder, storage, disk: Arc::new(RealDisk) }
    }

    pub async fn read(&self, name: &str) -> Result<Option<Hidden>, KeepError> {
        let path = self.path(name, "json");
        let (disk, at) = (Arc::clone(&self.disk), path.clone());
        let text = match blocking(move || disk.read(&at)).await {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(KeepError::File { what: "read", path, cause }),
            Ok(text) => text,
        };
        let Some(Entry { name: found, value }) = Entry::read(text) else {
            return Err(KeepError::Content { path });
        };
        if found != name { Err(KeepError::Content { path }) } else { Ok(Some(value)) }
    }

    /// Kept when this returns, whatever happens to the machine. Until then what was there is still there.
    pub async fn write(&self, name: &str, value: &Hidden) -> Result<(), KeepError> {
        let text = Entry { name: name.to_owned(), value: value.clone() }.text();
        self.change(name, "write", move |disk, draft, path| {
            disk.write(draft, text.reveal().as_bytes())?;
            disk.sync(draft)?;
            disk.rename(draft, path)
        })
        .await
    }

    /// What is not there is removed.
    pub async fn remove(&self, name: &str) -> Result<(), KeepError> {
        self.change(name, "remove", |disk, draft, path| {
            // What a write left that was ended halfway goes as well.
            for path in [draft, path] {
                match disk.remove(path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            Ok(())
        })
        .await
    }

    /// For what must not be done by two at once, such as exchanging a token that can be used once. Writing under it
    /// is right: it is not the lock that a single write takes.
    pub async fn lock(&self, name: &str, wait: Duration) -> Result<KeepLock, KeepError> {
        lock::lock(self.path(name, "lock"), name, wait).await
    }

    /// One change of the folder at a time, so that each has the file beside the real one for itself.
    async fn change(
        &self,
        name: &str,
        what: &'static str,
        act: impl FnOnce(&dyn Disk, &PathBuf, &PathBuf) -> io::Result<()> + Send + 'static,
    ) -> Result<(), KeepError> {
        let (draft, path) = (self.path(name, "new"), self.path(name, "json"));
        let alone = lock::lock(self.folder.join("change.lock"), name, PATIENCE).await?;
        let (disk, folder, at) = (Arc::clone(&self.disk), self.folder.clone(), path.clone());
        // The lock goes along: who stops waiting does not end what is under way.
        let changed = blocking(move || {
            private_folder(&folder)?;
            act(&*disk, &draft, &at)?;
            disk.sync(&folder)?;
            drop(alone);
            Ok(())
        });
        changed.await.map_err(|cause| KeepError::File { what, path, cause })
    }

    fn path(&self, name: &str, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", digits(name)))
    }
}

async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(act).await.unwrap_or_else(|error| Err(error.into()))
}

#[cfg(test)]
mod tests;
