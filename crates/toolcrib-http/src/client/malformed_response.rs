//! Errors of an invalid HTTP/1.1 response.

/// A response that cannot be read, or not to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MalformedResponse {
    #[error("the response is not HTTP/1.1")]
    Head(#[source] httparse::Error),
    #[error("the response head is over the limit of {limit} bytes")]
    HeadTooLarge { limit: usize },
    #[error("the response has the unexpected status {0}")]
    Status(u16),
    #[error("the response has an invalid content length")]
    Length,
    #[error("the response has an unsupported transfer encoding")]
    TransferCoding,
    #[error("the response has an invalid chunk")]
    Chunk,
    #[error("the server sent data before the request")]
    Unsolicited,
    #[error("the connection was closed before the end of the response")]
    Truncated,
}
