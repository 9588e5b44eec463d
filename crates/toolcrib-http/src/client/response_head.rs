//! Parses the head of an HTTP/1.1 response. This module does no I/O.

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

use crate::repeated_head::repeated_digits;
use bytes::{Buf, BytesMut};
use http::StatusCode;
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use httparse::{Header, ParserConfig, Response, Status};

use super::malformed_response::MalformedResponse;

/// Offsets in a head are stored as `u16`.
const MAX_HEAD_SIZE: usize = u16::MAX as usize;

const MAX_HEADERS: usize = 100;

/// A parsed response head.
#[derive(Clone)]
pub struct ResponseHead {
    /// The status of the response.
    pub status: StatusCode,
    pub(super) framing: BodyFraming,
    pub(super) keep_alive: bool,
    raw: Arc<HeadText>,
}

/// The text of the head and the ranges of its headers. Most callers read one or two headers.
#[derive(Clone)]
struct HeadText {
    text: Vec<u8>,
    fields: Vec<HeaderField>,
}

/// The last head on a connection. Servers repeat the same head with another content length; such a head is not parsed
/// again.
#[derive(Default)]
pub(super) struct PreviousHead(Option<(ResponseHead, Range<usize>)>);

/// Rule that tells the end of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyFraming {
    Length(u64),
    Chunked,
    UntilClose,
}

#[derive(Clone)]
struct HeaderField {
    name: Range<u16>,
    value: Range<u16>,
}

impl ResponseHead {
    /// Removes a head from the buffer. Returns `None` if its end is missing. Skips informational responses.
    pub(super) fn parse(
        buffer: &mut BytesMut,
        previous: &mut PreviousHead,
    ) -> Result<Option<Self>, MalformedResponse> {
        if let Some(head) = previous.match_repeated(buffer) {
            buffer.advance(head.raw.text.len());
            return Ok(Some(head));
        }
        loop {
            let Some((head, size)) = parse_head(&buffer[..buffer.len().min(MAX_HEAD_SIZE)])? else {
                return match buffer.len() < MAX_HEAD_SIZE {
                    true => Ok(None),
                    false => Err(MalformedResponse::HeadTooLarge { limit: MAX_HEAD_SIZE }),
                };
            };
            buffer.advance(size);
            match head.status {
                StatusCode::SWITCHING_PROTOCOLS => return Err(MalformedResponse::Status(101)),
                status if status.is_informational() => {}
                _ => {
                    previous.remember(&head);
                    return Ok(Some(head));
                }
            }
        }
    }

    /// The first header with this name, if its value is text.
    pub fn header(&self, name: &HeaderName) -> Option<&str> {
        let (_, value) = self.fields().find(|(found, _)| is_named(found, name))?;
        std::str::from_utf8(value).ok()
    }

    /// All headers.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(self.raw.fields.len());
        for (name, value) in self.fields() {
            // Headers that `http` rejects are skipped.
            if let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
            {
                headers.append(name, value);
            }
        }
        headers
    }

    fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let at = |range: &Range<u16>| &self.raw.text[range.start.into()..range.end.into()];
        self.raw.fields.iter().map(move |field| (at(&field.name), at(&field.value)))
    }
}

impl PreviousHead {
    /// Matches the bytes against the previous head with another content length.
    fn match_repeated(&mut self, bytes: &[u8]) -> Option<ResponseHead> {
        let (head, range) = self.0.as_mut()?;
        let number = repeated_digits(&head.raw.text, range.clone(), bytes)?;
        if range.start < range.end && head.raw.text.get(range.clone()) != Some(number) {
            head.framing = BodyFraming::Length(parse_digits(number)?);
            // If the caller has dropped the previous head, `make_mut` copies nothing.
            Arc::make_mut(&mut head.raw).text.get_mut(range.clone())?.copy_from_slice(number);
        }
        Some(head.clone())
    }

    /// Remembers only a head with one valid content length, or with none.
    fn remember(&mut self, head: &ResponseHead) {
        let is_length = |(name, _): &(&[u8], &[u8])| is_named(name, &CONTENT_LENGTH);
        let mut lengths = head.fields().enumerate().filter(|(_, field)| is_length(field));
        let range = match (lengths.next(), lengths.next(), head.framing) {
            (None, ..) => Some(0..0),
            (Some((at, (_, value))), None, BodyFraming::Length(length))
                if parse_digits(value) == Some(length) =>
            {
                let range = &head.raw.fields[at].value;
                Some(range.start.into()..range.end.into())
            }
            _ => None,
        };
        self.0 = range.map(|range| (head.clone(), range));
    }
}

