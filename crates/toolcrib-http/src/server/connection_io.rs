//! Buffered I/O of one connection: unread input, unwritten output, and timeouts.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep_until};

use super::busy_poll::{BusyPoll, WaitTracker};
use super::prefixed_stream::PrefixedStream;
use crate::write_batch::{BatchWrite, SocketWriter, Unwritten};

/// Initial input buffer. Usual requests are much smaller, so one read shows that no more input is available.
const READ_BUFFER: usize = 8 << 10;

/// Minimum free space of the input buffer before a read.
const MIN_FREE: usize = 512;

/// Maximum growth of the input buffer per read, because an announced body may never come.
const MAX_RESERVE: usize = 1 << 20;

/// Maximum input that is buffered while a request is being answered.
const READ_AHEAD: usize = 16 << 10;

/// Larger buffers are released after use.
const MAX_IDLE_CAPACITY: usize = 64 << 10;

/// Smaller outputs are buffered and written together.
const MAX_BUFFERED_WRITE: usize = 4 << 10;

/// Maximum time to discard input after the response to an incomplete request.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection with its buffers.
#[derive(Debug)]
pub struct ConnectionIo<S> {
    stream: S,
    /// Received bytes that are not used yet.
    pub input: BytesMut,
    /// Bytes to write.
    pub output: Vec<u8>,
    /// Older bytes that the peer had no room for.
    backlog: Bytes,
    deadline: Deadline,
    /// Durations of waits for input and for work in progress.
    read_wait: WaitTracker,
    work_wait: WaitTracker,
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// More input is buffered.
    Data,
    /// The peer has closed its side.
    End,
    /// No input arrived until the timeout.
    TimedOut,
}

/// Input that did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The peer closed its side too early.
    #[error("the peer closed the connection before the end of its message")]
    Closed,
    /// The timeout has passed.
    #[error("the peer did not send its whole message in time")]
    TimedOut,
}

impl<S: AsyncRead + AsyncWrite + BatchWrite + Unpin> ConnectionIo<S> {
    /// `timeout` applies to the first request.
    pub fn new(stream: S, timeout: Duration, busy_poll: Option<BusyPoll>) -> Self {
        let (input, output, backlog) = (BytesMut::new(), Vec::new(), Bytes::new());
        let (read_wait, work_wait) =
            (WaitTracker::new(busy_poll.clone()), WaitTracker::new(busy_poll));
        let deadline = Deadline::after(timeout);
        ConnectionIo { stream, input, output, backlog, deadline, read_wait, work_wait }
    }

    /// Hands the connection over after all output is written.
    pub fn into_prefixed_stream(self) -> PrefixedStream<S> {
        // The next owner writes directly, perhaps in another task.
        if let Some(writer) = self.stream.socket_writer() {
            writer.clear();
        }
        PrefixedStream::new(self.input.freeze(), self.stream)
    }

    /// Starts the timeout for the next request.
    pub fn start_request(&mut self, timeout: Duration) {
        self.deadline.set(timeout);
        if self.input.is_empty() {
            // The previous buffer is not shared any more, so this allocates only the first time.
            self.input.reserve(READ_BUFFER);
        }
    }

    /// Waits for more input until the timeout.
    pub async fn read_more(&mut self) -> ReadOutcome {
        let outcome = poll_fn(|cx| {
            if !self.write_backlog(cx) {
                return Poll::Ready(ReadOutcome::End);
            }
            match self.poll_read_more(cx) {
                Poll::Ready(true) => Poll::Ready(ReadOutcome::Data),
                Poll::Ready(false) => Poll::Ready(ReadOutcome::End),
                Poll::Pending => {
                    self.read_wait.start_wait();
                    self.deadline.poll(cx).map(|()| ReadOutcome::TimedOut)
                }
            }
        })
        .await;
        self.read_wait.finish_wait();
        outcome
    }

    /// Reads until `length` bytes are buffered. `check_size` is called with the number of buffered bytes after each
    /// read, and ends the wait with its error.
    pub async fn read_at_least<E: From<ReadError>>(
        &mut self,
        length: usize,
        timeout: Duration,
        mut check_size: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        self.deadline.set(timeout);
        while self.input.len() < length {
            match self.read_more().await {
                ReadOutcome::Data => check_size(self.input.len())?,
                ReadOutcome::End => return Err(ReadError::Closed.into()),
                ReadOutcome::TimedOut => return Err(ReadError::TimedOut.into()),
            }
        }
        Ok(())
    }

    /// Takes up to `length` bytes from the input.
    pub fn take_input(&mut self, length: usize) -> Bytes {
        let taken = self.input.split_to(length.min(self.input.len())).freeze();
        if taken.len() > MAX_IDLE_CAPACITY {
            self.input = BytesMut::from(&*self.input);
        }
        taken
    }

