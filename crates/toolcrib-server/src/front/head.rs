//! The head of the usual request: a message posted to the gateway, of a length that is said. What is not exactly that
//! is left as it is, for hyper to judge.

use bytes::{Bytes, BytesMut};
use httparse::{EMPTY_HEADER, Header, Status};
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Uri};

use crate::gateway::PATH;

/// How the usual request begins.
const LINE: &[u8] = b"POST /mcp HTTP/1.1\r\n";

const HEADERS: usize = 64;

/// The longest head that is usual.
const LONGEST: usize = 16 << 10;

/// What is at the beginning of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It has been taken off.
    Usual(Usual),
    /// What may become a usual head when there is more of it.
    Part,
    Other,
}

/// What of a usual head is for the connection itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usual {
    /// The length of the body.
    pub(super) body: usize,
    /// Whether the connection ends with the answer.
    pub(super) closes: bool,
}

/// Where a header is in its head.
#[derive(Clone, Copy, Default)]
struct Place {
    name: (usize, usize),
    value: (usize, usize),
}

/// What all usual heads have in common.
pub(super) fn usual() -> Parts {
    let (mut head, ()) = Request::new(()).into_parts();
    (head.method, head.uri) = (Method::POST, Uri::from_static(PATH));
    head
}

/// Takes a usual head off. Where there is none, everything stays; so many of the bytes were looked at before.
pub(super) fn take(bytes: &mut BytesMut, seen: usize, headers: &mut HeaderMap) -> Found {
    if bytes.len() < LINE.len() {
        return if LINE.starts_with(bytes) { Found::Part } else { Found::Other };
    }
    if !bytes.starts_with(LINE) {
        return Found::Other;
    }
    if !may_be_whole(bytes, seen) {
        return if bytes.len() <= LONGEST { Found::Part } else { Found::Other };
    }
    let mut places = [Place::default(); HEADERS];
    let (length, count, usual) = match read(bytes, &mut places) {
        Ok(read) => read,
        Err(found) => return found,
    };
    let head = bytes.split_to(length).freeze();
    if fill(&head, places.get(..count).unwrap_or_default(), headers).is_none() {
        headers.clear();
        put_back(&head, bytes);
        return Found::Other;
    }
    Found::Usual(usual)
}

/// Whoever sends a head byte by byte does not have it read as often.
fn may_be_whole(bytes: &[u8], seen: usize) -> bool {
    let fresh = bytes.get(seen.saturating_sub(3)..).unwrap_or_default();
    let ends = |end: &[u8]| fresh.windows(end.len()).any(|it| it == end);
    seen == 0 || ends(b"\n\r\n") || ends(b"\n\n")
}

/// How long a head is, how many headers it has, and what they say.
fn read(bytes: &[u8], places: &mut [Place; HEADERS]) -> Result<(usize, usize, Usual), Found> {
    let mut lines = [EMPTY_HEADER; HEADERS];
    let rest = bytes.get(LINE.len()..).unwrap_or_default();
    let (length, lines) = match httparse::parse_headers(rest, &mut lines) {
        Ok(Status::Complete((length, lines))) => (LINE.len() + length, lines),
        Ok(Status::Partial) if bytes.len() <= LONGEST => return Err(Found::Part),
        _ => return Err(Found::Other),
    };
    if length > LONGEST {
        return Err(Found::Other);
    }
    let end = locate(bytes, lines, places).ok_or(Found::Other)?;
    let is_exact = bytes.get(end..length) == Some(b"\r\n");
    let usual = judge(lines).filter(|_| is_exact).ok_or(Found::Other)?;
    Ok((length, lines.len(), usual))
}

