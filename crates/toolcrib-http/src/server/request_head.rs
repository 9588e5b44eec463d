//! Parses request heads with one expected request line and a content length. Leaves any other request unread.

use crate::repeated_head::repeated_digits;
use bytes::{Buf, BytesMut};
use httparse::{EMPTY_HEADER, Header, Status};

/// The header whose value may differ in a repeated head.
const CONTENT_LENGTH: &str = "content-length";

const MAX_HEADERS: usize = 64;

/// Maximum size of a head on the fast path.
const MAX_HEAD_SIZE: usize = 16 << 10;

/// Result of parsing the start of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParsedHead {
    /// The head was parsed and removed from the input.
    Complete(RequestFraming),
    /// The head may become complete with more input.
    Partial,
    /// The input begins with another request.
    Unsupported,
}

/// Body length and connection persistence of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestFraming {
    /// Length of the body in bytes.
    pub body_length: usize,
    /// True if the connection closes after the response.
    pub closes: bool,
}

/// Headers of a request, unchanged except for lower-case names.
#[derive(Debug)]
pub struct HeaderBlock {
    request_line: &'static [u8],
    text: String,
    spans: Vec<HeaderSpan>,
    previous: PreviousHead,
}

/// The previous head. Clients repeat their head except for the content length, and a repeated head is not parsed again.
#[derive(Debug, Default)]
struct PreviousHead {
    bytes: Vec<u8>,
    /// Position of the content length.
    length: (usize, usize),
    closes: bool,
}

/// Position of a header in its head.
#[derive(Clone, Copy, Debug)]
struct HeaderSpan {
    name: (usize, usize),
    value: (usize, usize),
}

/// A header that is repeated or not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmbiguousHeader;

impl HeaderBlock {
    /// Expects heads that begin with this line, which includes its line break.
    pub fn for_request_line(request_line: &'static [u8]) -> Self {
        HeaderBlock {
            request_line,
            text: String::new(),
            spans: Vec::new(),
            previous: PreviousHead::default(),
        }
    }

    /// The first value of a header, if it is text. `name` must be lower case.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values(name).next()?.ok()
    }

    /// The only value of a header.
    pub fn single(&self, name: &str) -> Result<Option<&str>, AmbiguousHeader> {
        let mut all = self.values(name);
        match (all.next(), all.next()) {
            (only, None) => only.transpose(),
            (_, Some(_)) => Err(AmbiguousHeader),
        }
    }

    fn values(&self, name: &str) -> impl Iterator<Item = Result<&str, AmbiguousHeader>> {
        let at = |(start, end): (usize, usize)| self.text.get(start..end);
        // Compares bytes, because character boundaries do not matter here.
        let named = |(start, end): (usize, usize)| self.text.as_bytes().get(start..end);
        let is_named = move |span: &&HeaderSpan| {
            span.name.1 - span.name.0 == name.len() && named(span.name) == Some(name.as_bytes())
        };
        // Accepts the same values as `HeaderValue::to_str`; control characters never get past the parser.
        let text = move |value| at(value).filter(|value| value.is_ascii()).ok_or(AmbiguousHeader);
        self.spans.iter().filter(is_named).map(move |span| text(span.value))
    }

    /// Reuses the previous head if only the content length differs. Returns the length of the head.
    fn reuse_previous(&mut self, bytes: &[u8]) -> Option<(usize, RequestFraming)> {
        let PreviousHead { bytes: previous, length: (start, end), closes } = &self.previous;
        if previous.is_empty() {
            return None;
        }
        let digits = repeated_digits(previous, *start..*end, bytes)?;
        let framing = RequestFraming { body_length: parse_number(digits)?, closes: *closes };
        if let Ok(digits) = str::from_utf8(digits) {
            self.text.replace_range(*start..*end, digits);
        }
        Some((previous.len(), framing))
    }

    /// Stores a head whose spans are known. Returns `false` if it is not UTF-8.
    fn store(&mut self, head: &[u8], framing: RequestFraming) -> bool {
        self.text.clear();
        let Ok(head) = str::from_utf8(head) else { return false };
        self.text.push_str(head);
        self.previous.bytes.clear();
        self.previous.bytes.extend_from_slice(head.as_bytes());
        self.previous.closes = framing.closes;
        for HeaderSpan { name: (start, end), .. } in &self.spans {
            if let Some(name) = self.text.get_mut(*start..*end) {
                name.make_ascii_lowercase();
            }
        }
        let is_length =
            |span: &&HeaderSpan| self.text.get(span.name.0..span.name.1) == Some(CONTENT_LENGTH);
        // The parser accepts only one content length.
        self.previous.length = self.spans.iter().find(is_length).map_or((0, 0), |span| span.value);
        true
    }
}

