//! What is counted of calls: how many, how they ended, and how long they took.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// The share of the newest call in the moving average.
const NEWEST: f64 = 0.1;

/// The upper bounds of the histogram, in seconds; what is above them all is counted with the rest.
pub const BOUNDS: [f64; 12] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// The calls of one server, or of all native tools.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    pub total: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub in_flight: u64,
    /// A moving average over the calls that ended, in seconds; none before the first.
    pub average: Option<f64>,
    /// How many took at most as long as each bound, not counting those of the bounds before it.
    pub histogram: [u64; BOUNDS.len() + 1],
    /// All their time together, in seconds.
    pub sum: f64,
}

/// The counts of one server; shared by whoever calls it.
#[derive(Debug, Default)]
pub(super) struct Meter {
    counts: Mutex<Counts>,
    last_failure: Mutex<Option<CallFailure>>,
}

/// The newest call that failed by the server's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallFailure {
    pub(super) text: String,
    pub(super) at: SystemTime,
}

/// A call under way. Dropped, it counts as failed.
#[derive(Debug)]
pub(super) struct Running {
    meter: Arc<Meter>,
    counted: bool,
}

impl Meter {
    pub(super) fn begin(self: &Arc<Self>) -> Running {
        let mut counts = self.counts();
        counts.total += 1;
        counts.in_flight += 1;
        drop(counts);
        Running { meter: Arc::clone(self), counted: false }
    }

    pub(super) fn read(&self) -> Counts {
        self.counts().clone()
    }

    pub(super) fn last_failure(&self) -> Option<CallFailure> {
        self.failure().clone()
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self) -> MutexGuard<'_, Option<CallFailure>> {
        self.last_failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Why the call failed, where that is the server's fault.
    pub(super) fn failed(&self, text: String, at: SystemTime) {
        *self.meter.failure() = Some(CallFailure { text, at });
    }

    pub(super) fn end(mut self, succeeded: bool, took: Duration) {
        self.counted = true;
        self.meter.counts().ended(succeeded, Some(took));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.counted {
            self.meter.counts().ended(false, None);
        }
    }
}

impl Counts {
    fn ended(&mut self, succeeded: bool, took: Option<Duration>) {
        self.in_flight = self.in_flight.saturating_sub(1);
        match succeeded {
            true => self.succeeded += 1,
            false => self.failed += 1,
        }
        let Some(took) = took.map(|took| took.as_secs_f64()) else { return };
        self.average = Some(match self.average {
            Some(average) => NEWEST * took + (1.0 - NEWEST) * average,
            None => took,
        });
        self.sum += took;
        let place = BOUNDS.iter().position(|bound| took <= *bound).unwrap_or(BOUNDS.len());
        if let Some(bucket) = self.histogram.get_mut(place) {
            *bucket += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn min_67_the_average_moves_by_a_tenth() {
        let meter = Arc::new(Meter::default());
        for (seconds, good) in [(1.0, true), (2.0, true), (0.5, false)] {
            meter.begin().end(good, Duration::from_secs_f64(seconds));
        }
        let counts = meter.read();
        assert_eq!((counts.total, counts.succeeded, counts.failed), (3, 2, 1));
        let expected = 0.1 * 0.5 + 0.9 * (0.1 * 2.0 + 0.9 * 1.0);
        assert!((counts.average.unwrap() - expected).abs() < 1e-12);
        assert_eq!(counts.histogram[8..], [1, 1, 1, 0, 0]);
        assert_eq!(counts.in_flight, 0);
    }

    #[test]
    fn a_call_that_nobody_waited_for_has_failed() {
        let meter = Arc::new(Meter::default());
        let running = meter.begin();
        assert_eq!(meter.read().in_flight, 1);
        drop(running);
        let counts = meter.read();
        assert_eq!((counts.in_flight, counts.failed, counts.average), (0, 1, None));
    }
}
