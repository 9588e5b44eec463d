//! The head of the usual request: a message posted to the gateway, of a length that is said. What is not exactly that
//! is left as it is, for hyper to judge.

use bytes::{Buf, BytesMut};
use httparse::{EMPTY_HEADER, Header, Status};
use toolcrib_wire::said_again;

use super::headers::{Headers, Unclear};

/// How the usual request begins.
const LINE: &[u8] = b"POST /mcp HTTP/1.1\r\n";

/// The header that may say something else each time.
const LENGTH: &str = "content-length";

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

/// The headers of a usual request, as they came, but for their names, which are in lower case.
#[derive(Debug, Default)]
pub(super) struct Lines {
    text: String,
    places: Vec<Place>,
    before: Before,
}

/// The head as it came. A client says the same again and again, but for the length of the body, and then it need not be
/// read again.
#[derive(Debug, Default)]
struct Before {
    bytes: Vec<u8>,
    /// Where the length is.
    length: (usize, usize),
    closes: bool,
}

/// Where a header is in its head.
#[derive(Clone, Copy, Debug)]
struct Place {
    name: (usize, usize),
    value: (usize, usize),
}

impl Headers for Lines {
    fn text(&self, name: &str) -> Option<&str> {
        self.values(name).next()?.ok()
    }

    fn sole(&self, name: &str) -> Result<Option<&str>, Unclear> {
        let mut all = self.values(name);
        match (all.next(), all.next()) {
            (only, None) => only.transpose(),
            (_, Some(_)) => Err(Unclear),
        }
    }
}

impl Lines {
    fn values(&self, name: &str) -> impl Iterator<Item = Result<&str, Unclear>> {
        let at = |(start, end): (usize, usize)| self.text.get(start..end);
        // Compared as bytes: where characters begin does not matter for that.
        let named = |(start, end): (usize, usize)| self.text.as_bytes().get(start..end);
        let is_named = move |place: &&Place| {
            place.name.1 - place.name.0 == name.len() && named(place.name) == Some(name.as_bytes())
        };
        // What others take for text, too; what cannot be seen is in no head that was read.
        let text = move |value| at(value).filter(|value| value.is_ascii()).ok_or(Unclear);
        self.places.iter().filter(is_named).map(move |place| text(place.value))
    }

    /// What is said, and how long it is, where it is what was said before with another length.
    fn again(&mut self, bytes: &[u8]) -> Option<(usize, Usual)> {
        let Before { bytes: before, length: (start, end), closes } = &self.before;
        if before.is_empty() {
            return None;
        }
        let digits = said_again(before, *start..*end, bytes)?;
        let usual = Usual { body: number(digits)?, closes: *closes };
        if let Ok(digits) = str::from_utf8(digits) {
            self.text.replace_range(*start..*end, digits);
        }
        Some((before.len(), usual))
    }

    /// Keeps a head in which the places are. False where it is no text at all.
    fn keep(&mut self, head: &[u8], usual: Usual) -> bool {
        self.text.clear();
        let Ok(head) = str::from_utf8(head) else { return false };
        self.text.push_str(head);
        self.before.bytes.clear();
        self.before.bytes.extend_from_slice(head.as_bytes());
        self.before.closes = usual.closes;
        for Place { name: (start, end), .. } in &self.places {
            if let Some(name) = self.text.get_mut(*start..*end) {
                name.make_ascii_lowercase();
            }
        }
        let is_length = |place: &&Place| self.text.get(place.name.0..place.name.1) == Some(LENGTH);
        // There is just one.
        self.before.length = self.places.iter().find(is_length).map_or((0, 0), |place| place.value);
        true
    }
}

/// Takes a usual head off. Where there is none, everything stays; so many of the bytes were looked at before.
pub(super) fn take(bytes: &mut BytesMut, seen: usize, lines: &mut Lines) -> Found {
    if let Some((length, usual)) = lines.again(bytes) {
        bytes.advance(length);
        return Found::Usual(usual);
    }
    if bytes.len() < LINE.len() {
        return if LINE.starts_with(bytes) { Found::Part } else { Found::Other };
    }
    if !bytes.starts_with(LINE) {
        return Found::Other;
    }
    if !may_be_whole(bytes, seen) {
        return if bytes.len() <= LONGEST { Found::Part } else { Found::Other };
    }
    match read(bytes, &mut lines.places) {
        Ok((length, usual)) if lines.keep(bytes.get(..length).unwrap_or_default(), usual) => {
            bytes.advance(length);
            Found::Usual(usual)
        }
        Ok(_) => Found::Other,
        Err(found) => found,
    }
}

/// Whoever sends a head byte by byte does not have it read as often.
fn may_be_whole(bytes: &[u8], seen: usize) -> bool {
    let fresh = bytes.get(seen.saturating_sub(3)..).unwrap_or_default();
    let ends = |end: &[u8]| fresh.windows(end.len()).any(|it| it == end);
    seen == 0 || ends(b"\n\r\n") || ends(b"\n\n")
}

/// How long a head is, and what its headers say.
fn read(bytes: &[u8], places: &mut Vec<Place>) -> Result<(usize, Usual), Found> {
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
    Ok((length, usual))
}

