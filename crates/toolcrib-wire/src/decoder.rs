//! Finding messages in a byte stream that comes in chunks, whichever framing each of them has.

use std::mem;
use std::ops::Range;

use crate::frame::{Frame, FrameError, Framing};
use crate::json::Json;
use crate::limits::Limits;
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
        self.outline = Some(Box::default());
        Step::GoOn(state)
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limits(size: usize) -> Limits {
        Limits { size, ..Limits::default() }
    }

    /// Everything that a stream gives when it comes in these chunks, in both ways by turns.
    fn decode<'c>(
        chunks: impl IntoIterator<Item = &'c [u8]>,
        limits: &Limits,
    ) -> Vec<Result<Frame, FrameError>> {
        let mut decoder = Decoder::new(limits);
        let mut found = Vec::new();
        for (n, chunk) in chunks.into_iter().enumerate() {
            if n % 2 == 0 {
                decoder.push(chunk);
            } else {
                decoder.room(chunk.len()).extend_from_slice(chunk);
            }
            while let Some(item) = decoder.next() {
                found.push(item);
            }
        }
        found.extend(decoder.finish());
        found
    }

    /// The same in short: `n:` and `c:` for messages, by framing.
    fn shown(stream: &[u8], size: usize) -> Vec<String> {
        let show = |item: Result<Frame, FrameError>| match item {
            Ok(Frame { framing: Framing::Newline, bytes }) => {
                format!("n:{}", String::from_utf8_lossy(&bytes))
            }
            Ok(Frame { framing: Framing::ContentLength, bytes }) => {
                format!("c:{}", String::from_utf8_lossy(&bytes))
            }
            Err(error) => error.to_string(),
        };
        decode([stream], &limits(size)).into_iter().map(show).collect()
    }

    #[test]
    fn both_framings_are_told_apart_message_by_message() {
        // DIS-47, DKR-08: Content-Length is read where it is written, newline everywhere else.
        let stream = "{\"a\":\"é\"}\nContent-Length: 10\r\n\r\n{\"b\":\"ü\"}content-length:2\nX-More: 1\nContent-Type: x; charset=utf-8\n\n{}\r\n[{}]\n";
        assert_eq!(
            shown(stream.as_bytes(), 99),
            ["n:{\"a\":\"é\"}", "c:{\"b\":\"ü\"}", "c:{}", "n:[{}]"]
        );
        assert_eq!(shown(b"Content-Type: json\r\nCONTENT-LENGTH: 2\r\n\r\n{}", 99), ["c:{}"]);
        assert_eq!(shown(b"Content-Length: 5\r\n\r\n{\n\n\n}{}\n", 99), ["c:{\n\n\n}", "n:{}"]);
    }

    #[test]
    fn carriage_returns_and_blank_lines_are_no_part_of_a_message() {
        // DKR-04: a trailing carriage return is tolerated.
        assert_eq!(shown(b"{}\r\n\r\n\n  \n {\"a\":1} \r\n", 99), ["n:{}", "n:{\"a\":1}"]);
        assert_eq!(shown(b"\xef\xbb\xbf{}\n", 99), ["n:{}"]);
    }

    #[test]
    fn noise_is_reported_in_short_and_what_follows_is_read() {
        // DOM-25, DKR-06: a line that is no message is a problem and not the end.
        let stream = b"Server v1.0 ready!\n[INFO] listening\n{}\nWarning: x\n{oops\n{}\n";
        assert_eq!(
            shown(stream, 99),
            [
                "a line of 18 bytes is no message: \"Server v1.0 ready!\"",
                "a line of 16 bytes is no message: \"[INFO] listening\"",
                "n:{}",
                "a line of 10 bytes is no message: \"Warning: x\"",
                "n:{oops",
                "n:{}",
            ]
        );
        let long = [vec![b'x'; 5000], b"\n".to_vec()].concat();
        let Err(FrameError::Noise { length, excerpt }) = &decode([&long[..]], &limits(9999))[0]
        else {
            panic!()
        };
        assert_eq!((*length, excerpt.len()), (5000, EXCERPT));
    }

    #[test]
    fn a_message_over_the_limit_is_dropped_and_the_next_one_read() {
        let line = format!("{{\"id\":1,\"x\":\"{}\"}}\n{{}}\n", "y".repeat(50));
        assert_eq!(shown(line.as_bytes(), 20), ["a message is over the limit of 20 bytes", "n:{}"]);
        let counted = format!("Content-Length: 30\r\n\r\n{}{{}}\n", "z".repeat(30));
        assert_eq!(
            shown(counted.as_bytes(), 20),
            ["a message is over the limit of 20 bytes", "n:{}"]
        );
        let Err(FrameError::TooLarge { id, .. }) = &decode([line.as_bytes()], &limits(20))[0]
        else {
            panic!()
        };
        assert_eq!(*id, Some(crate::Id::from(1)));
        // The limit itself is allowed, with and without a carriage return.
        assert_eq!(shown(b"{\"a\":1}\r\n{\"a\":2}\n", 7), ["n:{\"a\":1}", "n:{\"a\":2}"]);
        assert_eq!(
            shown(b"{\"a\":12}\n{}\n", 7),
            ["a message is over the limit of 7 bytes", "n:{}"]
        );
    }

    #[test]
    fn bad_headers_cost_themselves_and_not_the_message_after_them() {
        for (stream, expected) in [
            ("Content-Length: x\n{}\n", "unusable header lines: \"Content-Length: x\""),
            ("Content-Length: -2\n{}\n", "unusable header lines: \"Content-Length: -2\""),
            (
                "Content-Length: 99999999999999999999999\n{}\n",
                "unusable header lines: \"Content-Length: 99999999999999999999999\"",
            ),
            ("Content-Length: 2\n{}\n", "unusable header lines: \"{}\""),
            ("Content-Type: x\n\n{}\n", "unusable header lines: \"no content-length\""),
        ] {
            assert_eq!(shown(stream.as_bytes(), 99), [expected, "n:{}"]);
        }
    }

    #[test]
    fn half_a_message_at_the_end_is_reported_and_a_whole_one_without_its_line_feed_counts() {
        assert_eq!(
            shown(b"{\"a\":", 99),
            ["the stream ended after 5 bytes of a message: \"{\\\"a\\\":\""]
        );
        assert_eq!(
            shown(b"Content-Length: 9\r\n\r\n{}", 99),
            ["the stream ended after 2 bytes of a message: \"{}\""]
        );
        assert_eq!(shown(b"{}\n{\"a\":1}", 99), ["n:{}", "n:{\"a\":1}"]);
        assert_eq!(shown(b"{}\n \r\n", 99), ["n:{}"]);
    }

    #[test]
    fn a_line_without_end_costs_linear_time_and_bounded_memory() {
        let limits = limits(8 << 20);
        for chunk in [1, 7, 64 * 1024] {
            let mut decoder = Decoder::new(&limits);
            let chunk = vec![b'{'; chunk];
            // 100 MB where chunks are large; a rescan of 2 MB for each byte would not end today.
            let total = if chunk.len() < 1024 { 2 << 20 } else { 100 << 20 };
            for _ in 0..total / chunk.len() {
                decoder.push(&chunk);
                assert_eq!(decoder.next(), None);
                assert!(decoder.buffer.len() <= limits.size + chunk.len() + 1);
            }
            decoder.push(b"\n{}\n");
            let first = decoder.next().unwrap();
            assert_eq!(matches!(first, Err(FrameError::TooLarge { .. })), total > limits.size);
            let frame = Frame { framing: Framing::Newline, bytes: b"{}".to_vec() };
            assert_eq!(decoder.next(), Some(Ok(frame)));
            decoder.push(b"");
            assert!(decoder.buffer.capacity() <= 4 * LARGE, "an idle decoder keeps little");
        }
    }

    #[test]
    fn large_messages_are_found_whole_with_what_stands_around_them() {
        let large = format!("{{\"x\":\"{}\"}}", "é".repeat(40_000));
        let stream = format!("{{}}\n{large}\nContent-Length: {}\r\n\r\n{large}{{}}\n", large.len());
        for size in [1000, 64 * 1024, 1 << 20] {
            let found = decode(stream.as_bytes().chunks(size), &Limits::default());
            let lengths: Vec<_> =
                found.iter().map(|frame| frame.as_ref().unwrap().bytes.len()).collect();
            assert_eq!(lengths, [2, large.len(), large.len(), 2], "{size}");
        }
    }

    /// Pieces of streams, good and bad.
    fn streams() -> impl Strategy<Value = Vec<u8>> {
        let message = prop_oneof![
            Just("{\"a\":\"é\"}".to_owned()),
            Just("{}".to_owned()),
            Just("[{\"a\":1}]".to_owned()),
            "\\{\"x\":\"[a-z]{0,60}\"\\}",
        ];
        let piece = prop_oneof![
            message.clone().prop_map(|message| format!("{message}\n").into_bytes()),
            message.clone().prop_map(|message| format!("{message}\r\n").into_bytes()),
            message.prop_map(|message| format!(
                "Content-Length: {}\r\n\r\n{message}",
                message.len()
            )
            .into_bytes()),
            Just(b"\r\n".to_vec()),
            Just(b"banner\n".to_vec()),
            Just(b"Content-Length: 7\n".to_vec()),
            Just(b"Content-Type: x\r\n".to_vec()),
            prop::collection::vec(any::<u8>(), 0..12),
        ];
        prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn a_stream_gives_the_same_however_it_is_cut(stream in streams(), sizes in prop::collection::vec(1..9usize, 1..9)) {
            let limits = limits(40);
            let whole = decode([&stream[..]], &limits);
            let bytes = decode(stream.chunks(1), &limits);
            let mut rest = &stream[..];
            let mut sizes = sizes.into_iter().cycle();
            let cut = decode(
                std::iter::from_fn(|| {
                    let (head, tail) = rest.split_at(rest.len().min(sizes.next()?));
                    rest = tail;
                    (!head.is_empty()).then_some(head)
                }),
                &limits,
            );
            // How much of the beginning there was when it was told depends on the chunks.
            let comparable = |mut found: Vec<Result<Frame, FrameError>>| -> Vec<_> {
                for item in &mut found {
                    if let Err(FrameError::TooLarge { head, .. }) = item {
                        head.clear();
                    }
                }
                found
            };
            let whole = comparable(whole);
            prop_assert_eq!(&comparable(bytes), &whole);
            prop_assert_eq!(&comparable(cut), &whole);
        }

        #[test]
        fn what_is_written_is_read(messages in prop::collection::vec(("\\{\"[a-zé\\n ]{0,30}\"\\}", any::<bool>()), 0..6)) {
            let mut stream = Vec::new();
            let mut expected = Vec::new();
            for (message, by_length) in messages {
                let framing = if by_length { Framing::ContentLength } else { Framing::Newline };
                framing.write(message.as_bytes(), &mut stream);
                let bytes = if by_length { message } else { message.replace('\n', " ") };
                expected.push(Ok(Frame { framing, bytes: bytes.into_bytes() }));
            }
            prop_assert_eq!(decode(stream.chunks(3), &Limits::default()), expected);
        }

        #[test]
        fn no_bytes_make_it_panic(stream in any::<Vec<u8>>(), size in 1..9usize) {
            decode(stream.chunks(size), &limits(5));
        }
    }
}
