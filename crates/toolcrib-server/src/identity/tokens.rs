//! Tokens that were made with `toolcrib token new`: a file in the state folder that only its owner can read.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use toolcrib_upstream::disk::PrivateFile;
use toolcrib_upstream::signals::timestamp;

use super::secret::{Hash, fresh, random};

/// The file's name in the state folder.
const FILE: &str = "tokens.json";

/// A change within this time may leave the file's time as it was.
const COARSE: Duration = Duration::from_secs(2);

/// The file is looked at no more often than that, however many ask.
const LOOK: Duration = Duration::from_millis(100);

/// A token that was made. What it is, only its hash tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issued {
    pub id: String,
    /// What somebody calls it.
    pub name: String,
    pub sha256: String,
    /// Whom it stands for.
    pub agent: String,
    /// Whether it has the owner's rights.
    #[serde(default)]
    pub owner: bool,
    pub created: String,
}

/// The file of tokens. What is read is read again when the file has changed, so that a token that was revoked
/// ends within a moment; at once, where it was revoked here.
#[derive(Debug)]
pub struct Tokens {
    file: PrivateFile,
    known: Mutex<Option<Known>>,
    /// Whether the file last said that nobody comes in without a token. A file that is gone says nothing.
    was_protected: AtomicBool,
}

/// The content of the file. A host is protected from its first token until somebody opens it: the list alone does
/// not tell, since the last token may be revoked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Content {
    Protected(Vec<Issued>),
    Opened { open: bool, tokens: Vec<Issued> },
}

/// Whether the file lets everybody in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There is no file.
    Missing,
    Protected,
    Open,
}

/// What was in the file when it was looked at.
#[derive(Debug)]
struct Known {
    looked: Instant,
    /// Where a later state of the file has another one for sure.
    stamp: Option<Stamp>,
    state: State,
    all: Arc<Vec<Issued>>,
}

/// Why the file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    #[error("cannot {what} `{}`", path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("`{}` cannot be understood", path.display())]
    Content {
        path: PathBuf,
        #[source]
        cause: serde_json::Error,
    },
    #[error("there is no randomness")]
    Random(#[source] getrandom::Error),
}

/// What tells one state of the file from the next.
type Stamp = Option<(SystemTime, u64)>;

impl Tokens {
    /// The tokens of a state folder, whether there are any or not.
    pub fn of(state: &Path) -> Self {
        Tokens {
            file: PrivateFile::new(state.join(FILE)),
            known: Mutex::default(),
            was_protected: AtomicBool::new(false),
        }
    }

    /// Makes a token: the secret, which is nowhere kept, and what is kept of it.
    pub fn issue(
        &self,
        name: &str,
        agent: &str,
        owner: bool,
    ) -> Result<(String, Issued), TokensError> {
        let secret = fresh().map_err(TokensError::Random)?;
        let issued = Issued {
            id: random::<4>().map_err(TokensError::Random)?,
            name: name.to_owned(),
            sha256: Hash::of(&secret).hex(),
            agent: agent.to_owned(),
            owner,
            created: timestamp(SystemTime::now()),
        };
        self.change(|state, all| {
            *state = State::Protected;
            all.push(issued.clone());
        })?;
        Ok((secret, issued))
    }

    /// What is kept of a token that was made here, by the token itself.
    pub fn known(&self, secret: &str) -> Result<Option<Issued>, TokensError> {
        self.find(&Hash::of(secret))
    }

    pub fn list(&self) -> Result<Arc<Vec<Issued>>, TokensError> {
        self.look(LOOK).map(|(_, all)| all)
    }

    /// Whether nobody comes in without a token. A file that cannot be read protects, and so does one that is gone
    /// after it did.
    pub fn is_protected(&self) -> bool {
        match self.look(LOOK) {
            Ok((State::Missing, _)) => self.was_protected.load(Ordering::Acquire),
            Ok((state, _)) => state == State::Protected,
            Err(_) => true,
        }
    }