/// Parses a head and returns its length. Returns `None` if its end is missing.
fn parse_head(text: &[u8]) -> Result<Option<(ResponseHead, usize)>, MalformedResponse> {
    // Left uninitialised, because filling 100 headers would cost more than parsing most heads.
    let mut headers = [const { MaybeUninit::<Header<'_>>::uninit() }; MAX_HEADERS];
    let mut response = Response::new(&mut []);
    let parsed = ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        text,
        &mut headers,
    );
    let Status::Complete(size) = parsed.map_err(MalformedResponse::Head)? else { return Ok(None) };
    let code = response.code.unwrap_or_default();
    let status = StatusCode::from_u16(code).map_err(|_| MalformedResponse::Status(code))?;
    let framing_headers = FramingHeaders::parse(response.headers)?;
    let field = |header: &Header<'_>| HeaderField {
        name: range_in(text, header.name.as_bytes()),
        value: range_in(text, header.value),
    };
    let head = ResponseHead {
        status,
        framing: framing_headers.body_framing(status),
        keep_alive: framing_headers.keep_alive(response.version)
            && framing_headers.body_framing(status) != BodyFraming::UntilClose,
        raw: Arc::new(HeadText {
            fields: response.headers.iter().map(field).collect(),
            text: text[..size].to_vec(),
        }),
    };
    Ok(Some((head, size)))
}

fn range_in(text: &[u8], part: &[u8]) -> Range<u16> {
    // `httparse` may return an empty slice outside of `text`.
    if part.is_empty() {
        return 0..0;
    }
    // The text is at most `u16::MAX` bytes long.
    let at = part.as_ptr().addr().saturating_sub(text.as_ptr().addr()) as u16;
    at..at + part.len() as u16
}

/// Headers that decide about the body and the connection.
#[derive(Default)]
struct FramingHeaders {
    length: Option<u64>,
    is_chunked: bool,
    closes: bool,
}

