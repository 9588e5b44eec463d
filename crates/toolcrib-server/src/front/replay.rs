//! A stream of which something was read already: whoever reads it next reads that first.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[derive(Debug)]
pub(super) struct Replay<S> {
    first: Bytes,
    stream: S,
}

impl<S> Replay<S> {
    pub(super) fn new(first: Bytes, stream: S) -> Self {
        Replay { first, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Replay<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let length = self.first.len().min(buffer.remaining());
        buffer.put_slice(self.first.get(..length).unwrap_or_default());
        self.first.advance(length);
        if self.first.is_empty() {
            // What it was a part of can be given back.
            self.first = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Replay<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn what_was_read_comes_first_however_little_is_taken_at_a_time() {
        let (ours, mut theirs) = duplex(64);
        theirs.write_all(b" and later").await.unwrap();
        let mut replay = Replay::new(Bytes::from_static(b"before"), ours);
        let mut some = [0; 4];
        replay.read_exact(&mut some).await.unwrap();
        assert_eq!(&some, b"befo");
        let mut all = [0; 12];
        replay.read_exact(&mut all).await.unwrap();
        assert_eq!(&all, b"re and later");
        replay.write_all(b"back").await.unwrap();
        theirs.read_exact(&mut some).await.unwrap();
        assert_eq!(&some, b"back");
    }
}
