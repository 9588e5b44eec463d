//! Crash tests: a change that a kill or a power loss interrupts at any step loses nothing.

use std::collections::BTreeMap;

use super::*;
use crate::secrets::keyring::tests::in_memory;

const NAME: &str = "git";

/// A file system that fails at a chosen step. A power loss may discard content and names that were not
/// synced.
#[derive(Debug, Default)]
struct FaultyDisk(Mutex<DiskState>);

#[derive(Debug, Default, Clone)]
struct DiskState {
    /// Content by path as processes see it.
    visible: BTreeMap<PathBuf, Vec<u8>>,
    /// Content by path after a power loss.
    durable: BTreeMap<PathBuf, Vec<u8>>,
    /// Content that was synced under any name.
    synced: Vec<Vec<u8>>,
    steps: usize,
    /// The step that fails.
    fail_at: Option<usize>,
}

impl FaultyDisk {
    fn step(&self, act: impl FnOnce(&mut DiskState, bool)) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        state.steps += 1;
        let fails = state.fail_at.is_some_and(|fail_at| state.steps >= fail_at);
        // `act` decides how much of the failing step takes effect.
        if state.fail_at.is_none_or(|fail_at| state.steps <= fail_at) {
            act(&mut state, fails);
        }
        if fails { Err(io::Error::other("ended")) } else { Ok(()) }
    }

    /// The disk as the next process finds it.
    fn after(&self, power_is_lost: bool) -> Self {
        let state = self.0.lock().unwrap().clone();
        let visible = if power_is_lost { state.durable.clone() } else { state.visible };
        FaultyDisk(Mutex::new(DiskState {
            visible,
            durable: state.durable,
            ..DiskState::default()
        }))
    }
}

impl FileSystem for FaultyDisk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.0.lock().unwrap().visible.get(path).cloned().ok_or(io::ErrorKind::NotFound.into())
    }

    fn write(&self, path: &Path, content: &[u8], _mode: u32) -> io::Result<()> {
        self.step(|state, fails| {
            let written = if fails { &content[..content.len() / 2] } else { content };
            state.visible.insert(path.to_owned(), written.to_vec());
            // A name may be durable long before its content.
            state.durable.insert(path.to_owned(), Vec::new());
        })
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.step(|state, fails| {
            let content = state.visible.get(path).cloned();
            match content {
                Some(content) if !fails => state.synced.push(content),
                Some(_) => {}
                // A folder: its names become durable, and content only as far as it was synced.
                None => {
                    let names = state.visible.iter().map(|(path, content)| {
                        let safe = state.synced.contains(content);
                        (path.clone(), if safe { content.clone() } else { Vec::new() })
                    });
                    state.durable = names.collect();
                }
            }
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(|state, fails| {
            if !fails && let Some(content) = state.visible.remove(from) {
                state.visible.insert(to.to_owned(), content);
            }
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step(|state, fails| {
            if !fails {
                state.visible.remove(path);
            }
        })
    }
}

/// A credential store on the given disk.
async fn store_on(
    disk: FaultyDisk,
    storage: StorageMode,
    keyring: &Keyring,
) -> (CredentialStore, Arc<FaultyDisk>) {
    let disk = Arc::new(disk);
    // Locks need a real folder, because the kernel holds them.
    let folder = tempfile::tempdir().unwrap().keep();
    let store =
        CredentialStore::with_parts(folder, storage, Arc::clone(&disk) as _, keyring.clone());
    (store, disk)
}

/// Opens the same folder with the remaining disk.
fn reopen(
    store: &CredentialStore,
    disk: FaultyDisk,
    storage: StorageMode,
    keyring: &Keyring,
) -> CredentialStore {
    CredentialStore::with_parts(store.folder().to_owned(), storage, Arc::new(disk), keyring.clone())
}

async fn check_each_step(
    storage: StorageMode,
    change: impl AsyncFn(&CredentialStore) -> Result<(), CredentialStoreError>,
    new: Option<SecretString>,
) {
    let keyring = in_memory();
    for power_is_lost in [false, true] {
        for fail_at in 1.. {
            let (store, disk) = store_on(FaultyDisk::default(), storage, &keyring).await;
            store.write(NAME, &SecretString::new("old")).await.unwrap();
            let begun = disk.0.lock().unwrap().steps;
            disk.0.lock().unwrap().fail_at = Some(begun + fail_at);
            let done = change(&store).await.is_ok();
            let next = reopen(&store, disk.after(power_is_lost), storage, &keyring);
            let found = next.read(NAME).await.unwrap();
            let old = Some(SecretString::new("old"));
            let case = format!("{storage:?}, step {fail_at}, power lost: {power_is_lost}");
            // An acknowledged write is present. An unacknowledged one left the old or the new value.
            assert!(found == new || (!done && found == old), "{case}");
            // The next change works despite leftover files.
            next.write(NAME, &SecretString::new("next")).await.unwrap();
            assert_eq!(next.read(NAME).await.unwrap(), Some(SecretString::new("next")), "{case}");
            std::fs::remove_dir_all(store.folder()).unwrap();
            if done {
                assert!(fail_at > 3, "a change has several steps");
                break;
            }
        }
    }
}

#[tokio::test]
async fn interrupted_write_leaves_the_old_or_new_value() {
    for storage in [StorageMode::File, StorageMode::Auto] {
        let new = SecretString::new("new");
        check_each_step(storage, async |store| store.write(NAME, &new).await, Some(new.clone()))
            .await;
    }
}

#[tokio::test]
async fn interrupted_removal_leaves_the_value_or_none() {
    check_each_step(StorageMode::File, async |store| store.remove(NAME).await, None).await;
}

#[tokio::test]
async fn interrupted_first_write_with_a_new_key_leaves_none_or_the_new_value() {
    let keyring = in_memory();
    for power_is_lost in [false, true] {
        for fail_at in 1.. {
            let (store, disk) = store_on(FaultyDisk::default(), StorageMode::Auto, &keyring).await;
            disk.0.lock().unwrap().fail_at = Some(fail_at);
            let done = store.write(NAME, &SecretString::new("new")).await.is_ok();
            let next = reopen(&store, disk.after(power_is_lost), StorageMode::Auto, &keyring);
            let found = next.read(NAME).await.unwrap();
            assert!(
                found == Some(SecretString::new("new")) || (!done && found.is_none()),
                "step {fail_at}"
            );
            next.write(NAME, &SecretString::new("next")).await.unwrap();
            assert_eq!(next.read(NAME).await.unwrap(), Some(SecretString::new("next")));
            std::fs::remove_dir_all(store.folder()).unwrap();
            if done {
                assert!(fail_at > 7);
                break;
            }
        }
    }
}