/// Parses a head and removes it from the input; on failure the input stays unchanged. `scanned` is the number of bytes
/// that were checked before.
pub fn parse_head(bytes: &mut BytesMut, scanned: usize, headers: &mut HeaderBlock) -> ParsedHead {
    if let Some((length, framing)) = headers.reuse_previous(bytes) {
        bytes.advance(length);
        return ParsedHead::Complete(framing);
    }
    let request_line = headers.request_line;
    if bytes.len() < request_line.len() {
        return if request_line.starts_with(bytes) {
            ParsedHead::Partial
        } else {
            ParsedHead::Unsupported
        };
    }
    if !bytes.starts_with(request_line) {
        return ParsedHead::Unsupported;
    }
    if !may_be_complete(bytes, scanned) {
        return if bytes.len() <= MAX_HEAD_SIZE {
            ParsedHead::Partial
        } else {
            ParsedHead::Unsupported
        };
    }
    match parse_header_lines(bytes, request_line.len(), &mut headers.spans) {
        Ok((length, framing))
            if headers.store(bytes.get(..length).unwrap_or_default(), framing) =>
        {
            bytes.advance(length);
            ParsedHead::Complete(framing)
        }
        Ok(_) => ParsedHead::Unsupported,
        Err(parsed) => parsed,
    }
}

/// Avoids parsing again for each byte of a slowly sent head.
fn may_be_complete(bytes: &[u8], scanned: usize) -> bool {
    let fresh = bytes.get(scanned.saturating_sub(3)..).unwrap_or_default();
    let ends = |end: &[u8]| fresh.windows(end.len()).any(|it| it == end);
    scanned == 0 || ends(b"\n\r\n") || ends(b"\n\n")
}

/// Parses the length of a head and its framing. `start` is the length of the request line.
fn parse_header_lines(
    bytes: &[u8],
    start: usize,
    spans: &mut Vec<HeaderSpan>,
) -> Result<(usize, RequestFraming), ParsedHead> {
    let mut lines = [EMPTY_HEADER; MAX_HEADERS];
    let rest = bytes.get(start..).unwrap_or_default();
    let (length, lines) = match httparse::parse_headers(rest, &mut lines) {
        Ok(Status::Complete((length, lines))) => (start + length, lines),
        Ok(Status::Partial) if bytes.len() <= MAX_HEAD_SIZE => return Err(ParsedHead::Partial),
        _ => return Err(ParsedHead::Unsupported),
    };
    if length > MAX_HEAD_SIZE {
        return Err(ParsedHead::Unsupported);
    }
    let end = locate_headers(bytes, start, lines, spans).ok_or(ParsedHead::Unsupported)?;
    let is_exact = bytes.get(end..length) == Some(b"\r\n");
    let framing = interpret_headers(lines).filter(|_| is_exact).ok_or(ParsedHead::Unsupported)?;
    Ok((length, framing))
}

