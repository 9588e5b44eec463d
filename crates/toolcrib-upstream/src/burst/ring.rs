//! Many sockets written by one call of the system, where the system has that; one by one elsewhere.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::{Arc, MutexGuard};

use rustix::net::SendFlags;

use super::outlet::{Slot, State};

/// So many at once.
const TOGETHER: u32 = 64;

/// Where there is none, sockets are written one by one.
#[derive(Debug, Default)]
pub(super) struct Ring(system::Ring);

/// A socket, and what is to be written to it.
type Write<'a> = (RawFd, MutexGuard<'a, State>);

type Outcome = io::Result<usize>;

impl Ring {
    /// Writes all of them. None of them waits: what a socket has no room for is left.
    pub(super) fn write(&mut self, slots: &[Arc<Slot>]) {
        for some in slots.chunks(TOGETHER as usize) {
            let mut writes: Vec<Write<'_>> =
                some.iter().map(|slot| (slot.socket, slot.state())).collect();
            // Whoever has gone, or has taken back what he had put, is passed over.
            writes.retain_mut(|(_, state)| state.has_something());
            let outcomes = match writes.as_slice() {
                [] => continue,
                [alone] => vec![send(alone)],
                many => self.0.send(many),
            };
            for ((_, state), outcome) in writes.iter_mut().zip(outcomes) {
                state.wrote(outcome);
            }
        }
    }
}

/// A full buffer is no reason to wait, and a closed connection none for a signal.
fn flags() -> SendFlags {
    #[cfg(target_os = "linux")]
    return SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    #[cfg(not(target_os = "linux"))]
    return SendFlags::DONTWAIT;
}

/// Writes one.
#[allow(unsafe_code, reason = "the socket is known by its number")]
fn send((socket, state): &Write<'_>) -> Outcome {
    // SAFETY: whoever closes the socket has dropped its outlet before, and cannot while the state is held.
    let socket = unsafe { BorrowedFd::borrow_raw(*socket) };
    Ok(rustix::net::send(socket, &state.bytes, flags())?)
}

#[cfg(target_os = "linux")]
mod system {
    use std::fmt;
    use std::io;

    use io_uring::squeue::Entry;
    use io_uring::types::Fd;
    use io_uring::{IoUring, Probe, opcode};

    use super::{Outcome, TOGETHER, Write, flags, send};

    /// Made when there is first more than one socket to write.
    #[derive(Default)]
    pub(super) enum Ring {
        #[default]
        Unknown,
        There(Box<IoUring>),
        /// The system has none, or does not let us have one, or it failed.
        Missing,
    }

    impl Ring {
        pub(super) fn send(&mut self, writes: &[Write<'_>]) -> Vec<Outcome> {
            if let Ring::Unknown = self {
                *self = made().map_or(Ring::Missing, |ring| Ring::There(Box::new(ring)));
            }
            let outcomes = match self {
                Ring::There(ring) => together(ring, writes),
                _ => writes.iter().map(|_| None).collect(),
            };
            if outcomes.iter().any(Option::is_none) {
                // What it still has of ours goes with it.
                *self = Ring::Missing;
            }
            let each = outcomes.into_iter().zip(writes);
            each.map(|(outcome, write)| outcome.unwrap_or_else(|| send(write))).collect()
        }
    }

    /// A ring that can send: the first systems that had rings could not.
    fn made() -> Option<IoUring> {
        let (ring, mut probe) = (IoUring::new(TOGETHER).ok()?, Probe::new());
        ring.submitter().register_probe(&mut probe).ok()?;
        probe.is_supported(opcode::Send::CODE).then_some(ring)
    }

    /// What came of each; nothing of those that the ring has not taken.
    #[allow(unsafe_code, reason = "the ring is told where the bytes are")]
    fn together(ring: &mut IoUring, writes: &[Write<'_>]) -> Vec<Option<Outcome>> {
        let mut outcomes: Vec<Option<Outcome>> = writes.iter().map(|_| None).collect();
        let entries: Vec<Entry> = (0..).zip(writes).map(|it| entry(it.0, it.1)).collect();
        // SAFETY: the bytes are held until the call below returns, and then whatever was taken of the entries is done:
        // what is not to wait (`MSG_DONTWAIT`) the system does while it takes it, or fails it, and never puts it off.
        // What was not taken is never read: a ring that has left something out is dropped.
        let is_queued = unsafe { ring.submission().push_multiple(&entries) }.is_ok();
        if is_queued {
            // How far it came, the answers tell.
            let _ = ring.submit_and_wait(entries.len());
        }
        for done in ring.completion() {
            let place = usize::try_from(done.user_data()).ok();
            if let Some(outcome) = place.and_then(|place| outcomes.get_mut(place)) {
                let sent = usize::try_from(done.result());
                *outcome = Some(sent.map_err(|_| io::Error::from_raw_os_error(-done.result())));
            }
        }
        outcomes
    }

    fn entry(number: u64, (socket, state): &Write<'_>) -> Entry {
        let length = u32::try_from(state.bytes.len()).unwrap_or(u32::MAX);
        let send = opcode::Send::new(Fd(*socket), state.bytes.as_ptr(), length);
        send.flags(flags().bits().cast_signed()).build().user_data(number)
    }

    impl fmt::Debug for Ring {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Ring")
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{Outcome, Write, send};

    #[derive(Debug, Default)]
    pub(super) struct Ring;

    impl Ring {
        pub(super) fn send(&mut self, writes: &[Write<'_>]) -> Vec<Outcome> {
            writes.iter().map(send).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::mem;
    use std::os::unix::net::UnixStream;

    use super::super::{Burst, Outlet};
    use super::*;

    /// Where the system has no ring, or lets nobody have one, all is written as well.
    #[test]
    fn all_are_written_with_a_ring_and_without() {
        for mut ring in [Ring::default(), missing()] {
            let burst = Burst::default();
            let pairs: Vec<_> = (0..130).map(|_| UnixStream::pair().unwrap()).collect();
            let outlets: Vec<_> =
                pairs.iter().map(|(ours, _)| Outlet::of(burst.clone(), ours)).collect();
            for round in [*b"one", *b"two"] {
                outlets.iter().for_each(|outlet| assert!(outlet.put([&round, b"", b""])));
                let slots = mem::take(&mut burst.0.waiting().slots);
                assert_eq!(slots.len(), pairs.len());
                ring.write(&slots);
                for mut theirs in pairs.iter().map(|(_, theirs)| theirs) {
                    let mut said = [0; 3];
                    theirs.read_exact(&mut said).unwrap();
                    assert_eq!(said, round);
                }
            }
            assert!(outlets.iter().all(|outlet| outlet.take_back().is_none()));
        }
    }

    #[cfg(target_os = "linux")]
    fn missing() -> Ring {
        Ring(system::Ring::Missing)
    }

    #[cfg(not(target_os = "linux"))]
    fn missing() -> Ring {
        Ring::default()
    }
}
