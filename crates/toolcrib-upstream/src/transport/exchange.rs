//! A request that has a way to the server of its own, which whoever waits for the answer can go himself: nothing is
//! handed from task to task.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use tokio::sync::oneshot;
use toolcrib_wire::Response;

use super::link::{LinkFault, Outward};

/// Something to be done by whoever has it.
pub type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A transport on which requests have ways of their own.
pub trait Direct: fmt::Debug + Send + Sync {
    /// Begins when it is first polled. Whoever does not want it any more drops it, or leaves it to the link
    /// ([`Outgoing::Adopt`](super::Outgoing::Adopt)).
    fn exchange(&self, request: Outward) -> Exchange;
}

/// One request and its answer.
pub struct Exchange {
    pub work: Work<Went>,
    /// Told when the server begins to answer; an error if it never will.
    pub arrived: oneshot::Receiver<()>,
}

/// How an exchange has ended.
#[derive(Debug)]
pub enum Went {
    Answered(Box<Alone>),
    Failed(LinkFault),
    /// All that there was has gone to the inbox.
    Said,
}

/// An answer before which nothing was said.
pub struct Alone {
    pub response: Response,
    /// What is left to do, so that the connection can be used again.
    pub rest: Option<Work<()>>,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").finish_non_exhaustive()
    }
}

impl fmt::Debug for Alone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alone").finish_non_exhaustive()
    }
}
