//! Turns updates of connections into host events and wakes the reconciler.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use toolcrib_upstream::conn::{CatalogChange, ChangeKind, ConnUpdate, ConnView, ServerState};
use toolcrib_upstream::supervise::{ConnRole, SupervisorListener};
use toolcrib_wire::Notification;

use super::events::{EventBus, HostEvent};

/// Receives the updates of all servers.
#[derive(Debug)]
pub(super) struct ConnectionEvents {
    events: EventBus,
    /// Wakes the reconciler after an update.
    pub(super) wakeup: Notify,
    servers: Mutex<HashMap<u64, KnownServer>>,
}

/// The last published state of a server.
#[derive(Debug)]
struct KnownServer {
    key: Arc<str>,
    state: Option<ServerState>,
    restarts: u32,
    /// The dialog that leases the main connection.
    lessee: Option<Arc<str>>,
}

impl ConnectionEvents {
    pub(super) fn new(events: EventBus) -> Self {
        ConnectionEvents { events, wakeup: Notify::new(), servers: Mutex::default() }
    }

    /// Registers a server, so that its updates can be published under its key.
    pub(super) fn add_server(&self, number: u64, key: Arc<str>, view: &ConnView) {
        self.lock().entry(number).or_insert(KnownServer {
            key,
            state: None,
            restarts: 0,
            lessee: None,
        });
        self.publish_state(number, view);
    }

    /// Sets the dialog that receives the notifications of the server's main connection.
    pub(super) fn set_lessee(&self, number: u64, dialog: Option<Arc<str>>) {
        if let Some(server) = self.lock().get_mut(&number) {
            server.lessee = dialog;
        }
    }

    pub(super) fn remove_server(&self, number: u64) {
        self.lock().remove(&number);
    }

    fn publish_state(&self, number: u64, view: &ConnView) {
        let mut all = self.lock();
        let Some(server) = all.get_mut(&number) else { return };
        let (state, restarts) = (view.lifecycle.state(), view.lifecycle.restarts());
        let is_new = server.state.replace(state) != Some(state);
        let is_restart = std::mem::replace(&mut server.restarts, restarts) < restarts;
        let server = Arc::clone(&server.key);
        drop(all);
        if is_restart {
            self.events.publish(HostEvent::Restarted { server: Arc::clone(&server), restarts });
        }
        if is_new {
            let error = view.lifecycle.last_error().map(|(_, failure)| failure.message.clone());
            self.events.publish(HostEvent::StateChanged { server, state, error });
        }
    }

    fn server_key(&self, number: u64) -> Option<Arc<str>> {
        self.lock().get(&number).map(|server| Arc::clone(&server.key))
    }

    fn publish_notification(
        &self,
        number: u64,
        source: &ConnRole,
        notification: Notification,
        in_call: bool,
    ) {
        let servers = self.lock();
        let Some(server) = servers.get(&number) else { return };
        let dialog = match source {
            ConnRole::Main => server.lessee.clone(),
            ConnRole::Dedicated(dialog) => dialog.clone(),
        };
        let server = Arc::clone(&server.key);
        drop(servers);
        let params = notification.params.raw();
        let method = notification.method;
        self.events.publish(HostEvent::ServerNotification {
            server,
            dialog,
            method,
            params,
            in_call,
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, KnownServer>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SupervisorListener for ConnectionEvents {
    fn on_update(&self, number: u64, source: &ConnRole, update: ConnUpdate) {
        match (update, source) {
            (ConnUpdate::StateChanged(view), ConnRole::Main) => self.publish_state(number, &view),
            (ConnUpdate::CatalogRead { changes, announced, is_dialog_only, .. }, source) => {
                // A snapshot or a dialog's list change announces the real changes, so only
                // announcements without a change are passed on.
                for notification in announced.into_iter().filter(|_| changes.is_empty()) {
                    self.publish_notification(number, source, notification, false);
                }
                let is_for_all =
                    *source == ConnRole::Main && !is_dialog_only && !changes.is_empty();
                if let Some(server) = self.server_key(number).filter(|_| is_for_all) {
                    warn_about_changes(&server, "list changed", &changes);
                    self.events.publish(HostEvent::ListsChanged { server, changes });
                }
            }
            (ConnUpdate::CatalogDiffers { changes }, ConnRole::Main) => {
                if let Some(server) = self.server_key(number) {
                    warn_about_changes(
                        &server,
                        "list changed at the server; refresh the server to apply it",
                        &changes,
                    );
                }
                return;
            }
            (ConnUpdate::Notification { notification, in_call }, _) => {
                return self.publish_notification(number, source, notification, in_call);
            }
            // The state of a leased session is not the server's state.
            (
                ConnUpdate::StateChanged(_) | ConnUpdate::CatalogDiffers { .. },
                ConnRole::Dedicated(_),
            ) => return,
            (ConnUpdate::Anomaly(_), _) => {}
        }
        self.wakeup.notify_one();
    }
}

/// Logs changes of existing items. Additions cannot break a client, so they are not logged.
fn warn_about_changes(server: &str, what: &str, changes: &[CatalogChange]) {
    for change in changes.iter().filter(|change| change.kind != ChangeKind::Added) {
        tracing::warn!(server, tool = %change.name, "{what}: {change}");
    }
}
