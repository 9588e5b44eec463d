//! What makes an answer no answer in HTTP/1.1.

/// Why an answer cannot be read, or not to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Garbled {
    #[error("the answer is not HTTP/1.1")]
    Head(#[source] httparse::Error),
    #[error("the head of the answer is over the limit of {limit} bytes")]
    HeadTooLarge { limit: usize },
    #[error("the answer has the status {0}, which was not asked for")]
    Status(u16),
    #[error("the answer says nothing sensible of its length")]
    Length,
    #[error("the answer is coded in a way that was not asked for")]
    Coding,
    #[error("the answer is not in chunks, though it says so")]
    Chunk,
    #[error("the server spoke before it was asked")]
    Unasked,
    #[error("the connection was closed before the end of the answer")]
    CutShort,
}
