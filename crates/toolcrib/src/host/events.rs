//! Host events and their listeners. A listener that is too slow is disconnected.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;
use toolcrib_config::Problem;
use toolcrib_upstream::conn::{CatalogChange, ServerState};
use toolcrib_wire::RawJson;

use super::pending_requests::PendingRequest;
use super::reload::Reload;
use crate::lease::Lease;
use crate::store::CallRecord;

/// Maximum number of events that wait for a listener. A listener that falls further behind is
/// disconnected.
const EVENT_BUFFER: usize = 1024;

/// A change in the host.
#[derive(Clone, Debug)]
pub enum HostEvent {
    /// A reload has finished.
    Reloaded(Arc<Reload>),
    /// A server's state changed.
    StateChanged {
        /// Key of the server.
        server: Arc<str>,
        /// The new state.
        state: ServerState,
        /// The last error of the connection.
        error: Option<String>,
    },
    /// A server's connection was lost or restarted.
    Restarted {
        /// Key of the server.
        server: Arc<str>,
        /// Number of reconnects so far.
        restarts: u32,
    },
    /// A server's lists changed.
    ListsChanged {
        /// Key of the server.
        server: Arc<str>,
        /// The changed items.
        changes: Vec<CatalogChange>,
    },
    /// New tools of a server were pinned. Not published for the first list of a server.
    ToolsPinned {
        /// Key of the server.
        server: Arc<str>,
        /// Original names of the new tools.
        tools: Vec<String>,
    },
    /// A snapshot was published.
    SnapshotPublished {
        /// Number of the snapshot.
        version: u64,
    },
    /// The lists of one dialog changed, because its own session with a server lists other items.
    DialogListsChanged {
        /// Id of the dialog.
        dialog: Arc<str>,
    },
    /// The leases of a server changed.
    LeasesChanged {
        /// Key of the server.
        server: Arc<str>,
        /// The current leases of the server.
        leases: Vec<Lease>,
    },
    /// A call made progress.
    CallProgress {
        /// Id of the dialog.
        dialog: Arc<str>,
        /// Number of the call.
        call: u64,
        /// Params of the progress notification.
        params: RawJson,
    },
    /// A call ended.
    CallEnded {
        /// Number of the call.
        call: u64,
        /// The record of the call.
        record: Arc<CallRecord>,
    },
    /// A server sent a request to the client of a dialog.
    ClientRequest {
        /// Id of the dialog.
        dialog: Arc<str>,
        /// The pending request.
        request: PendingRequest,
    },
    /// A server sent a log message or another notification.
    ServerNotification {
        /// Key of the server.
        server: Arc<str>,
        /// The dialog of the session that received the notification; `None` for a shared session.
        dialog: Option<Arc<str>>,
        /// Method of the notification.
        method: String,
        /// Params of the notification.
        params: Option<RawJson>,
        /// Whether the caller received the notification as part of its call.
        in_call: bool,
    },
    /// A problem is new or has changed.
    Problem(Problem),
    /// A problem no longer exists; the value is its id.
    ProblemSolved(String),
}

/// Publishes events. After [`EventBus::close`] events are discarded.
#[derive(Clone, Debug)]
pub(super) struct EventBus(Arc<Mutex<Option<broadcast::Sender<Arc<HostEvent>>>>>);

/// Receives the events that are published after its creation.
#[derive(Debug)]
pub struct EventListener(Option<broadcast::Receiver<Arc<HostEvent>>>);

impl Default for EventBus {
    fn default() -> Self {
        EventBus(Arc::new(Mutex::new(Some(broadcast::channel(EVENT_BUFFER).0))))
    }
}

impl EventBus {
    pub(super) fn publish(&self, event: HostEvent) {
        if let Some(all) = &*self.lock() {
            // An error means that there is no listener.
            let _ = all.send(Arc::new(event));
        }
    }

    /// Whether there is a listener.
    pub(super) fn has_listeners(&self) -> bool {
        self.lock().as_ref().is_some_and(|all| all.receiver_count() > 0)
    }

    /// Closes the bus. Listeners receive the remaining events, and then the end.
    pub(super) fn close(&self) {
        drop(self.lock().take());
    }

    pub(super) fn subscribe(&self) -> EventListener {
        EventListener(self.lock().as_ref().map(broadcast::Sender::subscribe))
    }

    fn lock(&self) -> MutexGuard<'_, Option<broadcast::Sender<Arc<HostEvent>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventListener {
    /// Whether no more events follow: the host was closed, or this listener was too slow.
    pub fn is_closed(&self) -> bool {
        self.0.is_none()
    }

    /// The next event. Returns `None` after the host was closed, or if this listener was too slow.
    pub async fn next(&mut self) -> Option<Arc<HostEvent>> {
        let heard = self.0.as_mut()?.recv().await;
        if heard.is_err() {
            self.0 = None;
        }
        heard.ok()
    }
}

impl HostEvent {
    /// The event's kind, a stable name for machines.
    pub fn kind(&self) -> &'static str {
        match self {
            HostEvent::Reloaded(_) => "reload",
            HostEvent::StateChanged { .. } => "state",
            HostEvent::Restarted { .. } => "restart",
            HostEvent::ListsChanged { .. } => "tools",
            HostEvent::ToolsPinned { .. } => "pinned",
            HostEvent::SnapshotPublished { .. } => "published",
            HostEvent::DialogListsChanged { .. } => "offered",
            HostEvent::LeasesChanged { .. } => "lease",
            HostEvent::CallProgress { .. } => "progress",
            HostEvent::CallEnded { .. } => "call",
            HostEvent::ClientRequest { .. } => "request",
            HostEvent::ServerNotification { .. } => "log",
            HostEvent::Problem(_) => "problem",
            HostEvent::ProblemSolved(_) => "solved",
        }
    }
}
