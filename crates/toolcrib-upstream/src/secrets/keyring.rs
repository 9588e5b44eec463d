//! The system's keyring, asked on a thread of its own: one that hangs costs a bounded wait once, and nothing after.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use keyring_core::{CredentialStore, Error};
use tokio::sync::oneshot;
use tokio::time::timeout;
use toolcrib_config::Hidden;
use zeroize::Zeroizing;

use crate::signals::chain;

/// Long enough for a person who is at it to unlock it.
const LIMIT: Duration = Duration::from_secs(5);

/// Questions that wait for the thread.
const QUEUE: usize = 16;

/// Why the keyring does not help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    #[error("there is no keyring here: {0}")]
    Absent(String),
    #[error("the keyring did not answer within {} s", .0.as_secs_f64())]
    Late(Duration),
    #[error("the keyring refuses: {0}")]
    Refused(String),
}

/// A keyring. Clones ask the same one.
#[derive(Clone, Debug)]
pub(super) struct Keyring(Arc<Shared>);

struct Shared {
    open: Open,
    limit: Duration,
    desk: Mutex<Option<SyncSender<Question>>>,
    /// Whether an answer is overdue.
    hangs: Arc<AtomicBool>,
}

type Open = fn() -> Result<Arc<CredentialStore>, Error>;
type Answer = Result<Option<Hidden>, KeyringError>;

struct Question {
    service: String,
    user: String,
    /// What to put there; nothing if it is to be read.
    new: Option<Hidden>,
    reply: oneshot::Sender<Answer>,
}

impl Keyring {
    /// The system's. It is not touched before it is asked something.
    pub(super) fn system() -> Self {
        Self::with(system_store, LIMIT)
    }

    pub(super) fn with(open: Open, limit: Duration) -> Self {
        let (desk, hangs) = (Mutex::default(), Arc::default());
        Self(Arc::new(Shared { open, limit, desk, hangs }))
    }

    pub(super) async fn get(&self, service: &str, user: &str) -> Answer {
        self.ask(service, user, None).await
    }

    pub(super) async fn set(
        &self,
        service: &str,
        user: &str,
        new: &Hidden,
    ) -> Result<(), KeyringError> {
        self.ask(service, user, Some(new.clone())).await.map(drop)
    }

    async fn ask(&self, service: &str, user: &str, new: Option<Hidden>) -> Answer {
        let late = || KeyringError::Late(self.0.limit);
        if self.0.hangs.load(Ordering::Relaxed) {
            return Err(late());
        }
        let (reply, answer) = oneshot::channel();
        let (service, user) = (service.to_owned(), user.to_owned());
        let sent = self.desk()?.try_send(Question { service, user, new, reply });
        sent.map_err(|_| KeyringError::Refused("too much is asked of it at once".to_owned()))?;
        match timeout(self.0.limit, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(KeyringError::Refused("its thread has ended".to_owned())),
            Err(_) => {
                self.0.hangs.store(true, Ordering::Relaxed);
                Err(late())
            }
        }
    }

    fn desk(&self) -> Result<SyncSender<Question>, KeyringError> {
        let mut desk = self.0.desk.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(desk) = &*desk {
            return Ok(desk.clone());
        }
        let (questions, inbox) = sync_channel(QUEUE);
        let (open, hangs) = (self.0.open, Arc::clone(&self.0.hangs));
        // It ends when nobody can ask any more. Its end is not waited for: it may hang for ever, which is why it is a
        // thread and no task.
        let started = thread::Builder::new()
            .name("toolcrib-keyring".to_owned())
            .spawn(move || answer_all(open, &inbox, &hangs));
        started.map_err(|error| KeyringError::Refused(error.to_string()))?;
        *desk = Some(questions.clone());
        Ok(questions)
    }
}

