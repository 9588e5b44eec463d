//! The keep: credentials by name in a folder of the person's, a file for each, whole or as it was at any moment.

mod entry;
mod error;
mod lock;
mod seal;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::spawn_blocking;
use toolcrib_config::{Hidden, Problem, model};

use super::keyring::{Keyring, KeyringError};
use crate::disk::{Disk, PRIVATE, RealDisk, private_folder, replace_on};
use entry::{Entry, digits};
pub use error::KeepError;
pub use lock::KeepLock;
use seal::Key;

/// What the host is called in a keyring.
pub(super) const SERVICE: &str = "toolcrib";

/// How long a change waits for that of another process: it takes as long as writing a small file.
const PATIENCE: Duration = Duration::from_secs(10);

/// The file that names the key which seals what is written.
const KEY: &str = "key";

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

/// How what is written now is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In files that are sealed with a key in the keyring.
    Sealed,
    /// In files that only their owner can read, because that was chosen.
    Plain,
    /// The same for want of a keyring.
    PlainWithout(KeyringError),
    /// Not at all: a keyring was asked for.
    Refused(KeyringError),
}

/// Credentials that outlive a host. Clones are the same keep, as are those of other processes with its folder.
#[derive(Clone, Debug)]
pub struct Keep(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
    keyring: Keyring,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    storage: Storage,
    /// Those that were asked for once.
    keys: HashMap<String, Arc<Key>>,
    /// Why something was kept without a key that should have one.
    unsealed: Option<KeyringError>,
}

impl Keep {
    /// Nothing is touched yet: a folder that is missing is made when something is kept in it.
    pub fn open(folder: PathBuf, storage: Storage) -> Self {
        Self::with(folder, storage, Arc::new(RealDisk), Keyring::system())
    }

    fn with(folder: PathBuf, storage: Storage, disk: Arc<dyn Disk>, keyring: Keyring) -> Self {
        let state = Mutex::new(State { storage, ..State::default() });
        Self(Arc::new(Inner { folder, disk, keyring, state }))
    }

    /// What is written from now on is kept in this way.
    pub fn choose(&self, storage: Storage) {
        self.state().storage = storage;
    }

    pub async fn read(&self, name: &str) -> Result<Option<Hidden>, KeepError> {
        let path = self.path(&digits(name), "json");
        let Some(text) = self.file(&path).await? else { return Ok(None) };
        let damaged = || KeepError::Content { path: path.clone() };
        match entry::read(text) {
            Some(Entry::Plain { name: found, value }) if found == name => Ok(Some(value)),
            Some(Entry::Sealed { name: found, key, sealed }) if found == name => {
                let sealed_with = |cause| KeepError::Sealed { path: path.clone(), cause };
                let key = self.key(&key).await.map_err(sealed_with)?;
                let key = key.ok_or_else(|| KeepError::KeyLost { path: path.clone() })?;
                key.open(name, &sealed).map(Some).ok_or_else(damaged)
            }
            _ => Err(damaged()),
        }
    }

    /// Kept when this returns, whatever happens to the machine. Until then what was there is still there.
    pub async fn write(&self, name: &str, value: &Hidden) -> Result<(), KeepError> {
        // Before anything is locked: a keyring may take its time.
        let key = self.writing_key().await?;
        let text = entry::text(name, value, key.as_deref()).ok_or(KeepError::Random)?;
        self.put(&digits(name), text).await
    }

