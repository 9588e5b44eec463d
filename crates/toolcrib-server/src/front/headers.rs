//! The headers of a request, however they are kept: whoever answers looks up a few of them and nothing else.

use hyper::HeaderMap;

/// Where headers can be looked up.
pub trait Headers: Sync {
    /// What the first header of this name says, where that is text. The name is in lower case.
    fn text(&self, name: &str) -> Option<&str>;

    /// What the only header of this name says; an error where there are several, or it is no text. For what somebody
    /// is kept out by: who says it twice, or in a way that is passed over, has said it.
    fn sole(&self, name: &str) -> Result<Option<&str>, Unclear>;
}

/// A header that nobody can go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unclear;

impl Headers for HeaderMap {
    fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.to_str().ok()
    }

    fn sole(&self, name: &str) -> Result<Option<&str>, Unclear> {
        let mut all = self.get_all(name).iter();
        match (all.next(), all.next()) {
            (None, _) => Ok(None),
            (Some(only), None) => only.to_str().map(Some).map_err(|_| Unclear),
            (Some(_), Some(_)) => Err(Unclear),
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderValue, ORIGIN};

    use super::*;

    #[test]
    fn what_is_said_twice_or_unreadably_is_not_taken_for_unsaid() {
        let mut headers = HeaderMap::new();
        assert_eq!(headers.sole("origin"), Ok(None));
        headers.append(ORIGIN, HeaderValue::from_static("http://localhost"));
        assert_eq!(headers.sole("origin"), Ok(Some("http://localhost")));
        headers.append(ORIGIN, HeaderValue::from_static("http://evil.example"));
        assert_eq!(headers.sole("origin"), Err(Unclear));
        headers.insert(ORIGIN, HeaderValue::from_bytes(b"http://\xe9vil.example").unwrap());
        assert_eq!((headers.sole("origin"), headers.text("origin")), (Err(Unclear), None));
    }
}
