//! The headers of a request, however they are kept: whoever answers looks up a few of them and nothing else.

use hyper::HeaderMap;

/// Where headers can be looked up.
pub trait Headers: Sync {
    /// What the first header of this name says, where that is text. The name is in lower case.
    fn text(&self, name: &str) -> Option<&str>;
}

impl Headers for HeaderMap {
    fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.to_str().ok()
    }
}