    /// Lets everybody on this machine in without a token, until the next token is made.
    pub fn open(&self) -> Result<(), TokensError> {
        self.change(|state, _| *state = State::Open)
    }

    /// What is in the file, or was there such a short time ago.
    fn look(&self, most: Duration) -> Result<(State, Arc<Vec<Issued>>), TokensError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let looked = Instant::now();
        if let Some(known) = known.as_ref().filter(|it| looked - it.looked < most) {
            return Ok((known.state, Arc::clone(&known.all)));
        }
        let stamp = self.stamp();
        if let Some(known) = known.as_mut().filter(|it| it.stamp == Some(stamp)) {
            known.looked = looked;
            return Ok((known.state, Arc::clone(&known.all)));
        }
        // What cannot be read is not known any more.
        *known = None;
        let (state, all) = self.read()?;
        let all = Arc::new(all);
        if state != State::Missing {
            self.was_protected.store(state == State::Protected, Ordering::Release);
        }
        let settled = Some(stamp).filter(|stamp| is_settled(*stamp));
        *known = Some(Known { looked, stamp: settled, state, all: Arc::clone(&all) });
        Ok((state, all))
    }

    /// Ends a token, by its id or its name: those that were ended.
    pub fn revoke(&self, which: &str) -> Result<Vec<Issued>, TokensError> {
        let mut ended = Vec::new();
        self.change(|_, all| {
            let (gone, kept) =
                std::mem::take(all).into_iter().partition(|it| it.id == which || it.name == which);
            (ended, *all) = (gone, kept);
        })?;
        Ok(ended)
    }

    pub(super) fn find(&self, hash: &Hash) -> Result<Option<Issued>, TokensError> {
        let is = |it: &&Issued| Hash::read(&it.sha256).as_ref() == Some(hash);
        if let Some(found) = self.list()?.iter().find(is) {
            return Ok(Some(found.clone()));
        }
        // It may have been made just now, and nobody wants to wait before it is good.
        Ok(self.look(Duration::ZERO)?.1.iter().find(is).cloned())
    }

    /// One after the other, whoever else changes the file.
    fn change(&self, change: impl FnOnce(&mut State, &mut Vec<Issued>)) -> Result<(), TokensError> {
        let alone = self.file.lock().map_err(|cause| self.failed("lock", cause))?;
        let (before, mut tokens) = self.read()?;
        let (mut state, count) = (before, tokens.len());
        change(&mut state, &mut tokens);
        let content = match state {
            // There was nothing, and there still is nothing to say.
            State::Missing if count == 0 && tokens.is_empty() => return Ok(()),
            State::Missing | State::Protected => Content::Protected(tokens),
            State::Open => Content::Opened { open: true, tokens },
        };
        let text = serde_json::to_vec_pretty(&content).map_err(|cause| self.unread(cause))?;
        let written = self.file.replace(&alone, &text);
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
        written.map_err(|cause| self.failed("write", cause))
    }

    fn read(&self) -> Result<(State, Vec<Issued>), TokensError> {
        let Some(text) = self.file.read().map_err(|cause| self.failed("read", cause))? else {
            return Ok((State::Missing, Vec::new()));
        };
        match serde_json::from_slice(&text).map_err(|cause| self.unread(cause))? {
            Content::Opened { open: true, tokens } => Ok((State::Open, tokens)),
            Content::Protected(tokens) | Content::Opened { open: false, tokens } => {
                Ok((State::Protected, tokens))
            }
        }
    }

    fn stamp(&self) -> Stamp {
        let found = fs::metadata(self.file.path()).ok()?;
        Some((found.modified().ok()?, found.len()))
    }

    fn failed(&self, what: &'static str, cause: io::Error) -> TokensError {
        TokensError::File { what, path: self.file.path().to_owned(), cause }
    }

    fn unread(&self, cause: serde_json::Error) -> TokensError {
        TokensError::Content { path: self.file.path().to_owned(), cause }
    }
}

