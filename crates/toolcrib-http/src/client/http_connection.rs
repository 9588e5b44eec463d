//! A plain HTTP/1.1 connection that its user drives. A request needs no other task and wakes only the task that waits
//! for the response.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Handle, Id};

use super::body_decoder::{BodyDecoder, DecodeStep};
use super::connection_pool::IdleConnections;
use super::malformed_response::MalformedResponse;
use super::response_head::{PreviousHead, ResponseHead};
use crate::write_batch::{BatchWrite, BatchedStream, SocketWriter, Unwritten};

/// Any error of a connection.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Read size. It starts small and doubles with each read that fills it.
const MIN_READ: usize = 8 * 1024;
const MAX_READ: usize = 256 * 1024;

/// Requests up to this size are written in one piece.
pub(super) const SMALL_REQUEST: usize = 4 << 10;

pub(super) struct HttpConnection {
    /// Small requests go through its write batch.
    stream: BatchedStream<TcpStream>,
    /// The runtime that polls the socket. Another runtime would be woken across threads.
    pub(super) runtime: Id,
    buffer: BytesMut,
    read_size: usize,
    previous_head: PreviousHead,
}

/// The part of a request that is not yet written.
pub(super) struct RequestWrite<'a> {
    parts: [IoSlice<'a>; PARTS],
    next: usize,
    /// True while the write batch holds the request.
    is_queued: bool,
    has_started: bool,
    fault: Option<io::Error>,
}

/// The head without its last line, the content-length line, and the body.
const PARTS: usize = 3;

/// A request without a response.
pub(super) enum SendFailure {
    /// No byte was sent, so another connection can send the request.
    Unsent(BoxError),
    Lost(BoxError),
}

/// Reads the rest of a response. A completely read response returns its connection to the pool; a dropped one closes
/// it.
pub struct BodyReader {
    connection: Option<HttpConnection>,
    decoder: BodyDecoder,
    keep_alive: bool,
    /// The unwritten rest of the request, if the server responded early.
    unsent: Bytes,
    idle: Arc<IdleConnections>,
}

impl<'a> RequestWrite<'a> {
    pub(super) fn new(parts: [&'a [u8]; PARTS]) -> Self {
        let parts = parts.map(IoSlice::new);
        Self { parts, next: 0, is_queued: false, has_started: false, fault: None }
    }

    fn is_done(&self) -> bool {
        self.is_queued || self.next == PARTS
    }

    /// Queues a small request in the write batch.
    fn enqueue(&mut self, writer: &SocketWriter, cx: &Context<'_>) {
        let is_small = self.parts.iter().map(|part| part.len()).sum::<usize>() <= SMALL_REQUEST;
        if !self.has_started && is_small {
            self.is_queued = writer.enqueue(self.parts.each_ref().map(|part| &**part));
            self.has_started = self.is_queued;
        }
        if self.is_queued
            && let Some(unwritten) = writer.poll_unwritten(cx)
        {
            self.resume_from(unwritten);
        }
    }

    /// Takes the request back from the write batch.
    fn reclaim(&mut self, writer: Option<&SocketWriter>) {
        if let Some(unwritten) =
            writer.filter(|_| self.is_queued).and_then(SocketWriter::take_unwritten)
        {
            self.resume_from(unwritten);
        }
    }

    fn resume_from(&mut self, unwritten: Unwritten) {
        self.is_queued = false;
        self.advance(unwritten.sent);
        self.has_started = unwritten.sent > 0;
        self.fault = unwritten.error;
    }

    fn advance(&mut self, size: usize) {
        let mut parts = &mut self.parts[self.next..];
        IoSlice::advance_slices(&mut parts, size);
        self.next = PARTS - parts.len();
    }

    /// Ready when all is written, or a write failed.
    fn poll_write(
        &mut self,
        stream: &mut BatchedStream<TcpStream>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        while !self.is_done() && self.fault.is_none() {
            let stream = Pin::new(&mut *stream);
            let written = match &self.parts[self.next..] {
                [all, rest @ ..] if rest.iter().all(|part| part.is_empty()) => {
                    stream.poll_write(cx, all)
                }
                parts => stream.poll_write_vectored(cx, parts),
            };
            match ready!(written) {
                Ok(0) => self.fault = Some(io::ErrorKind::WriteZero.into()),
                Ok(size) => {
                    self.advance(size);
                    self.has_started = true;
                }
                Err(fault) => self.fault = Some(fault),
            }
        }
        Poll::Ready(())
    }

    fn failure(&mut self, fault: BoxError) -> SendFailure {
        // A failed write also explains the missing response.
        let fault = self.fault.take().map_or(fault, BoxError::from);
        if self.has_started { SendFailure::Lost(fault) } else { SendFailure::Unsent(fault) }
    }

    fn unsent_bytes(&self) -> Bytes {
        let mut unsent = BytesMut::new();
        if self.fault.is_none() && !self.is_queued {
            self.parts[self.next..].iter().for_each(|part| unsent.extend_from_slice(part));
        }
        unsent.freeze()
    }
}

impl HttpConnection {
    pub(super) fn new(stream: TcpStream) -> Self {
        let (runtime, previous_head) = (Handle::current().id(), PreviousHead::default());
        let (stream, buffer) = (BatchedStream::new(stream), BytesMut::new());
        Self { stream, runtime, buffer, read_size: MIN_READ, previous_head }
    }

