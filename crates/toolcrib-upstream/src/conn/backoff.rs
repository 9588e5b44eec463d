//! Exponential backoff with jitter.

use std::time::Duration;

use toolcrib_config::model::policy::{ReconnectPolicy, RetryPolicy};

/// Exponential delays between retries, capped at `max_delay`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// First delay.
    pub initial: Duration,
    /// Longest delay.
    pub max_delay: Duration,
    /// Growth from one delay to the next.
    pub factor: f64,
    /// Share of each delay that is random, from 0 to 1.
    pub jitter: f64,
}

impl Backoff {
    /// Delay before the `nth` retry, counted from 1. `chance` is a random number from 0 to 1. It only shortens the
    /// delay, so that `max_delay` always holds.
    pub fn delay(&self, nth: u32, chance: f64) -> Duration {
        let longest = self.max_delay.as_secs_f64();
        let growth = non_negative_or(self.factor, 1.0).powf(f64::from(nth.saturating_sub(1)));
        let full = (self.initial.as_secs_f64() * growth).min(longest);
        let remaining_share = 1.0
            - non_negative_or(self.jitter, 0.0).min(1.0)
                * (1.0 - non_negative_or(chance, 1.0).min(1.0));
        Duration::try_from_secs_f64(full * remaining_share)
            .unwrap_or(self.max_delay)
            .min(self.max_delay)
    }
}

impl From<&RetryPolicy> for Backoff {
    fn from(retry: &RetryPolicy) -> Self {
        Backoff {
            initial: retry.initial.0,
            max_delay: retry.max_delay.0,
            factor: retry.factor,
            jitter: retry.jitter,
        }
    }
}

impl From<&ReconnectPolicy> for Backoff {
    fn from(reconnect: &ReconnectPolicy) -> Self {
        Backoff {
            initial: reconnect.initial.0,
            max_delay: reconnect.max_delay.0,
            factor: reconnect.factor,
            jitter: reconnect.jitter,
        }
    }
}

/// A negative number or NaN in the settings counts as absent.
fn non_negative_or(number: f64, default: f64) -> f64 {
    if number >= 0.0 { number } else { default }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn backoff(initial: u64, max_delay: u64, factor: f64, jitter: f64) -> Backoff {
        Backoff {
            initial: Duration::from_millis(initial),
            max_delay: Duration::from_millis(max_delay),
            factor,
            jitter,
        }
    }

    fn millis(backoff: &Backoff, chance: f64) -> Vec<u128> {
        (1..=7).map(|nth| backoff.delay(nth, chance).as_millis()).collect()
    }

    #[test]
    fn delays_grow_up_to_the_maximum() {
        for (waits, expected) in [
            // MIN-61: 1 s, doubled, at most 30 s.
            (backoff(1000, 30_000, 2.0, 0.0), [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]),
            (backoff(2000, 2000, 1.0, 0.0), [2000; 7]), // DKR-28
            (
                backoff(500, 300_000, 2.0, 0.0), // DKR-29
                [500, 1000, 2000, 4000, 8000, 16_000, 32_000],
            ),
            (backoff(5000, 1000, 2.0, 0.0), [1000; 7]),
            (backoff(0, 1000, 2.0, 0.0), [0; 7]),
        ] {
            assert_eq!(millis(&waits, 0.5), expected, "{waits:?}");
        }
    }

    #[test]
    fn jitter_shortens_the_delay() {
        let waits = backoff(1000, 30_000, 1.0, 0.25);
        for (chance, expected) in [(0.0, 750), (0.5, 875), (1.0, 1000), (7.0, 1000)] {
            assert_eq!(waits.delay(1, chance).as_millis(), expected, "{chance}");
        }
    }

    #[test]
    fn invalid_numbers_do_not_change_the_delay() {
        for odd in [f64::NAN, f64::NEG_INFINITY, -3.0] {
            let waits = backoff(1000, 30_000, odd, odd);
            assert_eq!(millis(&waits, odd), [1000; 7], "{odd}");
        }
        let waits = backoff(1000, 30_000, f64::INFINITY, f64::INFINITY);
        assert_eq!(waits.delay(u32::MAX, 1.0).as_millis(), 30_000);
    }

    proptest! {
        #[test]
        fn delay_never_exceeds_the_maximum(
            initial: Duration, max_delay: Duration, factor: f64, jitter: f64, nth: u32, chance: f64,
        ) {
            let waits = Backoff { initial, max_delay, factor, jitter };
            prop_assert!(waits.delay(nth, chance) <= max_delay);
        }
    }
}
