//! Stores calls and states that wait for their client to return. Each has an unguessable key, is removed on use, and
//! expires.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use toolcrib::internal::UnattendedCall;
use toolcrib_wire::{RawJson, RpcError};

use super::call::RunningCall;
use crate::identity::random_id;

/// Maximum number of entries per client; the oldest are dropped.
const MAX_PARKED: usize = 64;

/// Entries expire after this time.
const PARK_TIMEOUT: Duration = Duration::from_secs(900);

/// An entry to resume.
#[derive(Debug)]
pub(super) enum ParkedEntry {
    /// An unattended call with a pending request of a legacy server.
    Call(RunningCall, UnattendedCall),
    /// Request state of a modern server, to be sent back to it.
    State(RawJson),
}

/// Parked entries of one client, oldest first.
#[derive(Debug, Default)]
pub(super) struct ParkedCalls(Arc<ParkedSlots>);

/// All clients with parked entries.
#[derive(Debug, Default)]
pub(super) struct ParkedCallsRegistry(Mutex<Vec<Weak<ParkedSlots>>>);

type ParkedSlots = Mutex<Vec<ParkedSlot>>;

#[derive(Debug)]
struct ParkedSlot {
    state: String,
    entry: ParkedEntry,
    /// Expires the entry in time, because a parked call holds a session of its server.
    _timer: JoinSet<()>,
}

impl ParkedCalls {
    /// Parks an entry and returns its state.
    pub(super) fn park(&self, entry: ParkedEntry) -> Result<String, RpcError> {
        let state = random_id()
            .map_err(|_| RpcError::internal("the system random number generator failed"))?;
        let mut timer = JoinSet::new();
        timer.spawn(expire(Arc::downgrade(&self.0), state.clone()));
        let mut slots = lock(&self.0);
        let excess = (slots.len() + 1).saturating_sub(MAX_PARKED);
        let given_up: Vec<ParkedSlot> = slots.drain(..excess).collect();
        slots.push(ParkedSlot { state: state.clone(), entry, _timer: timer });
        drop(slots);
        // Dropped without the lock, because dropping a call cancels it.
        drop(given_up);
        Ok(state)
    }

    /// Removes and returns the entry with this state.
    pub(super) fn remove(&self, state: &str) -> Option<ParkedEntry> {
        remove_slot(&self.0, state).map(|slot| slot.entry)
    }

    /// Cancels all parked calls of this client.
    pub(super) fn cancel_calls(&self) {
        let is_call = |slot: &mut ParkedSlot| matches!(slot.entry, ParkedEntry::Call(..));
        let calls: Vec<ParkedSlot> = lock(&self.0).extract_if(.., is_call).collect();
        drop(calls);
    }

    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *lock(&self.0));
        drop(all);
    }
}

impl ParkedCallsRegistry {
    /// Registers a client, if it is new.
    pub(super) fn register(&self, parked_calls: &ParkedCalls) {
        let mut all = self.lock_all();
        all.retain(|it| it.strong_count() > 0);
        let new = Arc::downgrade(&parked_calls.0);
        if !all.iter().any(|it| it.ptr_eq(&new)) {
            all.push(new);
        }
    }

    /// Cancels all parked calls of all clients.
    pub(super) fn cancel_calls(&self) {
        let all: Vec<_> = self.lock_all().iter().filter_map(Weak::upgrade).collect();
        all.into_iter().for_each(|slots| ParkedCalls(slots).cancel_calls());
    }

    fn lock_all(&self) -> MutexGuard<'_, Vec<Weak<ParkedSlots>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn expire(slots: Weak<ParkedSlots>, state: String) {
    sleep(PARK_TIMEOUT).await;
    if let Some(slots) = slots.upgrade() {
        drop(remove_slot(&slots, &state));
    }
}

fn remove_slot(slots: &ParkedSlots, state: &str) -> Option<ParkedSlot> {
    let mut slots = lock(slots);
    let slot = slots.iter().position(|slot| slot.state == state)?;
    Some(slots.remove(slot))
}

fn lock(slots: &ParkedSlots) -> MutexGuard<'_, Vec<ParkedSlot>> {
    slots.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(number: usize) -> ParkedEntry {
        ParkedEntry::State(RawJson::string(&number.to_string()))
    }

    fn removed(parked_calls: &ParkedCalls, name: &str) -> Option<String> {
        match parked_calls.remove(name)? {
            ParkedEntry::State(raw) => Some(raw.text().to_owned()),
            ParkedEntry::Call(..) => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn parked_entry_is_removed_once_and_expires() {
        let parked_calls = ParkedCalls::default();
        let names: Vec<String> =
            (0..=MAX_PARKED).map(|it| parked_calls.park(state(it)).unwrap()).collect();
        assert_eq!(removed(&parked_calls, &names[0]), None, "the oldest entry is dropped");
        assert_eq!(removed(&parked_calls, &names[1]).as_deref(), Some("\"1\""));
        assert_eq!(removed(&parked_calls, &names[1]), None, "once");
        assert_eq!(removed(&parked_calls, "guessed"), None);
        sleep(PARK_TIMEOUT / 2).await;
        let newest = parked_calls.park(state(99)).unwrap();
        sleep(PARK_TIMEOUT / 2 + Duration::from_secs(1)).await;
        // The timer alone has removed the older entries.
        assert_eq!(lock(&parked_calls.0).len(), 1, "too late");
        assert!(removed(&parked_calls, &newest).is_some());
    }
}
