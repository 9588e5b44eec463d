//! Server-sent events: messages on an HTTP answer that stays open.

use std::mem;
use std::ops::Range;

use crate::limits::Limits;

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The event's type, where it is not `message`.
    pub event: Option<String>,
    /// The lines of data, joined by line feeds. Not checked to be UTF-8: the message parser does.
    pub data: Vec<u8>,
    /// The id that this event set, for resuming after it.
    pub id: Option<String>,
}

/// What a stream of events holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SseItem {
    Event(SseEvent),
    /// A comment: nothing but a sign of life.
    Comment,
}

/// An event that had to be dropped. The stream goes on with the next one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an event is over the limit of {limit} bytes")]
pub struct SseTooLarge {
    pub limit: usize,
    /// The beginning of the data, from which [`crate::recover_id`] may tell the message's id.
    pub head: Vec<u8>,
}

impl SseEvent {
    /// Appends the event to `out`. Line breaks cannot stand in a type or an id, so they are left out there.
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
            let after = if rest[end..].starts_with(b"\r\n") {
                end + 2
            } else {
                end + 1
            };
            match rest.get(after..) {
                Some(more) => rest = more,
                None => break,
            }
        }
        out.push(b'\n');
    }
}

/// A comment, sent so that nobody takes the stream for dead.
pub const KEEP_ALIVE: &[u8] = b":\n\n";

/// How long a client should wait before it connects again, in milliseconds.
pub fn write_retry(milliseconds: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("retry: {milliseconds}\n\n").as_bytes());
}

/// Takes a stream in chunks of any size and gives its events. Each byte is searched once however the
/// chunks fall, and no more is kept than one event within the limit and the last chunk.
#[derive(Debug)]
pub struct SseDecoder {
    limit: usize,
    buffer: Vec<u8>,
    /// Where the unread part of the buffer starts.
    start: usize,
    /// Up to where it is known to hold no line end.
    searched: usize,
    /// The line before ended in a carriage return: a line feed right after it belongs to that end.
    after_return: bool,
    at_beginning: bool,
    /// Dropping what is left of an event that is over the limit, and of its current line.
    skipping: bool,
    pending: Pending,
    last_id: Option<String>,
    retry: Option<u64>,
}

/// The fields of the event that is being read.
#[derive(Debug, Default)]
struct Pending {
    event: Option<String>,
    data: Option<Vec<u8>>,
    id: Option<String>,
}

const HEAD: usize = 1024;

impl SseDecoder {
    pub fn new(limits: &Limits) -> Self {
        SseDecoder {
            limit: limits.size,
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            after_return: false,
            at_beginning: true,
            skipping: false,
            pending: Pending::default(),
            last_id: None,
            retry: None,
        }
    }

    /// Takes in the next bytes of the stream.
    pub fn push(&mut self, chunk: &[u8]) {
        if self.start >= self.buffer.len() - self.start {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.buffer.extend_from_slice(chunk);
    }

    /// The next event or comment; none until more bytes come.
    #[expect(
        clippy::should_implement_trait,
        reason = "it is no iterator: none does not mean the end"
    )]
    pub fn next(&mut self) -> Option<Result<SseItem, SseTooLarge>> {
        loop {
            let Some(line) = self.take_line() else {
                return self.check_open_line().map(Err);
            };
            // The buffer steps aside, so that the line can be read without a copy of its own.
            let buffer = mem::take(&mut self.buffer);
            let found = self.read_line(&buffer[line]);
            self.buffer = buffer;
            if found.is_some() {
                return found;
            }
        }
    }

    /// The stream has ended and [`SseDecoder::next`] has nothing more: an event that lacks only its end.
    pub fn finish(mut self) -> Option<SseEvent> {
        let line = self.buffer.split_off(self.start);
        if self.skipping {
            return None;
        }
        self.field(&line);
        self.end_event()
    }

    /// The id after which to resume.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref().filter(|id| !id.is_empty())
    }

    /// How long the server asked to wait before connecting again, in milliseconds.
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    fn read_line(&mut self, line: &[u8]) -> Option<Result<SseItem, SseTooLarge>> {
        match (line, self.skipping) {
            ([], true) => {
                self.skipping = false;
                self.pending = Pending::default();
                None
            }
            (_, true) => None,
            ([], false) => self.end_event().map(|event| Ok(SseItem::Event(event))),
            ([b':', ..], false) => Some(Ok(SseItem::Comment)),
            (line, false) => {
                self.field(line);
                self.check_size(0).map(Err)
            }
        }
    }

    /// Where the next whole line stands, without its end.
    fn take_line(&mut self) -> Option<Range<usize>> {
        if self.after_return && self.start < self.buffer.len() {
            self.after_return = false;
            if self.buffer[self.start] == b'\n' {
                self.start += 1;
                self.searched = self.searched.max(self.start);
            }
        }
        if self.at_beginning {
            self.skip_mark()?;
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

    /// Skips the byte order mark that a stream may begin with; none until that can be told.
    fn skip_mark(&mut self) -> Option<()> {
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

    fn field(&mut self, line: &[u8]) {
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

    /// An id counts even where there is no data, and so no event, to go with it.
    fn end_event(&mut self) -> Option<SseEvent> {
        let pending = mem::take(&mut self.pending);
        if let Some(id) = &pending.id {
            self.last_id = Some(id.clone());
        }
        let event = pending
            .event
            .filter(|event| !event.is_empty() && event != "message");
        Some(SseEvent {
            event,
            data: pending.data?,
            id: pending.id,
        })
    }

    /// Drops the event if what came of it, with an open line of so many bytes, is over the limit.
    fn check_size(&mut self, open: usize) -> Option<SseTooLarge> {
        let data = self.pending.data.as_deref().unwrap_or_default();
        if self.skipping || data.len() + open <= self.limit {
            return None;
        }
        let open = &self.buffer[self.start..];
        let open = open.strip_prefix(b"data:").unwrap_or(open);
        let head = if data.is_empty() { open } else { data };
        let error = SseTooLarge {
            limit: self.limit,
            head: head[..head.len().min(HEAD)].to_vec(),
        };
        self.skipping = true;
        self.pending = Pending::default();
        Some(error)
    }

    /// A line that never ends is cut short; while an event is dropped, its open line is not kept either.
    fn check_open_line(&mut self) -> Option<SseTooLarge> {
        // The field's name is no part of the data.
        let open = (self.buffer.len() - self.start).saturating_sub("data: ".len());
        let error = self.check_size(open);
        if self.skipping && self.buffer.len() > self.start {
            // One byte stays, so that the line's end is not taken for an empty line.
            self.start = self.buffer.len() - 1;
        }
        error
    }
}

impl Pending {
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