    /// What is not there is removed.
    pub async fn remove(&self, name: &str) -> Result<(), KeepError> {
        self.change(&digits(name), "remove", |disk, draft, path| {
            // What a write left that was ended halfway goes as well.
            for path in [draft, path] {
                match disk.remove(path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            path.parent().map_or(Ok(()), |folder| disk.sync(folder))
        })
        .await
    }

    /// For what must not be done by two at once, such as exchanging a token that can be used once. Writing under it
    /// is right: it is not the lock that a single write takes.
    pub async fn lock(&self, name: &str, wait: Duration) -> Result<KeepLock, KeepError> {
        lock::lock(self.path(&digits(name), "lock"), name, wait).await
    }

    /// How what is written now is kept: it is tried, as far as the keyring is concerned.
    pub async fn standing(&self) -> Result<Standing, KeepError> {
        match self.writing_key().await {
            Ok(Some(_)) => Ok(Standing::Sealed),
            Ok(None) => Ok(match &self.state().unsealed {
                Some(why) => Standing::PlainWithout(why.clone()),
                None => Standing::Plain,
            }),
            Err(KeepError::NoKeyring(why)) => Ok(Standing::Refused(why)),
            Err(error) => Err(error),
        }
    }

    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// That something was kept without a key although there is a keyring.
    pub fn problem(&self) -> Option<Problem> {
        let why = self.state().unsealed.clone()?;
        if matches!(why, KeyringError::Absent(_)) {
            return None;
        }
        let text = format!("credentials are kept in files that are not encrypted: {why}");
        Some(
            Problem::warning("credentials.unsealed", text)
                .fix("unlock the keyring, or set `host.credentials` to `file`"),
        )
    }

    pub(super) fn keyring(&self) -> &Keyring {
        &self.0.keyring
    }

    async fn writing_key(&self) -> Result<Option<Arc<Key>>, KeepError> {
        let storage = self.state().storage;
        if storage == Storage::File {
            self.state().unsealed = None;
            return Ok(None);
        }
        let (key, why) = match self.newest_key().await? {
            Ok(key) => (Some(key), None),
            Err(why) if storage == Storage::Keyring => return Err(KeepError::NoKeyring(why)),
            Err(why) => (None, Some(why)),
        };
        self.state().unsealed = why;
        Ok(key)
    }

    /// The key that the folder names, or a new one.
    async fn newest_key(&self) -> Result<Result<Arc<Key>, KeyringError>, KeepError> {
        let named = self.file(&self.path(KEY, "json")).await?;
        if let Some(id) = named.and_then(|id| String::from_utf8(id).ok()) {
            match self.key(&id).await {
                Ok(Some(key)) => return Ok(Ok(key)),
                Ok(None) => {}
                Err(why) => return Ok(Err(why)),
            }
        }
        let (key, text) = Key::fresh().ok_or(KeepError::Random)?;
        let id = key.id.clone();
        if let Err(why) = self.0.keyring.set(SERVICE, &user(&id), &text).await {
            return Ok(Err(why));
        }
        // What a keyring took it need not give back.
        match self.key(&id).await {
            Ok(Some(key)) => self.put(KEY, Hidden::new(id)).await.map(|()| Ok(key)),
            Ok(None) => Ok(Err(KeyringError::Refused("it does not keep what it is given".into()))),
            Err(why) => Ok(Err(why)),
        }
    }

    async fn key(&self, id: &str) -> Result<Option<Arc<Key>>, KeyringError> {
        if let Some(key) = self.state().keys.get(id) {
            return Ok(Some(Arc::clone(key)));
        }
        let Some(text) = self.0.keyring.get(SERVICE, &user(id)).await? else { return Ok(None) };
        let Some(key) = Key::of(id, &text).map(Arc::new) else { return Ok(None) };
        self.state().keys.insert(id.to_owned(), Arc::clone(&key));
        Ok(Some(key))
    }

    async fn put(&self, stem: &str, text: Hidden) -> Result<(), KeepError> {
        self.change(stem, "write", move |disk, draft, path| {
            replace_on(disk, draft, path, text.reveal().as_bytes(), PRIVATE)
        })
        .await
    }

    /// One change of the folder at a time, so that each has the file beside the real one for itself.
    async fn change(
        &self,
        stem: &str,
        what: &'static str,
        act: impl FnOnce(&dyn Disk, &Path, &Path) -> io::Result<()> + Send + 'static,
    ) -> Result<(), KeepError> {
        let (draft, path) = (self.path(stem, "new"), self.path(stem, "json"));
        let alone = lock::lock(self.0.folder.join("change.lock"), stem, PATIENCE).await?;
        let (inner, at) = (Arc::clone(&self.0), path.clone());
        // The lock goes along: who stops waiting does not end what is under way.
        let changed = blocking(move || {
            private_folder(&inner.folder)?;
            act(&*inner.disk, &draft, &at)?;
            drop(alone);
            Ok(())
        });
        changed.await.map_err(|cause| KeepError::File { what, path, cause })
    }

    async fn file(&self, path: &Path) -> Result<Option<Vec<u8>>, KeepError> {
        let (disk, at) = (Arc::clone(&self.0.disk), path.to_owned());
        match blocking(move || disk.read(&at)).await {
            Ok(text) => Ok(Some(text)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(KeepError::File { what: "read", path: path.to_owned(), cause }),
        }
    }

    fn path(&self, stem: &str, kind: &str) -> PathBuf {
        self.0.folder.join(format!("{stem}.{kind}"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<model::host::Credentials> for Storage {
    fn from(configured: model::host::Credentials) -> Self {
        match configured {
            model::host::Credentials::Auto => Self::Auto,
            model::host::Credentials::Keyring => Self::Keyring,
            model::host::Credentials::File => Self::File,
        }
    }
}

/// What a key is called in the keyring.
fn user(id: &str) -> String {
    format!("key of credentials {id}")
}

async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(act).await.unwrap_or_else(|error| Err(error.into()))
}

#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod tests;
