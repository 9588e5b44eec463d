//! What the demo server remembers: counters under the names it gave them, and who opened a session.

use std::collections::VecDeque;

use toolcrib_server::identity::random_name;
use toolcrib_wire::RpcError;

use super::caller::Client;

/// Counters that are kept; then the oldest is forgotten.
const COUNTERS: usize = 1000;

/// Shared by all that talk to the server.
#[derive(Debug, Default)]
pub(crate) struct State {
    counters: VecDeque<(String, i64)>,
    pub(crate) tally: Tally,
}

/// What the resource of this server shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tool calls that were taken.
    pub(crate) calls: u64,
    /// Those that are under way.
    pub(crate) running: u64,
}

/// One conversation of the legacy era; empty before it is opened, and in the modern era.
#[derive(Debug, Default)]
pub(crate) struct Session {
    client: Option<Client>,
    counter: Option<String>,
}

impl State {
    pub(crate) fn new_counter(&mut self) -> Result<String, RpcError> {
        let name = random_name().map_err(|_| RpcError::internal("cannot name a counter"))?;
        if self.counters.len() == COUNTERS {
            self.counters.pop_front();
        }
        self.counters.push_back((name.clone(), 0));
        Ok(name)
    }

    pub(crate) fn counter(&mut self, name: &str) -> Option<&mut i64> {
        self.counters.iter_mut().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

impl Session {
    pub(crate) fn open(&mut self, client: Client) {
        *self = Self { client: Some(client), counter: None };
    }

    pub(crate) fn client(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    /// The session's own counter.
    pub(crate) fn counter(&mut self, state: &mut State) -> Result<String, RpcError> {
        if let Some(name) = &self.counter {
            return Ok(name.clone());
        }
        let name = state.new_counter()?;
        self.counter = Some(name.clone());
        Ok(name)
    }
}
