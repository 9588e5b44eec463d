//! An answer as bytes: its head, and a body of a size that is known or in chunks.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use hyper::body::Body;
use hyper::header::{CONNECTION, CONTENT_LENGTH, DATE, TRANSFER_ENCODING};
use hyper::http::response::Parts;

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// There can be no body.
    Nothing,
    Known(u64),
    Chunks,
}

impl Size {
    pub(super) fn of(status: StatusCode, body: &impl Body) -> Self {
        let has_none = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        match body.size_hint().exact() {
            _ if has_none || status.is_informational() => Size::Nothing,
            Some(length) => Size::Known(length),
            None => Size::Chunks,
        }
    }

    /// What is written before so many bytes of the body. A chunk of none would be the last.
    pub(super) fn begin(self, out: &mut Vec<u8>, length: usize) {
        if self == Size::Chunks {
            put(out, format_args!("{length:x}\r\n"));
        }
    }

    /// What is written after them.
    pub(super) fn end(self, out: &mut Vec<u8>) {
        if self == Size::Chunks {
            out.extend_from_slice(b"\r\n");
        }
    }

    /// What is written when there is nothing more.
    pub(super) fn finish(self, out: &mut Vec<u8>) {
        if self == Size::Chunks {
            out.extend_from_slice(b"0\r\n\r\n");
        }
    }
}

/// The head of an answer. What is said of the body's size and the connection is said here and nowhere else.
pub(super) fn head(out: &mut Vec<u8>, head: &Parts, size: Size, closes: bool, date: &str) {
    status(out, head.status);
    for (name, value) in &head.headers {
        if ![CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION, DATE].contains(name) {
            line(out, name.as_str(), value.as_bytes());
        }
    }
    end(out, size, closes, date);
}

/// How a head begins.
pub(super) fn status(out: &mut Vec<u8>, status: StatusCode) {
    match status {
        StatusCode::OK => out.extend_from_slice(b"HTTP/1.1 200 OK\r\n"),
        status => {
            let reason = status.canonical_reason().unwrap_or("<none>");
            put(out, format_args!("HTTP/1.1 {} {reason}\r\n", status.as_str()));
        }
    }
}

/// How it ends.
pub(super) fn end(out: &mut Vec<u8>, size: Size, closes: bool, date: &str) {
    match size {
        Size::Nothing => {}
        Size::Known(length) => put(out, format_args!("content-length: {length}\r\n")),
        Size::Chunks => line(out, "transfer-encoding", b"chunked"),
    }
    if closes {
        line(out, "connection", b"close");
    }
    line(out, "date", date.as_bytes());
    out.extend_from_slice(b"\r\n");
}

pub(super) fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // What is kept in memory can be written to.
    let _ = out.write_fmt(text);
}

/// The time as HTTP says it, which is written anew only with every second.
#[derive(Debug, Default)]
pub(super) struct Date {
    second: u64,
    text: String,
}

impl Date {
    pub(super) fn at(&mut self, now: SystemTime) -> &str {
        /// The last second that has a date.
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
    use hyper::Response;

    use super::*;

    fn said(status: u16, headers: &[(&str, &str)], size: Size, closes: bool) -> String {
        let mut reply = Response::builder().status(status);
        for (name, value) in headers {
            reply = reply.header(*name, *value);
        }
        let (parts, ()) = reply.body(()).unwrap().into_parts();
        let mut out = Vec::new();
        head(&mut out, &parts, size, closes, "now");
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_head_says_its_headers_and_the_size_of_what_follows() {
        let json = [("content-type", "application/json")];
        for (said, wanted) in [
            (
                said(200, &json, Size::Known(12), false),
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 12\r\ndate: now\r\n\r\n",
            ),
            (
                said(404, &[], Size::Known(0), true),
                "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\ndate: now\r\n\r\n",
            ),
            (
                said(200, &[], Size::Chunks, false),
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ndate: now\r\n\r\n",
            ),
            (said(204, &[], Size::Nothing, false), "HTTP/1.1 204 No Content\r\ndate: now\r\n\r\n"),
            (
                said(299, &[("content-length", "7"), ("date", "then")], Size::Known(1), false),
                "HTTP/1.1 299 <none>\r\ncontent-length: 1\r\ndate: now\r\n\r\n",
            ),
        ] {
            assert_eq!(said, wanted);
        }
    }

    #[test]
    fn a_body_without_a_known_size_goes_in_chunks_and_any_other_as_it_is() {
        for (size, wanted) in [(Size::Chunks, "1a\r\n\r\n0\r\n\r\n"), (Size::Known(26), "")] {
            let mut out = Vec::new();
            size.begin(&mut out, 26);
            size.end(&mut out);
            size.finish(&mut out);
            assert_eq!(out, wanted.as_bytes());
        }
    }

    #[test]
    fn the_date_is_that_of_the_second_whatever_the_clock_says() {
        let mut date = Date::default();
        let at = |second: u64| UNIX_EPOCH + Duration::from_secs(second);
        assert_eq!(date.at(at(784_111_777)), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(
            date.at(at(784_111_777) + Duration::from_millis(999)),
            "Sun, 06 Nov 1994 08:49:37 GMT"
        );
        assert_eq!(date.at(at(784_111_778)), "Sun, 06 Nov 1994 08:49:38 GMT");
        assert_eq!(date.at(at(1 << 40)), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(date.at(UNIX_EPOCH - Duration::from_secs(5)), "Thu, 01 Jan 1970 00:00:00 GMT");
    }
}
