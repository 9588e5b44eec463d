//! The credential store: one file per credential in a private folder, each replaced atomically.

mod entry;
mod error;
mod lock;
mod sealing_key;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::spawn_blocking;
use toolcrib_config::{Problem, SecretString, model};
use zeroize::Zeroizing;

use super::keyring::{Keyring, KeyringError};
use crate::disk::{
    FileSystem, OsFileSystem, PRIVATE_MODE, create_private_folder, format_version, replace_file_on,
};
use entry::{CredentialEntry, file_stem};
pub use error::CredentialStoreError;
pub use lock::CredentialLock;
use sealing_key::SealingKey;

/// Service name of the host in a keyring.
pub(super) const SERVICE: &str = "toolcrib";

/// Timeout for a concurrent change, which only writes a small file.
const WRITE_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Format version that this program reads and writes. A file without a version has version 1.
const VERSION: u64 = 1;

/// File that names the current sealing key.
const KEY_FILE: &str = "key";

/// Configured storage of the sealing key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StorageMode {
    /// In the keyring if there is one; otherwise files are not sealed.
    #[default]
    Auto,
    /// In the keyring only. Without a keyring nothing is stored.
    Keyring,
    /// No sealing: private files.
    File,
}

/// Actual storage of credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageStatus {
    /// In files that are sealed with a key in the keyring.
    Sealed,
    /// In private files, as configured.
    Plain,
    /// In private files, because there is no usable keyring.
    PlainWithout(KeyringError),
    /// Not stored: the configuration requires a keyring.
    Refused(KeyringError),
}

/// Credentials that outlive a host process. Clones and other processes with the same folder share them.
#[derive(Clone, Debug)]
pub struct CredentialStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    disk: Arc<dyn FileSystem>,
    keyring: Keyring,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    storage: StorageMode,
    /// Keys that were loaded from the keyring.
    keys: HashMap<String, Arc<SealingKey>>,
    /// Why a credential was stored unsealed although sealing was requested.
    unsealed_reason: Option<KeyringError>,
}

impl CredentialStore {
    /// Opens the store without any I/O. The first write creates the folder.
    pub fn open(folder: PathBuf, storage: StorageMode) -> Self {
        Self::with_parts(folder, storage, Arc::new(OsFileSystem), Keyring::system())
    }

    fn with_parts(
        folder: PathBuf,
        storage: StorageMode,
        disk: Arc<dyn FileSystem>,
        keyring: Keyring,
    ) -> Self {
        let state = Mutex::new(State { storage, ..State::default() });
        Self(Arc::new(Inner { folder, disk, keyring, state }))
    }

    /// Sets how future writes are stored.
    pub fn set_storage(&self, storage: StorageMode) {
        self.state().storage = storage;
    }

    /// Reads a credential; returns `None` if it does not exist.
    pub async fn read(&self, name: &str) -> Result<Option<SecretString>, CredentialStoreError> {
        let path = self.path(&file_stem(name), "json");
        let Some(text) = self.read_file(&path).await? else { return Ok(None) };
        let found = format_version(&text);
        if found > VERSION {
            return Err(CredentialStoreError::Newer { path, found });
        }
        let damaged = || CredentialStoreError::Content { path: path.clone() };
        match entry::parse_entry(text) {
            Some(CredentialEntry::Plain { name: found, value }) if found == name => Ok(Some(value)),
            Some(CredentialEntry::Sealed { name: found, key, sealed }) if found == name => {
                let sealed_with =
                    |cause| CredentialStoreError::Sealed { path: path.clone(), cause };
                let key = self.load_key(&key).await.map_err(sealed_with)?;
                let key =
                    key.ok_or_else(|| CredentialStoreError::KeyLost { path: path.clone() })?;
                key.open(name, &sealed).map(Some).ok_or_else(damaged)
            }
            _ => Err(damaged()),
        }
    }

    /// Writes a credential. It is durable when this returns. Until then the old value remains.
    pub async fn write(
        &self,
        name: &str,
        value: &SecretString,
    ) -> Result<(), CredentialStoreError> {
        // Loads the key before taking the lock, because a keyring may be slow.
        let key = self.writing_key().await?;
        let text = entry::serialize_entry(name, value, key.as_deref())
            .ok_or(CredentialStoreError::Random)?;
        self.write_file(&file_stem(name), text).await
    }

