//! Sends the queued bytes of many sockets with one io_uring call, or one by one where io_uring is unavailable.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::{Arc, MutexGuard};

use rustix::net::SendFlags;

use super::socket_writer::{Slot, SlotState};

/// Most sends per call.
const MAX_SENDS: u32 = 64;

/// Sends batches of writes.
#[derive(Debug, Default)]
pub(super) struct BatchSender(platform::Backend);

/// A socket and its locked queue.
type PendingSend<'a> = (RawFd, MutexGuard<'a, SlotState>);

type SendResult = io::Result<usize>;

impl BatchSender {
    /// Sends all queued bytes without blocking. A full socket keeps the rest as unwritten.
    pub(super) fn send_all(&mut self, slots: &[Arc<Slot>]) {
        for chunk in slots.chunks(MAX_SENDS as usize) {
            let mut writes: Vec<PendingSend<'_>> =
                chunk.iter().map(|slot| (slot.socket, slot.state())).collect();
            // Skips writers that were dropped or have taken their bytes back.
            writes.retain_mut(|(_, state)| state.start_write());
            let outcomes = match writes.as_slice() {
                [] => continue,
                [alone] => vec![send_one(alone)],
                many => self.0.send(many),
            };
            for ((_, state), outcome) in writes.iter_mut().zip(outcomes) {
                state.record_result(outcome);
            }
        }
    }
}

/// A full socket buffer must not block, and a closed connection must not raise SIGPIPE.
fn flags() -> SendFlags {
    #[cfg(target_os = "linux")]
    return SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    #[cfg(not(target_os = "linux"))]
    return SendFlags::DONTWAIT;
}

/// Sends the bytes of one socket.
#[allow(unsafe_code, reason = "the slot stores the raw descriptor")]
fn send_one((socket, state): &PendingSend<'_>) -> SendResult {
    // SAFETY: The descriptor is open: only `SocketWriter` queues bytes, its creator keeps the socket open until it is
    // dropped, and its `drop` waits for the slot lock that `state` holds, and leaves no bytes to write.
    let socket = unsafe { BorrowedFd::borrow_raw(*socket) };
    Ok(rustix::net::send(socket, &state.bytes, flags())?)
}

#[cfg(target_os = "linux")]
mod platform {
    use std::fmt;
    use std::io;

    use io_uring::squeue::Entry;
    use io_uring::types::Fd;
    use io_uring::{IoUring, Probe, opcode};

    use super::{MAX_SENDS, PendingSend, SendResult, flags, send_one};

    /// The ring, created with the first batch of more than one socket.
    #[derive(Default)]
    pub(super) enum Backend {
        #[default]
        Untried,
        Available(Box<IoUring>),
        /// The kernel has no io_uring, forbids it, or failed.
        Unavailable,
    }

    impl Backend {
        pub(super) fn send(&mut self, writes: &[PendingSend<'_>]) -> Vec<SendResult> {
            if let Backend::Untried = self {
                *self = create_ring()
                    .map_or(Backend::Unavailable, |ring| Backend::Available(Box::new(ring)));
            }
            let outcomes = match self {
                Backend::Available(ring) => submit_sends(ring, writes),
                _ => writes.iter().map(|_| None).collect(),
            };
            if outcomes.iter().any(Option::is_none) {
                // Dropping the ring cancels entries that it still holds.
                *self = Backend::Unavailable;
            }
            let each = outcomes.into_iter().zip(writes);
            each.map(|(outcome, write)| outcome.unwrap_or_else(|| send_one(write))).collect()
        }
    }

    /// Creates a ring that supports `Send`, which the first kernels with io_uring lacked.
    fn create_ring() -> Option<IoUring> {
        let (ring, mut probe) = (IoUring::new(MAX_SENDS).ok()?, Probe::new());
        ring.submitter().register_probe(&mut probe).ok()?;
        probe.is_supported(opcode::Send::CODE).then_some(ring)
    }

    /// Submits all sends. Returns `None` for each entry that the ring did not complete.
    #[allow(unsafe_code, reason = "io_uring takes raw pointers to the buffers")]
    fn submit_sends(ring: &mut IoUring, writes: &[PendingSend<'_>]) -> Vec<Option<SendResult>> {
        let mut outcomes: Vec<Option<SendResult>> = writes.iter().map(|_| None).collect();
        let entries: Vec<Entry> = (0..).zip(writes).map(|it| send_entry(it.0, it.1)).collect();
        // SAFETY: The locked slots keep the buffers alive until the call below returns. Each submitted entry is
        // complete by then: with `MSG_DONTWAIT` the kernel sends during the submission or fails, and never defers.
        // Entries that were not submitted are never read, because a ring with a missing result is dropped.
        let is_queued = unsafe { ring.submission().push_multiple(&entries) }.is_ok();
        if is_queued {
            // The completions tell how many entries were submitted.
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

    fn send_entry(number: u64, (socket, state): &PendingSend<'_>) -> Entry {
        let length = u32::try_from(state.bytes.len()).unwrap_or(u32::MAX);
        let send = opcode::Send::new(Fd(*socket), state.bytes.as_ptr(), length);
        send.flags(flags().bits().cast_signed()).build().user_data(number)
    }

    impl fmt::Debug for Backend {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Backend")
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use super::{PendingSend, SendResult, send_one};

    #[derive(Debug, Default)]
    pub(super) struct Backend;

    impl Backend {
        pub(super) fn send(&mut self, writes: &[PendingSend<'_>]) -> Vec<SendResult> {
            writes.iter().map(send_one).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::mem;
    use std::os::unix::net::UnixStream;

    use super::super::{BatchWrite, BatchedStream, WriteBatch};
    use super::*;

    /// All bytes are written even if the kernel has no io_uring or forbids it.
    #[test]
    fn batch_is_written_with_and_without_io_uring() {
        for mut sender in [BatchSender::default(), sender_without_ring()] {
            let batch = WriteBatch::default();
            let pair = |_| {
                let (ours, theirs) = UnixStream::pair().unwrap();
                (BatchedStream::in_batch(ours, Some(batch.clone())), theirs)
            };
            let pairs: Vec<_> = (0..130).map(pair).collect();
            let writers: Vec<_> =
                pairs.iter().filter_map(|(ours, _)| ours.socket_writer()).collect();
            for round in [*b"one", *b"two"] {
                writers.iter().for_each(|writer| assert!(writer.enqueue([&round, b"", b""])));
                let slots = mem::take(&mut batch.0.state().slots);
                assert_eq!(slots.len(), pairs.len());
                sender.send_all(&slots);
                for mut theirs in pairs.iter().map(|(_, theirs)| theirs) {
                    let mut output = [0; 3];
                    theirs.read_exact(&mut output).unwrap();
                    assert_eq!(output, round);
                }
            }
            assert!(writers.iter().all(|writer| writer.take_unwritten().is_none()));
        }
    }

    #[cfg(target_os = "linux")]
    fn sender_without_ring() -> BatchSender {
        BatchSender(platform::Backend::Unavailable)
    }

    #[cfg(not(target_os = "linux"))]
    fn sender_without_ring() -> BatchSender {
        BatchSender::default()
    }
}
