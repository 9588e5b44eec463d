//! Decodes messages from a byte stream in both framings.

use std::mem;
use std::ops::Range;

use crate::frame::{Frame, FrameError, Framing};
use crate::json::Json;
use crate::limits::MessageLimits;
use crate::outline::Outline;
use crate::parse_error::MessageKind;

/// Accepts a stream in chunks of any size and returns its messages. Each byte is searched once, however the chunks
/// fall. The buffer holds at most one message within the limit and the last chunk.
#[derive(Debug)]
pub struct FrameDecoder {
    limits: MessageLimits,
    buffer: Vec<u8>,
    /// Start of the unread part of the buffer.
    start: usize,
    /// The buffer has no line feed between `start` and this position.
    searched: usize,
    state: State,
    /// Outline of a message that is being dropped, until it is reported.
    outline: Option<Box<Outline>>,
    /// True if [`FrameDecoder::take_too_large`] has reported the message that is being dropped.
    is_too_large_reported: bool,
}

/// A message that is over the limit and has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameTooLarge {
    /// The limit in bytes.
    pub limit: usize,
    /// Beginning of the message.
    pub head: Vec<u8>,
    /// Kind of the message, as far as it is known.
    pub kind: MessageKind,
    /// True if it begins like a JSON message. Other data never has an id.
    pub is_message: bool,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// At the start of a line.
    Line,
    /// Between header lines, with the content length if it was given.
    Headers(Option<usize>),
    /// Before a body of this many bytes.
    Body(usize),
    /// Dropping the rest of a line that is over the limit.
    SkipLine,
    /// Dropping the rest of a body that is over the limit.
    SkipBytes(usize),
}

/// Result of one decoding step.
enum Step {
    NeedMore,
    Continue(State),
    Found(Result<Frame, FrameError>),
    /// Returns an error and continues in another state.
    FoundThen(FrameError, State),
}

const EXCERPT_BYTES: usize = 200;
/// Messages of at least this size take over the buffer instead of being copied.
const LARGE_MESSAGE: usize = 16 * 1024;

impl FrameDecoder {
    /// Creates a decoder with these limits.
    pub fn new(limits: &MessageLimits) -> Self {
        FrameDecoder {
            limits: *limits,
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            state: State::Line,
            outline: None,
            is_too_large_reported: false,
        }
    }

    /// Appends the next bytes of the stream.
    pub fn push(&mut self, chunk: &[u8]) {
        self.make_room();
        self.buffer.extend_from_slice(chunk);
    }

    /// Reserves room for `bytes` and returns the buffer for a reader that appends to it directly. The reader must
    /// keep the existing content.
    pub fn reserve(&mut self, bytes: usize) -> &mut Vec<u8> {
        self.make_room();
        self.buffer.reserve(bytes);
        &mut self.buffer
    }