/// Finds the spans of the headers and their end. Returns `None` unless each line ends with its value and CRLF.
fn locate_headers(
    bytes: &[u8],
    start: usize,
    lines: &[Header<'_>],
    spans: &mut Vec<HeaderSpan>,
) -> Option<usize> {
    let at = |part: &[u8]| {
        let start = (part.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize)?;
        Some((start, start.checked_add(part.len())?))
    };
    let mut end = start;
    spans.clear();
    for line in lines {
        let span = HeaderSpan { name: at(line.name.as_bytes())?, value: at(line.value)? };
        spans.push(span);
        let is_next = span.name.0 == end;
        end = span.value.1 + 2;
        if !is_next || bytes.get(span.value.1..end) != Some(b"\r\n") {
            return None;
        }
    }
    Some(end)
}

/// Reads body length and connection persistence. Returns `None` for unsupported requests.
fn interpret_headers(lines: &[Header<'_>]) -> Option<RequestFraming> {
    let (mut body_length, mut closes) = (None, false);
    for line in lines {
        let is = |name: &str| line.name.eq_ignore_ascii_case(name);
        if is(CONTENT_LENGTH) {
            // A repeated content length is unsupported.
            body_length = Some(parse_number(line.value)?).filter(|_| body_length.is_none());
            body_length?;
        } else if is("connection") {
            let says = |word: &[u8]| line.value.eq_ignore_ascii_case(word);
            (says(b"close") || says(b"keep-alive")).then_some(())?;
            closes |= says(b"close");
        } else if is("transfer-encoding") || is("expect") || is("upgrade") {
            return None;
        }
    }
    Some(RequestFraming { body_length: body_length?, closes })
}

/// Parses a number of digits only.
fn parse_number(text: &[u8]) -> Option<usize> {
    let digits = text.iter().all(u8::is_ascii_digit).then_some(text)?;
    str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST_LINE: &[u8] = b"POST /mcp HTTP/1.1\r\n";

    fn empty_headers() -> HeaderBlock {
        HeaderBlock::for_request_line(REQUEST_LINE)
    }

    fn parse_text(text: &str) -> (ParsedHead, HeaderBlock, BytesMut) {
        let (mut bytes, mut headers) = (BytesMut::from(text), empty_headers());
        (parse_head(&mut bytes, 0, &mut headers), headers, bytes)
    }

    fn post_request(headers: &str) -> String {
        format!("POST /mcp HTTP/1.1\r\n{headers}\r\n")
    }

    #[test]
    fn post_with_content_length_takes_the_fast_path() {
        for (headers, body_length, closes) in [
            ("content-length: 5\r\n", 5, false),
            ("CONTENT-LENGTH:5\r\nHost: here\r\n", 5, false),
            ("Host: here\r\nContent-Length: 0\r\nConnection: Keep-Alive\r\n", 0, false),
            ("x-none:\r\nx-space: \r\nContent-Length: \t 007\r\nconnection: Close\r\n", 7, true),
        ] {
            let (parsed, filled, rest) = parse_text(&(post_request(headers) + "{}POST"));
            assert_eq!(
                parsed,
                ParsedHead::Complete(RequestFraming { body_length, closes }),
                "{headers}"
            );
            assert_eq!(filled.spans.len(), headers.lines().count(), "{headers}");
            assert_eq!(&rest[..], b"{}POST", "{headers}");
        }
    }

    #[test]
    fn first_text_value_of_a_header_wins() {
        let (_, headers, _) = parse_text(&post_request(
            "A: 1\r\nContent-Length: 2\r\na: 2\r\nB: \u{fc}\r\nc:\r\nX-Long: \"b\tc\"\r\n",
        ));
        for (name, expected) in [
            ("a", Some("1")),
            ("content-length", Some("2")),
            ("b", None),
            ("c", Some("")),
            ("x-long", Some("\"b\tc\"")),
            ("x-lon", None),
            ("host", None),
        ] {
            assert_eq!(headers.text(name), expected, "{name}");
        }
    }

    #[test]
    fn previous_request_headers_are_cleared() {
        let mut headers = empty_headers();
        for (text, expected) in
            [("A: 1\r\nContent-Length: 0\r\n", Some("1")), ("Content-Length: 0\r\n", None)]
        {
            let mut bytes = BytesMut::from(&*post_request(text));
            assert!(matches!(parse_head(&mut bytes, 0, &mut headers), ParsedHead::Complete(_)));
            assert_eq!(headers.text("a"), expected);
        }
    }

    #[test]
    fn repeated_head_with_another_length_keeps_other_headers() {
        let first = post_request("A: 1\r\nContent-Length: 27\r\nB: 2\r\nConnection: close\r\n");
        for (second, body_length) in [
            (first.clone(), 27),
            (first.replace("27", "31"), 31),
            (first.replace("27", "00"), 0),
            (first.replace("27", "7"), 7),
            (first.replace("27", "1024"), 1024),
        ] {
            let (mut bytes, mut headers) = (BytesMut::from(&*first), empty_headers());
            assert!(matches!(parse_head(&mut bytes, 0, &mut headers), ParsedHead::Complete(_)));
            let mut bytes = BytesMut::from(&*(second.clone() + "{}"));
            let parsed = parse_head(&mut bytes, 0, &mut headers);
            assert_eq!(
                parsed,
                ParsedHead::Complete(RequestFraming { body_length, closes: true }),
                "{second}"
            );
            assert_eq!(&bytes[..], b"{}");
            let length = headers.text(CONTENT_LENGTH).and_then(|text| text.parse().ok());
            assert_eq!(
                (length, headers.text("a"), headers.text("b")),
                (Some(body_length), Some("1"), Some("2"))
            );
        }
    }

    #[test]
    fn nearly_repeated_head_is_parsed_from_scratch() {
        let first = post_request("Content-Length: 12\r\nHost: here\r\n");
        for second in [
            first.replace("12", "1x"),
            first.replace("12", "+2"),
            first.replace("Host: here", "Expect: it"),
            first.replace("\r\n\r\n", "\r\n\n"),
            first.replace("POST", "post"),
        ] {
            let (mut bytes, mut headers) = (BytesMut::from(&*first), empty_headers());
            assert!(matches!(parse_head(&mut bytes, 0, &mut headers), ParsedHead::Complete(_)));
            let mut bytes = BytesMut::from(&*second);
            assert_eq!(parse_head(&mut bytes, 0, &mut headers), parse_text(&second).0, "{second}");
            assert_eq!(bytes, second);
        }
    }

    #[test]
    fn unsupported_head_leaves_the_buffer_unchanged() {
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
            &("Content-Length: 5\r\n".to_owned() + &"a: b\r\n".repeat(MAX_HEADERS)),
            &format!("Content-Length: 5\r\na: {}\r\n", "a".repeat(MAX_HEAD_SIZE)),
        ] {
            check_unsupported(&(post_request(headers) + "hello"));
        }
        // A head must end with CRLF, too.
        check_unsupported("POST /mcp HTTP/1.1\r\nContent-Length: 5\r\n\nhello");
    }

    #[test]
    fn other_request_line_leaves_the_fast_path_at_the_first_difference() {
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
            check_unsupported(&format!("{line}Content-Length: 5\r\n\r\nhello"));
            let expected = str::from_utf8(REQUEST_LINE).unwrap();
            let same = line.bytes().zip(expected.bytes()).take_while(|(a, b)| a == b).count();
            check_unsupported(&line[..=same]);
            assert_eq!(parse_text(&line[..same]).0, ParsedHead::Partial, "{line}");
        }
    }

    #[test]
    fn partial_head_is_parsed_when_complete() {
        let whole = post_request("Host: here\r\nContent-Length: 5\r\n");
        let (mut bytes, mut headers) = (BytesMut::new(), empty_headers());
        let last = whole.len() - 1;
        for (scanned, byte) in whole.bytes().enumerate() {
            bytes.extend_from_slice(&[byte]);
            let parsed = parse_head(&mut bytes, scanned, &mut headers);
            assert_eq!(parsed == ParsedHead::Partial, scanned < last, "{scanned}: {parsed:?}");
        }
        assert!(bytes.is_empty() && headers.spans.len() == 2);
    }

    #[test]
    fn unterminated_head_is_limited_in_size() {
        let long = post_request("").trim_end().to_owned() + "\r\na: " + &"a".repeat(MAX_HEAD_SIZE);
        assert_eq!(parse_text(&long[..MAX_HEAD_SIZE]).0, ParsedHead::Partial);
        check_unsupported(&long);
        let mut bytes = BytesMut::from(&*long);
        assert_eq!(
            parse_head(&mut bytes, MAX_HEAD_SIZE, &mut empty_headers()),
            ParsedHead::Unsupported
        );
    }

    fn check_unsupported(text: &str) {
        let (parsed, _, rest) = parse_text(text);
        assert_eq!(parsed, ParsedHead::Unsupported, "{text}");
        assert!(rest[..] == *text.as_bytes(), "{text}");
    }
}
