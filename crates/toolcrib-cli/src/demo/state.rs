//! State of the demo server: named counters and sessions.

use std::collections::VecDeque;

use toolcrib_server::identity::random_id;
use toolcrib_wire::RpcError;

use super::caller::LegacyClient;

/// Maximum number of counters. The oldest counter is removed beyond it.
const MAX_COUNTERS: usize = 1000;

/// State shared by all clients.
#[derive(Debug, Default)]
pub(crate) struct State {
    counters: VecDeque<(String, i64)>,
    pub(crate) call_counts: CallCounts,
}

/// The content of the resource `demo://calls`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallCounts {
    /// Number of tool calls.
    pub(crate) calls: u64,
    /// Number of tool calls in flight.
    pub(crate) running: u64,
}

/// One legacy session. It is empty before `initialize` and for modern clients.
#[derive(Debug, Default)]
pub(crate) struct Session {
    client: Option<LegacyClient>,
    counter: Option<String>,
}

impl State {
    pub(crate) fn new_counter(&mut self) -> Result<String, RpcError> {
        let name = random_id().map_err(|_| RpcError::internal("cannot name a counter"))?;
        if self.counters.len() == MAX_COUNTERS {
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
    pub(crate) fn open(&mut self, client: LegacyClient) {
        *self = Self { client: Some(client), counter: None };
    }

    pub(crate) fn client(&self) -> Option<&LegacyClient> {
        self.client.as_ref()
    }

    /// Returns the session's own counter, creating it if needed.
    pub(crate) fn counter(&mut self, state: &mut State) -> Result<String, RpcError> {
        if let Some(name) = &self.counter {
            return Ok(name.clone());
        }
        let name = state.new_counter()?;
        self.counter = Some(name.clone());
        Ok(name)
    }
}