fn answer_all(open: Open, inbox: &Receiver<Question>, hangs: &AtomicBool) {
    let mut store = None;
    while let Ok(Question { service, user, new, reply }) = inbox.recv() {
        let answer = answer(open, &mut store, &service, &user, new.as_ref());
        // One that broke is opened anew the next time: the session's bus may be another one by then.
        if answer.is_err() {
            store = None;
        }
        hangs.store(false, Ordering::Relaxed);
        // Nobody waits any more for what came late.
        let _ = reply.send(answer);
    }
}

fn answer(
    open: Open,
    store: &mut Option<Arc<CredentialStore>>,
    service: &str,
    user: &str,
    new: Option<&Hidden>,
) -> Answer {
    let opened = match store.take() {
        Some(opened) => opened,
        None => open().map_err(|error| KeyringError::Absent(chain(&error)))?,
    };
    let refused = |error: &Error| KeyringError::Refused(told(error));
    let entry = opened.build(service, user, None).map_err(|error| refused(&error))?;
    *store = Some(opened);
    if let Some(new) = new {
        entry.set_secret(new.reveal().as_bytes()).map_err(|error| refused(&error))?;
        return Ok(None);
    }
    let secret = match entry.get_secret() {
        Err(Error::NoEntry) => return Ok(None),
        secret => Zeroizing::new(secret.map_err(|error| refused(&error))?),
    };
    let text = str::from_utf8(&secret)
        .map_err(|_| KeyringError::Refused("what it holds is no text".to_owned()))?;
    Ok(Some(Hidden::new(text)))
}

/// Without what was found, which some errors carry.
fn told(error: &Error) -> String {
    match error {
        Error::PlatformFailure(_) | Error::NoStorageAccess(_) => chain(error),
        Error::Ambiguous(entries) => format!("{} entries have this name", entries.len()),
        Error::TooLong(..) | Error::Invalid(..) => "it cannot have such a name".to_owned(),
        _ => "what it holds cannot be used".to_owned(),
    }
}

#[cfg(target_os = "linux")]
fn system_store() -> Result<Arc<CredentialStore>, Error> {
    Ok(zbus_secret_service_keyring_store::Store::new()?)
}

#[cfg(target_os = "macos")]
fn system_store() -> Result<Arc<CredentialStore>, Error> {
    Ok(apple_native_keyring_store::keychain::Store::new()?)
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn system_store() -> Result<Arc<CredentialStore>, Error> {
    Err(Error::NoDefaultStore)
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("hangs", &self.hangs).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Instant;

    use keyring_core::mock;

    use super::*;

    /// For tests of what is built on one.
    pub(in crate::secrets) fn in_memory() -> Keyring {
        Keyring::with(|| Ok(mock::Store::new()?), Duration::from_secs(20))
    }

    pub(in crate::secrets) fn absent() -> Keyring {
        Keyring::with(|| Err(Error::NoDefaultStore), Duration::from_secs(20))
    }

    pub(in crate::secrets) fn hanging() -> Keyring {
        let open: Open = || {
            thread::sleep(Duration::from_secs(3600));
            Err(Error::NoDefaultStore)
        };
        Keyring::with(open, Duration::from_millis(50))
    }

    #[tokio::test]
    async fn it_answers_what_it_was_told() {
        let keyring = in_memory();
        assert_eq!(keyring.get("s", "u").await, Ok(None));
        keyring.set("s", "u", &Hidden::new("v")).await.unwrap();
        assert_eq!(keyring.get("s", "u").await, Ok(Some(Hidden::new("v"))));
        assert_eq!(keyring.get("s", "other").await, Ok(None));
        assert!(matches!(absent().get("s", "u").await, Err(KeyringError::Absent(_))));
    }

    #[tokio::test]
    async fn one_that_hangs_is_waited_for_once() {
        let keyring = hanging();
        let late = Err(KeyringError::Late(Duration::from_millis(50)));
        assert_eq!(keyring.get("s", "u").await, late);
        let begun = Instant::now();
        for _ in 0..100 {
            assert_eq!(keyring.get("s", "u").await, late);
        }
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
}
