//! Finding messages in a byte stream that comes in chunks, whichever framing each of them has.

use std::mem;
use std::ops::Range;

use crate::frame::{Frame, FrameError, Framing};
use crate::json::Json;
use crate::limits::Limits;
use crate::malformed::Shape;
use crate::outline::Outline;

/// Takes a stream in chunks of any size and gives its messages. Each byte is searched once however the
/// chunks fall, and no more is kept than one message within the limit and the last chunk.
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    buffer: Vec<u8>,
    /// Where the unread part of the buffer starts.
    start: usize,
    /// Up to where it is known to hold no line feed.
    searched: usize,
    state: State,
    /// Of a message that is being dropped, until it has been told.
    outline: Option<Box<Outline>>,
    /// Whether [`Decoder::take_overrun`] has told of that message.
    is_overrun_told: bool,
}

/// A message that is over the limit and has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overrun {
    pub limit: usize,
    /// The beginning of the message.
    pub head: Vec<u8>,
    /// What is known of the message so far.
    pub shape: Shape,
    /// Whether it begins as messages do. Anything else never tells whose it is.
    pub is_message: bool,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// At the start of a line.
    Line,
    /// Among header lines, with the length if it was among them.
    Headers(Option<usize>),
    /// Before a body of this many bytes.
    Body(usize),
    /// Dropping the rest of a line that is over the limit.
    SkipLine,
    /// Dropping what is left of a body that is over the limit.
    SkipBytes(usize),
}

/// What looking at the buffer came to.
enum Step {
    NeedMore,
    GoOn(State),
    Found(Result<Frame, FrameError>),
    /// Found something that changes what comes next.
    FoundAnd(FrameError, State),
}

const EXCERPT: usize = 200;
/// A larger message takes the buffer with it instead of being copied out.
const LARGE: usize = 16 * 1024;

impl Decoder {
    pub fn new(limits: &Limits) -> Self {
        Decoder {
            limits: *limits,
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            state: State::Line,
            outline: None,
            is_overrun_told: false,
        }
    }

    /// Takes in the next bytes of the stream.
    pub fn push(&mut self, chunk: &[u8]) {
        self.make_room();
        self.buffer.extend_from_slice(chunk);
    }

    /// The same for a reader that writes into the buffer itself: here, with room for so many bytes. What is in
    /// there must stay.
    pub fn room(&mut self, bytes: usize) -> &mut Vec<u8> {
        self.make_room();
        self.buffer.reserve(bytes);
        &mut self.buffer
    }