/// Where the headers are, and where they end; nothing where one does not end with its value and a whole line feed.
fn locate(bytes: &[u8], lines: &[Header<'_>], places: &mut Vec<Place>) -> Option<usize> {
    let at = |part: &[u8]| {
        let start = (part.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize)?;
        Some((start, start.checked_add(part.len())?))
    };
    let mut end = LINE.len();
    places.clear();
    for line in lines {
        let place = Place { name: at(line.name.as_bytes())?, value: at(line.value)? };
        places.push(place);
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
        if is(LENGTH) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::PATH;

    fn found(text: &str) -> (Found, Lines, BytesMut) {
        let (mut bytes, mut lines) = (BytesMut::from(text), Lines::default());
        (take(&mut bytes, 0, &mut lines), lines, bytes)
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
            assert_eq!(filled.places.len(), headers.lines().count(), "{headers}");
            assert_eq!(&rest[..], b"{}POST", "{headers}");
        }
    }

    #[test]
    fn a_header_says_what_it_says_first_where_that_is_text() {
        let (_, lines, _) = found(&posted(
            "A: 1\r\nContent-Length: 2\r\na: 2\r\nB: \u{fc}\r\nc:\r\nX-Long: \"b\tc\"\r\n",
        ));
        for (name, said) in [
            ("a", Some("1")),
            ("content-length", Some("2")),
            ("b", None),
            ("c", Some("")),
            ("x-long", Some("\"b\tc\"")),
            ("x-lon", None),
            ("host", None),
        ] {
            assert_eq!(lines.text(name), said, "{name}");
        }
    }

    #[test]
    fn headers_of_the_request_before_are_forgotten() {
        let mut lines = Lines::default();
        for (headers, said) in
            [("A: 1\r\nContent-Length: 0\r\n", Some("1")), ("Content-Length: 0\r\n", None)]
        {
            let mut bytes = BytesMut::from(&*posted(headers));
            assert!(matches!(take(&mut bytes, 0, &mut lines), Found::Usual(_)));
            assert_eq!(lines.text("a"), said);
        }
    }

    #[test]
    fn what_is_said_again_with_another_length_says_that_length_and_all_else_as_before() {
        let first = posted("A: 1\r\nContent-Length: 27\r\nB: 2\r\nConnection: close\r\n");
        for (second, body) in [
            (first.clone(), 27),
            (first.replace("27", "31"), 31),
            (first.replace("27", "00"), 0),
            (first.replace("27", "7"), 7),
            (first.replace("27", "1024"), 1024),
        ] {
            let (mut bytes, mut lines) = (BytesMut::from(&*first), Lines::default());
            assert!(matches!(take(&mut bytes, 0, &mut lines), Found::Usual(_)));
            let mut bytes = BytesMut::from(&*(second.clone() + "{}"));
            let found = take(&mut bytes, 0, &mut lines);
            assert_eq!(found, Found::Usual(Usual { body, closes: true }), "{second}");
            assert_eq!(&bytes[..], b"{}");
            let length = lines.text(LENGTH).and_then(|text| text.parse().ok());
            assert_eq!(
                (length, lines.text("a"), lines.text("b")),
                (Some(body), Some("1"), Some("2"))
            );
        }
    }

    #[test]
    fn what_is_nearly_said_again_is_read_as_if_it_came_first() {
        let first = posted("Content-Length: 12\r\nHost: here\r\n");
        for second in [
            first.replace("12", "1x"),
            first.replace("12", "+2"),
            first.replace("Host: here", "Expect: it"),
            first.replace("\r\n\r\n", "\r\n\n"),
            first.replace("POST", "post"),
        ] {
            let (mut bytes, mut lines) = (BytesMut::from(&*first), Lines::default());
            assert!(matches!(take(&mut bytes, 0, &mut lines), Found::Usual(_)));
            let mut bytes = BytesMut::from(&*second);
            assert_eq!(take(&mut bytes, 0, &mut lines), found(&second).0, "{second}");
            assert_eq!(bytes, second);
        }
    }

    /// What a request says must not depend on who reads it.
    #[test]
    fn headers_are_found_as_others_find_them() {
        let values = ["", "1", "a b", "\t", "~", "\u{7f}", "\u{fc}", "\"", "a\tb"];
        for value in values {
            let text = posted(&format!("X-One: {value}\r\nContent-Length: 0\r\nx-one: other\r\n"));
            let (found, lines, _) = found(&text);
            assert_eq!(found == Found::Other, value == "\u{7f}", "{text:?}");
            if found == Found::Other {
                continue;
            }
            let mut map = hyper::HeaderMap::new();
            let value = hyper::header::HeaderValue::from_bytes(value.trim().as_bytes()).unwrap();
            map.append("x-one", value);
            assert_eq!(lines.text("x-one"), Headers::text(&map, "x-one"), "{text:?}");
        }
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
        let (mut bytes, mut lines) = (BytesMut::new(), Lines::default());
        let last = whole.len() - 1;
        for (seen, byte) in whole.bytes().enumerate() {
            bytes.extend_from_slice(&[byte]);
            let found = take(&mut bytes, seen, &mut lines);
            assert_eq!(found == Found::Part, seen < last, "{seen}: {found:?}");
        }
        assert!(bytes.is_empty() && lines.places.len() == 2);
    }

    #[test]
    fn a_head_without_an_end_is_waited_for_only_so_long() {
        let long = posted("").trim_end().to_owned() + "\r\na: " + &"a".repeat(LONGEST);
        assert_eq!(found(&long[..LONGEST]).0, Found::Part);
        check_other(&long);
        let mut bytes = BytesMut::from(&*long);
        assert_eq!(take(&mut bytes, LONGEST, &mut Lines::default()), Found::Other);
    }

    fn check_other(text: &str) {
        let (found, _, rest) = found(text);
        assert_eq!(found, Found::Other, "{text}");
        assert!(rest[..] == *text.as_bytes(), "{text}");
    }
}
