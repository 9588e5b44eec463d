//! The head of an answer in HTTP/1.1, and what it says of the body; nothing here knows of connections.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use httparse::{Header, ParserConfig, Response, Status};
use reqwest::StatusCode;
use reqwest::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use toolcrib_wire::said_again;

use super::garbled::Garbled;

/// No place in a head is further away than a `u16` can tell.
const LARGEST: usize = u16::MAX as usize;

const MOST_HEADERS: usize = 100;

/// One head.
#[derive(Clone)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) framing: Framing,
    /// Whether the server will take another request on the same connection.
    pub(super) keeps: bool,
    lines: Arc<Lines>,
}

/// The text, and where in it the headers are: mostly one or two are looked at.
#[derive(Clone)]
struct Lines {
    text: Vec<u8>,
    fields: Vec<Field>,
}

/// The last head on a connection. A server says the same again and again, but for the length of the body, and then it
/// need not be read again.
#[derive(Default)]
pub(super) struct Before(Option<(Head, Range<usize>)>);

/// How the end of a body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

#[derive(Clone)]
struct Field {
    name: Range<u16>,
    value: Range<u16>,
}

impl Head {
    /// Takes a head off what has come; none if its end is still to come. What a server says only to keep one waiting
    /// is passed over.
    pub(super) fn take(
        buffer: &mut BytesMut,
        before: &mut Before,
    ) -> Result<Option<Self>, Garbled> {
        if let Some(head) = before.again(buffer) {
            buffer.advance(head.lines.text.len());
            return Ok(Some(head));
        }
        loop {
            let Some((head, size)) = read(&buffer[..buffer.len().min(LARGEST)])? else {
                return match buffer.len() < LARGEST {
                    true => Ok(None),
                    false => Err(Garbled::HeadTooLarge { limit: LARGEST }),
                };
            };
            buffer.advance(size);
            match head.status {
                StatusCode::SWITCHING_PROTOCOLS => return Err(Garbled::Status(101)),
                status if status.is_informational() => {}
                _ => {
                    before.keep(&head);
                    return Ok(Some(head));
                }
            }
        }
    }

    /// The first header of this name, where it is text.
    pub(super) fn header(&self, name: &HeaderName) -> Option<&str> {
        let (_, value) = self.fields().find(|(found, _)| is_named(found, name))?;
        std::str::from_utf8(value).ok()
    }

    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(self.lines.fields.len());
        for (name, value) in self.fields() {
            // What is no header to others says nothing here either.
            if let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
            {
                headers.append(name, value);
            }
        }
        headers
    }

    fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let at = |place: &Range<u16>| &self.lines.text[place.start.into()..place.end.into()];
        self.lines.fields.iter().map(move |field| (at(&field.name), at(&field.value)))
    }
}

impl Before {
    /// The head at the beginning of some bytes, where it is the one before with another length.
    fn again(&mut self, bytes: &[u8]) -> Option<Head> {
        let (head, place) = self.0.as_mut()?;
        let number = said_again(&head.lines.text, place.clone(), bytes)?;
        if place.start < place.end && head.lines.text.get(place.clone()) != Some(number) {
            head.framing = Framing::Length(digits(number)?);
            // Nobody has the head before any more, so that nothing is copied.
            Arc::make_mut(&mut head.lines).text.get_mut(place.clone())?.copy_from_slice(number);
        }
        Some(head.clone())
    }

    /// Only what is said in one way is known again: one length that counts, or none.
    fn keep(&mut self, head: &Head) {
        let is_length = |(name, _): &(&[u8], &[u8])| is_named(name, &CONTENT_LENGTH);
        let mut lengths = head.fields().enumerate().filter(|(_, field)| is_length(field));
        let place = match (lengths.next(), lengths.next(), head.framing) {
            (None, ..) => Some(0..0),
            (Some((at, (_, value))), None, Framing::Length(length))
                if digits(value) == Some(length) =>
            {
                let place = &head.lines.fields[at].value;
                Some(place.start.into()..place.end.into())
            }
            _ => None,
        };
        self.0 = place.map(|place| (head.clone(), place));
    }
}

/// A head and how long it is; none if its end is missing.
fn read(text: &[u8]) -> Result<Option<(Head, usize)>, Garbled> {
    // Nothing fills these before the headers themselves do.
    let mut headers = [const { MaybeUninit::<Header<'_>>::uninit() }; MOST_HEADERS];
    let mut response = Response::new(&mut []);
    let parsed = ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        text,
        &mut headers,
    );
    let Status::Complete(size) = parsed.map_err(Garbled::Head)? else { return Ok(None) };
    let code = response.code.unwrap_or_default();
    let status = StatusCode::from_u16(code).map_err(|_| Garbled::Status(code))?;
    let said = Said::of(response.headers)?;
    let field = |header: &Header<'_>| Field {
        name: place(text, header.name.as_bytes()),
        value: place(text, header.value),
    };
    let head = Head {
        status,
        framing: said.framing(status),
        keeps: said.keeps(response.version) && said.framing(status) != Framing::UntilClose,
        lines: Arc::new(Lines {
            fields: response.headers.iter().map(field).collect(),
            text: text[..size].to_vec(),
        }),
    };
    Ok(Some((head, size)))
}

fn place(text: &[u8], part: &[u8]) -> Range<u16> {
    // An empty part may be anywhere, even outside.
    if part.is_empty() {
        return 0..0;
    }
    // The text is no longer than a `u16` can tell.
    let at = part.as_ptr().addr().saturating_sub(text.as_ptr().addr()) as u16;
    at..at + part.len() as u16
}

