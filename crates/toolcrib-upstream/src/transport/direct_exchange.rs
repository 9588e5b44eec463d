//! Exchanges that the caller drives itself, so that a request does not pass through another task.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use tokio::sync::oneshot;
use toolcrib_wire::Response;

use super::link::{LinkFault, OutgoingMessage};

/// Boxed future without borrowed data.
pub type StaticBoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A transport that sends requests independently of each other.
pub trait DirectTransport: fmt::Debug + Send + Sync {
    /// Prepares an exchange, which starts when it is first polled. The caller drops an unwanted exchange or hands it to
    /// the link ([`Outgoing::Adopt`](super::Outgoing::Adopt)).
    fn start_exchange(&self, request: OutgoingMessage) -> Exchange;
}

/// One request and its response.
pub struct Exchange {
    /// Drives the exchange to its outcome.
    pub work: StaticBoxFuture<ExchangeOutcome>,
    /// Resolves when the response begins; fails if it never will.
    pub arrived: oneshot::Receiver<()>,
}

/// Outcome of an exchange.
#[derive(Debug)]
pub enum ExchangeOutcome {
    Response(Box<DirectResponse>),
    Failed(LinkFault),
    /// All messages of the exchange went to the inbox.
    Forwarded,
}

/// A response with no earlier message in the inbox.
pub struct DirectResponse {
    /// The response.
    pub response: Response,
    /// Work that remains before the connection can be reused.
    pub remaining: Option<StaticBoxFuture<()>>,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").finish_non_exhaustive()
    }
}

impl fmt::Debug for DirectResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectResponse").finish_non_exhaustive()
    }
}
