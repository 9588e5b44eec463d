//! Errors of calls.

use std::time::Duration;

use toolcrib_wire::view::FieldError;
use toolcrib_wire::{JsonKind, ParseError, RpcError};

use super::call_deadline::TimeoutKind;
use crate::transport::{CloseReason, LinkFault};

/// Reason why a call has no result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PeerCallError {
    #[error("the server answered with an error")]
    Refused(#[source] RpcError),
    #[error("no answer within {}", show(.after))]
    Timeout { after: Duration, limit: TimeoutKind },
    #[error("malformed response")]
    Malformed(#[source] BadResponse),
    #[error("the answer is over the limit of {limit} bytes")]
    TooLarge { limit: usize },
    #[error("Transport closed")]
    Closed(#[source] CloseReason),
    /// The link ended before the request was sent, so the server cannot have run it.
    #[error("Transport closed")]
    Unsent(#[source] CloseReason),
    /// Only this request failed; the link stays open.
    #[error("the request failed")]
    Failed(#[source] LinkFault),
    #[error("the server ended the request")]
    EndedByServer,
    /// The server needs input to continue, and there is none.
    #[error("cannot answer the server's `{method}` request")]
    Unanswered {
        method: String,
        #[source]
        cause: RpcError,
    },
    #[error("the server still requests input after {0} rounds")]
    TooManyRounds(u32),
}

/// Defect of a response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadResponse {
    #[error(transparent)]
    Fault(ParseError),
    #[error("expected an object as the result, found {0}")]
    NotAnObject(JsonKind),
    #[error("the response id is a string, but the request id was a number")]
    IdOfAnotherType,
    #[error("cannot parse the input requests")]
    Input(#[source] FieldError),
}

fn show(time: &Duration) -> String {
    match (time.subsec_millis(), time.as_secs()) {
        (0, seconds) => format!("{seconds} s"),
        _ => format!("{} ms", time.as_millis()),
    }
}
