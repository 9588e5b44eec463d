//! A byte stream whose incomplete messages are counted in the budget of request bodies.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use toolcrib_wire::Held;

use crate::body_budget::Reservation;

/// Counts what was read since the last whole message. Clones are the same one.
#[derive(Clone, Debug)]
pub(super) struct Meter(Arc<Mutex<Count>>);

#[derive(Debug)]
struct Count {
    held: Reservation,
    bytes: usize,
    is_over: bool,
}

/// A stream that cannot be read any more where a message finds no room.
#[derive(Debug)]
pub(super) struct Metered<S> {
    stream: S,
    meter: Meter,
}

impl Meter {
    pub(super) fn new(held: Reservation) -> Self {
        Meter(Arc::new(Mutex::new(Count { held, bytes: 0, is_over: false })))
    }

    pub(super) fn stream<S>(&self, stream: S) -> Metered<S> {
        Metered { stream, meter: self.clone() }
    }

    /// The memory of the message that is whole now.
    pub(super) fn take(&self) -> Held {
        let mut count = self.count();
        count.bytes = 0;
        count.held.split(usize::MAX).into_held()
    }

    /// Whether a message has found no room.
    pub(super) fn is_over(&self) -> bool {
        self.count().is_over
    }

    fn add(&self, more: usize) -> io::Result<()> {
        let mut count = self.count();
        count.bytes += more;
        let bytes = count.bytes;
        if count.held.resize(bytes).is_ok() {
            return Ok(());
        }
        count.is_over = true;
        Err(io::ErrorKind::OutOfMemory.into())
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
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
                // A read that fails has read nothing.
                buffer.set_filled(before);
            })),
            read => read,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
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
    use crate::body_budget::{BodyBudget, BodyShare, EXEMPT};

    #[tokio::test]
    async fn a_message_is_counted_until_nobody_has_it_and_one_without_room_is_an_error() {
        let budget = BodyBudget::default();
        let meter = Meter::new(budget.open(BodyShare::new(1000, true)));
        let sent = vec![0; EXEMPT + 1500];
        let mut stream = meter.stream(&sent[..]);
        let mut read = vec![0; EXEMPT + 600];
        stream.read_exact(&mut read).await.unwrap();
        let message = meter.take();
        assert_eq!(budget.used(), 600);
        stream.read_exact(&mut read[..900]).await.unwrap();
        assert!(!meter.is_over());
        drop(message);
        assert_eq!(budget.used(), 0);
        let mut stream = meter.stream(&sent[..]);
        let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert!(meter.is_over());
    }
}
