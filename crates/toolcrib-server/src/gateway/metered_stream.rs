//! A byte stream that counts incomplete messages in the request body budget.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use toolcrib_wire::TextGuard;

use crate::body_budget::Reservation;

/// Counts the bytes since the last complete message. Clones share the counter.
#[derive(Clone, Debug)]
pub(super) struct StreamMeter(Arc<Mutex<MeterState>>);

#[derive(Debug)]
struct MeterState {
    reservation: Reservation,
    bytes: usize,
    is_exhausted: bool,
}

/// A stream that fails to read when a message exceeds the budget.
#[derive(Debug)]
pub(super) struct MeteredStream<S> {
    stream: S,
    meter: StreamMeter,
}

impl StreamMeter {
    pub(super) fn new(reservation: Reservation) -> Self {
        StreamMeter(Arc::new(Mutex::new(MeterState { reservation, bytes: 0, is_exhausted: false })))
    }

    pub(super) fn wrap<S>(&self, stream: S) -> MeteredStream<S> {
        MeteredStream { stream, meter: self.clone() }
    }

    /// Takes the memory guard of the message that is now complete.
    pub(super) fn take_reservation(&self) -> TextGuard {
        let mut state = self.lock();
        state.bytes = 0;
        state.reservation.split(usize::MAX).into_held()
    }

    /// Returns whether a message has exceeded the budget.
    pub(super) fn is_exhausted(&self) -> bool {
        self.lock().is_exhausted
    }

    fn add(&self, more: usize) -> io::Result<()> {
        let mut state = self.lock();
        state.bytes += more;
        let bytes = state.bytes;
        if state.reservation.resize(bytes).is_ok() {
            return Ok(());
        }
        state.is_exhausted = true;
        Err(io::ErrorKind::OutOfMemory.into())
    }

    fn lock(&self) -> MutexGuard<'_, MeterState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MeteredStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let more = buffer.filled().len() - before;
        match read {
            Poll::Ready(Ok(())) => Poll::Ready(self.meter.add(more).inspect_err(|_| {
                // A failed read must not return bytes.
                buffer.set_filled(before);
            })),
            read => read,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MeteredStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::body_budget::{BodyBudget, BodyShare, EXEMPT_BYTES};

    #[tokio::test]
    async fn message_memory_is_counted_until_dropped_and_over_budget_fails() {
        let budget = BodyBudget::default();
        let meter = StreamMeter::new(budget.reserve(BodyShare::new(1000, true)));
        let sent = vec![0; EXEMPT_BYTES + 1500];
        let mut stream = meter.wrap(&sent[..]);
        let mut read = vec![0; EXEMPT_BYTES + 600];
        stream.read_exact(&mut read).await.unwrap();
        let message = meter.take_reservation();
        assert_eq!(budget.used(), 600);
        stream.read_exact(&mut read[..900]).await.unwrap();
        assert!(!meter.is_exhausted());
        drop(message);
        assert_eq!(budget.used(), 0);
        let mut stream = meter.wrap(&sent[..]);
        let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert!(meter.is_exhausted());
    }
}
