//! Where the kernel may run whom. A client and a server that it puts on one core wake each other for nothing, so that
//! what is between them is held against what only such two can do.

use crate::Fallible;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Placing {
    /// As the kernel likes.
    Free,
    /// The client on one core, the server on another; what is between them as the kernel likes.
    Apart,
}

impl Placing {
    /// Keeps whoever is told, and what it will start, where it belongs for as long as this lives.
    pub fn keep(self, who: Who) -> Fallible<Option<Kept>> {
        match self {
            Placing::Free => Ok(None),
            Placing::Apart => on_its_core(who).map(Some),
        }
    }
}

#[derive(Clone, Copy)]
pub enum Who {
    /// The thread that asks.
    Client,
    /// A process, by its first thread.
    Server(u32),
}

pub use this_system::{Kept, on_its_core};

#[cfg(target_os = "linux")]
mod this_system {
    use rustix::process::Pid;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::Who;
    use crate::Fallible;

    /// Gives back what it has taken.
    pub struct Kept {
        thread: Option<Pid>,
        before: CpuSet,
    }

    pub fn on_its_core(who: Who) -> Fallible<Kept> {
        let (thread, nth) = match who {
            Who::Client => (None, 0),
            Who::Server(process) => (Pid::from_raw(i32::try_from(process)?), 1),
        };
        let before = sched_getaffinity(thread)?;
        let core = (0..CpuSet::MAX_CPU).filter(|core| before.is_set(*core)).nth(nth);
        let mut only = CpuSet::new();
        only.set(core.ok_or("client and server cannot be apart on one core")?);
        sched_setaffinity(thread, &only)?;
        Ok(Kept { thread, before })
    }

    impl Drop for Kept {
        fn drop(&mut self) {
            // Who is gone needs no place.
            let _ = sched_setaffinity(self.thread, &self.before);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod this_system {
    use super::Who;
    use crate::Fallible;

    pub struct Kept;

    pub fn on_its_core(_: Who) -> Fallible<Kept> {
        Err("who runs where is not ours to say on this system".into())
    }
}
