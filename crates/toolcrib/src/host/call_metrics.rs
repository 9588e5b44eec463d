//! Metrics of calls: counts, outcomes and durations.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Weight of the newest call in the moving average.
const AVERAGE_WEIGHT: f64 = 0.1;

/// Upper bounds of the latency histogram, in seconds. One more bucket counts everything above the
/// last bound.
pub const LATENCY_BOUNDS: [f64; 12] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// The calls of one server, or of all native tools.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallCounts {
    /// Number of started calls.
    pub total: u64,
    /// Number of calls that succeeded.
    pub succeeded: u64,
    /// Number of calls that failed or were cancelled.
    pub failed: u64,
    /// Number of running calls.
    pub in_flight: u64,
    /// Moving average of the durations, in seconds; `None` before the first call ends.
    pub average: Option<f64>,
    /// Number of calls per latency bucket; a call counts in one bucket only.
    pub histogram: [u64; LATENCY_BOUNDS.len() + 1],
    /// Sum of all durations, in seconds.
    pub sum: f64,
}

/// The metrics of one server, shared by all calls.
#[derive(Debug, Default)]
pub(super) struct CallMetrics {
    counts: Mutex<CallCounts>,
    last_failure: Mutex<Option<CallFailure>>,
}

/// The newest call that failed by the server's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallFailure {
    pub(super) text: String,
    pub(super) at: SystemTime,
}

/// A running call. Dropping it without [`RunningCall::finish`] counts the call as failed.
#[derive(Debug)]
pub(super) struct RunningCall {
    metrics: Arc<CallMetrics>,
    counted: bool,
}

impl CallMetrics {
    pub(super) fn start_call(self: &Arc<Self>) -> RunningCall {
        let mut counts = self.lock_counts();
        counts.total += 1;
        counts.in_flight += 1;
        drop(counts);
        RunningCall { metrics: Arc::clone(self), counted: false }
    }

    pub(super) fn read(&self) -> CallCounts {
        self.lock_counts().clone()
    }

    pub(super) fn last_failure(&self) -> Option<CallFailure> {
        self.lock_failure().clone()
    }

    fn lock_counts(&self) -> MutexGuard<'_, CallCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_failure(&self) -> MutexGuard<'_, Option<CallFailure>> {
        self.last_failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningCall {
    /// Records why the call failed, if the failure is the server's fault.
    pub(super) fn set_failure(&self, text: String, at: SystemTime) {
        *self.metrics.lock_failure() = Some(CallFailure { text, at });
    }

    pub(super) fn finish(mut self, succeeded: bool, took: Duration) {
        self.counted = true;
        self.metrics.lock_counts().record_end(succeeded, Some(took));
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        if !self.counted {
            self.metrics.lock_counts().record_end(false, None);
        }
    }
}

impl CallCounts {
    fn record_end(&mut self, succeeded: bool, took: Option<Duration>) {
        self.in_flight = self.in_flight.saturating_sub(1);
        match succeeded {
            true => self.succeeded += 1,
            false => self.failed += 1,
        }
        let Some(took) = took.map(|took| took.as_secs_f64()) else { return };
        self.average = Some(match self.average {
            Some(average) => AVERAGE_WEIGHT * took + (1.0 - AVERAGE_WEIGHT) * average,
            None => took,
        });
        self.sum += took;
        let index =
            LATENCY_BOUNDS.iter().position(|bound| took <= *bound).unwrap_or(LATENCY_BOUNDS.len());
        if let Some(bucket) = self.histogram.get_mut(index) {
            *bucket += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn min_67_average_moves_by_a_tenth() {
        let metrics = Arc::new(CallMetrics::default());
        for (seconds, good) in [(1.0, true), (2.0, true), (0.5, false)] {
            metrics.start_call().finish(good, Duration::from_secs_f64(seconds));
        }
        let counts = metrics.read();
        assert_eq!((counts.total, counts.succeeded, counts.failed), (3, 2, 1));
        let expected = 0.1 * 0.5 + 0.9 * (0.1 * 2.0 + 0.9 * 1.0);
        assert!((counts.average.unwrap() - expected).abs() < 1e-12);
        assert_eq!(counts.histogram[8..], [1, 1, 1, 0, 0]);
        assert_eq!(counts.in_flight, 0);
    }

    #[test]
    fn dropped_call_counts_as_failed() {
        let metrics = Arc::new(CallMetrics::default());
        let running = metrics.start_call();
        assert_eq!(metrics.read().in_flight, 1);
        drop(running);
        let counts = metrics.read();
        assert_eq!((counts.in_flight, counts.failed, counts.average), (0, 1, None));
    }
}
