//! A change that is ended at any of its steps, by a kill or by a loss of power, loses nothing.

use std::collections::BTreeMap;

use super::*;
use crate::secrets::keyring::tests::in_memory;

const NAME: &str = "git";

/// A disk that ends everything at a step. What was not synced, a loss of power may take: content as well as names.
#[derive(Debug, Default)]
struct Fragile(Mutex<Plates>);

#[derive(Debug, Default, Clone)]
struct Plates {
    /// What a process sees, by path.
    seen: BTreeMap<PathBuf, Vec<u8>>,
    /// What a loss of power leaves.
    lasting: BTreeMap<PathBuf, Vec<u8>>,
    /// Content that is synced under any name.
    synced: Vec<Vec<u8>>,
    steps: usize,
    /// The step at which it ends, and how.
    end: Option<usize>,
}

impl Fragile {
    fn step(&self, act: impl FnOnce(&mut Plates, bool)) -> io::Result<()> {
        let mut plates = self.0.lock().unwrap();
        plates.steps += 1;
        let ends = plates.end.is_some_and(|end| plates.steps >= end);
        // The step at which it ends may have happened in part or as a whole: `act` knows.
        if plates.end.is_none_or(|end| plates.steps <= end) {
            act(&mut plates, ends);
        }
        if ends { Err(io::Error::other("ended")) } else { Ok(()) }
    }

    /// The same disk for the next process.
    fn after(&self, power_is_lost: bool) -> Self {
        let plates = self.0.lock().unwrap().clone();
        let seen = if power_is_lost { plates.lasting.clone() } else { plates.seen };
        Fragile(Mutex::new(Plates { seen, lasting: plates.lasting, ..Plates::default() }))
    }
}

impl Disk for Fragile {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.0.lock().unwrap().seen.get(path).cloned().ok_or(io::ErrorKind::NotFound.into())
    }

    fn write(&self, path: &Path, content: &[u8], _mode: u32) -> io::Result<()> {
        self.step(|plates, ends| {
            let written = if ends { &content[..content.len() / 2] } else { content };
            plates.seen.insert(path.to_owned(), written.to_vec());
            // A name may be on the plates long before its content.
            plates.lasting.insert(path.to_owned(), Vec::new());
        })
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.step(|plates, ends| {
            let content = plates.seen.get(path).cloned();
            match content {
                Some(content) if !ends => plates.synced.push(content),
                Some(_) => {}
                // A folder: names are as a process sees them, and content as far as it was synced.
                None => {
                    let names = plates.seen.iter().map(|(path, content)| {
                        let safe = plates.synced.contains(content);
                        (path.clone(), if safe { content.clone() } else { Vec::new() })
                    });
                    plates.lasting = names.collect();
                }
            }
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(|plates, ends| {
            if !ends && let Some(content) = plates.seen.remove(from) {
                plates.seen.insert(to.to_owned(), content);
            }
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step(|plates, ends| {
            if !ends {
                plates.seen.remove(path);
            }
        })
    }
}

/// A keep on a disk with an old value.
async fn keep_on(disk: Fragile, storage: Storage, keyring: &Keyring) -> (Keep, Arc<Fragile>) {
    let disk = Arc::new(disk);
    // The folder of the locks is a real one: they are the kernel's.
    let folder = tempfile::tempdir().unwrap().keep();
    let keep = Keep::with(folder, storage, Arc::clone(&disk) as _, keyring.clone());
    (keep, disk)
}

/// The same folder with the disk that is left.
fn again(keep: &Keep, disk: Fragile, storage: Storage, keyring: &Keyring) -> Keep {
    Keep::with(keep.folder().to_owned(), storage, Arc::new(disk), keyring.clone())
}

async fn ended_at_each_step(
    storage: Storage,
    change: impl AsyncFn(&Keep) -> Result<(), KeepError>,
    new: Option<Hidden>,
) {
    let keyring = in_memory();
    for power_is_lost in [false, true] {
        for end in 1.. {
            let (keep, disk) = keep_on(Fragile::default(), storage, &keyring).await;
            keep.write(NAME, &Hidden::new("old")).await.unwrap();
            let begun = disk.0.lock().unwrap().steps;
            disk.0.lock().unwrap().end = Some(begun + end);
            let done = change(&keep).await.is_ok();
            let next = again(&keep, disk.after(power_is_lost), storage, &keyring);
            let found = next.read(NAME).await.unwrap();
            let old = Some(Hidden::new("old"));
            let case = format!("{storage:?}, step {end}, power lost: {power_is_lost}");
            // What was acknowledged is there; what was not is as it was, or as it was to be.
            assert!(found == new || (!done && found == old), "{case}");
            // And whatever was left lying about, the next change works.
            next.write(NAME, &Hidden::new("next")).await.unwrap();
            assert_eq!(next.read(NAME).await.unwrap(), Some(Hidden::new("next")), "{case}");
            std::fs::remove_dir_all(keep.folder()).unwrap();
            if done {
                assert!(end > 3, "a change has steps to be ended at");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_write_that_is_ended_at_any_step_leaves_the_old_or_the_new() {
    for storage in [Storage::File, Storage::Auto] {
        let new = Hidden::new("new");
        ended_at_each_step(storage, async |keep| keep.write(NAME, &new).await, Some(new.clone()))
            .await;
    }
}

#[tokio::test]
async fn a_removal_that_is_ended_at_any_step_leaves_it_or_nothing() {
    ended_at_each_step(Storage::File, async |keep| keep.remove(NAME).await, None).await;
}

#[tokio::test]
async fn a_first_write_with_a_new_key_that_is_ended_at_any_step_leaves_nothing_or_the_new() {
    let keyring = in_memory();
    for power_is_lost in [false, true] {
        for end in 1.. {
            let (keep, disk) = keep_on(Fragile::default(), Storage::Auto, &keyring).await;
            disk.0.lock().unwrap().end = Some(end);
            let done = keep.write(NAME, &Hidden::new("new")).await.is_ok();
            let next = again(&keep, disk.after(power_is_lost), Storage::Auto, &keyring);
            let found = next.read(NAME).await.unwrap();
            assert!(found == Some(Hidden::new("new")) || (!done && found.is_none()), "step {end}");
            next.write(NAME, &Hidden::new("next")).await.unwrap();
            assert_eq!(next.read(NAME).await.unwrap(), Some(Hidden::new("next")));
            std::fs::remove_dir_all(keep.folder()).unwrap();
            if done {
                assert!(end > 7);
                break;
            }
        }
    }
}
