//! The clients whose conversations are of more than one request, each bound to who it is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Gateway;
use super::client::{Client, Who};
use crate::identity::random_name;

/// What a client is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// A session of the legacy era.
    Session(String),
    /// Whoever it is, and what it calls its dialog or itself.
    Handle(Who, Arc<str>),
}

/// All clients.
#[derive(Debug, Default)]
pub(super) struct Clients(Mutex<HashMap<Key, Arc<Client>>>);

/// Somebody has as many sessions as he may have.
#[derive(Debug)]
pub(super) struct TooMany;

impl Clients {
    /// The session of that id, if it is this principal's and of the same address.
    pub(super) fn session(&self, id: &str, who: &Who) -> Option<Arc<Client>> {
        let client = self.all().get(&Key::Session(id.to_owned())).cloned()?;
        let is_own = client.who.principal == who.principal && client.who.server == who.server;
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
        let key = Key::Handle(who, handle);
        let mut all = self.all();
        if let Some(client) = all.get(&key).filter(|client| !client.is_over()) {
            return Ok(Arc::clone(client));
        }
        all.remove(&key);
        let Key::Handle(who, _) = &key else { return Err(TooMany) };
        let client = Client::new(gateway, who.clone());
        admit(&mut all, gateway, key, &client)?;
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
        admit(&mut self.all(), gateway, Key::Session(id.clone()), client)?;
        Ok(id)
    }

    pub(super) fn remove(&self, id: &str) -> Option<Arc<Client>> {
        self.all().remove(&Key::Session(id.to_owned()))
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
        all.extract_if(|_, client| is_idle(client)).map(|(_, client)| client).collect()
    }

    pub(super) fn has_dialog(&self, id: &str) -> bool {
        self.all().values().any(|client| client.begun().is_some_and(|dialog| dialog.id() == id))
    }

    pub(super) fn count(&self) -> usize {
        self.all().len()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Key, Arc<Client>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Lets one more in, where the principal has room for it.
fn admit(
    all: &mut HashMap<Key, Arc<Client>>,
    gateway: &Gateway,
    key: Key,
    client: &Arc<Client>,
) -> Result<(), TooMany> {
    let own = all.values().filter(|it| it.who.principal == client.who.principal).count();
    if own >= gateway.limits().sessions {
        return Err(TooMany);
    }
    all.insert(key, Arc::clone(client));
    Ok(())
}
