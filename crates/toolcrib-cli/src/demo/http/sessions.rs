//! Sessions of legacy clients, by unguessable ids.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolcrib_server::identity::random_id;

use crate::demo::client_session::ClientSession;

/// Maximum number of sessions. The oldest session is removed beyond it.
const MAX_SESSIONS: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<VecDeque<(String, Arc<ClientSession>)>>);

impl Sessions {
    /// Adds a session and returns its id.
    pub(super) fn insert(&self, session: Arc<ClientSession>) -> io::Result<String> {
        let id = random_id()?;
        let mut lock = self.lock();
        if lock.len() == MAX_SESSIONS {
            lock.pop_front();
        }
        lock.push_back((id.clone(), session));
        Ok(id)
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<ClientSession>> {
        let lock = self.lock();
        let found = lock.iter().find(|(known, _)| known == id);
        found.map(|(_, session)| Arc::clone(session))
    }

    /// Removes a session and returns whether it existed.
    pub(super) fn remove(&self, id: &str) -> bool {
        let mut lock = self.lock();
        let before = lock.len();
        lock.retain(|(known, _)| known != id);
        lock.len() < before
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(String, Arc<ClientSession>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
