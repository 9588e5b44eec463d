//! Decodes and writes server-sent events, which carry messages on a long HTTP response.

use std::fmt;
use std::mem;
use std::ops::Range;

use crate::limits::MessageLimits;

/// One event.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The type of the event, if it is not `message`.
    pub event: Option<String>,
    /// The data lines, joined by line feeds. The message parser checks the encoding.
    pub data: Vec<u8>,
    /// The id of this event, for resuming after it.
    pub id: Option<String>,
}

/// An item of an event stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SseItem {
    /// An event.
    Event(SseEvent),
    /// A comment, which only shows that the stream is alive.
    Comment,
}

/// An event over the limit was dropped. The stream continues with the next event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an event is over the limit of {limit} bytes")]
pub struct SseTooLarge {
    /// The limit in bytes.
    pub limit: usize,
    /// Beginning of the data, from which [`crate::recover_id`] can recover the message's id.
    pub head: Vec<u8>,
}

/// Hides the data, because it may hold a secret.
impl fmt::Debug for SseEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { event, data, id } = self;
        write!(f, "SseEvent({event:?}, id {id:?}, {} bytes)", data.len())
    }
}

impl SseEvent {
    /// Appends the event to `out`. Line breaks in a type or an id are omitted, because they cannot be written there.
    pub fn write(&self, out: &mut Vec<u8>) {
        for (field, value) in [("event", &self.event), ("id", &self.id)] {
            if let Some(value) = value {
                out.extend_from_slice(
                    format!("{field}: {}\n", value.replace(['\n', '\r', '\0'], "")).as_bytes(),
                );
            }
        }
        let mut rest = &self.data[..];
        loop {
            let end = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
            out.extend_from_slice(b"data: ");
            out.extend_from_slice(&rest[..end]);
            out.push(b'\n');
            let after = if rest[end..].starts_with(b"\r\n") { end + 2 } else { end + 1 };
            match rest.get(after..) {
                Some(more) => rest = more,
                None => break,
            }
        }
        out.push(b'\n');
    }
}

/// A comment that keeps the stream from timing out.
pub const KEEP_ALIVE: &[u8] = b":\n\n";

/// Accepts a stream in chunks of any size and returns its events. Each byte is searched once, however the chunks
/// fall. The buffer holds at most one event within the limit and the last chunk.
#[derive(Debug)]
pub struct SseDecoder {
    limit: usize,
    buffer: Vec<u8>,
    /// Start of the unread part of the buffer.
    start: usize,
    /// The buffer has no line end between `start` and this position.
    searched: usize,
    /// The previous line ended with a carriage return; a line feed directly after it belongs to that line end.
    after_return: bool,
    at_beginning: bool,
    /// True if the rest of an event over the limit, and of its current line, is being dropped.
    skipping: bool,
    pending: PendingEvent,
    last_id: Option<String>,
    retry: Option<u64>,
}

/// The fields of the event that is being read.
#[derive(Debug, Default)]
struct PendingEvent {
    event: Option<String>,
    data: Option<Vec<u8>>,
    id: Option<String>,
}

const MAX_HEAD: usize = 1024;

impl SseDecoder {
    /// Creates a decoder with these limits.
    pub fn new(limits: &MessageLimits) -> Self {
        SseDecoder {
            limit: limits.size,
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            after_return: false,
            at_beginning: true,
            skipping: false,
            pending: PendingEvent::default(),
            last_id: None,
            retry: None,
        }
    }

