//! Streams of an exec: stdout for the protocol, everything else for the log.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error;
use bytes::{Buf, Bytes};
use futures_util::{Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::process::StderrTail;

/// Longest text of an engine error.
const MAX_ERROR_TEXT: usize = 2048;

/// Streams as the engine returns them. The Docker client has already split the multiplexed stream.
pub(super) struct ExecStreams {
    pub(super) output: Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>,
    pub(super) input: Pin<Box<dyn AsyncWrite + Send>>,
}

/// Reads the stdout of the process, and appends its stderr to the log.
pub(super) struct StdoutReader {
    stream: Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>,
    /// Bytes that did not fit into the last read buffer.
    rest: Bytes,
    tail: StderrTail,
    ended: watch::Sender<bool>,
}

impl ExecStreams {
    /// The first output on any stream.
    pub(super) async fn read_first_output(&mut self) -> String {
        let text = match timeout(Duration::from_secs(1), self.output.next()).await {
            Ok(Some(Ok(text))) => text.into_bytes(),
            _ => Bytes::from_static(b"the engine gave no reason"),
        };
        let text = String::from_utf8_lossy(&text[..text.len().min(MAX_ERROR_TEXT)]);
        text.trim().to_owned()
    }

    /// Reads and discards all output.
    pub(super) async fn drain(mut self) {
        while let Some(Ok(_)) = self.output.next().await {}
    }
}

impl StdoutReader {
    /// Returns the reader and a receiver that reports the end of the output.
    pub(super) fn new(
        stream: Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>,
        tail: StderrTail,
    ) -> (Self, watch::Receiver<bool>) {
        let (ended, seen) = watch::channel(false);
        (Self { stream, rest: Bytes::new(), tail, ended }, seen)
    }
}

impl AsyncRead for StdoutReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.rest.is_empty() {
            match ready!(self.stream.as_mut().poll_next(cx)) {
                Some(Ok(LogOutput::StdOut { message })) => self.rest = message,
                // Only output that the engine marks as stdout is protocol.
                Some(Ok(other)) => self.tail.push(other.as_ref()),
                Some(Err(error)) => {
                    self.ended.send_replace(true);
                    return Poll::Ready(Err(io::Error::other(error)));
                }
                None => {
                    self.ended.send_replace(true);
                    return Poll::Ready(Ok(()));
                }
            }
        }
        let count = self.rest.len().min(buffer.remaining());
        buffer.put_slice(&self.rest[..count]);
        self.rest.advance(count);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn dkr_03_only_stdout_reaches_the_reader() {
        let piece = |text: &'static str| Bytes::from_static(text.as_bytes());
        let pieces = vec![
            LogOutput::StdOut { message: piece("one ") },
            LogOutput::StdErr { message: piece("err1 ") },
            LogOutput::StdOut { message: Bytes::new() },
            LogOutput::Console { message: piece("half a frame ") },
            LogOutput::StdErr { message: piece("err2") },
            LogOutput::StdOut { message: piece("two") },
        ];
        let tail = StderrTail::new(1024);
        let all = Box::pin(stream::iter(pieces.into_iter().map(Ok)));
        let (mut output, ended) = StdoutReader::new(all, tail.clone());
        let mut text = String::new();
        // A read buffer smaller than a piece.
        let mut room = [0; 3];
        while let Ok(count @ 1..) = output.read(&mut room).await {
            assert!(!*ended.borrow());
            text += str::from_utf8(&room[..count]).unwrap();
        }
        assert_eq!((text.as_str(), tail.text().as_str()), ("one two", "err1 half a frame err2"));
        assert!(*ended.borrow());
    }
}
