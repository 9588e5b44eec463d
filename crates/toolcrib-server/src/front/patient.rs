//! A stream whose other end has to read what it is sent: whoever reads nothing for long is cut off.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::crowd::Place;

/// A stream that is waited for only so long when nothing can be written to it.
#[derive(Debug)]
pub(super) struct Patient<S> {
    stream: S,
    longest: Duration,
    /// While something waits to be written. Made once, since most connections never need it.
    waiting: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
    /// Counted for as long as there is a stream, whatever is spoken on it.
    _place: Place,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, longest: Duration, place: Place) -> Self {
        Patient { stream, longest, waiting: None, is_waiting: false, _place: place }
    }

    /// What came of writing, and the end of all writing where nothing came of it for too long.
    fn judge<T>(&mut self, cx: &mut Context<'_>, came: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if came.is_ready() {
            self.is_waiting = false;
            return came;
        }
        let end = Instant::now() + self.longest;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep_until(end)));
        if !self.is_waiting {
            waiting.as_mut().reset(end);
            self.is_waiting = true;
        }
        match waiting.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let came = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(cx, came)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let came = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.judge(cx, came)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_flush(cx) {
            // What cannot be written may still wait, although there is nothing to be flushed.
            Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
            came => self.judge(cx, came),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let came = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.judge(cx, came)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::advance;

    use super::*;

    const LONGEST: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn who_reads_slowly_is_waited_for_and_who_reads_nothing_is_not() {
        let (ours, mut theirs) = duplex(64);
        let mut ours = Patient::new(ours, LONGEST, Place::default());
        let writing = async {
            let written = ours.write_all(&[0; 64 * 20]).await;
            (written.map_err(|error| error.kind()), Instant::now())
        };
        let reading = async {
            let mut some = [0; 64];
            for _ in 0..10 {
                advance(LONGEST / 2).await;
                theirs.read_exact(&mut some).await.unwrap();
            }
            Instant::now()
        };
        let ((written, end), last) = tokio::join!(writing, reading);
        assert_eq!(written, Err(io::ErrorKind::TimedOut));
        assert!(end >= last + LONGEST - Duration::from_secs(1), "not before its time");
        assert!(end <= last + LONGEST + Duration::from_secs(1), "and not long after it");
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_no_slowness() {
        let (ours, mut theirs) = duplex(64);
        let mut ours = Patient::new(ours, LONGEST, Place::default());
        for _ in 0..3 {
            advance(LONGEST * 2).await;
            ours.write_all(b"word").await.unwrap();
            ours.flush().await.unwrap();
            let mut word = [0; 4];
            theirs.read_exact(&mut word).await.unwrap();
        }
    }
}
