//! One plain HTTP connection, driven by whoever uses it: a request over it needs no other task, and wakes nobody but
//! the one who waits for its answer.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Handle, Id};

use super::decoder::{Decoder, Step};
use super::garbled::Garbled;
use super::head::{Before, Head};
use super::lanes::Idle;
use crate::burst::{Left, Outlet};

pub(super) type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Room for what comes: for most answers at first, and more for those that fill it.
const ROOM: usize = 8 * 1024;
const MOST_ROOM: usize = 256 * 1024;

/// A request up to this size is written in one piece.
pub(super) const SMALL: usize = 4 << 10;

pub(super) struct Lane {
    /// Where requests wait for what else is said. It goes before the stream does.
    outlet: Option<Outlet>,
    stream: TcpStream,
    /// The runtime that hears of what comes: whoever used it on another would be woken from thread to thread.
    pub(super) home: Id,
    buffer: BytesMut,
    room: usize,
    before: Before,
}

/// A request, as far as it is not written.
pub(super) struct Sending<'a> {
    parts: [IoSlice<'a>; PARTS],
    next: usize,
    /// Whether the end of the turn writes it.
    is_put: bool,
    has_begun: bool,
    fault: Option<io::Error>,
}

/// The head but for its last line, that line, and the body.
const PARTS: usize = 3;

/// A request that got no answer.
pub(super) enum Failed {
    /// Nothing of it was sent, so it can be sent on another connection.
    Unsent(Fault),
    Lost(Fault),
}

/// The rest of an answer. Read to its end, it gives its connection back; dropped before, it closes it.
pub(super) struct Rest {
    lane: Option<Lane>,
    decoder: Decoder,
    keeps: bool,
    /// What is still to be written of the request, where the server did not wait for it.
    unsent: Bytes,
    idle: Arc<Idle>,
}

impl<'a> Sending<'a> {
    pub(super) fn of(parts: [&'a [u8]; PARTS]) -> Self {
        let parts = parts.map(IoSlice::new);
        Self { parts, next: 0, is_put: false, has_begun: false, fault: None }
    }

    fn is_done(&self) -> bool {
        self.is_put || self.next == PARTS
    }

    /// What is small goes out with what else is said on this thread.
    fn put(&mut self, outlet: &Outlet, cx: &Context<'_>) {
        let is_small = self.parts.iter().map(|part| part.len()).sum::<usize>() <= SMALL;
        if !self.has_begun && is_small {
            self.is_put = outlet.put(self.parts.each_ref().map(|part| &**part));
            self.has_begun = self.is_put;
        }
        if self.is_put
            && let Some(left) = outlet.poll_left(cx)
        {
            self.is_left(left);
        }
    }

    /// The end of the turn is not waited for any more.
    fn recall(&mut self, outlet: Option<&Outlet>) {
        if let Some(left) = outlet.filter(|_| self.is_put).and_then(Outlet::take_back) {
            self.is_left(left);
        }
    }

    fn is_left(&mut self, left: Left) {
        self.is_put = false;
        self.wrote(left.sent);
        self.has_begun = left.sent > 0;
        self.fault = left.fault;
    }

    fn wrote(&mut self, size: usize) {
        let mut parts = &mut self.parts[self.next..];
        IoSlice::advance_slices(&mut parts, size);
        self.next = PARTS - parts.len();
    }

    /// Ready when it is written, or cannot be.
    fn poll_write(&mut self, stream: &mut TcpStream, cx: &mut Context<'_>) -> Poll<()> {
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
                    self.wrote(size);
                    self.has_begun = true;
                }
                Err(fault) => self.fault = Some(fault),
            }
        }
        Poll::Ready(())
    }

    fn failed(&mut self, fault: Fault) -> Failed {
        // What kept it from being written also kept it from being answered.
        let fault = self.fault.take().map_or(fault, Fault::from);
        if self.has_begun { Failed::Lost(fault) } else { Failed::Unsent(fault) }
    }

    fn unsent(&self) -> Bytes {
        let mut unsent = BytesMut::new();
        if self.fault.is_none() && !self.is_put {
            self.parts[self.next..].iter().for_each(|part| unsent.extend_from_slice(part));
        }
        unsent.freeze()
    }
}

impl Lane {
    pub(super) fn over(stream: TcpStream) -> Self {
        let (home, before) = (Handle::current().id(), Before::default());
        let (outlet, buffer) = (Outlet::here(&stream), BytesMut::new());
        Self { outlet, stream, home, buffer, room: ROOM, before }
    }