    /// Returns the next message or framing error. Returns `None` until more bytes arrive.
    #[expect(
        clippy::should_implement_trait,
        reason = "it is no iterator: none does not mean the end"
    )]
    pub fn next(&mut self) -> Option<Result<Frame, FrameError>> {
        loop {
            let step = match self.state {
                State::Line => self.decode_line(),
                State::Headers(length) => self.decode_header(length),
                State::Body(length) => self.decode_body(length),
                State::SkipLine => self.skip_line(),
                State::SkipBytes(left) => self.skip_bytes(left),
            };
            match step {
                Step::NeedMore => return None,
                Step::Continue(state) => self.state = state,
                Step::Found(found) => {
                    self.state = State::Line;
                    return Some(found);
                }
                Step::FoundThen(error, state) => {
                    self.state = state;
                    return Some(Err(error));
                }
            }
        }
    }

    /// Number of bytes of the incomplete message.
    pub fn buffered(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Drops the incomplete message. [`FrameDecoder::next`] reports it like a message that is too large.
    pub fn abandon(&mut self) {
        let state = match self.state {
            State::Line => State::SkipLine,
            State::Body(length) => State::SkipBytes(length),
            State::Headers(_) | State::SkipLine | State::SkipBytes(_) => return,
        };
        self.start_outline();
        self.state = state;
    }

    /// Returns the message that [`FrameDecoder::next`] is dropping because it is over the limit, once per message. A
    /// message that never ends is reported only here.
    pub fn take_too_large(&mut self) -> Option<FrameTooLarge> {
        let outline = self.outline.as_ref().filter(|_| !self.is_too_large_reported)?;
        let head = outline.head().to_vec();
        let (kind, is_message) = (outline.kind(), looks_like_message(trim(&head)));
        self.is_too_large_reported = true;
        Some(FrameTooLarge { limit: self.limits.size, head, kind, is_message })
    }

    /// Decodes the rest after the end of the stream, when [`FrameDecoder::next`] has returned `None`. A complete
    /// message without its final line feed counts as a message.
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

    fn decode_line(&mut self) -> Step {
        let end = match self.find_line() {
            Ok(end) => end,
            Err(step) => return step,
        };
        let span = self.trimmed(end);
        let line = &self.buffer[span.clone()];
        if line.is_empty() {
            self.consume(end + 1);
            return Step::Continue(State::Line);
        }
        if matches!(read_header(line), Some(HeaderLine::Length(_) | HeaderLine::Type)) {
            return Step::Continue(State::Headers(None));
        }
        if !looks_like_message(line) {
            let noise = FrameError::Noise { length: line.len(), excerpt: excerpt(line) };
            self.consume(end + 1);
            return Step::Found(Err(noise));
        }
        if line.len() > self.limits.size {
            return self.start_skipping(State::SkipLine);
        }
        let bytes = self.extract(span, end + 1);
        Step::Found(Ok(Frame { framing: Framing::Newline, bytes }))
    }

    /// Decodes one header line or the empty line after the headers. A line that is not a header is decoded again as a
    /// message line, so bad headers do not swallow the message after them.
    fn decode_header(&mut self, length: Option<usize>) -> Step {
        let end = match self.find_line() {
            Ok(end) => end,
            Err(step) => return step,
        };
        let line = &self.buffer[self.trimmed(end)];
        if line.is_empty() {
            self.consume(end + 1);
            return match length {
                Some(length) => Step::Continue(State::Body(length)),
                None => bad_header(b"no content-length"),
            };
        }
        let next = match read_header(line) {
            Some(HeaderLine::Length(Some(length))) => State::Headers(Some(length)),
            Some(HeaderLine::Type | HeaderLine::Other) => State::Headers(length),
            Some(HeaderLine::Length(None)) => {
                let step = bad_header(line);
                self.consume(end + 1);
                return step;
            }
            None => return bad_header(line),
        };
        self.consume(end + 1);
        Step::Continue(next)
    }

    fn decode_body(&mut self, length: usize) -> Step {
        if length > self.limits.size {
            return self.start_skipping(State::SkipBytes(length));
        }
        if self.buffer.len() - self.start < length {
            return Step::NeedMore;
        }
        let end = self.start + length;
        let bytes = self.extract(self.start..end, end);
        Step::Found(Ok(Frame { framing: Framing::ContentLength, bytes }))
    }

    /// Starts to drop a message that is over the limit.
    fn start_skipping(&mut self, state: State) -> Step {
        self.start_outline();
        Step::Continue(state)
    }

    fn start_outline(&mut self) {
        self.outline = Some(Box::default());
        self.is_too_large_reported = false;
    }

    fn skip_line(&mut self) -> Step {
        match self.find_newline() {
            Some(end) => {
                let error = self.discard_to(end, true);
                self.consume(end + 1);
                error.map_or(Step::Continue(State::Line), |error| {
                    Step::FoundThen(error, State::Line)
                })
            }
            None => match self.discard_to(self.buffer.len(), false) {
                Some(error) => Step::FoundThen(error, State::SkipLine),
                None => Step::NeedMore,
            },
        }
    }

    fn skip_bytes(&mut self, left: usize) -> Step {
        let skipped = left.min(self.buffer.len() - self.start);
        let left = left - skipped;
        let state = if left == 0 { State::Line } else { State::SkipBytes(left) };
        match self.discard_to(self.start + skipped, left == 0) {
            Some(error) => Step::FoundThen(error, state),
            None if left == 0 => Step::Continue(state),
            None => {
                self.state = state;
                Step::NeedMore
            }
        }
    }

    /// Drops bytes of a message that is over the limit. Returns the error once the message's id and kind are known,
    /// or at its end.
    fn discard_to(&mut self, end: usize, is_end: bool) -> Option<FrameError> {
        if let Some(outline) = &mut self.outline {
            outline.feed(&self.buffer[self.start..end]);
        }
        self.consume(end);
        let outline = self.outline.take_if(|outline| is_end || outline.is_complete())?;
        Some(self.too_large(*outline))
    }

    /// Finds the end of the current line. Returns the next step if the line is incomplete or over the limit. The
    /// carriage return before a line feed does not count, so the line may be one byte longer than the limit.
    fn find_line(&mut self) -> Result<usize, Step> {
        let end = self.find_newline();
        if end.unwrap_or(self.buffer.len()) - self.start > self.limits.size.saturating_add(1) {
            return Err(self.start_skipping(State::SkipLine));
        }
        end.ok_or(Step::NeedMore)
    }

    fn find_newline(&mut self) -> Option<usize> {
        let found = memchr::memchr(b'\n', &self.buffer[self.searched..]);
        let end = found.map(|place| self.searched + place);
        self.searched = end.unwrap_or(self.buffer.len());
        end
    }

    fn too_large(&self, outline: Outline) -> FrameError {
        let kind = outline.kind();
        let (head, id) = outline.into_parts();
        FrameError::TooLarge { limit: self.limits.size, head, id, kind }
    }

    /// Range of the line up to `end`, without the surrounding white space.
    fn trimmed(&self, end: usize) -> Range<usize> {
        let line = &self.buffer[self.start..end];
        let inner = trim(line);
        let start = self.start + (inner.as_ptr() as usize - line.as_ptr() as usize);
        start..start + inner.len()
    }

    /// Takes the bytes in `span` out of the buffer and continues after `next`. The larger of the message and the rest
    /// keeps the allocation.
    fn extract(&mut self, span: Range<usize>, next: usize) -> Vec<u8> {
        if span.len() < LARGE_MESSAGE || self.buffer.len() - next > span.len() {
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

    /// Moves the unread part to the front once it is the smaller one, so each byte moves once on average. Shrinks a
    /// buffer that a large message left behind.
    fn make_room(&mut self) {
        let unread = self.buffer.len() - self.start;
        if self.start < unread {
            return;
        }
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        if self.buffer.capacity() > 4 * LARGE_MESSAGE && unread < LARGE_MESSAGE {
            self.buffer.shrink_to(LARGE_MESSAGE);
        }
    }
}

fn bad_header(line: &[u8]) -> Step {
    let excerpt = excerpt(line);
    Step::Found(Err(FrameError::BadHeader { excerpt }))
}

/// A parsed header line.
enum HeaderLine {
    /// `Content-Length`, with its value if it is a number.
    Length(Option<usize>),
    Type,
    Other,
}

fn read_header(line: &[u8]) -> Option<HeaderLine> {
    let (name, value) = line.split_at(memchr::memchr(b':', line)?);
    if name.is_empty() || !name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-') {
        return None;
    }
    Some(match name {
        name if name.eq_ignore_ascii_case(b"content-length") => {
            HeaderLine::Length(number(&value[1..]))
        }
        name if name.eq_ignore_ascii_case(b"content-type") => HeaderLine::Type,
        _ => HeaderLine::Other,
    })
}

fn number(text: &[u8]) -> Option<usize> {
    let text = str::from_utf8(text).ok()?.trim();
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Strips the surrounding white space and the byte order mark that some Windows programs write first.
fn trim(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii()
}

/// Returns whether the line begins an object, or an array of objects. Many log lines begin with `[`.
fn looks_like_message(line: &[u8]) -> bool {
    match line.split_first() {
        Some((b'{', _)) => true,
        Some((b'[', rest)) => matches!(rest.trim_ascii_start().first(), Some(b'{' | b']')),
        _ => false,
    }
}

fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(EXCERPT_BYTES)]).into_owned()
}

#[cfg(test)]
#[path = "decoder_tests.rs"]
mod tests;