    /// Runs `work` until it finishes or the peer disconnects. Input that arrives meanwhile is kept.
    pub async fn run_while_connected<T>(
        &mut self,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                self.work_wait.finish_wait();
                return Poll::Ready(Some(done));
            }
            self.work_wait.start_wait();
            if !self.write_backlog(cx) {
                return Poll::Ready(None);
            }
            while self.input.len() < READ_AHEAD {
                match self.poll_read_more(cx) {
                    Poll::Ready(true) => {}
                    Poll::Ready(false) => return Poll::Ready(None),
                    Poll::Pending => return Poll::Pending,
                }
            }
            // A full read-ahead buffer shows that the peer is still connected.
            Poll::Pending
        })
        .await
    }

    /// Appends to the output buffer, or writes everything now if the buffer would be too large.
    pub async fn write_buffered(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.output.len() + bytes.len() > MAX_BUFFERED_WRITE {
            return self.write_through(bytes).await;
        }
        self.output.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes the output after other ready tasks of this thread have run, because the woken reader would take the
    /// processor from them. Batched output is not waited for.
    pub async fn flush(&mut self) -> io::Result<()> {
        let is_batched = self.output.is_empty() || self.try_batch();
        if is_batched {
            self.clear_output();
        }
        // A client with pipelined requests must not delay other connections.
        if !is_batched || !self.input.is_empty() {
            yield_now().await;
        }
        if is_batched { Ok(()) } else { self.flush_all().await }
    }

    /// Waits until all output is written.
    pub async fn flush_all(&mut self) -> io::Result<()> {
        self.write_through(&[]).await?;
        self.stream.flush().await
    }

    /// Writes all output, then closes the sending side.
    pub async fn shutdown(&mut self) {
        // An error means that the peer has disconnected.
        if self.flush_all().await.is_ok() {
            let _ = self.stream.shutdown().await;
        }
    }

    /// Discards input for a while, because a client that is still sending would miss the response if the socket closed.
    pub async fn linger(&mut self) {
        self.deadline.set(LINGER_TIMEOUT);
        while !self.deadline.has_passed() && self.read_more().await == ReadOutcome::Data {
            self.input.clear();
        }
    }

    /// Tries to add the output to the write batch of this thread.
    fn try_batch(&self) -> bool {
        let is_usual = self.backlog.is_empty() && self.output.len() <= MAX_BUFFERED_WRITE;
        let socket_writer = self.stream.socket_writer().filter(|_| is_usual);
        socket_writer.is_some_and(|socket_writer| socket_writer.enqueue([&self.output, &[], &[]]))
    }

    /// Writes older output. Returns `false` if the peer will never accept it.
    fn write_backlog(&mut self, cx: &mut Context<'_>) -> bool {
        match self.stream.socket_writer().and_then(|socket_writer| socket_writer.poll_unwritten(cx))
        {
            Some(Unwritten { error: Some(_), .. }) => return false,
            Some(left) => self.backlog = left.bytes.into(),
            None => {}
        }
        while !self.backlog.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.backlog) {
                Poll::Ready(Ok(written)) if written > 0 => self.backlog.advance(written),
                Poll::Ready(_) => return false,
                Poll::Pending => break,
            }
        }
        true
    }

    /// Prepends output that was batched or refused and is not written yet.
    fn reclaim_batched(&mut self) -> io::Result<()> {
        let left = self.stream.socket_writer().and_then(SocketWriter::take_unwritten);
        if let Some(Unwritten { error: Some(fault), .. }) = left {
            self.backlog.clear();
            return Err(fault);
        }
        let waiting = left.map(|left| left.bytes).unwrap_or_default();
        if !(self.backlog.is_empty() && waiting.is_empty()) {
            self.output = [&*mem::take(&mut self.backlog), &waiting, &self.output].concat();
        }
        Ok(())
    }

    /// After an error nothing is written any more, because the peer would take later bytes for the missing ones.
    async fn write_through(&mut self, last: &[u8]) -> io::Result<()> {
        let written = match self.reclaim_batched() {
            Ok(()) => self.write_parts(last).await,
            Err(fault) => Err(fault),
        };
        self.clear_output();
        written
    }

    fn clear_output(&mut self) {
        self.output.clear();
        if self.output.capacity() > MAX_IDLE_CAPACITY {
            self.output = Vec::new();
        }
    }

    async fn write_parts(&mut self, mut last: &[u8]) -> io::Result<()> {
        let mut first = &self.output[..];
        while !first.is_empty() || !last.is_empty() {
            let written = match last.is_empty() {
                true => self.stream.write(first).await?,
                false => {
                    let parts = [IoSlice::new(first), IoSlice::new(last)];
                    self.stream.write_vectored(&parts).await?
                }
            };
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            let of_first = written.min(first.len());
            first = first.get(of_first..).unwrap_or_default();
            last = last.get(written - of_first..).unwrap_or_default();
        }
        Ok(())
    }

    /// Reads available input. Ready with `false` when the peer has closed.
    fn poll_read_more(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let (there, room) = (self.input.len(), self.input.capacity());
        if room - there < MIN_FREE {
            self.input.reserve(there.clamp(READ_BUFFER, MAX_RESERVE));
        }
        let read = pin!(self.stream.read_buf(&mut self.input)).poll(cx);
        read.map(|read| read.is_ok_and(|length| length > 0))
    }
}

