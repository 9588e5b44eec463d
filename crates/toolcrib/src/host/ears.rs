//! What connections say of themselves, told on as events; and the wake-up for whoever looks after servers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use toolcrib_upstream::conn::{Change, ChangeKind, News, State, View};
use toolcrib_upstream::supervise::{Watcher, Whose};
use toolcrib_wire::Notification;

use super::events::{Event, Events};

/// Hears of all servers.
#[derive(Debug)]
pub(super) struct Ears {
    events: Events,
    /// Something happened to a server.
    pub(super) news: Notify,
    known: Mutex<HashMap<u64, Known>>,
}

/// What was last told of a server.
#[derive(Debug)]
struct Known {
    key: Arc<str>,
    state: Option<State>,
    restarts: u32,
    /// The dialog that has the main connection for itself.
    lessee: Option<Arc<str>>,
}

impl Ears {
    pub(super) fn new(events: Events) -> Self {
        Ears { events, news: Notify::new(), known: Mutex::default() }
    }

    /// From now on news of this server has a name.
    pub(super) fn learn(&self, number: u64, key: Arc<str>, view: &View) {
        self.known().entry(number).or_insert(Known { key, state: None, restarts: 0, lessee: None });
        self.state(number, view);
    }

    /// What is told on the server's main connection is told to this dialog from now on.
    pub(super) fn lent(&self, number: u64, dialog: Option<Arc<str>>) {
        if let Some(known) = self.known().get_mut(&number) {
            known.lessee = dialog;
        }
    }

    pub(super) fn forget(&self, number: u64) {
        self.known().remove(&number);
    }

    fn state(&self, number: u64, view: &View) {
        let mut all = self.known();
        let Some(known) = all.get_mut(&number) else { return };
        let (state, restarts) = (view.life.state(), view.life.restarts());
        let is_new = known.state.replace(state) != Some(state);
        let is_restart = std::mem::replace(&mut known.restarts, restarts) < restarts;
        let server = Arc::clone(&known.key);
        drop(all);
        if is_restart {
            self.events.tell(Event::Restarted { server: Arc::clone(&server), restarts });
        }
        if is_new {
            let error = view.life.last_error().map(|(_, failure)| failure.message.clone());
            self.events.tell(Event::State { server, state, error });
        }
    }

    fn key(&self, number: u64) -> Option<Arc<str>> {
        self.known().get(&number).map(|known| Arc::clone(&known.key))
    }

    fn told(&self, of: u64, whose: &Whose, notification: Notification, in_call: bool) {
        let known = self.known();
        let Some(server) = known.get(&of) else { return };
        let dialog = match whose {
            Whose::Main => server.lessee.clone(),
            Whose::Spare(dialog) => dialog.clone(),
        };
        let server = Arc::clone(&server.key);
        drop(known);
        let params = notification.params.raw();
        let method = notification.method;
        self.events.tell(Event::Told { server, dialog, method, params, in_call });
    }

    fn known(&self) -> MutexGuard<'_, HashMap<u64, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher for Ears {
    fn hear(&self, of: u64, whose: &Whose, news: News) {
        match (news, whose) {
            (News::State(view), Whose::Main) => self.state(of, &view),
            (News::Listed { changes, announced, is_own, .. }, whose) => {
                // What is published next, or offered to the one dialog, tells of what has really changed.
                for notification in announced.into_iter().filter(|_| changes.is_empty()) {
                    self.told(of, whose, notification, false);
                }
                let is_for_all = *whose == Whose::Main && !is_own && !changes.is_empty();
                if let Some(server) = self.key(of).filter(|_| is_for_all) {
                    warn_of(&server, "a list changed", &changes);
                    self.events.tell(Event::Listed { server, changes });
                }
            }
            (News::Differs { changes }, Whose::Main) => {
                if let Some(server) = self.key(of) {
                    warn_of(
                        &server,
                        "a list changed at the server; refresh to take it up",
                        &changes,
                    );
                }
                return;
            }
            (News::Told { notification, in_call }, _) => {
                return self.told(of, whose, notification, in_call);
            }
            // A lease's state is nobody else's.
            (News::State(_) | News::Differs { .. }, Whose::Spare(_)) => return,
            (News::Odd(_), _) => {}
        }
        self.news.notify_one();
    }
}

/// What is new is no reason to worry; what somebody may rely on is.
fn warn_of(server: &str, what: &str, changes: &[Change]) {
    for change in changes.iter().filter(|change| change.kind != ChangeKind::Added) {
        tracing::warn!(server, tool = %change.name, "{what}: {change}");
    }
}
