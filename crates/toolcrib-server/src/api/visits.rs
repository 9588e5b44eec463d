//! Dialogs that were begun through the API: nobody holds them, so they end when nobody asks for them any more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use toolcrib::{Dialog, Host};

use crate::gateway::Gateway;

/// When each was last asked for.
#[derive(Debug, Default)]
pub(crate) struct Visits(Mutex<HashMap<String, Instant>>);

impl Visits {
    pub(super) fn began(&self, dialog: &Dialog) {
        self.all().insert(dialog.id().to_owned(), Instant::now());
    }

    /// Somebody asks for it. Those that were not begun here are somebody else's to end.
    pub(super) fn came(&self, dialog: &Dialog) {
        if let Some(last) = self.all().get_mut(dialog.id()) {
            *last = Instant::now();
        }
    }

    pub(crate) fn is_recent(&self, dialog: &str, longest: Duration) -> bool {
        self.all().get(dialog).is_some_and(|last| last.elapsed() <= longest)
    }

    /// Takes out those that nobody has asked for, for which nothing is under way, and that no client of the gateway
    /// has.
    pub(crate) fn over(&self, host: &Host, gateway: &Gateway, longest: Duration) -> Vec<Dialog> {
        let mut over = Vec::new();
        self.all().retain(|id, last| {
            let Some(dialog) = host.dialog_of(id) else { return false };
            if dialog.is_busy() {
                *last = Instant::now();
            }
            let is_used = last.elapsed() <= longest || gateway.has_dialog(id);
            if !is_used {
                over.push(dialog);
            }
            is_used
        });
        over
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
