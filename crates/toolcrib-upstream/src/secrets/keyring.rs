//! The system keyring, accessed on a dedicated thread: a hanging keyring costs one bounded wait.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use keyring_core::{CredentialStore, Error};
use tokio::sync::oneshot;
use tokio::time::timeout;
use toolcrib_config::SecretString;
use zeroize::Zeroizing;

use crate::signals::chain;

/// Timeout of a request. Long enough for a user to unlock the keyring.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Requests that may wait for the keyring thread.
const REQUEST_QUEUE: usize = 16;

/// Error of a keyring request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    #[error("no keyring is available: {0}")]
    Absent(String),
    #[error("the keyring did not answer within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    #[error("the keyring refuses: {0}")]
    Refused(String),
}

/// Handle to a keyring. Clones share its thread.
#[derive(Clone, Debug)]
pub(super) struct Keyring(Arc<KeyringInner>);

struct KeyringInner {
    open: OpenStore,
    limit: Duration,
    sender: Mutex<Option<SyncSender<KeyringRequest>>>,
    /// True if a request has timed out and its response is still missing.
    is_overdue: Arc<AtomicBool>,
}

type OpenStore = fn() -> Result<Arc<CredentialStore>, Error>;
type KeyringResult = Result<Option<SecretString>, KeyringError>;

struct KeyringRequest {
    service: String,
    user: String,
    /// The secret to store; `None` reads the secret.
    new: Option<SecretString>,
    reply: oneshot::Sender<KeyringResult>,
}

impl Keyring {
    /// The system keyring. It is opened on the first request.
    pub(super) fn system() -> Self {
        Self::with_store(system_store, REQUEST_TIMEOUT)
    }

    pub(super) fn with_store(open: OpenStore, limit: Duration) -> Self {
        let (sender, is_overdue) = (Mutex::default(), Arc::default());
        Self(Arc::new(KeyringInner { open, limit, sender, is_overdue }))
    }

    pub(super) async fn get(&self, service: &str, user: &str) -> KeyringResult {
        self.send_request(service, user, None).await
    }

    pub(super) async fn set(
        &self,
        service: &str,
        user: &str,
        new: &SecretString,
    ) -> Result<(), KeyringError> {
        self.send_request(service, user, Some(new.clone())).await.map(drop)
    }

    async fn send_request(
        &self,
        service: &str,
        user: &str,
        new: Option<SecretString>,
    ) -> KeyringResult {
        let timed_out = || KeyringError::Timeout(self.0.limit);
        if self.0.is_overdue.load(Ordering::Relaxed) {
            return Err(timed_out());
        }
        let (reply, result) = oneshot::channel();
        let (service, user) = (service.to_owned(), user.to_owned());
        let sent = self.request_sender()?.try_send(KeyringRequest { service, user, new, reply });
        sent.map_err(|_| KeyringError::Refused("it has too many concurrent requests".to_owned()))?;
        match timeout(self.0.limit, result).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(KeyringError::Refused("its thread has ended".to_owned())),
            Err(_) => {
                self.0.is_overdue.store(true, Ordering::Relaxed);
                Err(timed_out())
            }
        }
    }

    fn request_sender(&self) -> Result<SyncSender<KeyringRequest>, KeyringError> {
        let mut sender = self.0.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*sender {
            return Ok(sender.clone());
        }
        let (requests, inbox) = sync_channel(REQUEST_QUEUE);
        let (open, is_overdue) = (self.0.open, Arc::clone(&self.0.is_overdue));
        // The thread ends when all handles are dropped. Nothing joins it, because the keyring may hang
        // forever; for the same reason it is a thread and not a task.
        let started = thread::Builder::new()
            .name("toolcrib-keyring".to_owned())
            .spawn(move || serve_requests(open, &inbox, &is_overdue));
        started.map_err(|error| KeyringError::Refused(error.to_string()))?;
        *sender = Some(requests.clone());
        Ok(requests)
    }
}

fn serve_requests(open: OpenStore, inbox: &Receiver<KeyringRequest>, is_overdue: &AtomicBool) {
    let mut store = None;
    while let Ok(KeyringRequest { service, user, new, reply }) = inbox.recv() {
        let result = handle_request(open, &mut store, &service, &user, new.as_ref());
        // Reopens the store after an error, because the session bus may have been replaced.
        if result.is_err() {
            store = None;
        }
        is_overdue.store(false, Ordering::Relaxed);
        // The caller does not wait for a late response.
        let _ = reply.send(result);
    }
}

fn handle_request(
    open: OpenStore,
    store: &mut Option<Arc<CredentialStore>>,
    service: &str,
    user: &str,
    new: Option<&SecretString>,
) -> KeyringResult {
    let opened = match store.take() {
        Some(opened) => opened,
        None => open().map_err(|error| KeyringError::Absent(chain(&error)))?,
    };
    let refused = |error: &Error| KeyringError::Refused(describe_error(error));
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
        .map_err(|_| KeyringError::Refused("the secret is not text".to_owned()))?;
    Ok(Some(SecretString::new(text)))
}

/// Describes an error without the secret that some error variants carry.
fn describe_error(error: &Error) -> String {
    match error {
        Error::PlatformFailure(_) | Error::NoStorageAccess(_) => chain(error),
        Error::Ambiguous(entries) => format!("{} entries have this name", entries.len()),
        Error::TooLong(..) | Error::Invalid(..) => "the name is invalid or too long".to_owned(),
        _ => "the entry cannot be used".to_owned(),
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

impl fmt::Debug for KeyringInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("is_overdue", &self.is_overdue).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Instant;

    use keyring_core::mock;

    use super::*;

    /// A keyring in memory, for tests of other modules.
    pub(in crate::secrets) fn in_memory() -> Keyring {
        Keyring::with_store(|| Ok(mock::Store::new()?), Duration::from_secs(20))
    }

    pub(in crate::secrets) fn absent() -> Keyring {
        Keyring::with_store(|| Err(Error::NoDefaultStore), Duration::from_secs(20))
    }

    pub(in crate::secrets) fn hanging() -> Keyring {
        let open: OpenStore = || {
            thread::sleep(Duration::from_secs(3600));
            Err(Error::NoDefaultStore)
        };
        Keyring::with_store(open, Duration::from_millis(50))
    }

    #[tokio::test]
    async fn keyring_returns_stored_secrets() {
        let keyring = in_memory();
        assert_eq!(keyring.get("s", "u").await, Ok(None));
        keyring.set("s", "u", &SecretString::new("v")).await.unwrap();
        assert_eq!(keyring.get("s", "u").await, Ok(Some(SecretString::new("v"))));
        assert_eq!(keyring.get("s", "other").await, Ok(None));
        assert!(matches!(absent().get("s", "u").await, Err(KeyringError::Absent(_))));
    }

    #[tokio::test]
    async fn hanging_keyring_times_out_once() {
        let keyring = hanging();
        let timed_out = Err(KeyringError::Timeout(Duration::from_millis(50)));
        assert_eq!(keyring.get("s", "u").await, timed_out);
        let started = Instant::now();
        for _ in 0..100 {
            assert_eq!(keyring.get("s", "u").await, timed_out);
        }
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    }
}