    /// Appends the next bytes of the stream.
    pub fn push(&mut self, chunk: &[u8]) {
        if self.start >= self.buffer.len() - self.start {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.buffer.extend_from_slice(chunk);
    }

    /// Returns the next event or comment. Returns `None` until more bytes arrive.
    #[expect(
        clippy::should_implement_trait,
        reason = "it is no iterator: none does not mean the end"
    )]
    pub fn next(&mut self) -> Option<Result<SseItem, SseTooLarge>> {
        loop {
            let line = self.next_line();
            // Takes the buffer out of `self`, so a line can be read without a copy.
            let buffer = mem::take(&mut self.buffer);
            let found = match line.clone() {
                Some(line) => self.read_line(&buffer[line]),
                None => self.read_open_line(&buffer[self.start..]).map(Err),
            };
            self.buffer = buffer;
            if found.is_some() || line.is_none() {
                return found;
            }
        }
    }

    /// Returns the last event after the end of the stream, when [`SseDecoder::next`] has returned `None`. The event
    /// may lack its final empty line.
    pub fn finish(mut self) -> Option<SseEvent> {
        let line = self.buffer.split_off(self.start);
        if self.skipping {
            return None;
        }
        self.read_field(&line);
        self.end_event()
    }

    /// The id after which to resume.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref().filter(|id| !id.is_empty())
    }

    /// The server's requested delay before a reconnect, in milliseconds.
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    fn read_line(&mut self, line: &[u8]) -> Option<Result<SseItem, SseTooLarge>> {
        if self.skipping {
            self.skipping = !line.is_empty();
            return None;
        }
        if let Some(error) = self.check_size(line) {
            return Some(Err(error));
        }
        match line {
            [] => self.end_event().map(|event| Ok(SseItem::Event(event))),
            [b':', ..] => Some(Ok(SseItem::Comment)),
            line => {
                self.read_field(line);
                None
            }
        }
    }

    /// Checks the size of a line that is not complete. Of a dropped event one byte is kept, so the line's end does
    /// not look like an empty line.
    fn read_open_line(&mut self, line: &[u8]) -> Option<SseTooLarge> {
        let error = if self.skipping { None } else { self.check_size(line) };
        if self.skipping {
            self.start += line.len().saturating_sub(1);
        }
        error
    }

    /// Returns the range of the next complete line, without its end.
    fn next_line(&mut self) -> Option<Range<usize>> {
        if self.after_return && self.start < self.buffer.len() {
            self.after_return = false;
            if self.buffer[self.start] == b'\n' {
                self.start += 1;
                self.searched = self.searched.max(self.start);
            }
        }
        if self.at_beginning {
            self.skip_byte_order_mark()?;
        }
        let Some(place) = memchr::memchr2(b'\n', b'\r', &self.buffer[self.searched..]) else {
            self.searched = self.buffer.len();
            return None;
        };
        let end = self.searched + place;
        self.after_return = self.buffer[end] == b'\r';
        let line = self.start..end;
        self.start = end + 1;
        self.searched = self.start;
        Some(line)
    }

    /// Skips the byte order mark at the start of a stream. Returns `None` until enough bytes have arrived.
    fn skip_byte_order_mark(&mut self) -> Option<()> {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        let head = &self.buffer[..self.buffer.len().min(MARK.len())];
        if head.len() < MARK.len() && MARK.starts_with(head) {
            return None;
        }
        self.start = if head == MARK { MARK.len() } else { 0 };
        self.searched = self.start;
        self.at_beginning = false;
        Some(())
    }

    fn read_field(&mut self, line: &[u8]) {
        let end = memchr::memchr(b':', line).unwrap_or(line.len());
        let value = line.get(end + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..end] {
            b"data" => self.pending.push_data(value),
            b"event" => self.pending.event = Some(String::from_utf8_lossy(value).into_owned()),
            b"id" if !value.contains(&0) => {
                self.pending.id = Some(String::from_utf8_lossy(value).into_owned())
            }
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                self.retry = String::from_utf8_lossy(value).parse().ok().or(self.retry);
            }
            _ => {}
        }
    }

    /// Ends the event. Its id counts even if it has no data and is therefore no event.
    fn end_event(&mut self) -> Option<SseEvent> {
        let pending = mem::take(&mut self.pending);
        if let Some(id) = &pending.id {
            self.last_id = Some(id.clone());
        }
        let event = pending.event.filter(|event| !event.is_empty() && event != "message");
        Some(SseEvent { event, data: pending.data?, id: pending.id })
    }

    /// Drops the event if its data is over the limit together with this line, complete or not. The field name does
    /// not count. An empty line ends the event, which is then complete.
    fn check_size(&mut self, line: &[u8]) -> Option<SseTooLarge> {
        const NAME: usize = "data: ".len();
        let data = self.pending.data.as_deref().unwrap_or_default();
        if line.is_empty() || data.len() + line.len().saturating_sub(NAME) <= self.limit {
            return None;
        }
        let head = if data.is_empty() { line.get(NAME..).unwrap_or_default() } else { data };
        let error =
            SseTooLarge { limit: self.limit, head: head[..head.len().min(MAX_HEAD)].to_vec() };
        self.skipping = true;
        self.pending = PendingEvent::default();
        Some(error)
    }
}

