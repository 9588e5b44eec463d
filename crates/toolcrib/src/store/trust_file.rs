//! The trusted folders and the hashes of their trusted definitions. One file serves all hosts of a person, because a
//! folder must not vouch for itself.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use toolcrib_config::ConfigHash;
use toolcrib_upstream::disk::{PrivateFile, format_version};

use super::timestamps::{from_millis, to_millis};

/// The format version that this program reads and writes. A file without a version has version 1.
const VERSION: u64 = 1;

/// The trust file. Nothing is cached: each query reads the file.
#[derive(Clone, Debug)]
pub struct TrustFile(PrivateFile);

/// A folder and its trusted hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedFolder {
    /// The canonical path.
    pub path: PathBuf,
    /// The hashes of the trusted definitions.
    pub hashes: BTreeSet<ConfigHash>,
    /// The time of the last change.
    pub at: SystemTime,
}

/// An error of the trust file.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The folder does not exist.
    #[error("cannot find the folder `{}`", .folder.display())]
    FolderNotFound {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// The folder's path is not UTF-8.
    #[error("cannot trust the folder `{}`: its path is not UTF-8", .0.display())]
    NotUtf8(PathBuf),
    /// The file cannot be read.
    #[error("cannot read the trust file `{}`", .path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// The file is damaged.
    #[error("the trust file `{}` is damaged: delete it and trust its folders again", .0.display())]
    Damaged(PathBuf),
    /// A newer program wrote the file.
    #[error(
        "the trust file `{}` has version {found}, but this program supports version {VERSION}: use the newer program",
        .path.display()
    )]
    Newer {
        /// The path of the file.
        path: PathBuf,
        /// The version of the file.
        found: u64,
    },
    /// The file cannot be written.
    #[error("cannot write the trust file `{}`", .path.display())]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },
}

impl TrustFile {
    /// Uses the trust file at this path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        TrustFile(PrivateFile::new(path))
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns all trusted folders, by path. Blocks.
    pub fn folders(&self) -> Result<Vec<TrustedFolder>, TrustError> {
        let folders = self.read()?.folders.into_iter();
        Ok(folders.map(|(path, entry)| entry.into_folder(path)).collect())
    }

    /// Returns the trusted hashes of a folder. `None` if the folder is not trusted. Blocks.
    pub fn trusted_hashes(
        &self,
        folder: &Path,
    ) -> Result<Option<BTreeSet<ConfigHash>>, TrustError> {
        let name = canonical_name(folder)?;
        Ok(self.read()?.folders.remove(&name).map(|entry| entry.into_folder(name).hashes))
    }

    /// Replaces the trusted hashes of a folder. Blocks.
    pub fn trust(
        &self,
        folder: &Path,
        hashes: impl IntoIterator<Item = ConfigHash>,
    ) -> Result<(), TrustError> {
        let name = canonical_name(folder)?;
        let at = to_millis(SystemTime::now());
        let hashes = hashes.into_iter().map(|hash| hash.to_string()).collect();
        self.update(|entry| {
            entry.folders.insert(name, FolderEntry { hashes, at });
        })
    }

    /// Removes all trust in a folder. Returns false if there was none. Blocks.
    pub fn forget(&self, folder: &Path) -> Result<bool, TrustError> {
        // A deleted folder can be forgotten too.
        let name = canonical_name(folder).or_else(|_| path_text(folder))?;
        let mut was_there = false;
        self.update(|entry| was_there = entry.folders.remove(&name).is_some())?;
        Ok(was_there)
    }

    fn read(&self) -> Result<TrustFileContent, TrustError> {
        let content = self.0.read();
        let path = || self.path().to_owned();
        match content.map_err(|cause| TrustError::Read { path: path(), cause })? {
            Some(content) => {
                let found = format_version(&content);
                if found > VERSION {
                    return Err(TrustError::Newer { path: path(), found });
                }
                serde_json::from_slice(&content).map_err(|_| TrustError::Damaged(path()))
            }
            None => Ok(TrustFileContent::default()),
        }
    }

    /// Changes the file under its lock. The file is replaced atomically.
    fn update(&self, update: impl FnOnce(&mut TrustFileContent)) -> Result<(), TrustError> {
        let failed = |cause| TrustError::Write { path: self.path().to_owned(), cause };
        let lock = self.0.lock().map_err(failed)?;
        let mut entry = self.read()?;
        update(&mut entry);
        let text = serde_json::to_vec_pretty(&entry).map_err(io::Error::other).map_err(failed)?;
        self.0.replace(&lock, &text).map_err(failed)
    }
}

/// The content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct TrustFileContent {
    folders: BTreeMap<String, FolderEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct FolderEntry {
    hashes: BTreeSet<String>,
    /// Milliseconds since 1970.
    at: i64,
}

