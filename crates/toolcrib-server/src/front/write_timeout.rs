//! A stream wrapper that fails when the peer stops reading for too long.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};
use toolcrib_http::write_batch::{BatchWrite, SocketWriter};

use super::connection_limit::ConnectionPermit;

/// A stream whose writes time out.
#[derive(Debug)]
pub(super) struct WriteTimeout<S> {
    stream: S,
    timeout: Duration,
    /// Timer while a write is pending. Created lazily, because most connections never need it.
    sleep: Option<Pin<Box<Sleep>>>,
    is_armed: bool,
    /// Counts the connection as long as the stream exists, whatever protocol it carries.
    _permit: ConnectionPermit,
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(stream: S, timeout: Duration, permit: ConnectionPermit) -> Self {
        WriteTimeout { stream, timeout, sleep: None, is_armed: false, _permit: permit }
    }

    /// Turns a write that is pending for too long into a timeout error.
    fn check_deadline<T>(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.is_armed = false;
            return result;
        }
        let end = Instant::now() + self.timeout;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(end)));
        if !self.is_armed {
            sleep.as_mut().reset(end);
            self.is_armed = true;
        }
        match sleep.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: BatchWrite> BatchWrite for WriteTimeout<S> {
    fn socket_writer(&self) -> Option<&SocketWriter> {
        self.stream.socket_writer()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.check_deadline(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.check_deadline(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_flush(cx) {
            // A successful flush does not end the wait of a pending write.
            Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
            result => self.check_deadline(cx, result),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.check_deadline(cx, result)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::advance;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn slow_reader_is_served_and_stopped_reader_times_out() {
        let (ours, mut theirs) = duplex(64);
        let mut ours = WriteTimeout::new(ours, TIMEOUT, ConnectionPermit::default());
        let writing = async {
            let written = ours.write_all(&[0; 64 * 20]).await;
            (written.map_err(|error| error.kind()), Instant::now())
        };
        let reading = async {
            let mut some = [0; 64];
            for _ in 0..10 {
                advance(TIMEOUT / 2).await;
                theirs.read_exact(&mut some).await.unwrap();
            }
            Instant::now()
        };
        let ((written, end), last) = tokio::join!(writing, reading);
        assert_eq!(written, Err(io::ErrorKind::TimedOut));
        assert!(end >= last + TIMEOUT - Duration::from_secs(1), "not before the timeout");
        assert!(end <= last + TIMEOUT + Duration::from_secs(1), "soon after the timeout");
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connection_does_not_time_out() {
        let (ours, mut theirs) = duplex(64);
        let mut ours = WriteTimeout::new(ours, TIMEOUT, ConnectionPermit::default());
        for _ in 0..3 {
            advance(TIMEOUT * 2).await;
            ours.write_all(b"word").await.unwrap();
            ours.flush().await.unwrap();
            let mut word = [0; 4];
            theirs.read_exact(&mut word).await.unwrap();
        }
    }
}
