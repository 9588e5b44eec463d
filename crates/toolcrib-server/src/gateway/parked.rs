//! What a client is to come back for: by a state that nobody can guess, each once, so many and so long.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use toolcrib::host::Away;
use toolcrib_wire::{Raw, RpcError};

use super::call::Underway;
use crate::identity::random_name;

/// What waits for one client; beyond, the oldest are given up.
const MOST: usize = 64;

/// Who has not come back by then does not.
const LONGEST: Duration = Duration::from_secs(900);

/// What is gone on with.
#[derive(Debug)]
pub(super) enum Parked {
    /// A call that a server of the legacy era has a question in; nobody attends to it meanwhile.
    Call(Underway, Away),
    /// What a server of the modern era wants to be told again.
    State(Raw),
}

/// All that one client may come back for, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Parking(Arc<Places>);

/// Those of all clients that parked anything.
#[derive(Debug, Default)]
pub(super) struct Parkings(Mutex<Vec<Weak<Places>>>);

type Places = Mutex<Vec<Place>>;

#[derive(Debug)]
struct Place {
    state: String,
    what: Parked,
    /// Gives it up in time, also where nobody ever asks again: a call holds a session of its server.
    _clock: JoinSet<()>,
}

impl Parking {
    /// Keeps something; the state that it can be had with.
    pub(super) fn park(&self, what: Parked) -> Result<String, RpcError> {
        let state = random_name().map_err(|_| RpcError::internal("no randomness to be had"))?;
        let mut clock = JoinSet::new();
        clock.spawn(give_up(Arc::downgrade(&self.0), state.clone()));
        let mut places = lock(&self.0);
        let over = (places.len() + 1).saturating_sub(MOST);
        let given_up: Vec<Place> = places.drain(..over).collect();
        places.push(Place { state: state.clone(), what, _clock: clock });
        drop(places);
        // Not under the lock: to give up a call is to cancel it.
        drop(given_up);
        Ok(state)
    }

    /// What was parked with this state; once.
    pub(super) fn take(&self, state: &str) -> Option<Parked> {
        take(&self.0, state).map(|place| place.what)
    }

    /// Gives up all calls.
    pub(super) fn end_calls(&self) {
        let is_call = |place: &mut Place| matches!(place.what, Parked::Call(..));
        let calls: Vec<Place> = lock(&self.0).extract_if(.., is_call).collect();
        drop(calls);
    }

    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *lock(&self.0));
        drop(all);
    }
}

impl Parkings {
    /// Takes one in, if it is new.
    pub(super) fn add(&self, parking: &Parking) {
        let mut all = self.all();
        all.retain(|it| it.strong_count() > 0);
        let new = Arc::downgrade(&parking.0);
        if !all.iter().any(|it| it.ptr_eq(&new)) {
            all.push(new);
        }
    }

    /// Gives up the calls of all.
    pub(super) fn end_calls(&self) {
        let all: Vec<_> = self.all().iter().filter_map(Weak::upgrade).collect();
        all.into_iter().for_each(|places| Parking(places).end_calls());
    }

    fn all(&self) -> MutexGuard<'_, Vec<Weak<Places>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn give_up(places: Weak<Places>, state: String) {
    sleep(LONGEST).await;
    if let Some(places) = places.upgrade() {
        drop(take(&places, &state));
    }
}

fn take(places: &Places, state: &str) -> Option<Place> {
    let mut places = lock(places);
    let place = places.iter().position(|place| place.state == state)?;
    Some(places.remove(place))
}

fn lock(places: &Places) -> MutexGuard<'_, Vec<Place>> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(number: usize) -> Parked {
        Parked::State(Raw::string(&number.to_string()))
    }

    fn taken(parking: &Parking, name: &str) -> Option<String> {
        match parking.take(name)? {
            Parked::State(raw) => Some(raw.text().to_owned()),
            Parked::Call(..) => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_parked_is_had_once_and_not_for_ever() {
        let parking = Parking::default();
        let names: Vec<String> = (0..=MOST).map(|it| parking.park(state(it)).unwrap()).collect();
        assert_eq!(taken(&parking, &names[0]), None, "the oldest is given up");
        assert_eq!(taken(&parking, &names[1]).as_deref(), Some("\"1\""));
        assert_eq!(taken(&parking, &names[1]), None, "once");
        assert_eq!(taken(&parking, "guessed"), None);
        sleep(LONGEST / 2).await;
        let newest = parking.park(state(99)).unwrap();
        sleep(LONGEST / 2 + Duration::from_secs(1)).await;
        // Nobody came for them, and nobody parked anything since.
        assert_eq!(lock(&parking.0).len(), 1, "too late");
        assert!(taken(&parking, &newest).is_some());
    }
}