    /// The next message, or what stood in its place; none until more bytes come.
    #[expect(
        clippy::should_implement_trait,
        reason = "it is no iterator: none does not mean the end"
    )]
    pub fn next(&mut self) -> Option<Result<Frame, FrameError>> {
        loop {
            let step = match self.state {
                State::Line => self.line(),
                State::Headers(length) => self.header(length),
                State::Body(length) => self.body(length),
                State::SkipLine => self.skip_line(),
                State::SkipBytes(left) => self.skip_bytes(left),
            };
            match step {
                Step::NeedMore => return None,
                Step::GoOn(state) => self.state = state,
                Step::Found(found) => {
                    self.state = State::Line;
                    return Some(found);
                }
                Step::FoundAnd(error, state) => {
                    self.state = state;
                    return Some(Err(error));
                }
            }
        }
    }

    /// The bytes of a message that is not whole yet.
    pub fn buffered(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Drops the message that is not whole yet. [`Decoder::next`] tells of it as of one that is too large.
    pub fn abandon(&mut self) {
        let state = match self.state {
            State::Line => State::SkipLine,
            State::Body(length) => State::SkipBytes(length),
            State::Headers(_) | State::SkipLine | State::SkipBytes(_) => return,
        };
        self.begin_outline();
        self.state = state;
    }

    /// The message that [`Decoder::next`] is dropping because it is over the limit; once for each message. A message
    /// without an end is told of in no other way.
    pub fn take_overrun(&mut self) -> Option<Overrun> {
        let outline = self.outline.as_ref().filter(|_| !self.is_overrun_told)?;
        let head = outline.head().to_vec();
        let (shape, is_message) = (outline.shape(), looks_like_message(trim(&head)));
        self.is_overrun_told = true;
        Some(Overrun { limit: self.limits.size, head, shape, is_message })
    }

    /// The stream has ended and [`Decoder::next`] has nothing more: what is left over. A whole message
    /// that lacks only its line feed is one.
    pub fn finish(mut self) -> Option<Result<Frame, FrameError>> {
        if let Some(outline) = self.outline.take() {
            return Some(Err(self.too_large(*outline)));
        }
        let rest = &self.buffer[self.start..];
        let text = trim(rest);
        let in_frame = matches!(self.state, State::Headers(_) | State::Body(_));
        if text.is_empty() && !in_frame {
            return None;
        }
        let is_whole = |text: &str| Json::parse(text, &self.limits).is_ok();
        if !in_frame && looks_like_message(text) && str::from_utf8(text).is_ok_and(is_whole) {
            return Some(Ok(Frame { framing: Framing::Newline, bytes: text.to_vec() }));
        }
        Some(Err(FrameError::Truncated { length: rest.len(), excerpt: excerpt(text) }))
    }

    fn line(&mut self) -> Step {
        let end = match self.find_line() {
            Ok(end) => end,
            Err(step) => return step,
        };
        let span = self.trimmed(end);
        let line = &self.buffer[span.clone()];
        if line.is_empty() {
            self.consume(end + 1);
            return Step::GoOn(State::Line);
        }
        if matches!(read_header(line), Some(Header::Length(_) | Header::Type)) {
            return Step::GoOn(State::Headers(None));
        }
        if !looks_like_message(line) {
            let noise = FrameError::Noise { length: line.len(), excerpt: excerpt(line) };
            self.consume(end + 1);
            return Step::Found(Err(noise));
        }
        if line.len() > self.limits.size {
            return self.skip(State::SkipLine);
        }
        let bytes = self.take(span, end + 1);
        Step::Found(Ok(Frame { framing: Framing::Newline, bytes }))
    }

    /// One header line, or the empty one after them. What is no header is looked at again as a line, so
    /// that a message right after bad headers is not lost.
    fn header(&mut self, length: Option<usize>) -> Step {
        let end = match self.find_line() {
            Ok(end) => end,
            Err(step) => return step,
        };
        let line = &self.buffer[self.trimmed(end)];
        if line.is_empty() {
            self.consume(end + 1);
            return match length {
                Some(length) => Step::GoOn(State::Body(length)),
                None => bad_header(b"no content-length"),
            };
        }
        let next = match read_header(line) {
            Some(Header::Length(Some(length))) => State::Headers(Some(length)),
            Some(Header::Type | Header::Other) => State::Headers(length),
            Some(Header::Length(None)) => {
                let step = bad_header(line);
                self.consume(end + 1);
                return step;
            }
            None => return bad_header(line),
        };
        self.consume(end + 1);
        Step::GoOn(next)
    }

    fn body(&mut self, length: usize) -> Step {
        if length > self.limits.size {
            return self.skip(State::SkipBytes(length));
        }
        if self.buffer.len() - self.start < length {
            return Step::NeedMore;
        }
        let end = self.start + length;
        let bytes = self.take(self.start..end, end);
        Step::Found(Ok(Frame { framing: Framing::ContentLength, bytes }))
    }

    /// What comes is over the limit.
    fn skip(&mut self, state: State) -> Step {
        self.begin_outline();
        Step::GoOn(state)
    }

    fn begin_outline(&mut self) {
        self.outline = Some(Box::default());
        self.is_overrun_told = false;
    }

    fn skip_line(&mut self) -> Step {
        match self.find_end() {
            Some(end) => {
                let whole = self.drop_to(end, true);
                self.consume(end + 1);
                whole.map_or(Step::GoOn(State::Line), |error| Step::FoundAnd(error, State::Line))
            }
            None => match self.drop_to(self.buffer.len(), false) {
                Some(error) => Step::FoundAnd(error, State::SkipLine),
                None => Step::NeedMore,
            },
        }
    }

    fn skip_bytes(&mut self, left: usize) -> Step {
        let skipped = left.min(self.buffer.len() - self.start);
        let left = left - skipped;
        let state = if left == 0 { State::Line } else { State::SkipBytes(left) };
        match self.drop_to(self.start + skipped, left == 0) {
            Some(error) => Step::FoundAnd(error, state),
            None if left == 0 => Step::GoOn(state),
            None => {
                self.state = state;
                Step::NeedMore
            }
        }
    }

    /// Drops bytes of a message that is over the limit. What it was, if that is known by now and was not told.
    fn drop_to(&mut self, end: usize, is_end: bool) -> Option<FrameError> {
        if let Some(outline) = &mut self.outline {
            outline.feed(&self.buffer[self.start..end]);
        }
        self.consume(end);
        let outline = self.outline.take_if(|outline| is_end || outline.is_settled())?;
        Some(self.too_large(*outline))
    }

    /// Where the current line ends, or what to do if it is not whole or over the limit. The carriage
    /// return before a line feed is no part of the message, so one byte more than the limit may come.
    fn find_line(&mut self) -> Result<usize, Step> {
        let end = self.find_end();
        if end.unwrap_or(self.buffer.len()) - self.start > self.limits.size.saturating_add(1) {
            return Err(self.skip(State::SkipLine));
        }
        end.ok_or(Step::NeedMore)
    }

    fn find_end(&mut self) -> Option<usize> {
        let found = memchr::memchr(b'\n', &self.buffer[self.searched..]);
        let end = found.map(|place| self.searched + place);
        self.searched = end.unwrap_or(self.buffer.len());
        end
    }

    fn too_large(&self, outline: Outline) -> FrameError {
        let shape = outline.shape();
        let (head, id) = outline.into_parts();
        FrameError::TooLarge { limit: self.limits.size, head, id, shape }
    }

    /// The line up to `end` without what surrounds it.
    fn trimmed(&self, end: usize) -> Range<usize> {
        let line = &self.buffer[self.start..end];
        let inner = trim(line);
        let start = self.start + (inner.as_ptr() as usize - line.as_ptr() as usize);
        start..start + inner.len()
    }

    /// Takes bytes out of the buffer and goes on after `next`. What is larger keeps the buffer: the message,
    /// or what follows it.
    fn take(&mut self, span: Range<usize>, next: usize) -> Vec<u8> {
        if span.len() < LARGE || self.buffer.len() - next > span.len() {
            let bytes = self.buffer[span].to_vec();
            self.consume(next);
            return bytes;
        }
        let rest = self.buffer.split_off(next);
        let mut bytes = mem::replace(&mut self.buffer, rest);
        (self.start, self.searched) = (0, 0);
        bytes.truncate(span.end);
        bytes.drain(..span.start);
        bytes
    }

    fn consume(&mut self, to: usize) {
        self.start = to;
        self.searched = self.searched.max(to);
    }

    /// Moves the unread part to the front once it is the smaller one, so that a byte is moved once on
    /// average, and lets go of a buffer that some large message left behind.
    fn make_room(&mut self) {
        let unread = self.buffer.len() - self.start;
        if self.start < unread {
            return;
        }
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        if self.buffer.capacity() > 4 * LARGE && unread < LARGE {
            self.buffer.shrink_to(LARGE);
        }
    }
}