/// Clocks of files are coarse: what was just written may be written again without a sign of it.
fn is_settled(stamp: Stamp) -> bool {
    stamp.is_none_or(|(at, _)| at.elapsed().is_ok_and(|age| age > COARSE))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_known_until_it_is_revoked_and_nobody_else_can_read_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let (here, there) = (Tokens::of(folder.path()), Tokens::of(folder.path()));
        assert!(there.list().unwrap().is_empty());
        let (secret, issued) = here.issue("laptop", "coder", false).unwrap();
        let (other, _) = here.issue("ci", "default", true).unwrap();
        assert_eq!(there.find(&Hash::of(&secret)).unwrap().unwrap(), issued);
        assert!(there.find(&Hash::of(&other)).unwrap().unwrap().owner);
        assert!(there.find(&Hash::of("toolcrib_guess")).unwrap().is_none());
        let path = folder.path().join(FILE);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&secret) && !format!("{here:?}").contains(&secret));
        assert_eq!(here.known(&secret).unwrap().as_ref(), Some(&issued));
        assert_eq!(here.known("toolcrib_guess").unwrap(), None);
        assert_eq!(here.revoke("laptop").unwrap(), [issued]);
        assert!(here.revoke("laptop").unwrap().is_empty());
        assert!(here.find(&Hash::of(&secret)).unwrap().is_none(), "at once, where it was revoked");
        std::thread::sleep(LOOK);
        assert!(there.find(&Hash::of(&secret)).unwrap().is_none());
        assert_eq!(there.list().unwrap().len(), 1);
    }

    #[test]
    fn the_file_is_looked_at_only_so_often_but_for_a_token_that_is_not_known() {
        let folder = tempfile::tempdir().unwrap();
        let (here, there) = (Tokens::of(folder.path()), Tokens::of(folder.path()));
        let looked = || there.known.lock().unwrap().as_ref().map(|known| known.looked);
        assert!(there.list().unwrap().is_empty());
        let first = looked();
        assert!(there.look(Duration::MAX).unwrap().1.is_empty() && looked() == first);
        assert!(there.look(Duration::ZERO).unwrap().1.is_empty() && looked() > first);
        let first = looked();
        let (secret, _) = here.issue("laptop", "coder", false).unwrap();
        assert!(there.find(&Hash::of(&secret)).unwrap().is_some(), "it is good at once");
        assert!(looked() > first);
    }

    #[test]
    fn a_file_that_cannot_be_understood_lets_nobody_in_and_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), "no list").unwrap();
        let tokens = Tokens::of(folder.path());
        assert!(matches!(tokens.list(), Err(TokensError::Content { .. })));
        assert!(tokens.issue("a", "b", false).is_err());
        assert_eq!(fs::read_to_string(folder.path().join(FILE)).unwrap(), "no list");
    }

    #[test]
    fn a_host_stays_protected_until_it_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let (here, there) = (Tokens::of(&state), Tokens::of(&state));
        let is_protected = || {
            *there.known.lock().unwrap() = None;
            there.is_protected()
        };
        assert!(!is_protected(), "without a token everybody comes in");
        here.issue("laptop", "coder", false).unwrap();
        assert!(is_protected());
        here.revoke("laptop").unwrap();
        assert!(here.list().unwrap().is_empty() && is_protected(), "the last token is gone");
        assert!(Tokens::of(&state).is_protected(), "for a host that starts now, too");
        fs::remove_dir_all(&state).unwrap();
        assert!(is_protected(), "the state folder is gone");
        here.open().unwrap();
        assert!(!is_protected());
        here.issue("laptop", "coder", false).unwrap();
        assert!(is_protected(), "a new token protects again");
        here.open().unwrap();
        assert!(!is_protected() && there.list().unwrap().len() == 1, "tokens stay");
    }

    #[test]
    fn a_lock_that_somebody_keeps_is_an_error_and_no_wait_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens::of(folder.path());
        let _kept = tokens.file.lock().unwrap();
        // It takes as long as its patience, which is a few seconds.
        assert!(matches!(tokens.revoke("a"), Err(TokensError::File { what: "lock", .. })));
    }
}