    /// Whether a request can be sent. An idle connection learns only here that the server has closed it, or has said
    /// what nobody asked for.
    pub(super) fn is_open(&self) -> bool {
        // Nothing is asked of the system unless something has come.
        let read = self.stream.try_read(&mut [0]);
        matches!(read, Err(fault) if fault.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends a request and waits for the head of its answer, even if the server does not wait for all of the request.
    pub(super) async fn ask(&mut self, sending: &mut Sending<'_>) -> Result<Head, Failed> {
        poll_fn(|cx| self.poll_ask(sending, cx)).await
    }

    fn poll_ask(
        &mut self,
        sending: &mut Sending<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Head, Failed>> {
        if let Some(outlet) = &self.outlet {
            sending.put(outlet, cx);
        }
        let _ = sending.poll_write(&mut self.stream, cx);
        if let Some(fault) = sending.fault.take_if(|_| !sending.has_begun) {
            return Poll::Ready(Err(sending.failed(fault.into())));
        }
        loop {
            let read = match ready!(self.poll_fill(cx)) {
                Ok(0) => Err(Fault::from(Garbled::CutShort)),
                Ok(_) => Head::take(&mut self.buffer, &mut self.before).map_err(Fault::from),
                Err(fault) => Err(fault.into()),
            };
            if let Some(head) = read.transpose() {
                sending.recall(self.outlet.as_ref());
                // What comes before anything was sent is no answer.
                let head = head.and_then(|head| match sending.has_begun {
                    true => Ok(head),
                    false => Err(Fault::from(Garbled::Unasked)),
                });
                return Poll::Ready(head.map_err(|fault| sending.failed(fault)));
            }
        }
    }

    /// Reads into the buffer; nothing at the end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.buffer.reserve(self.room);
        let had = self.buffer.capacity() - self.buffer.len();
        let read = ready!(pin!(self.stream.read_buf(&mut self.buffer)).poll(cx));
        if matches!(read, Ok(size) if size == had) {
            self.room = (self.room * 2).min(MOST_ROOM);
        }
        Poll::Ready(read)
    }

    /// Reads past the buffer, no more than there is still to come.
    fn poll_read(
        &mut self,
        into: &mut Vec<u8>,
        left: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if into.len() == into.capacity() {
            into.reserve(left.min(MOST_ROOM));
        }
        pin!(self.stream.read_buf(&mut into.limit(left))).poll(cx)
    }

    /// Writes what is left of a request, as far as the server takes it.
    fn poll_write_on(&mut self, unsent: &mut Bytes, cx: &mut Context<'_>) {
        while !unsent.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, unsent) {
                Poll::Ready(Ok(size)) if size > 0 => unsent.advance(size),
                // It has answered without it.
                Poll::Ready(_) => unsent.clear(),
                Poll::Pending => return,
            }
        }
    }

    /// A large answer leaves no large buffer behind.
    fn rested(mut self) -> Self {
        if self.room > ROOM || self.buffer.capacity() > ROOM {
            self.buffer = BytesMut::new();
            self.room = ROOM;
        }
        self
    }
}

impl Rest {
    pub(super) fn of(lane: Lane, head: &Head, sending: &Sending<'_>, idle: &Arc<Idle>) -> Self {
        let mut rest = Self {
            lane: Some(lane),
            decoder: Decoder::of(head.framing),
            // Whoever answers before he has heard all may take what is left for another request.
            keeps: head.keeps && sending.is_done(),
            unsent: sending.unsent(),
            idle: Arc::clone(idle),
        };
        if rest.decoder.is_over() {
            rest.give_back();
        }
        rest
    }

    /// How much is still to come, where the server has said so.
    pub(super) fn announced(&self) -> Option<u64> {
        self.decoder.left()
    }

    /// The next piece, if it has come already; none at the end.
    pub(super) fn chunk_at_hand(&mut self) -> Poll<Result<Option<Bytes>, Garbled>> {
        let step = self.step()?;
        let Some(lane) = &mut self.lane else { return Poll::Ready(Ok(None)) };
        let Step::Data(size) = step else { return Poll::Pending };
        let chunk = lane.buffer.split_to(size).freeze();
        if self.decoder.is_over() {
            self.give_back();
        }
        Poll::Ready(Ok(Some(chunk)))
    }

    /// All that has come already; ready at the end.
    pub(super) fn take_into(&mut self, body: &mut Vec<u8>) -> Poll<Result<(), Garbled>> {
        loop {
            let step = self.step()?;
            let Some(lane) = &mut self.lane else { return Poll::Ready(Ok(())) };
            let Step::Data(size) = step else { return Poll::Pending };
            body.extend_from_slice(&lane.buffer[..size]);
            lane.buffer.advance(size);
        }
    }

    /// Waits until there is more at hand.
    pub(super) async fn more(&mut self) -> Result<(), Fault> {
        poll_fn(|cx| self.poll_more(None, cx)).await
    }

    /// The same, but what is known to be of the body goes there at once.
    pub(super) async fn more_into(&mut self, body: &mut Vec<u8>) -> Result<(), Fault> {
        poll_fn(|cx| self.poll_more(Some(&mut *body), cx)).await
    }

    fn poll_more(
        &mut self,
        body: Option<&mut Vec<u8>>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>> {
        let Some(lane) = &mut self.lane else { return Poll::Ready(Ok(())) };
        lane.poll_write_on(&mut self.unsent, cx);
        let read = match (body, self.decoder.left()) {
            (Some(body), Some(left)) if lane.buffer.is_empty() => {
                let left = usize::try_from(left).unwrap_or(usize::MAX);
                let read = ready!(lane.poll_read(body, left, cx));
                self.decoder.passed(*read.as_ref().unwrap_or(&0));
                read
            }
            _ => ready!(lane.poll_fill(cx)),
        };
        let more = match read {
            Ok(0) => self.decoder.closed().map_err(Fault::from),
            read => read.map(drop).map_err(Fault::from),
        };
        Poll::Ready(more.inspect_err(|_| self.lane = None))
    }

    /// What the bytes at hand are. The connection is gone after the last.
    fn step(&mut self) -> Result<Step, Garbled> {
        let Some(lane) = &mut self.lane else { return Ok(Step::End) };
        let step = self.decoder.step(&mut lane.buffer);
        match step {
            Ok(Step::End) => self.give_back(),
            Ok(_) => {}
            Err(_) => self.lane = None,
        }
        step
    }

    fn give_back(&mut self) {
        // What comes behind the end is no answer to anything.
        let lane = self.lane.take().filter(|lane| self.keeps && lane.buffer.is_empty());
        if let Some(lane) = lane {
            self.idle.put(lane.rested());
        }
    }
}