/// A deadline whose timer is reset only when it fires, not for each request.
#[derive(Debug)]
struct Deadline {
    end: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl Deadline {
    fn after(timeout: Duration) -> Self {
        let end = Instant::now() + timeout;
        Deadline { end, sleep: Box::pin(sleep_until(end)) }
    }

    fn set(&mut self, timeout: Duration) {
        self.end = Instant::now() + timeout;
        if self.sleep.deadline() > self.end {
            self.sleep.as_mut().reset(self.end);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.sleep.as_mut().poll(cx).is_ready() {
            if self.has_passed() {
                return Poll::Ready(());
            }
            self.sleep.as_mut().reset(self.end);
        }
        Poll::Pending
    }

    fn has_passed(&self) -> bool {
        Instant::now() >= self.end
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};

    use crate::write_batch::{BatchedStream, CurrentBatchGuard, WriteBatch};
    use futures_util::FutureExt;
    use tokio::io::{DuplexStream, duplex};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinSet;
    use tokio::time::{sleep, timeout};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    impl BatchWrite for DuplexStream {
        fn socket_writer(&self) -> Option<&SocketWriter> {
            None
        }
    }

    fn any_size(_: usize) -> Result<(), ReadError> {
        Ok(())
    }

    fn connection() -> (ConnectionIo<DuplexStream>, DuplexStream) {
        let (ours, theirs) = duplex(1 << 10);
        (ConnectionIo::new(ours, TIMEOUT, None), theirs)
    }

    #[tokio::test(start_paused = true)]
    async fn every_read_has_its_own_timeout() {
        let (mut connection, mut theirs) = connection();
        let begun = Instant::now();
        for wait in [20, 29, 1, 25] {
            connection.start_request(TIMEOUT);
            let writing = async {
                sleep(Duration::from_secs(wait)).await;
                theirs.write_all(b"word").await.unwrap();
            };
            assert_eq!(tokio::join!(connection.read_more(), writing).0, ReadOutcome::Data);
        }
        connection.start_request(TIMEOUT);
        assert_eq!(connection.read_more().await, ReadOutcome::TimedOut);
        let passed = begun.elapsed().as_secs();
        assert_eq!(passed, 20 + 29 + 1 + 25 + 30);
        // A shorter timeout must fire before a longer one that is already set.
        connection.start_request(TIMEOUT);
        assert_eq!(
            connection.read_at_least(100, Duration::from_secs(1), any_size).await,
            Err(ReadError::TimedOut)
        );
        assert_eq!(begun.elapsed().as_secs(), passed + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn work_runs_until_the_peer_closes_and_input_is_kept() {
        let (mut connection, mut theirs) = connection();
        connection.start_request(TIMEOUT);
        theirs.write_all(b"next").await.unwrap();
        assert_eq!(connection.run_while_connected(pin!(ready(1))).await, Some(1));
        let work = pin!(sleep(TIMEOUT * 2));
        assert_eq!(
            connection.run_while_connected(work).await,
            Some(()),
            "no timeout applies to work"
        );
        assert_eq!(&connection.input[..], b"next");
        drop(theirs);
        assert_eq!(connection.run_while_connected(pin!(pending::<()>())).await, None);
        assert_eq!(connection.read_at_least(4, TIMEOUT, any_size).await, Ok(()));
        assert_eq!(connection.read_at_least(5, TIMEOUT, any_size).await, Err(ReadError::Closed));
    }

    #[tokio::test(start_paused = true)]
    async fn read_ahead_is_bounded_and_large_buffers_are_released() {
        let (mut connection, mut theirs) = connection();
        let sending = async { theirs.write_all(&vec![7; 4 * MAX_IDLE_CAPACITY]).await.unwrap() };
        let reading = async {
            let idle = pin!(pending::<()>());
            let _ = timeout(TIMEOUT, connection.run_while_connected(idle)).await;
            assert!(
                (READ_AHEAD..2 * READ_AHEAD).contains(&connection.input.len()),
                "{}",
                connection.input.len()
            );
            connection.read_at_least(3 * MAX_IDLE_CAPACITY, TIMEOUT, any_size).await.unwrap();
            assert_eq!(
                connection.take_input(3 * MAX_IDLE_CAPACITY),
                vec![7; 3 * MAX_IDLE_CAPACITY]
            );
            assert!(
                connection.input.capacity() < MAX_IDLE_CAPACITY,
                "{}",
                connection.input.capacity()
            );
            connection.read_at_least(MAX_IDLE_CAPACITY, TIMEOUT, any_size).await.unwrap();
        };
        tokio::join!(sending, reading);
        assert_eq!(connection.input.len(), MAX_IDLE_CAPACITY);
    }

    #[tokio::test]
    async fn ready_tasks_run_before_the_write() {
        let ((mut first, _first), (mut second, _second)) = (connection(), connection());
        let done = Cell::new(0);
        let writing = async |connection: &mut ConnectionIo<DuplexStream>| {
            done.set(done.get() + 1);
            connection.write_buffered(b"word").await.unwrap();
            connection.flush().await.unwrap();
            assert_eq!(done.get(), 2);
        };
        tokio::join!(writing(&mut first), writing(&mut second));
        assert_eq!(
            first.flush().now_or_never().map(Result::ok),
            Some(Some(())),
            "no output is left"
        );
    }

    /// A connection with batched writes. The guard keeps the batch alive.
    async fn batched_connection()
    -> (ConnectionIo<BatchedStream<TcpStream>>, TcpStream, (CurrentBatchGuard, JoinSet<()>)) {
        let (batch, mut writing) = (WriteBatch::default(), JoinSet::new());
        let guard = batch.set_current();
        writing.spawn(batch.run());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let theirs = listener.accept().await.unwrap().0;
        (ConnectionIo::new(BatchedStream::new(ours), TIMEOUT, None), theirs, (guard, writing))
    }

    #[tokio::test]
    async fn batched_writes_reach_a_late_reader_in_order() {
        let (mut connection, mut theirs, _batch) = batched_connection().await;
        // More than the kernel buffers for a peer that does not read.
        let parts: Vec<String> = (0..8000).map(|number| format!("{number:03000}")).collect();
        let (filled, reads) = (Cell::new(0), tokio::sync::Notify::new());
        let writing = async {
            for part in &parts {
                connection.output.extend_from_slice(part.as_bytes());
                connection.flush().await.unwrap();
                // Behaves like a connection that waits for the next request.
                assert_eq!(connection.read_more().now_or_never(), None);
                yield_now().await;
                filled.set(filled.get() + 1);
                reads.notify_one();
            }
            connection.shutdown().await;
        };
        let mut all = Vec::new();
        let reading = async {
            // The peer reads only after no more can be written.
            while timeout(Duration::from_millis(200), reads.notified()).await.is_ok() {}
            assert!(filled.get() < parts.len());
            theirs.read_to_end(&mut all).await.unwrap()
        };
        tokio::join!(writing, reading);
        assert!(all == parts.concat().into_bytes());
    }

    #[tokio::test]
    async fn direct_writes_follow_batched_writes() {
        let (mut connection, mut theirs, _batch) = batched_connection().await;
        connection.write_buffered(b"first ").await.unwrap();
        connection.flush().await.unwrap();
        let large = vec![b'x'; 2 * MAX_BUFFERED_WRITE];
        connection.write_buffered(&large).await.unwrap();
        connection.write_buffered(b" last").await.unwrap();
        connection.flush().await.unwrap();
        connection.shutdown().await;
        let mut all = Vec::new();
        theirs.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, [&b"first "[..], &large, b" last"].concat());
    }

    #[tokio::test]
    async fn small_writes_are_buffered_and_keep_order() {
        let (mut connection, mut theirs) = connection();
        let large = vec![b'x'; 4 * MAX_BUFFERED_WRITE];
        let writing = async {
            connection.output.extend_from_slice(b"head ");
            connection.write_buffered(b"little ").await.unwrap();
            assert_eq!(connection.output, b"head little ");
            connection.write_buffered(&large).await.unwrap();
            connection.write_buffered(b" end").await.unwrap();
            connection.flush().await.unwrap();
            connection.shutdown().await;
        };
        let mut all = Vec::new();
        let reading = async { theirs.read_to_end(&mut all).await.unwrap() };
        tokio::join!(writing, reading);
        assert_eq!(all, [&b"head little "[..], &large, b" end"].concat());
    }
}
