//! Connection limits. Where a limit is reached, the oldest connection on which nobody was admitted yet makes room.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::identity::block;

/// The connections of each address. Clones count together.
#[derive(Clone, Debug, Default)]
pub(super) struct Crowd(Arc<Mutex<All>>);

#[derive(Debug, Default)]
struct All {
    addresses: HashMap<IpAddr, Here>,
    /// Numbers connections in the order in which they came.
    last: u64,
}

#[derive(Debug, Default)]
struct Here {
    connections: BTreeMap<u64, Arc<Seen>>,
    /// Whether it has been said that there are no more for it.
    is_told: bool,
}

/// What is known of a connection.
#[derive(Debug, Default)]
pub(super) struct Seen {
    is_admitted: AtomicBool,
    /// The task that serves it.
    task: OnceLock<AbortHandle>,
    /// Whether a stream on it was ended because its token is not good any more.
    expired: Expiry,
}

/// Tells a connection that a stream on it was ended with its token: the connection closes as well.
pub(super) type Expiry = watch::Sender<bool>;

/// One connection, which is counted for as long as this lives, if it comes from an address.
#[derive(Debug, Default)]
pub(super) struct Place {
    seen: Arc<Seen>,
    counted: Option<(Crowd, IpAddr, u64)>,
}

impl Seen {
    /// A request on the connection was admitted: it is not closed to make room for others.
    pub(super) fn admit(&self) {
        if !self.is_admitted.load(Ordering::Relaxed) {
            self.is_admitted.store(true, Ordering::Relaxed);
        }
    }

    /// Which task is to be ended to close the connection.
    pub(super) fn is_served_by(&self, task: AbortHandle) {
        // A connection has one task.
        let _ = self.task.set(task);
    }

    pub(super) fn expiry(&self) -> Expiry {
        self.expired.clone()
    }

    pub(super) fn has_expired(&self) -> bool {
        *self.expired.borrow()
    }

    /// Waits until a stream on the connection was ended with its token.
    pub(super) async fn expires(&self) {
        // The sender is in here, so that this ends only with the news.
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

impl Place {
    pub(super) fn seen(&self) -> Arc<Seen> {
        Arc::clone(&self.seen)
    }
}

impl Crowd {
    /// One more from an address; none where that has as many as it may have, all of them with somebody admitted.
    pub(super) fn enter(&self, from: Option<IpAddr>, most: usize) -> Option<Place> {
        let Some(from) = from.map(block) else { return Some(Place::default()) };
        let mut all = self.all();
        let All { addresses, last } = &mut *all;
        let here = addresses.entry(from).or_default();
        let is_full = here.connections.len() >= most;
        let closed = is_full.then(|| here.take_oldest_idle()).flatten();
        if is_full && closed.is_none() {
            // Once for each crowd, however many knock.
            if !std::mem::replace(&mut here.is_told, true) {
                let why = "an address has as many connections as it may have (gateway.limits.connections)";
                tracing::warn!(%from, most, "{why}");
            }
            return None;
        }
        *last += 1;
        let seen = Arc::<Seen>::default();
        here.connections.insert(*last, Arc::clone(&seen));
        let place = Place { seen, counted: Some((self.clone(), from, *last)) };
        drop(all);
        closed.iter().for_each(|closed| closed.close());
        Some(place)
    }

    /// Whether any connection may be closed to make room.
    pub(super) fn has_idle(&self) -> bool {
        self.all().addresses.values().any(|here| here.oldest_idle().is_some())
    }

    /// Closes the oldest connection of all on which nobody was admitted. False where there is none.
    pub(super) fn close_oldest_idle(&self) -> bool {
        let mut all = self.all();
        let found = all.addresses.values_mut().filter(|here| here.oldest_idle().is_some());
        let closed = found.min_by_key(|here| here.oldest_idle()).and_then(Here::take_oldest_idle);
        drop(all);
        closed.inspect(|closed| closed.close()).is_some()
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Here {
    fn oldest_idle(&self) -> Option<u64> {
        let mut all = self.connections.iter();
        all.find(|(_, seen)| seen.idle_task().is_some()).map(|(number, _)| *number)
    }

    /// It is closed by the caller, without a lock: what it is counted with takes the lock.
    fn take_oldest_idle(&mut self) -> Option<Arc<Seen>> {
        self.oldest_idle().and_then(|number| self.connections.remove(&number))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((crowd, from, number)) = &self.counted else { return };
        let mut all = crowd.all();
        let Some(here) = all.addresses.get_mut(from) else { return };
        here.connections.remove(number);
        if here.connections.is_empty() {
            all.addresses.remove(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

    fn admitted(crowd: &Crowd, from: Option<IpAddr>, most: usize) -> Option<Place> {
        crowd.enter(from, most).inspect(|place| place.seen().admit())
    }

    #[test]
    fn each_address_has_so_many_at_a_time_and_what_ends_makes_room() {
        let crowd = Crowd::default();
        let [one, same, other] =
            ["2001:db8::1", "2001:db8::2", "1.2.3.4"].map(|address| address.parse().ok());
        let held: Vec<Place> = [one, same].map(|from| admitted(&crowd, from, 2).unwrap()).into();
        assert!(crowd.enter(one, 2).is_none() && crowd.enter(same, 2).is_none());
        assert!(crowd.all().addresses[&block(one.unwrap())].is_told);
        assert!(crowd.enter(None, 0).is_some(), "the owner's socket has no address");
        let elsewhere = crowd.enter(other, 2).unwrap();
        drop(held.into_iter().next());
        assert!(crowd.enter(one, 2).is_some());
        drop(elsewhere);
        assert!(crowd.all().addresses.is_empty(), "nobody is remembered for nothing");
    }

    #[tokio::test]
    async fn the_oldest_connection_without_an_admitted_request_makes_room() {
        let crowd = Crowd::default();
        let [one, other] = ["1.1.1.1", "2.2.2.2"].map(|address| address.parse().ok());
        let mut tasks = JoinSet::new();
        let mut serve = |place: Place, number: u32| {
            let seen = place.seen();
            seen.is_served_by(tasks.spawn(async move {
                let _place = place;
                std::future::pending::<()>().await;
                number
            }));
            seen
        };
        let first = serve(crowd.enter(one, 2).unwrap(), 1);
        let second = serve(crowd.enter(one, 2).unwrap(), 2);
        first.admit();
        let third = serve(crowd.enter(one, 2).expect("the second makes room"), 3);
        assert!(second.task.get().is_some() && crowd.has_idle());
        third.admit();
        assert!(crowd.enter(one, 2).is_none() && !crowd.has_idle() && !crowd.close_oldest_idle());
        let _fourth = serve(crowd.enter(other, 2).unwrap(), 4);
        assert!(crowd.has_idle() && crowd.close_oldest_idle());
        for _ in 0..2 {
            assert!(tasks.join_next().await.unwrap().unwrap_err().is_cancelled());
        }
        assert!(tasks.try_join_next().is_none(), "the admitted ones live on");
    }
}
