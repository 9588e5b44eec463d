//! The most servers that a host is connected to at a time: `host.max_servers`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::failure::{Failure, FailureKind};

/// The code of a connect that was refused because the limit was reached.
pub const MAX_SERVERS: &str = "host.max_servers";

/// Counts connected servers. Clones share the count. Several connections to one server count once.
#[derive(Clone, Debug, Default)]
pub struct ServerLimit(Arc<Mutex<Connected>>);

#[derive(Debug, Default)]
struct Connected {
    /// 0 means any number.
    max: u32,
    /// Connections by the server's key.
    servers: HashMap<Arc<str>, usize>,
}

/// A server's right to be connected, given back on drop.
#[derive(Debug)]
pub(super) struct Permit {
    limit: ServerLimit,
    server: Arc<str>,
}

impl ServerLimit {
    /// Servers that are connected stay so, also when there are more of them than the new limit.
    pub fn set_max(&self, max: u32) {
        self.connected().max = max;
    }

    pub fn max(&self) -> u32 {
        self.connected().max
    }

    /// How many more servers may connect.
    pub fn room(&self) -> usize {
        let connected = self.connected();
        match connected.max {
            0 => usize::MAX,
            max => (max as usize).saturating_sub(connected.servers.len()),
        }
    }

    pub(super) fn acquire(&self, server: &str) -> Result<Permit, Failure> {
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
        Ok(Permit { limit: self.clone(), server })
    }

    fn connected(&self) -> MutexGuard<'_, Connected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
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