/// Where the headers are, and where they end; nothing where one does not end with its value and a whole line feed.
fn locate(bytes: &[u8], lines: &[Header<'_>], places: &mut [Place]) -> Option<usize> {
    let at = |part: &[u8]| {
        let start = (part.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize)?;
        Some((start, start.checked_add(part.len())?))
    };
    let mut end = LINE.len();
    for (line, place) in lines.iter().zip(places) {
        *place = Place { name: at(line.name.as_bytes())?, value: at(line.value)? };
        let is_next = place.name.0 == end;
        end = place.value.1 + 2;
        if !is_next || bytes.get(place.value.1..end) != Some(b"\r\n") {
            return None;
        }
    }
    Some(end)
}

/// What the headers say of the body and the connection; nothing where that is not usual.
fn judge(lines: &[Header<'_>]) -> Option<Usual> {
    let (mut body, mut closes) = (None, false);
    for line in lines {
        let is = |name: &str| line.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            // A second one is for somebody who knows what to make of it.
            body = Some(number(line.value)?).filter(|_| body.is_none());
            body?;
        } else if is("connection") {
            let says = |word: &[u8]| line.value.eq_ignore_ascii_case(word);
            (says(b"close") || says(b"keep-alive")).then_some(())?;
            closes |= says(b"close");
        } else if is("transfer-encoding") || is("expect") || is("upgrade") {
            return None;
        }
    }
    Some(Usual { body: body?, closes })
}

/// A number that is written in digits and nothing else.
fn number(text: &[u8]) -> Option<usize> {
    let digits = text.iter().all(u8::is_ascii_digit).then_some(text)?;
    str::from_utf8(digits).ok()?.parse().ok()
}

fn fill(head: &Bytes, places: &[Place], headers: &mut HeaderMap) -> Option<()> {
    headers.reserve(places.len());
    for Place { name, value } in places {
        let name = HeaderName::from_bytes(head.get(name.0..name.1)?).ok()?;
        // A part of what was read, and no copy.
        let value = HeaderValue::from_maybe_shared(head.slice(value.0..value.1)).ok()?;
        headers.append(name, value);
    }
    Some(())
}

fn put_back(head: &[u8], bytes: &mut BytesMut) {
    let rest = std::mem::replace(bytes, BytesMut::from(head));
    bytes.extend_from_slice(&rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> (Found, HeaderMap, BytesMut) {
        let (mut bytes, mut headers) = (BytesMut::from(text), HeaderMap::new());
        (take(&mut bytes, 0, &mut headers), headers, bytes)
    }

    fn posted(headers: &str) -> String {
        format!("POST {PATH} HTTP/1.1\r\n{headers}\r\n")
    }

    #[test]
    fn a_message_that_says_its_length_is_usual() {
        for (headers, body, closes) in [
            ("content-length: 5\r\n", 5, false),
            ("CONTENT-LENGTH:5\r\nHost: here\r\n", 5, false),
            ("Host: here\r\nContent-Length: 0\r\nConnection: Keep-Alive\r\n", 0, false),
            ("x-none:\r\nx-space: \r\nContent-Length: \t 007\r\nconnection: Close\r\n", 7, true),
        ] {
            let (found, filled, rest) = found(&(posted(headers) + "{}POST"));
            assert_eq!(found, Found::Usual(Usual { body, closes }), "{headers}");
            assert_eq!(filled.len(), headers.lines().count(), "{headers}");
            assert_eq!(&rest[..], b"{}POST", "{headers}");
        }
    }

    #[test]
    fn what_the_headers_say_is_kept_each_time_it_is_said() {
        let (_, filled, _) =
            found(&posted("A: 1\r\nContent-Length: 2\r\na: \"b c\"\r\nB: \u{fc}\r\n"));
        let all: Vec<_> = filled.get_all("a").iter().map(HeaderValue::as_bytes).collect();
        assert_eq!(all, [&b"1"[..], b"\"b c\""]);
        assert_eq!(
            (&filled["content-length"], filled["b"].as_bytes()),
            (&"2".parse().unwrap(), "ü".as_bytes())
        );
    }

    #[test]
    fn whatever_else_is_left_as_it_was() {
        for headers in [
            "Host: here\r\n",
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: -5\r\n",
            "Content-Length: 0x5\r\n",
            "Content-Length: 5 \r\n",
            "Content-Length:\r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Content-Length : 5\r\n",
            " Content-Length: 5\r\n",
            "Content-Length: 5\n",
            "Host: here\nContent-Length: 5\r\n",
            "Host: here\r\n folded\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nHost: a\rb\r\n",
            "Content-Length: 5\r\nHost: a\0b\r\n",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "TRANSFER-ENCODING: identity\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nExpect: 100-continue\r\n",
            "Content-Length: 5\r\nUpgrade: websocket\r\n",
            "Content-Length: 5\r\nConnection: upgrade\r\n",
            "Content-Length: 5\r\nConnection: close, te\r\n",
            "Content-Length: 5\r\nConnection: close\r\nConnection: te\r\n",
            &("Content-Length: 5\r\n".to_owned() + &"a: b\r\n".repeat(HEADERS)),
            &format!("Content-Length: 5\r\na: {}\r\n", "a".repeat(LONGEST)),
        ] {
            check_other(&(posted(headers) + "hello"));
        }
        // The end of a head is a whole line feed, too.
        check_other("POST /mcp HTTP/1.1\r\nContent-Length: 5\r\n\nhello");
    }

    #[test]
    fn another_method_path_or_version_is_known_from_its_first_byte_that_differs() {
        for line in [
            "GET /mcp HTTP/1.1\r\n",
            "post /mcp HTTP/1.1\r\n",
            "POST /mcp?agent=a HTTP/1.1\r\n",
            "POST /mcp/one HTTP/1.1\r\n",
            "POST  /mcp HTTP/1.1\r\n",
            "POST /mcp HTTP/1.0\r\n",
            "POST /mcp HTTP/1.1\n",
            "POST http://here/mcp HTTP/1.1\r\n",
            "\r\nPOST /mcp HTTP/1.1\r\n",
            "PRI * HTTP/2.0\r\n",
        ] {
            check_other(&format!("{line}Content-Length: 5\r\n\r\nhello"));
            let usual = str::from_utf8(LINE).unwrap();
            let same = line.bytes().zip(usual.bytes()).take_while(|(a, b)| a == b).count();
            check_other(&line[..=same]);
            assert_eq!(found(&line[..same]).0, Found::Part, "{line}");
        }
    }

    #[test]
    fn a_part_of_a_head_is_waited_for_wherever_it_ends() {
        let whole = posted("Host: here\r\nContent-Length: 5\r\n");
        let (mut bytes, mut headers) = (BytesMut::new(), HeaderMap::new());
        let last = whole.len() - 1;
        for (seen, byte) in whole.bytes().enumerate() {
            bytes.extend_from_slice(&[byte]);
            let found = take(&mut bytes, seen, &mut headers);
            assert_eq!(found == Found::Part, seen < last, "{seen}: {found:?}");
        }
        assert!(bytes.is_empty() && headers.len() == 2);
    }

    #[test]
    fn a_head_without_an_end_is_waited_for_only_so_long() {
        let long = posted("").trim_end().to_owned() + "\r\na: " + &"a".repeat(LONGEST);
        assert_eq!(found(&long[..LONGEST]).0, Found::Part);
        check_other(&long);
        let (mut bytes, mut headers) = (BytesMut::from(&*long), HeaderMap::new());
        assert_eq!(take(&mut bytes, LONGEST, &mut headers), Found::Other);
    }

    #[test]
    fn what_was_taken_off_can_be_put_back() {
        let mut rest = BytesMut::from("rest");
        put_back(b"head and ", &mut rest);
        assert_eq!(&rest[..], b"head and rest");
    }

    fn check_other(text: &str) {
        let (found, headers, rest) = found(text);
        assert_eq!(found, Found::Other, "{text}");
        assert!(headers.is_empty() && rest[..] == *text.as_bytes(), "{text}");
    }
}
