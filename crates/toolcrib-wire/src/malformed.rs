//! What is wrong with a message, and what of it could still be made out.

use crate::id::{BadId, Id};
use crate::json::Kind;

/// A message that cannot be used. What was recovered lets a bad answer fail its own call at once and a
/// bad request be answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed message")]
pub struct Malformed {
    #[source]
    pub fault: Fault,
    /// The id, if one could be read before or beside the fault.
    pub id: Option<Id>,
    /// What the message seems to have been meant as.
    pub shape: Shape,
}

/// What a malformed message was probably meant as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Request,
    Notification,
    Response,
    Unknown,
}

/// Why a message, or a piece of JSON, was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("{size} bytes are over the limit of {limit} bytes")]
    TooLarge { size: usize, limit: usize },
    #[error("nested deeper than the limit of {limit} levels")]
    TooDeep { limit: usize },
    #[error("not UTF-8 at byte {at}")]
    NotUtf8 { at: usize },
    #[error("not JSON at byte {at}: {what}")]
    Syntax { at: usize, what: &'static str },
    #[error("a message must be an object, this is {found}")]
    NotAnObject { found: Kind },
    #[error("`jsonrpc` is not \"2.0\"")]
    NotJsonRpc2,
    #[error("the id is unusable: {0}")]
    BadId(BadId),
    /// Two readers may each take another one, so a name that was permitted could become one that was not.
    #[error("`{member}` is given twice")]
    Duplicate { member: &'static str },
    #[error("`method` must be a string, this is {found}")]
    MethodNotText { found: Kind },
    #[error("`params` must be an object, this is {found}")]
    ParamsNotObject { found: Kind },
    #[error("neither a method nor a result nor an error")]
    NoContent,
    #[error("a method together with a result or an error")]
    MethodAndAnswer,
    #[error("both a result and an error")]
    ResultAndError,
    #[error("a result without an id")]
    ResultWithoutId,
    #[error("`error` is unusable: {why}")]
    BadError { why: &'static str },
    #[error("an empty batch")]
    EmptyBatch,
    #[error("a batch of more than {limit} messages")]
    BatchTooLong { limit: usize },
}
