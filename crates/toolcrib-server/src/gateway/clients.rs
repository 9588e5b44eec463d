//! The clients whose conversations are of more than one request, each bound to who it is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;

use super::Gateway;
use super::client::{Client, Who};
use crate::identity::random_name;

/// All clients.
#[derive(Debug, Default)]
pub(super) struct Clients(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    /// Those of the legacy era, by the ids of their sessions.
    sessions: HashMap<String, Arc<Client>, RandomState>,
    /// The others, by who they are and what they call their dialog or themselves.
    handles: HashMap<(Who, Arc<str>), Arc<Client>>,
}

/// Somebody has as many sessions as he may have.
#[derive(Debug)]
pub(super) struct TooMany;

impl Clients {
    /// The session of that id, if it is open to whoever asks.
    pub(super) fn session(&self, id: &str, who: &Who) -> Option<Arc<Client>> {
        let client = self.all().sessions.get(id).cloned()?;
        let is_own = client.who.is_open_to(who);
        if client.is_over() {
            self.remove(id);
            return None;
        }
        is_own.then_some(client)
    }

    /// The client of that handle; a new one where there is none.
    pub(super) fn handle(
        &self,
        gateway: &Arc<Gateway>,
        who: Who,
        handle: Arc<str>,
    ) -> Result<Arc<Client>, TooMany> {
        let key = (who, handle);
        let mut all = self.all();
        if let Some(client) = all.handles.get(&key).filter(|client| !client.is_over()) {
            return Ok(Arc::clone(client));
        }
        all.handles.remove(&key);
        let client = Client::new(gateway, key.0.clone());
        all.admit(gateway, &client)?;
        all.handles.insert(key, Arc::clone(&client));
        Ok(client)
    }

    /// Keeps a client for as long as its stream.
    pub(super) fn hold(gateway: &Arc<Gateway>, client: &Arc<Client>) -> Result<Held, TooMany> {
        let session = gateway.clients.keep(gateway, client)?;
        Ok(Held { gateway: Arc::clone(gateway), session })
    }

    /// Keeps a client that just opened a session; the session's id.
    pub(super) fn keep(&self, gateway: &Gateway, client: &Arc<Client>) -> Result<String, TooMany> {
        let id = random_name().map_err(|_| TooMany)?;
        let mut all = self.all();
        all.admit(gateway, client)?;
        all.sessions.insert(id.clone(), Arc::clone(client));
        Ok(id)
    }

    pub(super) fn remove(&self, id: &str) -> Option<Arc<Client>> {
        self.all().sessions.remove(id)
    }

    /// Takes out those that nothing was under way for, but for those whose dialog is used otherwise.
    pub(super) fn idle(
        &self,
        longest: Duration,
        is_used: impl Fn(&str) -> bool,
    ) -> Vec<Arc<Client>> {
        let is_idle = |client: &Client| {
            client.idle() > longest && !client.begun().is_some_and(|dialog| is_used(dialog.id()))
        };
        let mut all = self.all();
        let mut idle: Vec<_> =
            all.sessions.extract_if(|_, client| is_idle(client)).map(|it| it.1).collect();
        idle.extend(all.handles.extract_if(|_, client| is_idle(client)).map(|it| it.1));
        idle
    }

    pub(super) fn has_dialog(&self, id: &str) -> bool {
        self.all().each().any(|client| client.begun().is_some_and(|dialog| dialog.id() == id))
    }

    pub(super) fn count(&self) -> usize {
        self.all().each().count()
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl All {
    fn each(&self) -> impl Iterator<Item = &Arc<Client>> {
        self.sessions.values().chain(self.handles.values())
    }

    /// Lets one more in, where the principal has room for it.
    fn admit(&self, gateway: &Gateway, client: &Client) -> Result<(), TooMany> {
        let own = self.each().filter(|it| it.who.principal == client.who.principal).count();
        if own >= gateway.limits().sessions { Err(TooMany) } else { Ok(()) }
    }
}

/// A session that is there for as long as its stream.
#[derive(Debug)]
pub(super) struct Held {
    gateway: Arc<Gateway>,
    pub(super) session: String,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(client) = self.gateway.clients.remove(&self.session) {
            self.gateway.spawn(async move { client.end().await });
        }
    }
}