    /// True if a request can be sent. Only this check notices that the server closed an idle connection or sent
    /// unsolicited bytes.
    pub(super) fn is_open(&self) -> bool {
        // `try_read` makes a system call only if the socket is readable.
        let read = self.stream.get_ref().try_read(&mut [0]);
        matches!(read, Err(fault) if fault.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends a request and waits for the response head, even if the server responds before it has read the whole
    /// request.
    pub(super) async fn send_request(
        &mut self,
        sending: &mut RequestWrite<'_>,
    ) -> Result<ResponseHead, SendFailure> {
        poll_fn(|cx| self.poll_send_request(sending, cx)).await
    }

    fn poll_send_request(
        &mut self,
        sending: &mut RequestWrite<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ResponseHead, SendFailure>> {
        if let Some(writer) = self.stream.socket_writer() {
            sending.enqueue(writer, cx);
        }
        let _ = sending.poll_write(&mut self.stream, cx);
        if let Some(fault) = sending.fault.take_if(|_| !sending.has_started) {
            return Poll::Ready(Err(sending.failure(fault.into())));
        }
        loop {
            let read = match ready!(self.poll_fill(cx)) {
                Ok(0) => Err(BoxError::from(MalformedResponse::Truncated)),
                Ok(_) => ResponseHead::parse(&mut self.buffer, &mut self.previous_head)
                    .map_err(BoxError::from),
                Err(fault) => Err(fault.into()),
            };
            if let Some(head) = read.transpose() {
                sending.reclaim(self.stream.socket_writer());
                // Bytes that arrive before the request are not its response.
                let head = head.and_then(|head| match sending.has_started {
                    true => Ok(head),
                    false => Err(BoxError::from(MalformedResponse::Unsolicited)),
                });
                return Poll::Ready(head.map_err(|fault| sending.failure(fault)));
            }
        }
    }

    /// Reads into the buffer. Returns 0 at the end of the connection.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.buffer.reserve(self.read_size);
        let had = self.buffer.capacity() - self.buffer.len();
        let read = ready!(pin!(self.stream.read_buf(&mut self.buffer)).poll(cx));
        if matches!(read, Ok(size) if size == had) {
            self.read_size = (self.read_size * 2).min(MAX_READ);
        }
        Poll::Ready(read)
    }

    /// Reads directly into the body, at most `left` bytes.
    fn poll_read_into(
        &mut self,
        into: &mut Vec<u8>,
        left: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if into.len() == into.capacity() {
            into.reserve(left.min(MAX_READ));
        }
        pin!(self.stream.read_buf(&mut into.limit(left))).poll(cx)
    }

    /// Writes the rest of the request as far as the socket accepts it.
    fn poll_write_remaining(&mut self, unsent: &mut Bytes, cx: &mut Context<'_>) {
        while !unsent.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, unsent) {
                Poll::Ready(Ok(size)) if size > 0 => unsent.advance(size),
                // The server has responded without the rest.
                Poll::Ready(_) => unsent.clear(),
                Poll::Pending => return,
            }
        }
    }

