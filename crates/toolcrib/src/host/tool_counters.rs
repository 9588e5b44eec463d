//! Counters of ended calls per tool and outcome, for metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of tools with their own counters. The calls of further tools are counted
/// together.
const MAX_TOOLS: usize = 2000;

/// Name of the counter for the further tools.
const OTHER: &str = "other";

/// The number of calls of a tool with one outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCount {
    /// The server's key; `None` for a native tool.
    pub server: Option<Arc<str>>,
    /// The registry name of the tool.
    pub tool: Arc<str>,
    /// `ok`, or the kind of error.
    pub outcome: &'static str,
    /// The number of calls.
    pub count: u64,
}

#[derive(Debug, Default)]
pub(super) struct ToolCounters(Mutex<CounterTable>);

#[derive(Debug, Default)]
struct CounterTable {
    tools: usize,
    servers: BTreeMap<Option<Arc<str>>, ToolOutcomes>,
}

/// Number of calls per tool and outcome.
type ToolOutcomes = BTreeMap<Arc<str>, BTreeMap<&'static str, u64>>;

impl ToolCounters {
    pub(super) fn count(&self, server: Option<&Arc<str>>, tool: &Arc<str>, outcome: &'static str) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let CounterTable { tools, servers } = &mut *counted;
        let server = servers.entry(server.cloned()).or_default();
        let count = match server.get_mut(tool) {
            Some(ways) => ways,
            None if *tools >= MAX_TOOLS => server.entry(OTHER.into()).or_default(),
            None => {
                *tools += 1;
                server.entry(Arc::clone(tool)).or_default()
            }
        };
        *count.entry(outcome).or_default() += 1;
    }

    /// All counters, ordered by server, tool and outcome.
    pub(super) fn read(&self) -> Vec<ToolCount> {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<ToolCount> = Vec::new();
        for (server, tools) in &counted.servers {
            for (tool, ways) in tools {
                all.extend(ways.iter().map(|(outcome, count)| ToolCount {
                    server: server.clone(),
                    tool: Arc::clone(tool),
                    outcome,
                    count: *count,
                }));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_above_the_limit_share_one_counter() {
        let counters = ToolCounters::default();
        let server: Arc<str> = "s".into();
        for number in 0..MAX_TOOLS + 5 {
            counters.count(Some(&server), &format!("t{number:04}").into(), "ok");
        }
        counters.count(Some(&server), &"t0000".into(), "timeout");
        let all = counters.read();
        assert_eq!(all.len(), MAX_TOOLS + 2);
        assert_eq!((&*all[0].tool, all[0].count), (OTHER, 5));
        assert_eq!((&*all[2].tool, all[2].outcome, all[2].count), ("t0000", "timeout", 1));
    }
}
