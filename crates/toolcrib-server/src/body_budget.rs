//! Bounds the memory that request bodies take over all connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a body that are not counted: small requests are answered whatever others send.
pub(crate) const EXEMPT: usize = 16 << 10;

/// The most bytes of all bodies where nothing is configured and the machine has enough memory.
const MOST: u64 = 512 << 20;

/// Principals without grants share this part of the budget.
const UNGRANTED_PART: usize = 16;

/// Counts the bytes of bodies. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct BodyBudget(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    all: AtomicUsize,
    ungranted: AtomicUsize,
}

/// How much of the budget one body may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyShare {
    all: usize,
    /// The bound of principals without grants, for one of them.
    ungranted: Option<usize>,
}

/// The bytes of one body that are counted, until it is dropped.
#[derive(Debug, Default)]
pub struct Reservation {
    counters: Option<Arc<Counters>>,
    share: BodyShare,
    counted: usize,
}

/// Other bodies take all that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl BodyBudget {
    /// A reservation of nothing so far.
    pub fn open(&self, share: BodyShare) -> Reservation {
        Reservation { counters: Some(Arc::clone(&self.0)), share, counted: 0 }
    }

    /// The bytes that are counted now.
    pub fn used(&self) -> usize {
        self.0.all.load(Ordering::Relaxed)
    }
}

impl BodyShare {
    pub fn new(all: usize, has_grants: bool) -> Self {
        BodyShare { all, ungranted: (!has_grants).then_some(all / UNGRANTED_PART) }
    }
}

impl Default for BodyShare {
    fn default() -> Self {
        BodyShare::new(usize::MAX, true)
    }
}

impl Reservation {
    /// Counts a body that has this size now.
    pub fn resize(&mut self, size: usize) -> Result<(), NoRoom> {
        let size = size.saturating_sub(EXEMPT);
        let Some(counters) = self.counters.as_deref() else { return Ok(()) };
        if size <= self.counted {
            release(counters, self.share, self.counted - size);
            self.counted = size;
            return Ok(());
        }
        let more = size - self.counted;
        add(&counters.all, more, self.share.all)?;
        if let Some(most) = self.share.ungranted
            && let Err(no_room) = add(&counters.ungranted, more, most)
        {
            counters.all.fetch_sub(more, Ordering::Relaxed);
            return Err(no_room);
        }
        self.counted = size;
        Ok(())
    }

    /// Gives up to so many of the counted bytes to a reservation of their own.
    #[must_use]
    pub fn split(&mut self, size: usize) -> Reservation {
        let counted = self.counted.min(size);
        self.counted -= counted;
        Reservation { counters: self.counters.clone(), share: self.share, counted }
    }

    /// Something to keep for as long as the body; nothing where nothing is counted.
    #[must_use]
    pub fn into_held(self) -> toolcrib_wire::Held {
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

fn add(counter: &AtomicUsize, more: usize, most: usize) -> Result<(), NoRoom> {
    let before = counter.fetch_add(more, Ordering::Relaxed);
    if before.saturating_add(more) <= most {
        return Ok(());
    }
    counter.fetch_sub(more, Ordering::Relaxed);
    Err(NoRoom)
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

/// The bound in bytes: what is configured, where 0 means without limit; else a quarter of the memory, and no more than
/// [`MOST`].
pub(crate) fn most(configured: Option<u64>, memory: Option<u64>) -> usize {
    let bytes = match configured {
        Some(0) => u64::MAX,
        Some(bytes) => bytes,
        None => memory.map_or(MOST, |memory| memory / 4).min(MOST),
    };
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_a_quarter_of_the_memory_unless_it_is_configured() {
        for (configured, memory, bound) in [
            (None, None, 512 << 20),
            (None, Some(64 << 30), 512 << 20),
            (None, Some(1 << 30), 256 << 20),
            (Some(5), Some(1 << 30), 5),
            (Some(0), Some(1 << 30), usize::MAX),
        ] {
            assert_eq!(most(configured, memory), bound, "{configured:?} {memory:?}");
        }
    }

    #[test]
    fn bodies_share_one_bound_and_what_ends_makes_room() {
        let budget = BodyBudget::default();
        let share = BodyShare::new(1000, true);
        let (mut one, mut other) = (budget.open(share), budget.open(share));
        assert_eq!(one.resize(EXEMPT + 600), Ok(()));
        assert_eq!(other.resize(EXEMPT + 400), Ok(()));
        assert_eq!(other.resize(EXEMPT + 401), Err(NoRoom));
        assert_eq!(budget.used(), 1000);
        let mut small = budget.open(share);
        assert_eq!(small.resize(EXEMPT), Ok(()), "small bodies are never refused");
        assert_eq!(one.resize(EXEMPT + 100), Ok(()));
        assert_eq!(other.resize(EXEMPT + 900), Ok(()));
        drop((one, small));
        assert_eq!(budget.used(), 900);
        drop(other);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn principals_without_grants_have_a_smaller_bound() {
        let budget = BodyBudget::default();
        let mut stranger = budget.open(BodyShare::new(1600, false));
        assert_eq!(stranger.resize(EXEMPT + 101), Err(NoRoom));
        assert_eq!(budget.used(), 0, "what was refused is not counted");
        assert_eq!(stranger.resize(EXEMPT + 100), Ok(()));
        let mut second = budget.open(BodyShare::new(1600, false));
        assert_eq!(second.resize(EXEMPT + 1), Err(NoRoom));
        let mut known = budget.open(BodyShare::new(1600, true));
        assert_eq!(known.resize(EXEMPT + 1500), Ok(()));
        drop(stranger);
        assert_eq!(known.resize(EXEMPT + 1600), Ok(()));
        assert_eq!(second.resize(EXEMPT + 1), Err(NoRoom));
    }

    #[test]
    fn a_part_of_a_reservation_lives_on_by_itself() {
        let budget = BodyBudget::default();
        let mut stream = budget.open(BodyShare::new(1000, false));
        assert_eq!(stream.resize(EXEMPT + 60), Ok(()));
        let message = stream.split(50);
        assert_eq!(stream.resize(0), Ok(()));
        assert_eq!(budget.used(), 50);
        drop(message.into_held());
        assert_eq!(budget.used(), 0);
        assert!(stream.split(10).into_held().is_none());
        assert_eq!(Reservation::default().resize(usize::MAX), Ok(()), "without a budget");
    }
}
