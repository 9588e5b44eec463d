//! How calls ended, tool by tool, for whoever watches the host.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Tools that are counted by name; the calls of further ones are counted together.
const MOST: usize = 2000;

/// The name under which those stand.
const OTHER: &str = "other";

/// So many calls of a tool ended in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tallied {
    /// The server's key; none for a tool of the host itself.
    pub server: Option<Arc<str>>,
    pub tool: Arc<str>,
    /// `ok`, or the kind of error.
    pub ended: &'static str,
    pub count: u64,
}

#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    tools: usize,
    servers: BTreeMap<Option<Arc<str>>, Tools>,
}

/// How often each tool ended in which way.
type Tools = BTreeMap<Arc<str>, BTreeMap<&'static str, u64>>;

impl Tally {
    pub(super) fn count(&self, server: Option<&Arc<str>>, tool: &Arc<str>, ended: &'static str) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Counted { tools, servers } = &mut *counted;
        let server = servers.entry(server.cloned()).or_default();
        let count = match server.get_mut(tool) {
            Some(ways) => ways,
            None if *tools >= MOST => server.entry(OTHER.into()).or_default(),
            None => {
                *tools += 1;
                server.entry(Arc::clone(tool)).or_default()
            }
        };
        *count.entry(ended).or_default() += 1;
    }

    /// By server, tool and end, in order.
    pub(super) fn read(&self) -> Vec<Tallied> {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Tallied> = Vec::new();
        for (server, tools) in &counted.servers {
            for (tool, ways) in tools {
                all.extend(ways.iter().map(|(ended, count)| Tallied {
                    server: server.clone(),
                    tool: Arc::clone(tool),
                    ended,
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
    fn there_is_an_end_to_the_tools_that_are_told_apart() {
        let tally = Tally::default();
        let server: Arc<str> = "s".into();
        for number in 0..MOST + 5 {
            tally.count(Some(&server), &format!("t{number:04}").into(), "ok");
        }
        tally.count(Some(&server), &"t0000".into(), "timeout");
        let all = tally.read();
        assert_eq!(all.len(), MOST + 2);
        assert_eq!((&*all[0].tool, all[0].count), (OTHER, 5));
        assert_eq!((&*all[2].tool, all[2].ended, all[2].count), ("t0000", "timeout", 1));
    }
}