impl FolderEntry {
    fn into_folder(self, path: String) -> TrustedFolder {
        // Invalid hashes are skipped.
        let hashes = self.hashes.iter().filter_map(|hash| ConfigHash::parse(hash)).collect();
        TrustedFolder { path: path.into(), hashes, at: from_millis(self.at) }
    }
}

/// Returns the canonical path, without links and dots.
fn canonical_name(folder: &Path) -> Result<String, TrustError> {
    let real = folder.canonicalize();
    path_text(
        &real.map_err(|cause| TrustError::FolderNotFound { folder: folder.to_owned(), cause })?,
    )
}

fn path_text(folder: &Path) -> Result<String, TrustError> {
    folder.to_str().map(str::to_owned).ok_or_else(|| TrustError::NotUtf8(folder.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn hash(digit: char) -> ConfigHash {
        ConfigHash::parse(&digit.to_string().repeat(64)).unwrap()
    }

    #[test]
    fn folder_is_identified_by_its_canonical_path() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/b");
        fs::create_dir_all(&folder).unwrap();
        symlink(&folder, dir.path().join("link")).unwrap();
        let file = TrustFile::new(dir.path().join("state/trust.json"));
        let of = |path: &str| file.trusted_hashes(&dir.path().join(path)).unwrap();
        assert_eq!(of("a/b"), None);
        file.trust(&dir.path().join("link"), [hash('1')]).unwrap();
        let one = Some(BTreeSet::from([hash('1')]));
        for path in ["a/b", "a/../a/b/.", "link", "a/b/../b"] {
            assert_eq!(of(path), one, "{path}");
        }
        // Neither parents nor children are trusted.
        fs::create_dir(folder.join("c")).unwrap();
        assert_eq!((of("a"), of("a/b/c")), (None, None));
        // Only the newest trust counts.
        file.trust(&folder, [hash('2')]).unwrap();
        assert_eq!(of("a/b"), Some(BTreeSet::from([hash('2')])));
        let mode = fs::metadata(file.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn forgotten_folder_is_not_trusted_even_when_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap().join("a");
        fs::create_dir(&folder).unwrap();
        let file = TrustFile::new(dir.path().join("trust.json"));
        file.trust(&folder, [hash('1')]).unwrap();
        assert_eq!(file.folders().unwrap()[0].path, folder);
        fs::remove_dir(&folder).unwrap();
        assert!(file.trusted_hashes(&folder).is_err());
        assert_eq!((file.forget(&folder).unwrap(), file.forget(&folder).unwrap()), (true, false));
        assert_eq!(file.folders().unwrap(), []);
    }

    #[test]
    fn damaged_trust_file_is_rejected_and_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let file = TrustFile::new(dir.path().join("trust.json"));
        fs::write(file.path(), "{").unwrap();
        assert!(matches!(file.trusted_hashes(dir.path()), Err(TrustError::Damaged(_))));
        assert!(file.trust(dir.path(), [hash('1')]).is_err());
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "{");
    }

    #[test]
    fn newer_trust_file_is_refused_and_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let file = TrustFile::new(dir.path().join("trust.json"));
        // The rest of a newer file may look like this version.
        let newer = r#"{"version":2,"folders":{},"scopes":["read"]}"#;
        fs::write(file.path(), newer).unwrap();
        let error = file.trust(dir.path(), [hash('1')]).unwrap_err().to_string();
        assert!(error.contains("has version 2, but this program supports version 1"), "{error}");
        assert!(matches!(file.trusted_hashes(dir.path()), Err(TrustError::Newer { found: 2, .. })));
        assert!(matches!(file.forget(dir.path()), Err(TrustError::Newer { .. })));
        assert_eq!(fs::read_to_string(file.path()).unwrap(), newer);
    }

    #[test]
    fn trust_file_of_the_first_version_is_read_and_updated() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        let file = TrustFile::new(dir.path().join("trust.json"));
        let digits = "1".repeat(64);
        let first = serde_json::json!({"folders": {"/other": {"hashes": [digits], "at": 1000}}});
        fs::write(file.path(), first.to_string()).unwrap();
        assert_eq!(file.folders().unwrap()[0].hashes, BTreeSet::from([hash('1')]));
        file.trust(&folder, [hash('2')]).unwrap();
        assert_eq!(file.folders().unwrap().len(), 2);
    }

    #[test]
    fn concurrent_updates_are_all_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = TrustFile::new(dir.path().join("trust.json"));
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (file, folder) = (&file, dir.path().join(number.to_string()));
                fs::create_dir(&folder).unwrap();
                scope.spawn(move || file.trust(&folder, [hash('1')]).unwrap());
            }
        });
        assert_eq!(file.folders().unwrap().len(), 8);
    }
}
