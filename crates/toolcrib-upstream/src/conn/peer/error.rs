//! Why a call has no result.

use std::time::Duration;

use toolcrib_wire::view::Flaw;
use toolcrib_wire::{Fault, Kind, RpcError};

use super::deadline::Limit;
use crate::transport::{CloseReason, LinkFault};

#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    #[error("the server answered with an error")]
    Refused(#[source] RpcError),
    #[error("no answer within {}", show(.after))]
    Timeout { after: Duration, limit: Limit },
    #[error("the answer is malformed")]
    Malformed(#[source] BadAnswer),
    #[error("the answer is over the limit of {limit} bytes")]
    TooLarge { limit: usize },
    #[error("Transport closed")]
    Closed(#[source] CloseReason),
    /// The link ended before the request was sent: the server cannot have run it.
    #[error("Transport closed")]
    Unsent(#[source] CloseReason),
    /// The link goes on; this request has failed.
    #[error("the request got no answer")]
    Failed(#[source] LinkFault),
    #[error("the server ended the request")]
    EndedByServer,
    /// The server needs an answer to go on, and there is none.
    #[error("the server's `{method}` cannot be answered")]
    Unanswered {
        method: String,
        #[source]
        cause: RpcError,
    },
    #[error("the server asked for more in {0} rounds without an end")]
    TooManyRounds(u32),
}

/// What is wrong with an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAnswer {
    #[error(transparent)]
    Fault(Fault),
    #[error("the result must be an object, this is {0}")]
    NotAnObject(Kind),
    #[error("its id is a string, that of the request was a number")]
    IdOfAnotherType,
    #[error("what it asks for cannot be read")]
    Input(#[source] Flaw),
}

fn show(time: &Duration) -> String {
    match (time.subsec_millis(), time.as_secs()) {
        (0, seconds) => format!("{seconds} s"),
        _ => format!("{} ms", time.as_millis()),
    }
}
