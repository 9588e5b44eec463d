//! Table of clients that live longer than one request, each bound to its identity.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;

use super::Gateway;
use super::client::{Client, ClientIdentity};
use crate::identity::random_id;

/// All clients with sessions or dialogs.
#[derive(Debug, Default)]
pub(super) struct ClientTable(Mutex<ClientMaps>);

#[derive(Debug, Default)]
struct ClientMaps {
    /// Clients of the legacy era by session id.
    sessions: HashMap<String, Arc<Client>, RandomState>,
    /// Clients of the modern era by identity and dialog or client name.
    named: HashMap<(ClientIdentity, Arc<str>), Arc<Client>>,
}

/// Error: the principal has its maximum number of sessions.
#[derive(Debug)]
pub(super) struct TooManyClients;

impl ClientTable {
    /// The client of a session, if this identity may use it.
    pub(super) fn session(&self, id: &str, identity: &ClientIdentity) -> Option<Arc<Client>> {
        let client = self.lock().sessions.get(id).cloned()?;
        let is_own = client.identity.is_usable_by(identity);
        if client.dialog_has_ended() {
            self.remove(id);
            return None;
        }
        is_own.then_some(client)
    }

    /// The client of a dialog or client name, created if necessary.
    pub(super) fn get_or_create(
        &self,
        gateway: &Arc<Gateway>,
        identity: ClientIdentity,
        handle: Arc<str>,
    ) -> Result<Arc<Client>, TooManyClients> {
        let key = (identity, handle);
        let mut all = self.lock();
        if let Some(client) = all.named.get(&key).filter(|client| !client.dialog_has_ended()) {
            return Ok(Arc::clone(client));
        }
        all.named.remove(&key);
        let client = Client::new(gateway, key.0.clone());
        all.check_limit(gateway, &client)?;
        all.named.insert(key, Arc::clone(&client));
        Ok(client)
    }

    /// Registers a client until its stream ends.
    pub(super) fn register_stream(
        gateway: &Arc<Gateway>,
        client: &Arc<Client>,
    ) -> Result<StreamSession, TooManyClients> {
        let session = gateway.clients.register_session(gateway, client)?;
        Ok(StreamSession { gateway: Arc::clone(gateway), session })
    }

    /// Registers a client with a new session and returns the session id.
    pub(super) fn register_session(
        &self,
        gateway: &Gateway,
        client: &Arc<Client>,
    ) -> Result<String, TooManyClients> {
        let id = random_id().map_err(|_| TooManyClients)?;
        let mut all = self.lock();
        all.check_limit(gateway, client)?;
        all.sessions.insert(id.clone(), Arc::clone(client));
        Ok(id)
    }

    pub(super) fn remove(&self, id: &str) -> Option<Arc<Client>> {
        self.lock().sessions.remove(id)
    }

    /// Removes and returns idle clients, except those whose dialog is in use elsewhere.
    pub(super) fn remove_idle(
        &self,
        max_idle: Duration,
        is_used: impl Fn(&str) -> bool,
    ) -> Vec<Arc<Client>> {
        let is_idle = |client: &Client| {
            client.idle_time() > max_idle
                && !client.begun_dialog().is_some_and(|dialog| is_used(dialog.id()))
        };
        let mut all = self.lock();
        let mut idle: Vec<_> =
            all.sessions.extract_if(|_, client| is_idle(client)).map(|it| it.1).collect();
        idle.extend(all.named.extract_if(|_, client| is_idle(client)).map(|it| it.1));
        idle
    }

    pub(super) fn has_dialog(&self, id: &str) -> bool {
        self.lock()
            .each()
            .any(|client| client.begun_dialog().is_some_and(|dialog| dialog.id() == id))
    }

    pub(super) fn count(&self) -> usize {
        self.lock().each().count()
    }

    fn lock(&self) -> MutexGuard<'_, ClientMaps> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientMaps {
    fn each(&self) -> impl Iterator<Item = &Arc<Client>> {
        self.sessions.values().chain(self.named.values())
    }

    /// Checks the number of sessions of the client's principal.
    fn check_limit(&self, gateway: &Gateway, client: &Client) -> Result<(), TooManyClients> {
        let own =
            self.each().filter(|it| it.identity.principal == client.identity.principal).count();
        if own >= gateway.limits().sessions { Err(TooManyClients) } else { Ok(()) }
    }
}

/// Registration of a client until its stream ends.
#[derive(Debug)]
pub(super) struct StreamSession {
    gateway: Arc<Gateway>,
    pub(super) session: String,
}

impl Drop for StreamSession {
    fn drop(&mut self) {
        if let Some(client) = self.gateway.clients.remove(&self.session) {
            self.gateway.spawn(async move { client.close().await });
        }
    }
}
