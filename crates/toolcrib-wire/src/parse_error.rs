//! Errors of malformed messages, with the parts that could be recovered.

use crate::id::{Id, IdError};
use crate::json::JsonKind;

/// A message that cannot be used. The recovered id lets a bad response fail its own call at once, and a bad request
/// get an error response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed message")]
pub struct MalformedMessage {
    /// The reason for the rejection.
    #[source]
    pub error: ParseError,
    /// The id, if it was readable.
    pub id: Option<Id>,
    /// The probable kind of the message.
    pub kind: MessageKind,
}

/// The probable kind of a malformed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// A request.
    Request,
    /// A notification.
    Notification,
    /// A response.
    Response,
    /// The kind could not be determined.
    Unknown,
}

/// The reason why a message or a JSON value was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The text is over the size limit.
    #[error("{size} bytes are over the limit of {limit} bytes")]
    TooLarge { size: usize, limit: usize },
    /// The value is nested too deeply.
    #[error("nested deeper than the limit of {limit} levels")]
    TooDeep { limit: usize },
    /// The text is not UTF-8.
    #[error("not UTF-8 at byte {at}")]
    NotUtf8 { at: usize },
    /// The text is not JSON.
    #[error("not JSON at byte {at}: {problem}")]
    Syntax { at: usize, problem: &'static str },
    /// The message is not an object.
    #[error("a message must be an object, found {found}")]
    NotAnObject { found: JsonKind },
    /// The message is not JSON-RPC 2.0.
    #[error("`jsonrpc` is not \"2.0\"")]
    NotJsonRpc2,
    /// The id is invalid.
    #[error("the id is invalid: {0}")]
    InvalidId(IdError),
    /// Two readers may use different duplicates, so a permitted name could turn into a denied one.
    #[error("`{member}` is given twice")]
    DuplicateMember { member: &'static str },
    /// The method is not a string.
    #[error("`method` must be a string, found {found}")]
    MethodNotString { found: JsonKind },
    /// The params are not an object.
    #[error("`params` must be an object, found {found}")]
    ParamsNotObject { found: JsonKind },
    /// The message has no method, result or error.
    #[error("the message has neither a method nor a result nor an error")]
    NoContent,
    /// The message has a method and a result or error.
    #[error("the message has a method together with a result or an error")]
    MethodAndResponse,
    /// The message has a result and an error.
    #[error("the message has both a result and an error")]
    ResultAndError,
    /// The result has no id.
    #[error("the response has a result but no id")]
    ResultWithoutId,
    /// The error member is invalid.
    #[error("`error` is invalid: {reason}")]
    InvalidError { reason: &'static str },
    /// The batch is empty.
    #[error("the batch is empty")]
    EmptyBatch,
    /// The batch has too many messages.
    #[error("the batch has more than {limit} messages")]
    BatchTooLong { limit: usize },
}
