//! Limits connections per address, and closes the oldest unadmitted connection when the limit is reached.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::identity::address_block;

/// Open connections by address. Clones share the table.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionLimit(Arc<Mutex<ConnectionTable>>);

#[derive(Debug, Default)]
struct ConnectionTable {
    addresses: HashMap<IpAddr, AddressConnections>,
    /// Id of the newest connection; ids increase with time.
    last_id: u64,
}

#[derive(Debug, Default)]
struct AddressConnections {
    connections: BTreeMap<u64, Arc<ConnectionState>>,
    /// True if the warning about this address was logged.
    has_warned: bool,
}

/// State of one connection.
#[derive(Debug, Default)]
pub(super) struct ConnectionState {
    is_admitted: AtomicBool,
    /// The task that serves the connection.
    task: OnceLock<AbortHandle>,
    /// True if a stream on the connection ended because its token expired.
    expired: ExpirySender,
}

/// Signals that a stream ended because its token expired, so that its connection closes, too.
pub(super) type ExpirySender = watch::Sender<bool>;

/// Counts one connection from an address until it is dropped. Connections without an address are not counted.
#[derive(Debug, Default)]
pub(super) struct ConnectionPermit {
    state: Arc<ConnectionState>,
    counted: Option<(ConnectionLimit, IpAddr, u64)>,
}

impl ConnectionState {
    /// Marks that a request was admitted. Such a connection is not closed to make room for others.
    pub(super) fn mark_admitted(&self) {
        if !self.is_admitted.load(Ordering::Relaxed) {
            self.is_admitted.store(true, Ordering::Relaxed);
        }
    }

    /// Sets the task to abort when the connection has to close.
    pub(super) fn set_task(&self, task: AbortHandle) {
        // A connection has one task.
        let _ = self.task.set(task);
    }

    pub(super) fn expiry_sender(&self) -> ExpirySender {
        self.expired.clone()
    }

    pub(super) fn has_expired(&self) -> bool {
        *self.expired.borrow()
    }

    /// Waits until a stream on the connection ends because its token expired.
    pub(super) async fn wait_expired(&self) {
        // `self` holds the sender, so this wait cannot fail.
        let _ = self.expired.subscribe().wait_for(|expired| *expired).await;
    }

    fn close(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    /// The task of a connection that may be closed.
    fn idle_task(&self) -> Option<&AbortHandle> {
        self.task.get().filter(|_| !self.is_admitted.load(Ordering::Relaxed))
    }
}

impl ConnectionPermit {
    pub(super) fn state(&self) -> Arc<ConnectionState> {
        Arc::clone(&self.state)
    }
}

impl ConnectionLimit {
    /// Counts one more connection from an address. Returns `None` if the limit is reached and all connections are
    /// admitted.
    pub(super) fn try_acquire(&self, from: Option<IpAddr>, max: usize) -> Option<ConnectionPermit> {
        let Some(from) = from.map(address_block) else { return Some(ConnectionPermit::default()) };
        let mut table = self.lock();
        let ConnectionTable { addresses, last_id } = &mut *table;
        let entry = addresses.entry(from).or_default();
        let is_full = entry.connections.len() >= max;
        let closed = is_full.then(|| entry.remove_oldest_idle()).flatten();
        if is_full && closed.is_none() {
            // Logs once per address, however many connections are refused.
            if !std::mem::replace(&mut entry.has_warned, true) {
                let why = "connection refused: this address has reached its connection limit (gateway.limits.connections)";
                tracing::warn!(%from, most = max, "{why}");
            }
            return None;
        }
        *last_id += 1;
        let state = Arc::<ConnectionState>::default();
        entry.connections.insert(*last_id, Arc::clone(&state));
        let permit = ConnectionPermit { state, counted: Some((self.clone(), from, *last_id)) };
        drop(table);
        closed.iter().for_each(|closed| closed.close());
        Some(permit)
    }