impl PendingEvent {
    fn push_data(&mut self, value: &[u8]) {
        match &mut self.data {
            Some(data) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
            None => self.data = Some(value.to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limits(size: usize) -> MessageLimits {
        MessageLimits { size, ..MessageLimits::default() }
    }

    struct Decoded {
        items: Vec<Result<SseItem, SseTooLarge>>,
        last_id: Option<String>,
        retry: Option<u64>,
        rest: Option<SseEvent>,
    }

    fn decode<'c>(chunks: impl IntoIterator<Item = &'c [u8]>, size: usize) -> Decoded {
        let mut decoder = SseDecoder::new(&limits(size));
        let mut items = Vec::new();
        for chunk in chunks {
            decoder.push(chunk);
            items.extend(std::iter::from_fn(|| decoder.next()));
        }
        let (last_id, retry) = (decoder.last_id().map(str::to_owned), decoder.retry());
        Decoded { items, last_id, retry, rest: decoder.finish() }
    }

    fn event(event: Option<&str>, data: &str, id: Option<&str>) -> SseEvent {
        SseEvent { event: event.map(str::to_owned), data: data.into(), id: id.map(str::to_owned) }
    }

    fn events(stream: &str) -> Vec<SseEvent> {
        let items = decode([stream.as_bytes()], 999).items;
        items
            .into_iter()
            .filter_map(|item| match item {
                Ok(SseItem::Event(event)) => Some(event),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn events_are_read_with_every_line_ending() {
        // DIS-48: a response as a stream of events.
        for end in ["\n", "\r\n", "\r"] {
            let stream =
                ["event: endpoint", "data: /m?é", "id: 7", "", "data:a", "data: b", "data", "", ""]
                    .join(end);
            let expected =
                [event(Some("endpoint"), "/m?é", Some("7")), event(None, "a\nb\n", None)];
            assert_eq!(events(&stream), expected, "{end:?}");
        }
        assert_eq!(events("\u{feff}event: message\ndata: x\n\n"), [event(None, "x", None)]);
        assert_eq!(events("data:  two spaces\nunknown: y\n\n"), [event(None, " two spaces", None)]);
    }

    #[test]
    fn comments_are_items_and_empty_events_are_skipped() {
        let decoded = decode([&b": hello\n\n\n\nevent: x\n\n:\ndata: d\n\n"[..]], 99);
        let data = SseItem::Event(event(None, "d", None));
        assert_eq!(decoded.items, [Ok(SseItem::Comment), Ok(SseItem::Comment), Ok(data)]);
    }

    #[test]
    fn ids_and_retry_times_are_remembered_for_resuming() {
        let decoded =
            decode([&b"id: a\ndata:\n\nid: b\n\nretry: 1500\nretry: x\nid: c\0\nid: d\n"[..]], 99);
        assert_eq!(decoded.items, [Ok(SseItem::Event(event(None, "", Some("a"))))]);
        assert_eq!((decoded.last_id.as_deref(), decoded.retry), (Some("b"), Some(1500)));
        assert_eq!(decode([&b"id: a\n\nid\n\n"[..]], 99).last_id, None);
    }

    #[test]
    fn oversized_event_is_dropped_and_the_next_one_read() {
        let long = "x".repeat(30);
        for stream in [
            format!("data: {long}\ndata: y\n\ndata: z\n\n"),
            format!("data: {}\ndata: {}\n: c\n\ndata: z\n\n", &long[..15], &long[..15]),
        ] {
            for size in [1, 4, 1000] {
                let items = decode(stream.as_bytes().chunks(size), 20).items;
                assert!(
                    matches!(&items[0], Err(error) if error.limit == 20 && error.head.contains(&b'x')),
                    "{stream}"
                );
                assert_eq!(items[1..], [Ok(SseItem::Event(event(None, "z", None)))], "{stream}");
            }
        }
        // An event of exactly the limit does not drop the next one.
        let stream = format!("data:{}\r\n\r\ndata: z\n\n", &long[..21]);
        for size in [1, 4, 1000] {
            let items = decode(stream.as_bytes().chunks(size), 20).items;
            assert_eq!(items.last(), Some(&Ok(SseItem::Event(event(None, "z", None)))));
        }
        let mut decoder = SseDecoder::new(&limits(1000));
        for _ in 0..10_000 {
            decoder.push(&[b'x'; 100]);
            decoder.next();
            assert!(decoder.buffer.len() <= 1200);
        }
    }

    #[test]
    fn stream_that_ends_early_yields_the_pending_event() {
        assert_eq!(decode([&b"data: {}"[..]], 99).rest, Some(event(None, "{}", None)));
        assert_eq!(decode([&b"data: {}\n"[..]], 99).rest, Some(event(None, "{}", None)));
        assert_eq!(decode([&b"data: {}\n\n"[..]], 99).rest, None);
    }

    #[test]
    fn retry_and_keep_alive_are_read() {
        let out = [KEEP_ALIVE, b"retry: 20\n\n"].concat();
        let decoded = decode([&out[..]], 99);
        assert_eq!((decoded.items, decoded.retry), (vec![Ok(SseItem::Comment)], Some(20)));
    }

    proptest! {
        #[test]
        fn written_events_are_read_back_in_any_chunks(
            sent in prop::collection::vec((prop::option::of("[a-z]{1,5}"), "[a-zé: \\n]{0,20}", prop::option::of("[a-z0-9]{1,5}")), 0..5),
            size in 1..9usize,
        ) {
            let sent: Vec<_> = sent.iter().map(|(kind, data, id)| event(kind.as_deref(), data, id.as_deref())).collect();
            let mut stream = Vec::new();
            sent.iter().for_each(|event| event.write(&mut stream));
            let items = decode(stream.chunks(size), 999).items;
            prop_assert_eq!(items, sent.into_iter().map(|event| Ok(SseItem::Event(event))).collect::<Vec<_>>());
        }

        #[test]
        fn chunk_boundaries_do_not_change_the_result(stream in "(data: ?[a-z]{0,30}|id: [a-z]|:|event: x|\u{feff}|retry: [0-9]|\r|\n|\r\n){0,20}", size in 1..9usize) {
            let show = |decoded: Decoded| {
                let items: Vec<_> = decoded.items.into_iter().map(|item| item.map_err(|error| error.limit)).collect();
                (items, decoded.last_id, decoded.retry, decoded.rest)
            };
            let whole = show(decode([stream.as_bytes()], 20));
            prop_assert_eq!(show(decode(stream.as_bytes().chunks(size), 20)), whole);
        }

        #[test]
        fn arbitrary_bytes_never_panic(stream in any::<Vec<u8>>(), size in 1..9usize) {
            decode(stream.chunks(size), 5);
        }
    }
}
