//! Stores tokens made with `toolcrib token new` in a private file of the state folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use toolcrib_upstream::disk::{PrivateFile, format_version};
use toolcrib_upstream::signals::format_timestamp;

use super::secret::{TokenHash, new_token, random_hex};

/// File name in the state folder.
const FILE_NAME: &str = "tokens.json";

/// Format version that this program reads and writes. A file without a version has version 1.
const VERSION: u64 = 1;

/// Changes within this time may not change the file's timestamp.
const TIMESTAMP_GRANULARITY: Duration = Duration::from_secs(2);

/// Minimum interval between checks of the file.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A stored token. Only its hash is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedToken {
    pub id: String,
    /// Name chosen by the user.
    pub name: String,
    pub sha256: String,
    /// Agent of the token.
    pub agent: String,
    /// True if the token has the owner's rights.
    #[serde(default)]
    pub owner: bool,
    pub created: String,
}

/// The token file, cached until the file changes. A token revoked by another process expires after the check interval,
/// one revoked here at once.
#[derive(Debug)]
pub struct TokenStore {
    file: PrivateFile,
    cached: Mutex<Option<CachedTokens>>,
    /// True if the last file required a token. A missing file does not change this.
    was_protected: AtomicBool,
}

/// Content of the file. The first token protects the host until anonymous access is allowed explicitly. An empty list
/// does not mean open access, because the last token may have been revoked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum FileContent {
    Protected(Vec<IssuedToken>),
    Open { open: bool, tokens: Vec<IssuedToken> },
}

/// True if the file allows anonymous access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AccessState {
    /// The file does not exist.
    Missing,
    Protected,
    Open,
}

/// Cached content of the file.
#[derive(Debug)]
struct CachedTokens {
    checked: Instant,
    /// Set if any later change also changes the stamp.
    stamp: Option<FileStamp>,
    state: AccessState,
    all: Arc<Vec<IssuedToken>>,
}

/// Error of the token file.
#[derive(Debug, thiserror::Error)]
pub enum TokenStoreError {
    #[error("cannot {operation} `{}`", path.display())]
    File {
        operation: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot parse `{}`", path.display())]
    Content {
        path: PathBuf,
        #[source]
        cause: serde_json::Error,
    },
    /// A newer program wrote the file.
    #[error(
        "`{}` has version {found}, but this program supports version {VERSION}: use the newer program",
        path.display()
    )]
    Newer { path: PathBuf, found: u64 },
    #[error("the system random number generator failed")]
    Random(#[source] getrandom::Error),
}

/// Modification time and size of the file.
type FileStamp = Option<(SystemTime, u64)>;

impl TokenStore {
    /// Uses the token file of a state folder, which need not exist.
    pub fn in_folder(state: &Path) -> Self {
        TokenStore {
            file: PrivateFile::new(state.join(FILE_NAME)),
            cached: Mutex::default(),
            was_protected: AtomicBool::new(false),
        }
    }

    /// Creates a token. Returns the secret, which is not stored, and the stored record.
    pub fn issue(
        &self,
        name: &str,
        agent: &str,
        owner: bool,
    ) -> Result<(String, IssuedToken), TokenStoreError> {
        let secret = new_token().map_err(TokenStoreError::Random)?;
        let issued = IssuedToken {
            id: random_hex::<4>().map_err(TokenStoreError::Random)?,
            name: name.to_owned(),
            sha256: TokenHash::digest(&secret).hex(),
            agent: agent.to_owned(),
            owner,
            created: format_timestamp(SystemTime::now()),
        };
        self.update(|state, all| {
            *state = AccessState::Protected;
            all.push(issued.clone());
        })?;
        Ok((secret, issued))
    }

    /// Finds the record of a token by its secret.
    pub fn find_by_secret(&self, secret: &str) -> Result<Option<IssuedToken>, TokenStoreError> {
        self.find_by_hash(&TokenHash::digest(secret))
    }

    /// All stored tokens.
    pub fn list(&self) -> Result<Arc<Vec<IssuedToken>>, TokenStoreError> {
        self.load_cached(CHECK_INTERVAL).map(|(_, all)| all)
    }

    /// Returns whether requests need a token. An unreadable file protects the host, and so does a file that disappeared
    /// after protecting it.
    pub fn is_protected(&self) -> bool {
        match self.load_cached(CHECK_INTERVAL) {
            Ok((AccessState::Missing, _)) => self.was_protected.load(Ordering::Acquire),
            Ok((state, _)) => state == AccessState::Protected,
            Err(_) => true,
        }
    }

    /// Allows local access without a token until the next token is created.
    pub fn allow_anonymous(&self) -> Result<(), TokenStoreError> {
        self.update(|state, _| *state = AccessState::Open)
    }