/// What the headers say of the body and of the connection.
#[derive(Default)]
struct Said {
    length: Option<u64>,
    is_chunked: bool,
    closes: bool,
}

impl Said {
    fn of(headers: &[Header<'_>]) -> Result<Self, Garbled> {
        let mut said = Said::default();
        for Header { name, value } in headers {
            match *name {
                name if is_named(name, &CONTENT_LENGTH) => said.length(value)?,
                name if is_named(name, &TRANSFER_ENCODING) => said.coding(value)?,
                name if is_named(name, &CONNECTION) => said.closes |= listed(value).any(is_close),
                _ => {}
            }
        }
        Ok(said)
    }

    /// It may be said more than once, but only in one way.
    fn length(&mut self, value: &[u8]) -> Result<(), Garbled> {
        for text in listed(value) {
            let length = digits(text).ok_or(Garbled::Length)?;
            if self.length.replace(length).is_some_and(|other| other != length) {
                return Err(Garbled::Length);
            }
        }
        Ok(())
    }

    fn coding(&mut self, value: &[u8]) -> Result<(), Garbled> {
        for coding in listed(value) {
            match coding {
                _ if coding.eq_ignore_ascii_case(b"identity") => {}
                _ if coding.eq_ignore_ascii_case(b"chunked") && !self.is_chunked => {
                    self.is_chunked = true;
                }
                _ => return Err(Garbled::Coding),
            }
        }
        Ok(())
    }

    fn framing(&self, status: StatusCode) -> Framing {
        match (status, self.length) {
            (StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED, _) => Framing::Length(0),
            _ if self.is_chunked => Framing::Chunked,
            (_, Some(length)) => Framing::Length(length),
            (_, None) => Framing::UntilClose,
        }
    }

    fn keeps(&self, version: Option<u8>) -> bool {
        // Where an answer has two ends, the next one may begin anywhere.
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

fn listed(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Nothing but digits: `parse` would take a sign as well.
fn digits(text: &[u8]) -> Option<u64> {
    let is_number = text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn take(text: &str) -> Result<Option<(u16, Framing, bool)>, Garbled> {
        let head = Head::take(&mut BytesMut::from(text), &mut Before::default())?;
        Ok(head.map(|head| (head.status.as_u16(), head.framing, head.keeps)))
    }

    #[test]
    fn a_head_says_how_the_body_ends_and_whether_the_connection_stays() {
        use Framing::{Chunked, Length, UntilClose};
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
            assert_eq!(take(text), Ok(Some(expected)), "{text}");
        }
    }

    #[test]
    fn what_is_no_sensible_head_is_refused() {
        let many = "a: b\r\n".repeat(MOST_HEADERS + 1);
        let long = "x".repeat(LARGEST);
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
            assert!(take(text).is_err(), "{text}");
        }
    }

    #[test]
    fn headers_are_found_whatever_their_case_and_the_body_is_left() {
        let mut buffer = BytesMut::from(
            "HTTP/1.1 401 No\r\nContent-TYPE:  text/plain \r\nX:\r\nWWW-Authenticate: \
             A\r\nwww-authenticate: B\r\nContent-Length: 4\r\n\r\nbody",
        );
        let head = Head::take(&mut buffer, &mut Before::default()).unwrap().unwrap();
        assert_eq!(buffer, "body");
        assert_eq!(head.header(&HeaderName::from_static("content-type")), Some("text/plain"));
        assert_eq!(head.header(&HeaderName::from_static("x")), Some(""));
        assert_eq!(head.header(&HeaderName::from_static("location")), None);
        let headers = head.headers();
        let challenges: Vec<_> = headers.get_all("www-authenticate").iter().collect();
        assert_eq!(challenges, ["A", "B"]);
    }

    /// What a head is told to say, once it has come after others on the same connection.
    fn told(
        head: Result<Option<Head>, Garbled>,
    ) -> Result<Option<(StatusCode, Framing, bool, HeaderMap)>, Garbled> {
        head.map(|head| head.map(|it| (it.status, it.framing, it.keeps, it.headers())))
    }

    #[test]
    fn a_head_says_the_same_whatever_came_before_it() {
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
                let mut before = Before::default();
                // One that is none leaves nothing behind.
                let _ = Head::take(&mut BytesMut::from(first), &mut before);
                let after = Head::take(&mut BytesMut::from(second), &mut before);
                let alone = Head::take(&mut BytesMut::from(second), &mut Before::default());
                assert_eq!(told(after), told(alone), "{first}{second}");
            }
        }
    }

    #[test]
    fn who_still_has_a_head_keeps_what_it_says() {
        let head = |length| format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        let mut before = Before::default();
        let mut take =
            |text: &str| Head::take(&mut BytesMut::from(text), &mut before).unwrap().unwrap();
        let (first, second) = (take(&head(12)), take(&head(34)));
        for (head, length) in [(first, "12"), (second, "34")] {
            assert_eq!(head.header(&CONTENT_LENGTH), Some(length));
            assert_eq!(head.framing, Framing::Length(length.parse().unwrap()));
        }
    }

    /// Bytes that are often close to a head.
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
        fn a_head_is_the_same_however_it_comes(text in any_text(), size in 1_usize..20) {
            let whole = Head::take(&mut BytesMut::from(&text[..]), &mut Before::default());
            let mut buffer = BytesMut::new();
            let mut parted = Ok(None);
            for piece in text.chunks(size) {
                buffer.extend_from_slice(piece);
                parted = Head::take(&mut buffer, &mut Before::default());
                if !matches!(parted, Ok(None)) {
                    break;
                }
            }
            prop_assert_eq!(told(whole), told(parted));
        }
    }
}
