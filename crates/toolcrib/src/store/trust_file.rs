//! The folders whose configuration somebody trusts, and the hashes of what they trusted: one file for all hosts of a
//! person, since no folder may vouch for itself.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use toolcrib_config::Hash;
use toolcrib_upstream::disk::PrivateFile;

use super::time::{from_millis, to_millis};

/// The file. Nothing of it is held: each question reads it anew.
#[derive(Clone, Debug)]
pub struct TrustFile(PrivateFile);

/// One folder and what is trusted of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedFolder {
    /// Without links in it.
    pub path: PathBuf,
    pub hashes: BTreeSet<Hash>,
    pub at: SystemTime,
}

#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("cannot find the folder `{}`", .folder.display())]
    NoFolder {
        folder: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("the name of the folder `{}` is no text, so that trust in it cannot be kept", .0.display())]
    NoText(PathBuf),
    #[error("cannot read which folders are trusted in `{}`", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("`{}` is damaged: delete it, and trust again what is to be trusted", .0.display())]
    Damaged(PathBuf),
    #[error("cannot write which folders are trusted to `{}`", .path.display())]
    Write {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
}

impl TrustFile {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        TrustFile(PrivateFile::new(path))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// All of them, by name. Blocks.
    pub fn folders(&self) -> Result<Vec<TrustedFolder>, TrustError> {
        let folders = self.read()?.folders.into_iter();
        Ok(folders.map(|(path, kept)| kept.told(path)).collect())
    }

    /// What is trusted of a folder; nothing where it is not among them. Blocks.
    pub fn of(&self, folder: &Path) -> Result<Option<BTreeSet<Hash>>, TrustError> {
        let name = name(folder)?;
        Ok(self.read()?.folders.remove(&name).map(|kept| kept.told(name).hashes))
    }

    /// From now on just this is trusted of the folder. Blocks.
    pub fn trust(
        &self,
        folder: &Path,
        hashes: impl IntoIterator<Item = Hash>,
    ) -> Result<(), TrustError> {
        let name = name(folder)?;
        let at = to_millis(SystemTime::now());
        let hashes = hashes.into_iter().map(|hash| hash.to_string()).collect();
        self.change(|kept| {
            kept.folders.insert(name, Entry { hashes, at });
        })
    }

    /// Nothing of the folder is trusted any more. False where nothing was. Blocks.
    pub fn forget(&self, folder: &Path) -> Result<bool, TrustError> {
        // A folder that is gone can be forgotten, too.
        let name = name(folder).or_else(|_| text(folder))?;
        let mut was_there = false;
        self.change(|kept| was_there = kept.folders.remove(&name).is_some())?;
        Ok(was_there)
    }

    fn read(&self) -> Result<Kept, TrustError> {
        let content = self.0.read();
        let path = || self.path().to_owned();
        match content.map_err(|cause| TrustError::Read { path: path(), cause })? {
            Some(content) => {
                serde_json::from_slice(&content).map_err(|_| TrustError::Damaged(path()))
            }
            None => Ok(Kept::default()),
        }
    }

    /// One at a time, and whole or not at all.
    fn change(&self, how: impl FnOnce(&mut Kept)) -> Result<(), TrustError> {
        let failed = |cause| TrustError::Write { path: self.path().to_owned(), cause };
        let alone = self.0.lock().map_err(failed)?;
        let mut kept = self.read()?;
        how(&mut kept);
        let text = serde_json::to_vec_pretty(&kept).map_err(io::Error::other).map_err(failed)?;
        self.0.replace(&alone, &text).map_err(failed)
    }
}

/// The file as it is written.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    folders: BTreeMap<String, Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    hashes: BTreeSet<String>,
    /// Milliseconds since 1970.
    at: i64,
}

impl Entry {
    fn told(self, path: String) -> TrustedFolder {
        // What is no hash is the hash of nothing.
        let hashes = self.hashes.iter().filter_map(|hash| Hash::read(hash)).collect();
        TrustedFolder { path: path.into(), hashes, at: from_millis(self.at) }
    }
}

/// A folder is known by its real name, whichever links and dots led to it.
fn name(folder: &Path) -> Result<String, TrustError> {
    let real = folder.canonicalize();
    text(&real.map_err(|cause| TrustError::NoFolder { folder: folder.to_owned(), cause })?)
}

fn text(folder: &Path) -> Result<String, TrustError> {
    folder.to_str().map(str::to_owned).ok_or_else(|| TrustError::NoText(folder.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn hash(digit: char) -> Hash {
        Hash::read(&digit.to_string().repeat(64)).unwrap()
    }

    #[test]
    fn a_folder_is_known_by_its_real_name() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a/b");
        fs::create_dir_all(&folder).unwrap();
        symlink(&folder, place.path().join("link")).unwrap();
        let file = TrustFile::new(place.path().join("state/trust.json"));
        let of = |path: &str| file.of(&place.path().join(path)).unwrap();
        assert_eq!(of("a/b"), None);
        file.trust(&place.path().join("link"), [hash('1')]).unwrap();
        let one = Some(BTreeSet::from([hash('1')]));
        for path in ["a/b", "a/../a/b/.", "link", "a/b/../b"] {
            assert_eq!(of(path), one, "{path}");
        }
        // Neither those above nor those below are meant.
        fs::create_dir(folder.join("c")).unwrap();
        assert_eq!((of("a"), of("a/b/c")), (None, None));
        // Only the newest counts.
        file.trust(&folder, [hash('2')]).unwrap();
        assert_eq!(of("a/b"), Some(BTreeSet::from([hash('2')])));
        let mode = fs::metadata(file.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_is_forgotten_is_not_trusted_even_if_its_folder_is_gone() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().canonicalize().unwrap().join("a");
        fs::create_dir(&folder).unwrap();
        let file = TrustFile::new(place.path().join("trust.json"));
        file.trust(&folder, [hash('1')]).unwrap();
        assert_eq!(file.folders().unwrap()[0].path, folder);
        fs::remove_dir(&folder).unwrap();
        assert!(file.of(&folder).is_err());
        assert_eq!((file.forget(&folder).unwrap(), file.forget(&folder).unwrap()), (true, false));
        assert_eq!(file.folders().unwrap(), []);
    }

    #[test]
    fn a_damaged_file_is_neither_trusted_nor_written_over() {
        let place = tempfile::tempdir().unwrap();
        let file = TrustFile::new(place.path().join("trust.json"));
        fs::write(file.path(), "{").unwrap();
        assert!(matches!(file.of(place.path()), Err(TrustError::Damaged(_))));
        assert!(file.trust(place.path(), [hash('1')]).is_err());
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "{");
    }

    #[test]
    fn many_at_once_lose_nothing() {
        let place = tempfile::tempdir().unwrap();
        let file = TrustFile::new(place.path().join("trust.json"));
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (file, folder) = (&file, place.path().join(number.to_string()));
                fs::create_dir(&folder).unwrap();
                scope.spawn(move || file.trust(&folder, [hash('1')]).unwrap());
            }
        });
        assert_eq!(file.folders().unwrap().len(), 8);
    }
}
