//! Pins client and server to cores.
//!
//! A client and a server on one core wake each other at almost no cost, which no gateway between them can
//! match.

use crate::BenchResult;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CorePlacement {
    /// The kernel chooses.
    Unpinned,
    /// Client and server on separate cores; the kernel places the gateway.
    SeparateCores,
}

impl CorePlacement {
    /// Pins the target and the processes that it starts until the guard is dropped.
    pub fn pin(self, target: PinTarget) -> BenchResult<Option<AffinityGuard>> {
        match self {
            CorePlacement::Unpinned => Ok(None),
            CorePlacement::SeparateCores => pin_to_core(target).map(Some),
        }
    }
}

#[derive(Clone, Copy)]
pub enum PinTarget {
    /// The calling thread.
    Client,
    /// A process, by its main thread.
    Server(u32),
}

pub use this_system::{AffinityGuard, pin_to_core};

#[cfg(target_os = "linux")]
mod this_system {
    use rustix::process::Pid;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::PinTarget;
    use crate::BenchResult;

    /// Restores the previous affinity when dropped.
    pub struct AffinityGuard {
        thread: Option<Pid>,
        before: CpuSet,
    }

    pub fn pin_to_core(target: PinTarget) -> BenchResult<AffinityGuard> {
        let (thread, nth) = match target {
            PinTarget::Client => (None, 0),
            PinTarget::Server(process) => (Pid::from_raw(i32::try_from(process)?), 1),
        };
        let before = sched_getaffinity(thread)?;
        let core = (0..CpuSet::MAX_CPU).filter(|core| before.is_set(*core)).nth(nth);
        let mut only = CpuSet::new();
        only.set(core.ok_or("separate cores need at least two cores")?);
        sched_setaffinity(thread, &only)?;
        Ok(AffinityGuard { thread, before })
    }

    impl Drop for AffinityGuard {
        fn drop(&mut self) {
            // The process may have ended.
            let _ = sched_setaffinity(self.thread, &self.before);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod this_system {
    use super::PinTarget;
    use crate::BenchResult;

    pub struct AffinityGuard;

    pub fn pin_to_core(_: PinTarget) -> BenchResult<AffinityGuard> {
        Err("CPU affinity is not supported on this system".into())
    }
}
