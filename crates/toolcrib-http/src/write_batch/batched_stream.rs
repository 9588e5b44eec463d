//! A socket together with its place in the write batch of its thread.

use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::{SocketWriter, WriteBatch};

/// A socket that keeps one descriptor open from its creation until it is dropped. No other crate can implement this
/// trait, because the write batch relies on that promise.
pub trait Socket: AsRawFd + sealed::Sealed {}

impl Socket for TcpStream {}
impl Socket for UnixStream {}

mod sealed {
    use tokio::net::{TcpStream, UnixStream};

    pub trait Sealed {}

    impl Sealed for TcpStream {}
    impl Sealed for UnixStream {}
}

/// A stream that may have a place in a write batch.
pub trait BatchWrite {
    /// The batched writer of the stream. `None` means that all bytes are written directly.
    fn socket_writer(&self) -> Option<&SocketWriter>;
}

/// A socket with its batched writer. Reading and writing the stream itself bypasses the batch.
#[derive(Debug)]
pub struct BatchedStream<S> {
    /// Declared before `socket`, because fields are dropped in this order.
    writer: Option<SocketWriter>,
    socket: S,
}

impl<S: Socket> BatchedStream<S> {
    /// Writes through the current batch of the thread, if there is one.
    pub fn new(socket: S) -> Self {
        Self::in_batch(socket, WriteBatch::current())
    }

    #[allow(unsafe_code, reason = "the writer stores the raw descriptor")]
    pub(super) fn in_batch(socket: S, batch: Option<WriteBatch>) -> Self {
        // SAFETY: The descriptor is open until the socket is dropped, as `Socket` promises. The socket is dropped after
        // the writer: both fields are private, they move only together, and the writer is declared first.
        let writer = batch.map(|batch| unsafe { SocketWriter::new(batch, &socket) });
        BatchedStream { writer, socket }
    }
}

impl<S> BatchedStream<S> {
    /// The socket, for calls that read or inspect it.
    pub fn get_ref(&self) -> &S {
        &self.socket
    }
}

impl<S> BatchWrite for BatchedStream<S> {
    fn socket_writer(&self) -> Option<&SocketWriter> {
        self.writer.as_ref()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BatchedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BatchedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod test_sockets {
    use std::{net, os::unix};

    use super::{Socket, sealed::Sealed};

    impl Socket for net::TcpStream {}
    impl Socket for unix::net::UnixStream {}
    impl Sealed for net::TcpStream {}
    impl Sealed for unix::net::UnixStream {}
}
