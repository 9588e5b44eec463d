//! A stream that returns already read bytes before it reads on.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream behind bytes that were already read from it.
#[derive(Debug)]
pub struct PrefixedStream<S> {
    prefix: Bytes,
    stream: S,
}

impl<S> PrefixedStream<S> {
    /// Returns `prefix` before the bytes of `stream`.
    pub fn new(prefix: Bytes, stream: S) -> Self {
        PrefixedStream { prefix, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PrefixedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.prefix.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let length = self.prefix.len().min(buffer.remaining());
        buffer.put_slice(self.prefix.get(..length).unwrap_or_default());
        self.prefix.advance(length);
        if self.prefix.is_empty() {
            // Releases the buffer that the prefix was part of.
            self.prefix = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PrefixedStream<S> {
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
    async fn prefix_is_read_before_the_stream() {
        let (ours, mut theirs) = duplex(64);
        theirs.write_all(b" and later").await.unwrap();
        let mut stream = PrefixedStream::new(Bytes::from_static(b"before"), ours);
        let mut some = [0; 4];
        stream.read_exact(&mut some).await.unwrap();
        assert_eq!(&some, b"befo");
        let mut all = [0; 12];
        stream.read_exact(&mut all).await.unwrap();
        assert_eq!(&all, b"re and later");
        stream.write_all(b"back").await.unwrap();
        theirs.read_exact(&mut some).await.unwrap();
        assert_eq!(&some, b"back");
    }
}
