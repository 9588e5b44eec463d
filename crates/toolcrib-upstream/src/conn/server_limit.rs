//! Limit of concurrently connected servers: `host.max_servers`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::failure::{Failure, FailureKind};

/// Problem code of a connect over the limit.
pub const MAX_SERVERS: &str = "host.max_servers";

/// Counts connected servers. Clones share the count. Several connections to one server count once.
#[derive(Clone, Debug, Default)]
pub struct ServerLimit(Arc<Mutex<ConnectedServers>>);

#[derive(Debug, Default)]
struct ConnectedServers {
    /// 0 means unlimited.
    max: u32,
    /// Connection count by server key.
    servers: HashMap<Arc<str>, usize>,
}

/// A connected server's slot. Dropping it frees the slot.
#[derive(Debug)]
pub(super) struct ServerPermit {
    limit: ServerLimit,
    server: Arc<str>,
}

impl ServerLimit {
    /// Changes the limit. Connected servers stay connected, even if they exceed it.
    pub fn set_max(&self, max: u32) {
        self.connected().max = max;
    }

    /// Current limit. 0 means unlimited.
    pub fn max(&self) -> u32 {
        self.connected().max
    }

    /// Number of servers that can still connect.
    pub fn room(&self) -> usize {
        let connected = self.connected();
        match connected.max {
            0 => usize::MAX,
            max => (max as usize).saturating_sub(connected.servers.len()),
        }
    }

    pub(super) fn acquire(&self, server: &str) -> Result<ServerPermit, Failure> {
        let mut connected = self.connected();
        let max = connected.max;
        let is_full = max > 0 && connected.servers.len() >= max as usize;
        if is_full && !connected.servers.contains_key(server) {
            let text =
                format!("{max} servers are connected, which is the limit (host.max_servers)");
            let fix = "disconnect another server, or raise `host.max_servers`".to_owned();
            let failure = Failure::new(FailureKind::Resource, text);
            return Err(Failure { code: MAX_SERVERS, fix: Some(fix), ..failure });
        }
        let server: Arc<str> = server.into();
        *connected.servers.entry(Arc::clone(&server)).or_default() += 1;
        drop(connected);
        Ok(ServerPermit { limit: self.clone(), server })
    }

    fn connected(&self) -> MutexGuard<'_, ConnectedServers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ServerPermit {
    fn drop(&mut self) {
        let mut connected = self.limit.connected();
        if let Some(count) = connected.servers.get_mut(&self.server) {
            *count -= 1;
            if *count == 0 {
                connected.servers.remove(&self.server);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn min_79_servers_count_while_they_are_connected() {
        let limit = ServerLimit::default();
        let unlimited: Vec<_> = ["a", "b"].map(|key| limit.acquire(key).unwrap()).into();
        limit.set_max(1);
        assert_eq!(limit.room(), 0);
        assert_eq!(limit.acquire("c").unwrap_err().code, MAX_SERVERS);
        let again = limit.acquire("a").unwrap();
        drop(unlimited);
        assert_eq!(
            limit.acquire("c").unwrap_err().code,
            MAX_SERVERS,
            "`a` has one connection left"
        );
        drop(again);
        assert!(limit.acquire("c").is_ok());
        assert_eq!(limit.room(), 1);
    }
}