    /// Returns the content of the file, at most `max_age` old.
    fn load_cached(
        &self,
        max_age: Duration,
    ) -> Result<(AccessState, Arc<Vec<IssuedToken>>), TokenStoreError> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let checked = Instant::now();
        if let Some(cached) = cached.as_ref().filter(|it| checked - it.checked < max_age) {
            return Ok((cached.state, Arc::clone(&cached.all)));
        }
        let stamp = self.file_stamp();
        if let Some(cached) = cached.as_mut().filter(|it| it.stamp == Some(stamp)) {
            cached.checked = checked;
            return Ok((cached.state, Arc::clone(&cached.all)));
        }
        // Unreadable content must not stay cached.
        *cached = None;
        let (state, all) = self.read_file()?;
        let all = Arc::new(all);
        if state != AccessState::Missing {
            self.was_protected.store(state == AccessState::Protected, Ordering::Release);
        }
        let stable_stamp = Some(stamp).filter(|stamp| is_stable(*stamp));
        *cached = Some(CachedTokens { checked, stamp: stable_stamp, state, all: Arc::clone(&all) });
        Ok((state, all))
    }

    /// Revokes tokens by id or name and returns them.
    pub fn revoke(&self, which: &str) -> Result<Vec<IssuedToken>, TokenStoreError> {
        let mut ended = Vec::new();
        self.update(|_, all| {
            let (gone, kept) =
                std::mem::take(all).into_iter().partition(|it| it.id == which || it.name == which);
            (ended, *all) = (gone, kept);
        })?;
        Ok(ended)
    }

    pub(super) fn find_by_hash(
        &self,
        hash: &TokenHash,
    ) -> Result<Option<IssuedToken>, TokenStoreError> {
        let is = |it: &&IssuedToken| TokenHash::parse_hex(&it.sha256).as_ref() == Some(hash);
        if let Some(found) = self.list()?.iter().find(is) {
            return Ok(Some(found.clone()));
        }
        // A new token must be valid at once, so check the file again.
        Ok(self.load_cached(Duration::ZERO)?.1.iter().find(is).cloned())
    }

    /// Updates the file under its lock, also against other processes.
    fn update(
        &self,
        change: impl FnOnce(&mut AccessState, &mut Vec<IssuedToken>),
    ) -> Result<(), TokenStoreError> {
        let lock = self.file.lock().map_err(|cause| self.file_error("lock", cause))?;
        let (before, mut tokens) = self.read_file()?;
        let (mut state, count) = (before, tokens.len());
        change(&mut state, &mut tokens);
        let content = match state {
            // No file existed and no token was added.
            AccessState::Missing if count == 0 && tokens.is_empty() => return Ok(()),
            AccessState::Missing | AccessState::Protected => FileContent::Protected(tokens),
            AccessState::Open => FileContent::Open { open: true, tokens },
        };
        let text =
            serde_json::to_vec_pretty(&content).map_err(|cause| self.content_error(cause))?;
        let written = self.file.replace(&lock, &text);
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = None;
        written.map_err(|cause| self.file_error("write", cause))
    }

    fn read_file(&self) -> Result<(AccessState, Vec<IssuedToken>), TokenStoreError> {
        let Some(text) = self.file.read().map_err(|cause| self.file_error("read", cause))? else {
            return Ok((AccessState::Missing, Vec::new()));
        };
        let found = format_version(&text);
        if found > VERSION {
            return Err(TokenStoreError::Newer { path: self.file.path().to_owned(), found });
        }
        match serde_json::from_slice(&text).map_err(|cause| self.content_error(cause))? {
            FileContent::Open { open: true, tokens } => Ok((AccessState::Open, tokens)),
            FileContent::Protected(tokens) | FileContent::Open { open: false, tokens } => {
                Ok((AccessState::Protected, tokens))
            }
        }
    }

    fn file_stamp(&self) -> FileStamp {
        let found = fs::metadata(self.file.path()).ok()?;
        Some((found.modified().ok()?, found.len()))
    }

    fn file_error(&self, operation: &'static str, cause: io::Error) -> TokenStoreError {
        TokenStoreError::File { operation, path: self.file.path().to_owned(), cause }
    }

    fn content_error(&self, cause: serde_json::Error) -> TokenStoreError {
        TokenStoreError::Content { path: self.file.path().to_owned(), cause }
    }
}