    /// Removes a credential. A missing credential is not an error.
    pub async fn remove(&self, name: &str) -> Result<(), CredentialStoreError> {
        self.modify(&file_stem(name), "remove", |disk, draft, path| {
            // Also removes the temporary file of an interrupted write.
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

    /// Takes an exclusive lock on a credential, for operations such as exchanging a single-use token. Writing
    /// the credential while holding the lock is allowed: a write takes a different lock.
    pub async fn lock(
        &self,
        name: &str,
        wait: Duration,
    ) -> Result<CredentialLock, CredentialStoreError> {
        lock::acquire_lock(self.path(&file_stem(name), "lock"), name, wait).await
    }

    /// Returns how a write would be stored. Accesses the keyring to find out.
    pub async fn storage_status(&self) -> Result<StorageStatus, CredentialStoreError> {
        match self.writing_key().await {
            Ok(Some(_)) => Ok(StorageStatus::Sealed),
            Ok(None) => Ok(match &self.state().unsealed_reason {
                Some(reason) => StorageStatus::PlainWithout(reason.clone()),
                None => StorageStatus::Plain,
            }),
            Err(CredentialStoreError::NoKeyring(reason)) => Ok(StorageStatus::Refused(reason)),
            Err(error) => Err(error),
        }
    }

    /// Returns the folder of the credential files.
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// Returns a problem if a credential was stored unsealed although there is a keyring.
    pub fn problem(&self) -> Option<Problem> {
        let reason = self.state().unsealed_reason.clone()?;
        if matches!(reason, KeyringError::Absent(_)) {
            return None;
        }
        let text = format!("credentials are stored in unencrypted files: {reason}");
        Some(
            Problem::warning("credentials.unsealed", text)
                .fix("unlock the keyring, or set `host.credentials` to `file`"),
        )
    }

    pub(super) fn keyring(&self) -> &Keyring {
        &self.0.keyring
    }

    async fn writing_key(&self) -> Result<Option<Arc<SealingKey>>, CredentialStoreError> {
        let storage = self.state().storage;
        if storage == StorageMode::File {
            self.state().unsealed_reason = None;
            return Ok(None);
        }
        let (key, reason) = match self.current_key().await? {
            Ok(key) => (Some(key), None),
            Err(reason) if storage == StorageMode::Keyring => {
                return Err(CredentialStoreError::NoKeyring(reason));
            }
            Err(reason) => (None, Some(reason)),
        };
        self.state().unsealed_reason = reason;
        Ok(key)
    }

    /// Loads the key that the folder names, or creates a new one.
    async fn current_key(
        &self,
    ) -> Result<Result<Arc<SealingKey>, KeyringError>, CredentialStoreError> {
        let named = self.read_file(&self.path(KEY_FILE, "json")).await?;
        if let Some(id) = named.and_then(|id| String::from_utf8(id).ok()) {
            match self.load_key(&id).await {
                Ok(Some(key)) => return Ok(Ok(key)),
                Ok(None) => {}
                Err(reason) => return Ok(Err(reason)),
            }
        }
        let (key, text) = SealingKey::generate().ok_or(CredentialStoreError::Random)?;
        let id = key.id.clone();
        if let Err(reason) = self.0.keyring.set(SERVICE, &key_user(&id), &text).await {
            return Ok(Err(reason));
        }
        // Reads the key back, because a keyring may accept a secret without storing it.
        match self.load_key(&id).await {
            Ok(Some(key)) => {
                self.write_file(KEY_FILE, SecretString::new(id)).await.map(|()| Ok(key))
            }
            Ok(None) => Ok(Err(KeyringError::Refused("it does not store secrets".into()))),
            Err(reason) => Ok(Err(reason)),
        }
    }

    async fn load_key(&self, id: &str) -> Result<Option<Arc<SealingKey>>, KeyringError> {
        if let Some(key) = self.state().keys.get(id) {
            return Ok(Some(Arc::clone(key)));
        }
        let Some(text) = self.0.keyring.get(SERVICE, &key_user(id)).await? else { return Ok(None) };
        let Some(key) = SealingKey::from_text(id, &text).map(Arc::new) else { return Ok(None) };
        self.state().keys.insert(id.to_owned(), Arc::clone(&key));
        Ok(Some(key))
    }

    async fn write_file(&self, stem: &str, text: SecretString) -> Result<(), CredentialStoreError> {
        self.modify(stem, "write", move |disk, draft, path| {
            replace_file_on(disk, draft, path, text.reveal().as_bytes(), PRIVATE_MODE)
        })
        .await
    }

    /// Runs one change of the folder at a time, so that the temporary file is free. A newer file is not changed.
    async fn modify(
        &self,
        stem: &str,
        operation: &'static str,
        act: impl FnOnce(&dyn FileSystem, &Path, &Path) -> io::Result<()> + Send + 'static,
    ) -> Result<(), CredentialStoreError> {
        let (draft, path) = (self.path(stem, "new"), self.path(stem, "json"));
        let lock =
            lock::acquire_lock(self.0.folder.join("change.lock"), stem, WRITE_LOCK_TIMEOUT).await?;
        let (inner, at) = (Arc::clone(&self.0), path.clone());
        // The closure owns the lock, so that a cancelled caller does not unlock a running change.
        let changed = run_blocking(move || {
            create_private_folder(&inner.folder)?;
            let found =
                inner.disk.read(&at).map_or(1, |text| format_version(&Zeroizing::new(text)));
            if found <= VERSION {
                act(&*inner.disk, &draft, &at)?;
            }
            drop(lock);
            Ok(found)
        });
        match changed.await {
            Ok(found) if found > VERSION => Err(CredentialStoreError::Newer { path, found }),
            Ok(_) => Ok(()),
            Err(cause) => Err(CredentialStoreError::File { operation, path, cause }),
        }
    }

    async fn read_file(&self, path: &Path) -> Result<Option<Vec<u8>>, CredentialStoreError> {
        let (disk, at) = (Arc::clone(&self.0.disk), path.to_owned());
        match run_blocking(move || disk.read(&at)).await {
            Ok(text) => Ok(Some(text)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => {
                Err(CredentialStoreError::File { operation: "read", path: path.to_owned(), cause })
            }
        }
    }

    fn path(&self, stem: &str, kind: &str) -> PathBuf {
        self.0.folder.join(format!("{stem}.{kind}"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<model::host::CredentialStorage> for StorageMode {
    fn from(configured: model::host::CredentialStorage) -> Self {
        match configured {
            model::host::CredentialStorage::Auto => Self::Auto,
            model::host::CredentialStorage::Keyring => Self::Keyring,
            model::host::CredentialStorage::File => Self::File,
        }
    }
}

/// Account name of a key in the keyring.
fn key_user(id: &str) -> String {
    format!("key of credentials {id}")
}

async fn run_blocking<T: Send + 'static>(
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(act).await.unwrap_or_else(|error| Err(error.into()))
}

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod tests;
