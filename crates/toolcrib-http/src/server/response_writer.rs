//! Writes HTTP/1.1 response heads and chunked bodies.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::StatusCode;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, TRANSFER_ENCODING};
use http::response::Parts;

/// Marking of the end of a response body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// The response has no body.
    Absent,
    /// A body of this length.
    Known(u64),
    /// A body of unknown length, in chunks.
    Chunked,
}

impl BodyLength {
    /// The framing of a response. `exact_size` is the length of the body, if it is known.
    pub fn for_response(status: StatusCode, exact_size: Option<u64>) -> Self {
        let has_none = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        match exact_size {
            _ if has_none || status.is_informational() => BodyLength::Absent,
            Some(length) => BodyLength::Known(length),
            None => BodyLength::Chunked,
        }
    }

    /// Writes the start of a chunk. `length` must not be zero, because an empty chunk ends the body.
    pub fn write_chunk_start(self, out: &mut Vec<u8>, length: usize) {
        if self == BodyLength::Chunked {
            write_text(out, format_args!("{length:x}\r\n"));
        }
    }

    /// Writes the end of a chunk.
    pub fn write_chunk_end(self, out: &mut Vec<u8>) {
        if self == BodyLength::Chunked {
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Writes the end of a chunked body.
    pub fn write_last_chunk(self, out: &mut Vec<u8>) {
        if self == BodyLength::Chunked {
            out.extend_from_slice(b"0\r\n\r\n");
        }
    }
}

/// Writes a response head. Framing headers of the response are replaced by those of `size` and `closes`.
pub fn write_head(out: &mut Vec<u8>, head: &Parts, size: BodyLength, closes: bool, date: &str) {
    write_status_line(out, head.status);
    for (name, value) in &head.headers {
        if ![CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION, DATE].contains(name) {
            write_header(out, name.as_str(), value.as_bytes());
        }
    }
    write_head_end(out, size, closes, date);
}

/// Writes the status line.
pub fn write_status_line(out: &mut Vec<u8>, status: StatusCode) {
    match status {
        StatusCode::OK => out.extend_from_slice(b"HTTP/1.1 200 OK\r\n"),
        status => {
            let reason = status.canonical_reason().unwrap_or("<none>");
            write_text(out, format_args!("HTTP/1.1 {} {reason}\r\n", status.as_str()));
        }
    }
}

/// Writes the framing headers, the date and the empty line.
pub fn write_head_end(out: &mut Vec<u8>, size: BodyLength, closes: bool, date: &str) {
    match size {
        BodyLength::Absent => {}
        BodyLength::Known(length) => write_text(out, format_args!("content-length: {length}\r\n")),
        BodyLength::Chunked => write_header(out, "transfer-encoding", b"chunked"),
    }
    if closes {
        write_header(out, "connection", b"close");
    }
    write_header(out, "date", date.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Writes one header.
pub fn write_header(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

fn write_text(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a `Vec` never fails.
    let _ = out.write_fmt(text);
}

/// The formatted `Date` header, updated once per second.
#[derive(Debug, Default)]
pub struct DateCache {
    second: u64,
    text: String,
}

impl DateCache {
    /// The text for this time.
    pub fn format_at(&mut self, now: SystemTime) -> &str {
        /// Last second that HTTP dates can express.
        const LAST: u64 = 253_402_300_799;
        let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()).min(LAST);
        if self.second != second || self.text.is_empty() {
            self.text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second));
            self.second = second;
        }
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;

    fn head_text(status: u16, headers: &[(&str, &str)], size: BodyLength, closes: bool) -> String {
        let mut reply = Response::builder().status(status);
        for (name, value) in headers {
            reply = reply.header(*name, *value);
        }
        let (parts, ()) = reply.body(()).unwrap().into_parts();
        let mut out = Vec::new();
        write_head(&mut out, &parts, size, closes, "now");
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn response_head_contains_headers_and_body_length() {
        let json = [("content-type", "application/json")];
        for (text, wanted) in [
            (
                head_text(200, &json, BodyLength::Known(12), false),
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 12\r\ndate: now\r\n\r\n",
            ),
            (
                head_text(404, &[], BodyLength::Known(0), true),
                "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\ndate: now\r\n\r\n",
            ),
            (
                head_text(200, &[], BodyLength::Chunked, false),
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ndate: now\r\n\r\n",
            ),
            (
                head_text(204, &[], BodyLength::Absent, false),
                "HTTP/1.1 204 No Content\r\ndate: now\r\n\r\n",
            ),
            (
                head_text(
                    299,
                    &[("content-length", "7"), ("date", "then")],
                    BodyLength::Known(1),
                    false,
                ),
                "HTTP/1.1 299 <none>\r\ncontent-length: 1\r\ndate: now\r\n\r\n",
            ),
        ] {
            assert_eq!(text, wanted);
        }
    }

    #[test]
    fn body_of_unknown_size_is_chunked() {
        for (size, wanted) in
            [(BodyLength::Chunked, "1a\r\n\r\n0\r\n\r\n"), (BodyLength::Known(26), "")]
        {
            let mut out = Vec::new();
            size.write_chunk_start(&mut out, 26);
            size.write_chunk_end(&mut out);
            size.write_last_chunk(&mut out);
            assert_eq!(out, wanted.as_bytes());
        }
    }

    #[test]
    fn date_is_cached_per_second_and_clamped() {
        let mut date = DateCache::default();
        let at = |second: u64| UNIX_EPOCH + Duration::from_secs(second);
        assert_eq!(date.format_at(at(784_111_777)), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(
            date.format_at(at(784_111_777) + Duration::from_millis(999)),
            "Sun, 06 Nov 1994 08:49:37 GMT"
        );
        assert_eq!(date.format_at(at(784_111_778)), "Sun, 06 Nov 1994 08:49:38 GMT");
        assert_eq!(date.format_at(at(1 << 40)), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(
            date.format_at(UNIX_EPOCH - Duration::from_secs(5)),
            "Thu, 01 Jan 1970 00:00:00 GMT"
        );
    }
}