    /// Frees the buffer after a large response.
    fn with_reset_buffer(mut self) -> Self {
        if self.read_size > MIN_READ || self.buffer.capacity() > MIN_READ {
            self.buffer = BytesMut::new();
            self.read_size = MIN_READ;
        }
        self
    }
}

impl BodyReader {
    pub(super) fn new(
        connection: HttpConnection,
        head: &ResponseHead,
        sending: &RequestWrite<'_>,
        idle: &Arc<IdleConnections>,
    ) -> Self {
        let mut reader = Self {
            connection: Some(connection),
            decoder: BodyDecoder::new(head.framing),
            // A server that responded early may read the rest of the request as the next one.
            keep_alive: head.keep_alive && sending.is_done(),
            unsent: sending.unsent_bytes(),
            idle: Arc::clone(idle),
        };
        if reader.decoder.is_complete() {
            reader.return_connection();
        }
        reader
    }

    /// Remaining body bytes, if the server declared the length.
    pub fn remaining_length(&self) -> Option<u64> {
        self.decoder.remaining()
    }

    /// The next buffered chunk, or `None` at the end. Pending if the buffer is empty.
    pub fn buffered_chunk(&mut self) -> Poll<Result<Option<Bytes>, MalformedResponse>> {
        let step = self.next_step()?;
        let Some(connection) = &mut self.connection else { return Poll::Ready(Ok(None)) };
        let DecodeStep::Data(size) = step else { return Poll::Pending };
        let chunk = connection.buffer.split_to(size).freeze();
        if self.decoder.is_complete() {
            self.return_connection();
        }
        Poll::Ready(Ok(Some(chunk)))
    }

    /// Copies all buffered body bytes. Ready at the end of the body.
    pub fn copy_buffered(&mut self, body: &mut Vec<u8>) -> Poll<Result<(), MalformedResponse>> {
        loop {
            let step = self.next_step()?;
            let Some(connection) = &mut self.connection else { return Poll::Ready(Ok(())) };
            let DecodeStep::Data(size) = step else { return Poll::Pending };
            body.extend_from_slice(&connection.buffer[..size]);
            connection.buffer.advance(size);
        }
    }

    /// Waits for more bytes.
    pub async fn fill(&mut self) -> Result<(), BoxError> {
        poll_fn(|cx| self.poll_fill_body(None, cx)).await
    }

    /// Waits for more bytes, and reads them directly into the body if its length is known.
    pub async fn fill_into(&mut self, body: &mut Vec<u8>) -> Result<(), BoxError> {
        poll_fn(|cx| self.poll_fill_body(Some(&mut *body), cx)).await
    }

    fn poll_fill_body(
        &mut self,
        body: Option<&mut Vec<u8>>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BoxError>> {
        let Some(connection) = &mut self.connection else { return Poll::Ready(Ok(())) };
        connection.poll_write_remaining(&mut self.unsent, cx);
        let read = match (body, self.decoder.remaining()) {
            (Some(body), Some(unwritten)) if connection.buffer.is_empty() => {
                let left = usize::try_from(unwritten).unwrap_or(usize::MAX);
                let read = ready!(connection.poll_read_into(body, left, cx));
                self.decoder.skip_directly_read(*read.as_ref().unwrap_or(&0));
                read
            }
            _ => ready!(connection.poll_fill(cx)),
        };
        let more = match read {
            Ok(0) => self.decoder.finish_at_close().map_err(BoxError::from),
            read => read.map(drop).map_err(BoxError::from),
        };
        Poll::Ready(more.inspect_err(|_| self.connection = None))
    }

    /// Decodes the buffered bytes. Returns the connection at the end of the body.
    fn next_step(&mut self) -> Result<DecodeStep, MalformedResponse> {
        let Some(connection) = &mut self.connection else { return Ok(DecodeStep::End) };
        let step = self.decoder.step(&mut connection.buffer);
        match step {
            Ok(DecodeStep::End) => self.return_connection(),
            Ok(_) => {}
            Err(_) => self.connection = None,
        }
        step
    }

    fn return_connection(&mut self) {
        // Bytes behind the body belong to no response.
        let connection = self
            .connection
            .take()
            .filter(|connection| self.keep_alive && connection.buffer.is_empty());
        if let Some(connection) = connection {
            self.idle.insert(connection.with_reset_buffer());
        }
    }
}

impl fmt::Debug for BodyReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyReader").field("decoder", &self.decoder).finish_non_exhaustive()
    }
}