/// Timestamps are coarse: a recent file may change again without a new timestamp.
fn is_stable(stamp: FileStamp) -> bool {
    stamp.is_none_or(|(at, _)| at.elapsed().is_ok_and(|age| age > TIMESTAMP_GRANULARITY))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn token_file_is_private_and_revocation_applies() {
        let folder = tempfile::tempdir().unwrap();
        let (here, there) =
            (TokenStore::in_folder(folder.path()), TokenStore::in_folder(folder.path()));
        assert!(there.list().unwrap().is_empty());
        let (secret, issued) = here.issue("laptop", "coder", false).unwrap();
        let (other, _) = here.issue("ci", "default", true).unwrap();
        assert_eq!(there.find_by_hash(&TokenHash::digest(&secret)).unwrap().unwrap(), issued);
        assert!(there.find_by_hash(&TokenHash::digest(&other)).unwrap().unwrap().owner);
        assert!(there.find_by_hash(&TokenHash::digest("toolcrib_guess")).unwrap().is_none());
        let path = folder.path().join(FILE_NAME);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&secret) && !format!("{here:?}").contains(&secret));
        assert_eq!(here.find_by_secret(&secret).unwrap().as_ref(), Some(&issued));
        assert_eq!(here.find_by_secret("toolcrib_guess").unwrap(), None);
        assert_eq!(here.revoke("laptop").unwrap(), [issued]);
        assert!(here.revoke("laptop").unwrap().is_empty());
        assert!(
            here.find_by_hash(&TokenHash::digest(&secret)).unwrap().is_none(),
            "the revoking store sees it at once"
        );
        std::thread::sleep(CHECK_INTERVAL);
        assert!(there.find_by_hash(&TokenHash::digest(&secret)).unwrap().is_none());
        assert_eq!(there.list().unwrap().len(), 1);
    }

    #[test]
    fn token_file_is_rechecked_at_an_interval_or_for_unknown_tokens() {
        let folder = tempfile::tempdir().unwrap();
        let (here, there) =
            (TokenStore::in_folder(folder.path()), TokenStore::in_folder(folder.path()));
        let checked = || there.cached.lock().unwrap().as_ref().map(|cached| cached.checked);
        assert!(there.list().unwrap().is_empty());
        let first = checked();
        assert!(there.load_cached(Duration::MAX).unwrap().1.is_empty() && checked() == first);
        assert!(there.load_cached(Duration::ZERO).unwrap().1.is_empty() && checked() > first);
        let first = checked();
        let (secret, _) = here.issue("laptop", "coder", false).unwrap();
        assert!(
            there.find_by_hash(&TokenHash::digest(&secret)).unwrap().is_some(),
            "a new token is valid at once"
        );
        assert!(checked() > first);
    }

    #[test]
    fn unreadable_token_file_denies_access_and_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE_NAME), "no list").unwrap();
        let tokens = TokenStore::in_folder(folder.path());
        assert!(matches!(tokens.list(), Err(TokenStoreError::Content { .. })));
        assert!(tokens.issue("a", "b", false).is_err());
        assert_eq!(fs::read_to_string(folder.path().join(FILE_NAME)).unwrap(), "no list");
    }

    #[test]
    fn newer_token_file_denies_access_and_is_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        // The rest of a newer file may look like this version, and even allow anonymous access.
        let newer = r#"{"version":2,"open":true,"tokens":[]}"#;
        fs::write(&path, newer).unwrap();
        let tokens = TokenStore::in_folder(folder.path());
        let error = tokens.issue("a", "b", false).unwrap_err().to_string();
        assert!(error.contains("has version 2, but this program supports version 1"), "{error}");
        assert!(matches!(tokens.list(), Err(TokenStoreError::Newer { found: 2, .. })));
        assert!(tokens.revoke("a").is_err() && tokens.allow_anonymous().is_err());
        assert!(tokens.is_protected());
        assert_eq!(fs::read_to_string(&path).unwrap(), newer);
    }

    #[test]
    fn token_file_of_the_first_version_is_read_and_updated() {
        let folder = tempfile::tempdir().unwrap();
        // The first version had neither owners nor anonymous access.
        let hash = TokenHash::digest("secret").hex();
        let first = serde_json::json!([
            {"id": "1", "name": "ci", "sha256": hash, "agent": "a", "created": "2026-01-02T03:04:05Z"},
        ]);
        fs::write(folder.path().join(FILE_NAME), first.to_string()).unwrap();
        let tokens = TokenStore::in_folder(folder.path());
        let found = tokens.find_by_secret("secret").unwrap().unwrap();
        assert_eq!((found.name.as_str(), found.owner), ("ci", false));
        assert!(tokens.is_protected());
        tokens.issue("laptop", "b", true).unwrap();
        assert_eq!(tokens.list().unwrap().len(), 2);
    }

    #[test]
    fn host_stays_protected_until_anonymous_access_is_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let (here, there) = (TokenStore::in_folder(&state), TokenStore::in_folder(&state));
        let is_protected = || {
            *there.cached.lock().unwrap() = None;
            there.is_protected()
        };
        assert!(!is_protected(), "access is open without tokens");
        here.issue("laptop", "coder", false).unwrap();
        assert!(is_protected());
        here.revoke("laptop").unwrap();
        assert!(here.list().unwrap().is_empty() && is_protected(), "an empty list still protects");
        assert!(TokenStore::in_folder(&state).is_protected(), "a new store reads the same state");
        fs::remove_dir_all(&state).unwrap();
        assert!(is_protected(), "a deleted folder still protects");
        here.allow_anonymous().unwrap();
        assert!(!is_protected());
        here.issue("laptop", "coder", false).unwrap();
        assert!(is_protected(), "a new token protects again");
        here.allow_anonymous().unwrap();
        assert!(!is_protected() && there.list().unwrap().len() == 1, "tokens stay");
    }

    #[test]
    fn held_file_lock_times_out_with_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = TokenStore::in_folder(folder.path());
        let _kept = tokens.file.lock().unwrap();
        // Waits for the lock timeout of a few seconds.
        assert!(matches!(tokens.revoke("a"), Err(TokenStoreError::File { operation: "lock", .. })));
    }
}
