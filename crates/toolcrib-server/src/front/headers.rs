//! Header lookup that works for hyper's header map and for the fast path's header block.

use hyper::HeaderMap;
pub use toolcrib_http::server::AmbiguousHeader;
use toolcrib_http::server::HeaderBlock;

/// Lookup of request headers.
pub trait Headers: Sync {
    /// The first value of a header, if it is text. `name` must be lower case.
    fn text(&self, name: &str) -> Option<&str>;

    /// The only value of a header. Security checks use this: a repeated or non-text header is an error instead of
    /// absent.
    fn single(&self, name: &str) -> Result<Option<&str>, AmbiguousHeader>;
}

impl Headers for HeaderMap {
    fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.to_str().ok()
    }

    fn single(&self, name: &str) -> Result<Option<&str>, AmbiguousHeader> {
        let mut all = self.get_all(name).iter();
        match (all.next(), all.next()) {
            (None, _) => Ok(None),
            (Some(only), None) => only.to_str().map(Some).map_err(|_| AmbiguousHeader),
            (Some(_), Some(_)) => Err(AmbiguousHeader),
        }
    }
}

impl Headers for HeaderBlock {
    fn text(&self, name: &str) -> Option<&str> {
        HeaderBlock::text(self, name)
    }

    fn single(&self, name: &str) -> Result<Option<&str>, AmbiguousHeader> {
        HeaderBlock::single(self, name)
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use hyper::header::{HeaderValue, ORIGIN};
    use toolcrib_http::server::{ParsedHead, parse_head};

    use super::*;

    #[test]
    fn repeated_or_non_text_header_is_ambiguous() {
        let mut headers = HeaderMap::new();
        assert_eq!(headers.single("origin"), Ok(None));
        headers.append(ORIGIN, HeaderValue::from_static("http://localhost"));
        assert_eq!(headers.single("origin"), Ok(Some("http://localhost")));
        headers.append(ORIGIN, HeaderValue::from_static("http://evil.example"));
        assert_eq!(headers.single("origin"), Err(AmbiguousHeader));
        headers.insert(ORIGIN, HeaderValue::from_bytes(b"http://\xe9vil.example").unwrap());
        assert_eq!(
            (headers.single("origin"), headers.text("origin")),
            (Err(AmbiguousHeader), None)
        );
    }

    /// Both implementations must return the same header values.
    #[test]
    fn header_lookup_matches_header_map() {
        let values = ["", "1", "a b", "\t", "~", "\u{7f}", "\u{fc}", "\"", "a\tb"];
        for value in values {
            let text = format!(
                "POST / HTTP/1.1\r\nX-One: {value}\r\nContent-Length: 0\r\nx-one: other\r\n\r\n"
            );
            let mut headers = HeaderBlock::for_request_line(b"POST / HTTP/1.1\r\n");
            let parsed = parse_head(&mut BytesMut::from(&*text), 0, &mut headers);
            assert_eq!(parsed == ParsedHead::Unsupported, value == "\u{7f}", "{text:?}");
            if parsed == ParsedHead::Unsupported {
                continue;
            }
            let mut map = HeaderMap::new();
            let value = HeaderValue::from_bytes(value.trim().as_bytes()).unwrap();
            map.append("x-one", value);
            assert_eq!(Headers::text(&headers, "x-one"), Headers::text(&map, "x-one"), "{text:?}");
        }
    }
}