    /// Returns whether any connection may be closed to make room.
    pub(super) fn has_idle(&self) -> bool {
        self.lock().addresses.values().any(|entry| entry.oldest_idle().is_some())
    }

    /// Closes the oldest unadmitted connection. Returns `false` if there is none.
    pub(super) fn close_oldest_idle(&self) -> bool {
        let mut table = self.lock();
        let found = table.addresses.values_mut().filter(|entry| entry.oldest_idle().is_some());
        let closed = found
            .min_by_key(|entry| entry.oldest_idle())
            .and_then(AddressConnections::remove_oldest_idle);
        drop(table);
        closed.inspect(|closed| closed.close()).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AddressConnections {
    fn oldest_idle(&self) -> Option<u64> {
        let mut table = self.connections.iter();
        table.find(|(_, state)| state.idle_task().is_some()).map(|(number, _)| *number)
    }

    /// The caller closes the connection after releasing the lock, because dropping the permit takes the lock.
    fn remove_oldest_idle(&mut self) -> Option<Arc<ConnectionState>> {
        self.oldest_idle().and_then(|number| self.connections.remove(&number))
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let Some((limit, from, number)) = &self.counted else { return };
        let mut table = limit.lock();
        let Some(entry) = table.addresses.get_mut(from) else { return };
        entry.connections.remove(number);
        if entry.connections.is_empty() {
            table.addresses.remove(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

    fn admitted(
        limit: &ConnectionLimit,
        from: Option<IpAddr>,
        max: usize,
    ) -> Option<ConnectionPermit> {
        limit.try_acquire(from, max).inspect(|permit| permit.state().mark_admitted())
    }

    #[test]
    fn connections_are_limited_per_address_block() {
        let limit = ConnectionLimit::default();
        let [one, same, other] =
            ["2001:db8::1", "2001:db8::2", "1.2.3.4"].map(|address| address.parse().ok());
        let held: Vec<ConnectionPermit> =
            [one, same].map(|from| admitted(&limit, from, 2).unwrap()).into();
        assert!(limit.try_acquire(one, 2).is_none() && limit.try_acquire(same, 2).is_none());
        assert!(limit.lock().addresses[&address_block(one.unwrap())].has_warned);
        assert!(limit.try_acquire(None, 0).is_some(), "the owner's socket has no address");
        let elsewhere = limit.try_acquire(other, 2).unwrap();
        drop(held.into_iter().next());
        assert!(limit.try_acquire(one, 2).is_some());
        drop(elsewhere);
        assert!(limit.lock().addresses.is_empty(), "the table holds no empty entry");
    }

    #[tokio::test]
    async fn oldest_unadmitted_connection_is_closed_for_a_new_one() {
        let limit = ConnectionLimit::default();
        let [one, other] = ["1.1.1.1", "2.2.2.2"].map(|address| address.parse().ok());
        let mut tasks = JoinSet::new();
        let mut serve = |permit: ConnectionPermit, number: u32| {
            let state = permit.state();
            state.set_task(tasks.spawn(async move {
                let _place = permit;
                std::future::pending::<()>().await;
                number
            }));
            state
        };
        let first = serve(limit.try_acquire(one, 2).unwrap(), 1);
        let second = serve(limit.try_acquire(one, 2).unwrap(), 2);
        first.mark_admitted();
        let third = serve(limit.try_acquire(one, 2).expect("the second is closed"), 3);
        assert!(second.task.get().is_some() && limit.has_idle());
        third.mark_admitted();
        assert!(
            limit.try_acquire(one, 2).is_none() && !limit.has_idle() && !limit.close_oldest_idle()
        );
        let _fourth = serve(limit.try_acquire(other, 2).unwrap(), 4);
        assert!(limit.has_idle() && limit.close_oldest_idle());
        for _ in 0..2 {
            assert!(tasks.join_next().await.unwrap().unwrap_err().is_cancelled());
        }
        assert!(tasks.try_join_next().is_none(), "admitted connections stay open");
    }
}