impl FramingHeaders {
    fn parse(headers: &[Header<'_>]) -> Result<Self, MalformedResponse> {
        let mut framing_headers = FramingHeaders::default();
        for Header { name, value } in headers {
            match *name {
                name if is_named(name, &CONTENT_LENGTH) => {
                    framing_headers.add_content_length(value)?
                }
                name if is_named(name, &TRANSFER_ENCODING) => {
                    framing_headers.add_transfer_coding(value)?
                }
                name if is_named(name, &CONNECTION) => {
                    framing_headers.closes |= list_items(value).any(is_close)
                }
                _ => {}
            }
        }
        Ok(framing_headers)
    }

    /// Repeated content lengths must be equal.
    fn add_content_length(&mut self, value: &[u8]) -> Result<(), MalformedResponse> {
        for text in list_items(value) {
            let length = parse_digits(text).ok_or(MalformedResponse::Length)?;
            if self.length.replace(length).is_some_and(|other| other != length) {
                return Err(MalformedResponse::Length);
            }
        }
        Ok(())
    }

    fn add_transfer_coding(&mut self, value: &[u8]) -> Result<(), MalformedResponse> {
        for coding in list_items(value) {
            match coding {
                _ if coding.eq_ignore_ascii_case(b"identity") => {}
                _ if coding.eq_ignore_ascii_case(b"chunked") && !self.is_chunked => {
                    self.is_chunked = true;
                }
                _ => return Err(MalformedResponse::TransferCoding),
            }
        }
        Ok(())
    }

    fn body_framing(&self, status: StatusCode) -> BodyFraming {
        match (status, self.length) {
            (StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED, _) => BodyFraming::Length(0),
            _ if self.is_chunked => BodyFraming::Chunked,
            (_, Some(length)) => BodyFraming::Length(length),
            (_, None) => BodyFraming::UntilClose,
        }
    }

    fn keep_alive(&self, version: Option<u8>) -> bool {
        // A response with both framings has an ambiguous end, so its connection is not reused.
        let is_clear = !(self.is_chunked && self.length.is_some());
        version == Some(1) && is_clear && !self.closes
    }
}

fn is_named(found: impl AsRef<[u8]>, name: &HeaderName) -> bool {
    found.as_ref().eq_ignore_ascii_case(name.as_ref())
}

fn is_close(option: &[u8]) -> bool {
    option.eq_ignore_ascii_case(b"close")
}

fn list_items(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Accepts only digits; `parse` would also accept a sign.
fn parse_digits(text: &[u8]) -> Option<u64> {
    let is_number = text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

/// Omits the headers, which may be secret.
impl fmt::Debug for ResponseHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseHead").field("status", &self.status).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Option<(u16, BodyFraming, bool)>, MalformedResponse> {
        let head = ResponseHead::parse(&mut BytesMut::from(text), &mut PreviousHead::default())?;
        Ok(head.map(|head| (head.status.as_u16(), head.framing, head.keep_alive)))
    }

    #[test]
    fn head_determines_body_framing_and_keep_alive() {
        use BodyFraming::{Chunked, Length, UntilClose};
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n", (200, Length(12), true)),
            ("HTTP/1.1 200\r\ncontent-length:0\r\n\r\n", (200, Length(0), true)),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Length: 7, 7\r\n\r\n",
                (200, Length(7), true),
            ),
            ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n", (200, Length(1), false)),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: x, Close\r\n\r\n",
                (200, Length(1), false),
            ),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", (200, Chunked, true)),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
                (200, Chunked, false),
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 3\r\n\r\n",
                (200, Length(3), true),
            ),
            ("HTTP/1.1 200 OK\r\n\r\n", (200, UntilClose, false)),
            ("HTTP/1.1 204 No Content\r\n\r\n", (204, Length(0), true)),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", (304, Length(0), true)),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 202 \
                 Accepted\r\nContent-Length: 0\r\n\r\n",
                (202, Length(0), true),
            ),
        ] {
            assert_eq!(parse(text), Ok(Some(expected)), "{text}");
        }
    }

    #[test]
    fn malformed_heads_are_rejected() {
        let many = "a: b\r\n".repeat(MAX_HEADERS + 1);
        let long = "x".repeat(MAX_HEAD_SIZE);
        for text in [
            "SSH-2.0-OpenSSH_9.6\r\n",
            "HTTP/1.1 099 Low\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            &format!("HTTP/1.1 200 OK\r\n{many}\r\n"),
            &format!("HTTP/1.1 200 OK\r\na: {long}"),
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn header_lookup_ignores_case_and_keeps_body_bytes() {
        let mut buffer = BytesMut::from(
            "HTTP/1.1 401 No\r\nContent-TYPE:  text/plain \r\nX:\r\nWWW-Authenticate: \
             A\r\nwww-authenticate: B\r\nContent-Length: 4\r\n\r\nbody",
        );
        let head = ResponseHead::parse(&mut buffer, &mut PreviousHead::default()).unwrap().unwrap();
        assert_eq!(buffer, "body");
        assert_eq!(head.header(&HeaderName::from_static("content-type")), Some("text/plain"));
        assert_eq!(head.header(&HeaderName::from_static("x")), Some(""));
        assert_eq!(head.header(&HeaderName::from_static("location")), None);
        let headers = head.headers();
        let challenges: Vec<_> = headers.get_all("www-authenticate").iter().collect();
        assert_eq!(challenges, ["A", "B"]);
    }

    /// The observable parts of a head, for comparison.
    fn observable_parts(
        head: Result<Option<ResponseHead>, MalformedResponse>,
    ) -> Result<Option<(StatusCode, BodyFraming, bool, HeaderMap)>, MalformedResponse> {
        head.map(|head| head.map(|it| (it.status, it.framing, it.keep_alive, it.headers())))
    }

    #[test]
    fn parsed_head_is_independent_of_previous_head() {
        let heads = [
            "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nA: b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 57\r\nA: b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 05\r\nA: b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\nA: b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nContent-Length: 12\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nContent-Length: 13\r\n\r\n",
            "HTTP/1.1 204 Nothing\r\nContent-Length: 12\r\n\r\n",
            "HTTP/1.1 204 Nothing\r\nContent-Length: 13\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 12\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 13\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1x\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 500 No\r\n\r\n",
        ];
        for first in heads {
            for second in heads {
                let mut previous = PreviousHead::default();
                // An invalid head must leave no state behind.
                let _ = ResponseHead::parse(&mut BytesMut::from(first), &mut previous);
                let after = ResponseHead::parse(&mut BytesMut::from(second), &mut previous);
                let alone =
                    ResponseHead::parse(&mut BytesMut::from(second), &mut PreviousHead::default());
                assert_eq!(observable_parts(after), observable_parts(alone), "{first}{second}");
            }
        }
    }

    #[test]
    fn cloned_head_is_unchanged_by_next_head() {
        let head = |length| format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        let mut previous = PreviousHead::default();
        let mut take = |text: &str| {
            ResponseHead::parse(&mut BytesMut::from(text), &mut previous).unwrap().unwrap()
        };
        let (first, second) = (take(&head(12)), take(&head(34)));
        for (head, length) in [(first, "12"), (second, "34")] {
            assert_eq!(head.header(&CONTENT_LENGTH), Some(length));
            assert_eq!(head.framing, BodyFraming::Length(length.parse().unwrap()));
        }
    }

    /// Bytes that often resemble a head.
    fn any_text() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            Just(b"HTTP/1.1 200 OK\r\n".to_vec()),
            Just(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec()),
            Just(b"Content-Length: 5\r\n".to_vec()),
            Just(b"Transfer-Encoding: chunked\r\n".to_vec()),
            Just(b"Connection: close\r\n".to_vec()),
            Just(b"\r\n".to_vec()),
            prop::collection::vec(any::<u8>(), 0..8),
        ];
        prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn parsed_head_is_independent_of_read_sizes(text in any_text(), size in 1_usize..20) {
            let whole = ResponseHead::parse(&mut BytesMut::from(&text[..]), &mut PreviousHead::default());
            let mut buffer = BytesMut::new();
            let mut parted = Ok(None);
            for piece in text.chunks(size) {
                buffer.extend_from_slice(piece);
                parted = ResponseHead::parse(&mut buffer, &mut PreviousHead::default());
                if !matches!(parted, Ok(None)) {
                    break;
                }
            }
            prop_assert_eq!(observable_parts(whole), observable_parts(parted));
        }
    }
}
