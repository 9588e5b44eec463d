//! Connections by where they come from: nobody takes all that there are.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::identity::block;

/// How many connections each address has. Clones count together.
#[derive(Clone, Debug, Default)]
pub(super) struct Crowd(Arc<Mutex<HashMap<IpAddr, Here>>>);

#[derive(Debug, Default)]
struct Here {
    connections: usize,
    /// Whether it has been said that there are no more for it.
    is_told: bool,
}

/// One connection, which is counted for as long as this lives, if it comes from an address.
#[derive(Debug, Default)]
pub(super) struct Place(Option<(Crowd, IpAddr)>);

impl Crowd {
    /// One more from an address; none where that has as many as it may have.
    pub(super) fn enter(&self, from: Option<IpAddr>, most: usize) -> Option<Place> {
        let Some(from) = from.map(block) else { return Some(Place::default()) };
        let mut all = self.all();
        let here = all.entry(from).or_default();
        if here.connections < most {
            here.connections += 1;
            return Some(Place(Some((self.clone(), from))));
        }
        // Once for each crowd, however many knock.
        if !std::mem::replace(&mut here.is_told, true) {
            let why =
                "an address has as many connections as it may have (gateway.limits.connections)";
            tracing::warn!(%from, most, "{why}");
        }
        None
    }

    fn all(&self) -> MutexGuard<'_, HashMap<IpAddr, Here>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((crowd, from)) = &self.0 else { return };
        let mut all = crowd.all();
        let Some(here) = all.get_mut(from) else { return };
        here.connections = here.connections.saturating_sub(1);
        if here.connections == 0 {
            all.remove(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_so_many_at_a_time_and_what_ends_makes_room() {
        let crowd = Crowd::default();
        let [one, same, other] =
            ["2001:db8::1", "2001:db8::2", "1.2.3.4"].map(|address| address.parse().ok());
        let held: Vec<Place> = [one, same].map(|from| crowd.enter(from, 2).unwrap()).into();
        assert!(crowd.enter(one, 2).is_none() && crowd.enter(same, 2).is_none());
        assert!(crowd.all()[&block(one.unwrap())].is_told);
        assert!(crowd.enter(None, 0).is_some(), "the owner's socket has no address");
        let elsewhere = crowd.enter(other, 2).unwrap();
        drop(held.into_iter().next());
        assert!(crowd.enter(one, 2).is_some());
        drop(elsewhere);
        assert!(crowd.all().is_empty(), "nobody is remembered for nothing");
    }
}
