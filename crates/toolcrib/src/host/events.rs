//! Everything that changes, for whoever wants to know it. A listener that is too slow is dropped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;
use toolcrib_config::Problem;
use toolcrib_upstream::conn::{Change, State};
use toolcrib_wire::Raw;

use super::questions::Question;
use super::reload::Reload;
use crate::lease::Lease;
use crate::store::CallRecord;

/// Events that wait for a listener; one that has more to catch up with is dropped.
const BEHIND: usize = 1024;

/// Something that changed.
#[derive(Clone, Debug)]
pub enum Event {
    Reloaded(Arc<Reload>),
    /// A server's state.
    State {
        server: Arc<str>,
        state: State,
        error: Option<String>,
    },
    /// A server's connection was lost or begun anew.
    Restarted {
        server: Arc<str>,
        restarts: u32,
    },
    /// What a server offers.
    Listed {
        server: Arc<str>,
        changes: Vec<Change>,
    },
    /// Tools of a server that offered others before: they are known from now on.
    Pinned {
        server: Arc<str>,
        tools: Vec<String>,
    },
    /// A snapshot was published.
    Published {
        version: u64,
    },
    /// What one dialog is offered, because its own session with a server lists something else.
    Offered {
        dialog: Arc<str>,
    },
    /// Who holds leases of a server.
    Leases {
        server: Arc<str>,
        leases: Vec<Lease>,
    },
    /// A call came further.
    Progress {
        dialog: Arc<str>,
        call: u64,
        params: Raw,
    },
    /// A call ended.
    Called {
        call: u64,
        record: Arc<CallRecord>,
    },
    /// A server wants to know something of whoever is behind a dialog.
    Asked {
        dialog: Arc<str>,
        question: Question,
    },
    /// A server wrote a log message, or any other notification.
    Told {
        server: Arc<str>,
        /// Whose session it was told in; nobody's where all share it.
        dialog: Option<Arc<str>>,
        method: String,
        params: Option<Raw>,
        /// Whether whoever made a call heard it as part of that.
        in_call: bool,
    },
    Problem(Problem),
    /// A problem that is no more, by its id.
    Solved(String),
}

/// Where events are told; nowhere once the host has ended.
#[derive(Clone, Debug)]
pub(super) struct Events(Arc<Mutex<Option<broadcast::Sender<Arc<Event>>>>>);

/// A listener. It hears what happens from when it was made.
#[derive(Debug)]
pub struct Listening(Option<broadcast::Receiver<Arc<Event>>>);

impl Default for Events {
    fn default() -> Self {
        Events(Arc::new(Mutex::new(Some(broadcast::channel(BEHIND).0))))
    }
}

impl Events {
    pub(super) fn tell(&self, event: Event) {
        if let Some(all) = &*self.open() {
            // Nobody may be listening.
            let _ = all.send(Arc::new(event));
        }
    }

    /// Whether anybody would hear of it.
    pub(super) fn are_heard(&self) -> bool {
        self.open().as_ref().is_some_and(|all| all.receiver_count() > 0)
    }

    /// Whoever listens hears what was told, and then the end.
    pub(super) fn close(&self) {
        drop(self.open().take());
    }

    pub(super) fn listen(&self) -> Listening {
        Listening(self.open().as_ref().map(broadcast::Sender::subscribe))
    }

    fn open(&self) -> MutexGuard<'_, Option<broadcast::Sender<Arc<Event>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listening {
    /// Whether there is nothing to hear any more: the host has ended, or this listener was too slow.
    pub fn is_over(&self) -> bool {
        self.0.is_none()
    }

    /// The next event; none when the host has ended, or when this listener was too slow to hear all.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        let heard = self.0.as_mut()?.recv().await;
        if heard.is_err() {
            self.0 = None;
        }
        heard.ok()
    }
}

impl Event {
    /// Stable, for machines.
    pub fn kind(&self) -> &'static str {
        match self {
            Event::Reloaded(_) => "reload",
            Event::State { .. } => "state",
            Event::Restarted { .. } => "restart",
            Event::Listed { .. } => "tools",
            Event::Pinned { .. } => "pinned",
            Event::Published { .. } => "published",
            Event::Offered { .. } => "offered",
            Event::Leases { .. } => "lease",
            Event::Progress { .. } => "progress",
            Event::Called { .. } => "call",
            Event::Asked { .. } => "request",
            Event::Told { .. } => "log",
            Event::Problem(_) => "problem",
            Event::Solved(_) => "solved",
        }
    }
}
