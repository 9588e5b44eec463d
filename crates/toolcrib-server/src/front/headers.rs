//! Header lookup that works for hyper's header map and for the fast path's header block.

use hyper::HeaderMap;

/// Lookup of request headers.
pub trait Headers: Sync {
    /// The first value of a header, if it is text. `name` must be lower case.
    fn text(&self, name: &str) -> Option<&str>;

    /// The only value of a header. Security checks use this: a repeated or non-text header is an error instead of
    /// absent.
    fn single(&self, name: &str) -> Result<Option<&str>, AmbiguousHeader>;
}

/// A header that is repeated or not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmbiguousHeader;

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

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderValue, ORIGIN};

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
}
