//! What is posted, as it goes over a connection: the head is written once for a whole conversation.

use std::borrow::Cow;

use reqwest::header::{CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use url::{Position, Url};

/// The longest last line of a head.
const LAST: &[u8] = b"content-length: 18446744073709551615\r\n\r\n";
const NAME: &[u8] = b"content-length: ";
const END: &[u8] = b"\r\n\r\n";

/// What all that is posted in a conversation has in common.
pub(super) struct Posting {
    url: Url,
    headers: HeaderMap,
    /// The request line and the headers, but for the last line.
    head: Vec<u8>,
    /// Where the headers begin in it.
    line: usize,
}

/// The last line of a head: the length of what follows.
pub(super) struct LastLine {
    text: [u8; LAST.len()],
    start: usize,
}

impl Posting {
    pub(super) fn to(url: &Url, headers: HeaderMap) -> Self {
        let mut head = request_line(url);
        let line = head.len();
        write(&headers, &mut head);
        Self { url: url.clone(), headers, head, line }
    }

    /// The headers, and those of one request set over them.
    pub(super) fn headers(&self, own: &HeaderMap) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.extend(own.clone());
        headers
    }

    /// The head of one request, but for its last line.
    pub(super) fn head(&self, url: &Url, own: &HeaderMap) -> Cow<'_, [u8]> {
        let is_usual = *url == self.url;
        if is_usual && own.is_empty() {
            return Cow::Borrowed(&self.head);
        }
        let mut head = match is_usual {
            true => self.head[..self.line].to_vec(),
            false => request_line(url),
        };
        if own.keys().any(|name| self.headers.contains_key(name)) {
            write(&self.headers(own), &mut head);
        } else {
            head.extend_from_slice(&self.head[self.line..]);
            write(own, &mut head);
        }
        Cow::Owned(head)
    }
}

fn request_line(url: &Url) -> Vec<u8> {
    let target = &url[Position::BeforePath..Position::AfterQuery];
    ["POST ", target, " HTTP/1.1\r\n"].concat().into_bytes()
}

fn write(headers: &HeaderMap, head: &mut Vec<u8>) {
    for (name, value) in headers {
        // How long a request is, nobody else can say.
        if *name == CONTENT_LENGTH || *name == TRANSFER_ENCODING {
            continue;
        }
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
}

impl LastLine {
    pub(super) fn of(mut length: usize) -> Self {
        let mut text = [0; LAST.len()];
        let mut start = LAST.len() - END.len();
        text[start..].copy_from_slice(END);
        loop {
            start -= 1;
            text[start] = b'0' + (length % 10) as u8;
            length /= 10;
            if length == 0 {
                break;
            }
        }
        start -= NAME.len();
        text[start..start + NAME.len()].copy_from_slice(NAME);
        Self { text, start }
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.text[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn what_a_request_has_of_its_own_is_set_over_what_all_have() {
        let usual = Url::parse("http://a.example:1/mcp?x=1#y").unwrap();
        let other = Url::parse("http://a.example:1").unwrap();
        let posting = Posting::to(&usual, headers(&[("a", "1"), ("content-length", "9")]));
        for (url, own, expected) in [
            (&usual, &[][..], "POST /mcp?x=1 HTTP/1.1\r\na: 1\r\n"),
            (&usual, &[("b", "2")], "POST /mcp?x=1 HTTP/1.1\r\na: 1\r\nb: 2\r\n"),
            (&usual, &[("a", "2")], "POST /mcp?x=1 HTTP/1.1\r\na: 2\r\n"),
            (&other, &[], "POST / HTTP/1.1\r\na: 1\r\n"),
        ] {
            let head = posting.head(url, &headers(own));
            assert_eq!(String::from_utf8_lossy(&head), expected);
        }
    }

    #[test]
    fn the_last_line_says_the_length() {
        for length in [0, 9, 10, 1_048_576, usize::MAX] {
            let expected = format!("content-length: {length}\r\n\r\n");
            assert_eq!(LastLine::of(length).text(), expected.as_bytes());
        }
    }
}
