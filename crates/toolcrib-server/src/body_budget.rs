//! Bounds the memory that request bodies take over all connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a body that are not counted, so that small requests are always answered.
pub(crate) const EXEMPT_BYTES: usize = 16 << 10;

/// Default limit for all bodies when nothing is configured and the machine has enough memory.
const DEFAULT_LIMIT: u64 = 512 << 20;

/// All principals without grants share one such fraction of the budget.
const UNGRANTED_DIVISOR: usize = 16;

/// Counts the bytes of all request bodies. Clones share the counters.
#[derive(Clone, Debug, Default)]
pub struct BodyBudget(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    all: AtomicUsize,
    ungranted: AtomicUsize,
}

/// The part of the budget that one body may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyShare {
    all: usize,
    /// Limit for principals without grants, if the sender is one.
    ungranted: Option<usize>,
}

/// The counted bytes of one body. Dropping the reservation releases them.
#[derive(Debug, Default)]
pub struct Reservation {
    counters: Option<Arc<Counters>>,
    share: BodyShare,
    counted: usize,
}

/// Error: other bodies use up the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetExceeded;

impl BodyBudget {
    /// Opens a reservation of zero bytes.
    pub fn reserve(&self, share: BodyShare) -> Reservation {
        Reservation { counters: Some(Arc::clone(&self.0)), share, counted: 0 }
    }

    /// The number of bytes counted now.
    pub fn used(&self) -> usize {
        self.0.all.load(Ordering::Relaxed)
    }
}

impl BodyShare {
    /// A share of a budget of `all` bytes.
    pub fn new(all: usize, has_grants: bool) -> Self {
        BodyShare { all, ungranted: (!has_grants).then_some(all / UNGRANTED_DIVISOR) }
    }
}

impl Default for BodyShare {
    fn default() -> Self {
        BodyShare::new(usize::MAX, true)
    }
}

impl Reservation {
    /// Counts a body that now has this size.
    pub fn resize(&mut self, size: usize) -> Result<(), BudgetExceeded> {
        let size = size.saturating_sub(EXEMPT_BYTES);
        let Some(counters) = self.counters.as_deref() else { return Ok(()) };
        if size <= self.counted {
            release(counters, self.share, self.counted - size);
            self.counted = size;
            return Ok(());
        }
        let more = size - self.counted;
        add(&counters.all, more, self.share.all)?;
        if let Some(max) = self.share.ungranted
            && let Err(exceeded) = add(&counters.ungranted, more, max)
        {
            counters.all.fetch_sub(more, Ordering::Relaxed);
            return Err(exceeded);
        }
        self.counted = size;
        Ok(())
    }

    /// Moves up to `size` of the counted bytes into a new reservation.
    #[must_use]
    pub fn split(&mut self, size: usize) -> Reservation {
        let counted = self.counted.min(size);
        self.counted -= counted;
        Reservation { counters: self.counters.clone(), share: self.share, counted }
    }

    /// Guard to store together with the body; `None` if no bytes are counted.
    #[must_use]
    pub fn into_held(self) -> toolcrib_wire::TextGuard {
        (self.counted > 0).then(|| Box::new(self) as _)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(counters) = self.counters.as_deref() {
            release(counters, self.share, self.counted);
        }
    }
}

fn add(counter: &AtomicUsize, more: usize, max: usize) -> Result<(), BudgetExceeded> {
    let before = counter.fetch_add(more, Ordering::Relaxed);
    if before.saturating_add(more) <= max {
        return Ok(());
    }
    counter.fetch_sub(more, Ordering::Relaxed);
    Err(BudgetExceeded)
}

fn release(counters: &Counters, share: BodyShare, bytes: usize) {
    if bytes == 0 {
        return;
    }
    counters.all.fetch_sub(bytes, Ordering::Relaxed);
    if share.ungranted.is_some() {
        counters.ungranted.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The limit in bytes. A configured 0 means unlimited. The default is a quarter of the memory, at most
/// [`DEFAULT_LIMIT`].
pub(crate) fn budget_bytes(configured: Option<u64>, memory: Option<u64>) -> usize {
    let bytes = match configured {
        Some(0) => u64::MAX,
        Some(bytes) => bytes,
        None => memory.map_or(DEFAULT_LIMIT, |memory| memory / 4).min(DEFAULT_LIMIT),
    };
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_budget_is_a_quarter_of_memory() {
        for (configured, memory, bound) in [
            (None, None, 512 << 20),
            (None, Some(64 << 30), 512 << 20),
            (None, Some(1 << 30), 256 << 20),
            (Some(5), Some(1 << 30), 5),
            (Some(0), Some(1 << 30), usize::MAX),
        ] {
            assert_eq!(budget_bytes(configured, memory), bound, "{configured:?} {memory:?}");
        }
    }

    #[test]
    fn dropped_bodies_free_the_shared_budget() {
        let budget = BodyBudget::default();
        let share = BodyShare::new(1000, true);
        let (mut one, mut other) = (budget.reserve(share), budget.reserve(share));
        assert_eq!(one.resize(EXEMPT_BYTES + 600), Ok(()));
        assert_eq!(other.resize(EXEMPT_BYTES + 400), Ok(()));
        assert_eq!(other.resize(EXEMPT_BYTES + 401), Err(BudgetExceeded));
        assert_eq!(budget.used(), 1000);
        let mut small = budget.reserve(share);
        assert_eq!(small.resize(EXEMPT_BYTES), Ok(()), "small bodies are never refused");
        assert_eq!(one.resize(EXEMPT_BYTES + 100), Ok(()));
        assert_eq!(other.resize(EXEMPT_BYTES + 900), Ok(()));
        drop((one, small));
        assert_eq!(budget.used(), 900);
        drop(other);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn principals_without_grants_have_a_smaller_budget() {
        let budget = BodyBudget::default();
        let mut stranger = budget.reserve(BodyShare::new(1600, false));
        assert_eq!(stranger.resize(EXEMPT_BYTES + 101), Err(BudgetExceeded));
        assert_eq!(budget.used(), 0, "a refused body is not counted");
        assert_eq!(stranger.resize(EXEMPT_BYTES + 100), Ok(()));
        let mut second = budget.reserve(BodyShare::new(1600, false));
        assert_eq!(second.resize(EXEMPT_BYTES + 1), Err(BudgetExceeded));
        let mut known = budget.reserve(BodyShare::new(1600, true));
        assert_eq!(known.resize(EXEMPT_BYTES + 1500), Ok(()));
        drop(stranger);
        assert_eq!(known.resize(EXEMPT_BYTES + 1600), Ok(()));
        assert_eq!(second.resize(EXEMPT_BYTES + 1), Err(BudgetExceeded));
    }

    #[test]
    fn split_reservation_outlives_its_origin() {
        let budget = BodyBudget::default();
        let mut stream = budget.reserve(BodyShare::new(1000, false));
        assert_eq!(stream.resize(EXEMPT_BYTES + 60), Ok(()));
        let message = stream.split(50);
        assert_eq!(stream.resize(0), Ok(()));
        assert_eq!(budget.used(), 50);
        drop(message.into_held());
        assert_eq!(budget.used(), 0);
        assert!(stream.split(10).into_held().is_none());
        assert_eq!(Reservation::default().resize(usize::MAX), Ok(()), "without a budget");
    }
}
