//! Queues the writes of one socket, and returns the bytes that the socket did not accept.

use std::fmt;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use super::WriteBatch;

/// Most queued bytes per socket. Further writes are rejected until these are written.
const MAX_QUEUED: usize = 64 << 10;

/// Larger buffers are freed after use.
const MAX_KEPT_CAPACITY: usize = 8 << 10;

/// Queues writes of one socket in a batch.
pub struct SocketWriter {
    batch: WriteBatch,
    slot: Arc<Slot>,
}

/// Bytes that a socket did not accept.
#[derive(Debug)]
pub struct Unwritten {
    /// Bytes that it accepted before them.
    pub sent: usize,
    /// The unwritten bytes.
    pub bytes: Vec<u8>,
    /// The write error, or `None` if the socket buffer was full.
    pub error: Option<io::Error>,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) socket: RawFd,
    state: Mutex<SlotState>,
}

#[derive(Debug, Default)]
pub(super) struct SlotState {
    /// The queued bytes.
    pub(super) bytes: Vec<u8>,
    /// True while the slot is in the queue of the batch.
    is_queued: bool,
    unwritten: Option<Unwritten>,
    /// Woken when bytes remain unwritten.
    waker: Option<Waker>,
}

impl SocketWriter {
    /// # Safety
    ///
    /// The socket must keep its descriptor open until the writer is dropped. Otherwise bytes go to the file that gets
    /// the same descriptor next.
    #[allow(unsafe_code, reason = "the writer keeps the raw descriptor")]
    pub(super) unsafe fn new(batch: WriteBatch, socket: &impl AsRawFd) -> Self {
        let slot = Slot { socket: socket.as_raw_fd(), state: Mutex::default() };
        SocketWriter { batch, slot: Arc::new(slot) }
    }

    /// Queues these parts behind earlier ones. Returns false when unwritten bytes must be written first, the queue is
    /// full, or the batch has ended.
    pub fn enqueue(&self, parts: [&[u8]; 3]) -> bool {
        let mut state = self.slot.state();
        if state.unwritten.is_some() || state.bytes.len() > MAX_QUEUED {
            return false;
        }
        if !(state.is_queued || self.batch.enqueue(&self.slot)) {
            return false;
        }
        state.is_queued = true;
        parts.iter().for_each(|part| state.bytes.extend_from_slice(part));
        true
    }

    /// Returns the unwritten bytes once. Registers the waker if there are none.
    pub fn poll_unwritten(&self, cx: &Context<'_>) -> Option<Unwritten> {
        let mut state = self.slot.state();
        let unwritten = state.unwritten.take();
        if unwritten.is_none() && !state.waker.as_ref().is_some_and(|it| it.will_wake(cx.waker())) {
            state.waker = Some(cx.waker().clone());
        }
        unwritten
    }

    /// Discards all bytes that are not yet written, and the waker.
    pub fn clear(&self) {
        let mut state = self.slot.state();
        *state = SlotState { is_queued: state.is_queued, ..SlotState::default() };
    }

    /// Takes back all bytes that are not yet written.
    pub fn take_unwritten(&self) -> Option<Unwritten> {
        let mut state = self.slot.state();
        let bytes = mem::take(&mut state.bytes);
        let waiting = (!bytes.is_empty()).then_some(Unwritten { sent: 0, bytes, error: None });
        // Unwritten bytes block further writes, so both cannot exist.
        state.unwritten.take().or(waiting)
    }
}

impl Drop for SocketWriter {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Slot {
    /// The batch holds this lock during the write, so that no bytes are taken back and no socket is closed meanwhile.
    pub(super) fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotState {
    /// Removes the slot from the queue. Returns whether it has bytes to write.
    pub(super) fn start_write(&mut self) -> bool {
        self.is_queued = false;
        !self.bytes.is_empty()
    }

    /// Stores the result of a write.
    pub(super) fn record_result(&mut self, outcome: io::Result<usize>) {
        let (sent, error) = match outcome {
            Ok(sent) => (sent.min(self.bytes.len()), None),
            Err(error) if is_transient(&error) => (0, None),
            Err(error) => (0, Some(error)),
        };
        let mut bytes = mem::take(&mut self.bytes);
        if sent == bytes.len() {
            bytes.clear();
            if bytes.capacity() <= MAX_KEPT_CAPACITY {
                self.bytes = bytes;
            }
            return;
        }
        bytes.drain(..sent);
        self.unwritten = Some(Unwritten { sent, bytes, error });
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// True if the same write can succeed later.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl fmt::Debug for SocketWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketWriter").finish_non_exhaustive()
    }
}
