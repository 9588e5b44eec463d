//! The sessions of clients of the legacy era, by ids that nobody can guess.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolcrib_server::identity::random_name;

use crate::demo::desk::Desk;

/// Sessions that are kept; then the one that was opened first is ended.
const SESSIONS: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<VecDeque<(String, Arc<Desk>)>>);

impl Sessions {
    /// Keeps a session that was just opened; its id.
    pub(super) fn keep(&self, desk: Arc<Desk>) -> io::Result<String> {
        let id = random_name()?;
        let mut all = self.all();
        if all.len() == SESSIONS {
            all.pop_front();
        }
        all.push_back((id.clone(), desk));
        Ok(id)
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<Desk>> {
        let all = self.all();
        let found = all.iter().find(|(known, _)| known == id);
        found.map(|(_, desk)| Arc::clone(desk))
    }

    /// Whether there was such a session.
    pub(super) fn end(&self, id: &str) -> bool {
        let mut all = self.all();
        let before = all.len();
        all.retain(|(known, _)| known != id);
        all.len() < before
    }

    fn all(&self) -> MutexGuard<'_, VecDeque<(String, Arc<Desk>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
