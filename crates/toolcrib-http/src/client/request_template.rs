//! The shared part of the POSTs of a session: their head is written once.

use std::borrow::Cow;
use std::fmt;

use http::header::{CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use url::{Position, Url};

/// Longest content-length line.
const LONGEST_LINE: &[u8] = b"content-length: 18446744073709551615\r\n\r\n";
const HEADER_NAME: &[u8] = b"content-length: ";
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Request line and headers that all POSTs of a session share.
pub struct RequestTemplate {
    url: Url,
    headers: HeaderMap,
    /// The request line and the headers, without the content-length line.
    head: Vec<u8>,
    /// Offset of the headers in `head`.
    headers_start: usize,
}

/// The last line of a head: the length of the body.
pub(super) struct ContentLengthLine {
    text: [u8; LONGEST_LINE.len()],
    start: usize,
}

impl RequestTemplate {
    pub fn new(url: &Url, headers: HeaderMap) -> Self {
        let mut head = request_line(url);
        let headers_start = head.len();
        write_headers(&headers, &mut head);
        Self { url: url.clone(), headers, head, headers_start }
    }

    /// The shared headers, overridden by those of one request.
    pub fn headers_with(&self, extra: &HeaderMap) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.extend(extra.clone());
        headers
    }

    /// The head of one request, without the content-length line.
    pub fn head(&self, url: &Url, extra: &HeaderMap) -> Cow<'_, [u8]> {
        let is_usual = *url == self.url;
        if is_usual && extra.is_empty() {
            return Cow::Borrowed(&self.head);
        }
        let mut head = match is_usual {
            true => self.head[..self.headers_start].to_vec(),
            false => request_line(url),
        };
        if extra.keys().any(|name| self.headers.contains_key(name)) {
            write_headers(&self.headers_with(extra), &mut head);
        } else {
            head.extend_from_slice(&self.head[self.headers_start..]);
            write_headers(extra, &mut head);
        }
        Cow::Owned(head)
    }
}

fn request_line(url: &Url) -> Vec<u8> {
    let target = &url[Position::BeforePath..Position::AfterQuery];
    ["POST ", target, " HTTP/1.1\r\n"].concat().into_bytes()
}

fn write_headers(headers: &HeaderMap, head: &mut Vec<u8>) {
    for (name, value) in headers {
        // Only the connection knows the length of the body.
        if *name == CONTENT_LENGTH || *name == TRANSFER_ENCODING {
            continue;
        }
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
}

impl ContentLengthLine {
    pub(super) fn new(mut length: usize) -> Self {
        let mut text = [0; LONGEST_LINE.len()];
        let mut start = LONGEST_LINE.len() - HEAD_END.len();
        text[start..].copy_from_slice(HEAD_END);
        loop {
            start -= 1;
            text[start] = b'0' + (length % 10) as u8;
            length /= 10;
            if length == 0 {
                break;
            }
        }
        start -= HEADER_NAME.len();
        text[start..start + HEADER_NAME.len()].copy_from_slice(HEADER_NAME);
        Self { text, start }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.text[self.start..]
    }
}

/// Omits the headers, which may be secret.
impl fmt::Debug for RequestTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestTemplate").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn request_headers_override_template_headers() {
        let usual = Url::parse("http://a.example:1/mcp?x=1#y").unwrap();
        let other = Url::parse("http://a.example:1").unwrap();
        let template =
            RequestTemplate::new(&usual, headers(&[("a", "1"), ("content-length", "9")]));
        for (url, extra, expected) in [
            (&usual, &[][..], "POST /mcp?x=1 HTTP/1.1\r\na: 1\r\n"),
            (&usual, &[("b", "2")], "POST /mcp?x=1 HTTP/1.1\r\na: 1\r\nb: 2\r\n"),
            (&usual, &[("a", "2")], "POST /mcp?x=1 HTTP/1.1\r\na: 2\r\n"),
            (&other, &[], "POST / HTTP/1.1\r\na: 1\r\n"),
        ] {
            let head = template.head(url, &headers(extra));
            assert_eq!(String::from_utf8_lossy(&head), expected);
        }
    }

    #[test]
    fn content_length_line_contains_length() {
        for length in [0, 9, 10, 1_048_576, usize::MAX] {
            let expected = format!("content-length: {length}\r\n\r\n");
            assert_eq!(ContentLengthLine::new(length).as_bytes(), expected.as_bytes());
        }
    }
}
