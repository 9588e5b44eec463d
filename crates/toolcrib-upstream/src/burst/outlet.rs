//! Where one socket's writes wait for the end of the turn, and what is left of those that the socket did not take.

use std::fmt;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use super::Burst;

/// Nothing is put behind more than this: whoever says that much in one turn has to wait until it is taken.
const MUCH: usize = 64 << 10;

/// Memory that was needed for once is given back when it is more than this.
const KEPT: usize = 8 << 10;

/// One socket's way into a burst. It has to be dropped before its socket is closed: another one may get the same number.
pub struct Outlet {
    burst: Burst,
    slot: Arc<Slot>,
}

/// What a socket did not take.
#[derive(Debug)]
pub struct Left {
    /// How much it took before.
    pub sent: usize,
    pub bytes: Vec<u8>,
    /// Why it will take no more; none where it only has no room now.
    pub fault: Option<io::Error>,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) socket: RawFd,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// What is to be written.
    pub(super) bytes: Vec<u8>,
    /// Whether the burst knows of it.
    is_waiting: bool,
    left: Option<Left>,
    /// Who wants to know that something is left.
    waker: Option<Waker>,
}

impl Outlet {
    /// That of a socket which does not block, on a thread that has a burst.
    pub fn here(socket: &impl AsRawFd) -> Option<Self> {
        Burst::here().map(|burst| Outlet::of(burst, socket))
    }

    pub(super) fn of(burst: Burst, socket: &impl AsRawFd) -> Self {
        let slot = Slot { socket: socket.as_raw_fd(), state: Mutex::default() };
        Outlet { burst, slot: Arc::new(slot) }
    }

    /// Writes these parts, behind what was put before, at the end of the turn. False where that cannot be: something is
    /// left, which has to be written first, much waits already, or nobody writes any more.
    pub fn put(&self, parts: [&[u8]; 3]) -> bool {
        let mut state = self.slot.state();
        if state.left.is_some() || state.bytes.len() > MUCH {
            return false;
        }
        if !(state.is_waiting || self.burst.add(&self.slot)) {
            return false;
        }
        state.is_waiting = true;
        parts.iter().for_each(|part| state.bytes.extend_from_slice(part));
        true
    }

    /// What the socket did not take, once. While there is nothing, whoever asks is woken when there is.
    pub fn poll_left(&self, cx: &Context<'_>) -> Option<Left> {
        let mut state = self.slot.state();
        let left = state.left.take();
        if left.is_none() && !state.waker.as_ref().is_some_and(|it| it.will_wake(cx.waker())) {
            state.waker = Some(cx.waker().clone());
        }
        left
    }

    /// All that was put and is not written: the end of the turn is not waited for.
    pub fn take_back(&self) -> Option<Left> {
        let mut state = self.slot.state();
        let bytes = mem::take(&mut state.bytes);
        let waiting = (!bytes.is_empty()).then_some(Left { sent: 0, bytes, fault: None });
        // What is left keeps everything else from being put.
        state.left.take().or(waiting)
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        let mut state = self.slot.state();
        *state = State { is_waiting: state.is_waiting, ..State::default() };
    }
}

impl Slot {
    /// Whoever writes holds it meanwhile, so that nothing is taken back and no socket closed under it.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether there is something to write; from now on it does not wait for that any more.
    pub(super) fn has_something(&mut self) -> bool {
        self.is_waiting = false;
        !self.bytes.is_empty()
    }

    /// What came of writing.
    pub(super) fn wrote(&mut self, outcome: io::Result<usize>) {
        let (sent, fault) = match outcome {
            Ok(sent) => (sent.min(self.bytes.len()), None),
            Err(fault) if is_passing(&fault) => (0, None),
            Err(fault) => (0, Some(fault)),
        };
        let mut bytes = mem::take(&mut self.bytes);
        if sent == bytes.len() {
            bytes.clear();
            if bytes.capacity() <= KEPT {
                self.bytes = bytes;
            }
            return;
        }
        bytes.drain(..sent);
        self.left = Some(Left { sent, bytes, fault });
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Whether the same write may do later.
fn is_passing(fault: &io::Error) -> bool {
    matches!(fault.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").finish_non_exhaustive()
    }
}