fn bad_header(line: &[u8]) -> Step {
    let excerpt = excerpt(line);
    Step::Found(Err(FrameError::BadHeader { excerpt }))
}

/// What a header line says.
enum Header {
    /// The length, if it is a number.
    Length(Option<usize>),
    Type,
    Other,
}

fn read_header(line: &[u8]) -> Option<Header> {
    let (name, value) = line.split_at(memchr::memchr(b':', line)?);
    if name.is_empty() || !name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-') {
        return None;
    }
    Some(match name {
        name if name.eq_ignore_ascii_case(b"content-length") => Header::Length(number(&value[1..])),
        name if name.eq_ignore_ascii_case(b"content-type") => Header::Type,
        _ => Header::Other,
    })
}

fn number(text: &[u8]) -> Option<usize> {
    let text = str::from_utf8(text).ok()?.trim();
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Without the white space around it and the mark that some Windows programs begin with.
fn trim(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii()
}

/// An object, or an array of them: many log lines begin with `[`.
fn looks_like_message(line: &[u8]) -> bool {
    match line.split_first() {
        Some((b'{', _)) => true,
        Some((b'[', rest)) => matches!(rest.trim_ascii_start().first(), Some(b'{' | b']')),
        _ => false,
    }
}

fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(EXCERPT)]).into_owned()
}

#[cfg(test)]
#[path = "decoder_tests.rs"]
mod tests;
