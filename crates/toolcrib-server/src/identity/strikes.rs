//! Wrong tokens, for each address that they come from: so many in a minute, and then none is looked at.

use std::collections::{HashSet, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::rate::Rates;
use super::secret::Hash;

/// Tokens that were right and are remembered; then the oldest is forgotten.
const KNOWN: usize = 4096;

const MINUTE: Duration = Duration::from_secs(60);

/// Whoever guesses is kept from it; whoever shares an address with him and came in before is not.
#[derive(Debug, Default)]
pub(super) struct Strikes {
    wrong: Rates<IpAddr>,
    right: Mutex<Right>,
}

#[derive(Debug, Default)]
struct Right {
    tokens: HashSet<Hash>,
    oldest: VecDeque<Hash>,
}

impl Strikes {
    /// Whether a token from there is looked at.
    pub(super) fn admits(&self, peer: IpAddr, token: &Hash, most: u32) -> bool {
        self.wrong.has_room(&block(peer), most, MINUTE) || self.right().tokens.contains(token)
    }

    /// How it turned out.
    pub(super) fn note(&self, peer: IpAddr, token: &Hash, most: u32, is_right: bool) {
        match is_right {
            true => self.right().keep(token),
            // Whether there is room for the next one is asked then.
            false => drop(self.wrong.count(&block(peer), most, MINUTE)),
        }
    }

    fn right(&self) -> MutexGuard<'_, Right> {
        self.right.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Right {
    fn keep(&mut self, token: &Hash) {
        if !self.tokens.insert(*token) {
            return;
        }
        self.oldest.push_back(*token);
        if self.oldest.len() > KNOWN
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.tokens.remove(&oldest);
        }
    }
}

/// Whoever has one IPv6 address has all of its block.
pub(crate) fn block(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_guesses_is_kept_from_it_and_who_came_in_before_is_not() {
        let strikes = Strikes::default();
        let [here, same, other, old] =
            ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "::ffff:1.2.3.4"]
                .map(|address| address.parse().unwrap());
        let (right, guess) = (Hash::of("right"), Hash::of("guess"));
        strikes.note(here, &right, 3, true);
        for _ in 0..3 {
            assert!(strikes.admits(here, &guess, 3));
            strikes.note(here, &guess, 3, false);
        }
        assert!(!strikes.admits(here, &guess, 3) && !strikes.admits(same, &guess, 3));
        assert!(strikes.admits(here, &right, 3));
        assert!(strikes.admits(other, &guess, 3) && strikes.admits(old, &guess, 3));
        assert_eq!(block(old), "1.2.3.4".parse::<IpAddr>().unwrap());
        tokio::time::advance(Duration::from_secs(21)).await;
        assert!(strikes.admits(here, &guess, 3), "one comes back in a third of a minute");
    }

    #[test]
    fn only_so_many_right_ones_are_remembered() {
        let strikes = Strikes::default();
        let peer = "1.2.3.4".parse().unwrap();
        for number in 0..=KNOWN {
            strikes.note(peer, &Hash::of(&number.to_string()), 1, true);
        }
        let right = strikes.right();
        assert_eq!((right.tokens.len(), right.oldest.len()), (KNOWN, KNOWN));
        assert!(!right.tokens.contains(&Hash::of("0")));
    }
}
