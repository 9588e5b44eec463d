//! Requests of the server: who answers them, how many at once, and what a batch of them gets back.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::task::{AbortHandle, JoinError, JoinSet};
use toolcrib_wire::{Body, Id, Raw, Request, RpcError, build, method};

use super::call_off::CallOff;
use super::deadline::Clock;

/// Decides what the server may ask. `ping` never gets here: it is always answered.
pub trait Handler: Send + Sync + 'static {
    /// None refuses the method as one that is not known. Must not block; the answer may take its time.
    fn take(&self, asked: Asked) -> Option<Answering>;
}

pub type Answering = Pin<Box<dyn Future<Output = Result<Raw, RpcError>> + Send>>;

/// A request of the server.
#[derive(Debug)]
pub struct Asked {
    pub method: String,
    pub params: Body,
    /// The call that it belongs to, as far as that is known.
    pub origin: Origin,
    /// What the server says if it calls it off.
    pub call_off: CallOff,
    calls: Candidates,
}

/// Which call a request of the server belongs to: the one on whose stream it came, or that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A call that is under way, and its tag.
    Call(Option<u64>),
    /// A call that has ended.
    Ended,
    Unknown,
}

/// The calls that a question may belong to, the oldest first: what they were tagged with, and their clocks.
pub(super) type Candidates = Vec<(Option<u64>, Arc<Clock>)>;

/// While it lives, the clocks of the calls that may have caused a question stand still.
#[derive(Debug)]
#[must_use = "the clocks go on when it is dropped"]
pub struct Pause(Vec<Arc<Clock>>);

/// Refuses everything but `ping`.
#[derive(Clone, Copy, Debug)]
pub struct NoRequests;

/// Requests that are being answered at one time; more are refused.
const AT_ONCE: usize = 16;

/// The requests that are being answered.
pub(super) struct Asks {
    handler: Arc<dyn Handler>,
    tasks: JoinSet<Result<Raw, RpcError>>,
    running: Vec<Running>,
    batches: HashMap<u64, Gathered>,
    last_batch: u64,
}

struct Running {
    task: AbortHandle,
    ticket: Ticket,
    call_off: CallOff,
}

/// Which request an answer belongs to, and in which batch that came.
#[derive(Clone, Debug)]
pub(super) struct Ticket {
    pub(super) id: Id,
    pub(super) batch: Option<u64>,
}

/// What became of a request when it was taken.
pub(super) enum Taken {
    /// It is answered at once.
    Now(Raw),
    Later,
    /// It was refused because too many are under way.
    TooMany(Raw),
}

struct Gathered {
    /// Requests that have no answer yet, and one for the batch itself while it is being read.
    left: usize,
    answers: Vec<Raw>,
}

impl Asks {
    pub(super) fn new(handler: Arc<dyn Handler>) -> Self {
        Asks {
            handler,
            tasks: JoinSet::new(),
            running: Vec::new(),
            batches: HashMap::new(),
            last_batch: 0,
        }
    }

    pub(super) fn take(
        &mut self,
        ticket: &Ticket,
        request: Request,
        origin: Origin,
        calls: Candidates,
    ) -> Taken {
        if request.method == method::PING {
            return Taken::Now(build::response(&ticket.id, toolcrib_wire::Json::EMPTY.into()));
        }
        if self.running.len() >= AT_ONCE {
            let refusal = RpcError::internal("too many requests at once");
            return Taken::TooMany(build::error(Some(&ticket.id), &refusal));
        }
        let refusal = RpcError::method_not_found(&request.method);
        let call_off = CallOff::default();
        let asked = Asked {
            method: request.method,
            params: request.params,
            origin,
            call_off: call_off.clone(),
            calls,
        };
        match self.handler.take(asked) {
            None => Taken::Now(build::error(Some(&ticket.id), &refusal)),
            Some(answering) => {
                let task = self.tasks.spawn(answering);
                self.running.push(Running { task, ticket: ticket.clone(), call_off });
                Taken::Later
            }
        }
    }

    /// Waits for the next answer; never ends while none is under way. The answer is none where the request was
    /// called off.
    pub(super) async fn next(&mut self) -> (Ticket, Option<Raw>) {
        loop {
            let Some(joined) = self.tasks.join_next_with_id().await else {
                return std::future::pending().await;
            };
            let (task, outcome) = match joined {
                Ok((task, outcome)) => (task, Some(outcome)),
                Err(error) => (error.id(), fallen(&error)),
            };
            let place = self.running.iter().position(|running| running.task.id() == task);
            let Some(Running { ticket, .. }) = place.map(|place| self.running.swap_remove(place))
            else {
                continue;
            };
            let answer = outcome.map(|outcome| match outcome {
                Ok(result) => build::response(&ticket.id, result),
                Err(error) => build::error(Some(&ticket.id), &error),
            });
            return (ticket, answer);
        }
    }

    /// The server no longer wants an answer, and says so in these words.
    pub(super) fn call_off(&mut self, id: &Id, params: Option<&Raw>) {
        for meant in self.running.iter().filter(|running| running.ticket.id == *id) {
            if let Some(params) = params {
                meant.call_off.say(params.clone());
            }
            meant.task.abort();
        }
    }

    pub(super) fn open_batch(&mut self) -> u64 {
        self.last_batch += 1;
        let empty = Gathered { left: 1, answers: Vec::new() };
        self.batches.insert(self.last_batch, empty);
        self.last_batch
    }

    /// One more answer of this batch is to come.
    pub(super) fn expect(&mut self, batch: u64) {
        if let Some(gathered) = self.batches.get_mut(&batch) {
            gathered.left += 1;
        }
    }

    /// Takes an answer, or the end of the batch itself. The message to send, if it is complete with this.
    pub(super) fn gather(&mut self, batch: u64, answer: Option<Raw>) -> Option<Raw> {
        let gathered = self.batches.get_mut(&batch)?;
        gathered.answers.extend(answer);
        gathered.left -= 1;
        if gathered.left > 0 {
            return None;
        }
        let answers = self.batches.remove(&batch)?.answers;
        (!answers.is_empty()).then(|| build::batch(&answers))
    }
}

/// A handler that panicked still owes an answer; one that was called off does not.
fn fallen(error: &JoinError) -> Option<Result<Raw, RpcError>> {
    error.is_panic().then(|| Err(RpcError::internal("the request could not be handled")))
}

impl Asked {
    /// A question that came inside of an answer: nobody's clock runs while it is open.
    pub(in crate::conn) fn inside(request: Request) -> Self {
        Asked {
            method: request.method,
            params: request.params,
            origin: Origin::Unknown,
            call_off: CallOff::default(),
            calls: Vec::new(),
        }
    }

    /// The tags of the calls that it may belong to, the oldest first.
    pub fn calls(&self) -> impl DoubleEndedIterator<Item = u64> + Clone {
        self.calls.iter().filter_map(|(tag, _)| *tag)
    }

    /// Says that a person is being asked, for one of the calls with such a tag; all others still have to end in their
    /// time.
    pub fn pause(&self, is_meant: impl Fn(Option<u64>) -> bool) -> Pause {
        let meant = self.calls.iter().filter(|(tag, _)| is_meant(*tag));
        let clocks: Vec<_> = meant.map(|(_, clock)| Arc::clone(clock)).collect();
        clocks.iter().for_each(|clock| clock.pause());
        Pause(clocks)
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        self.0.iter().for_each(|clock| clock.resume());
    }
}

impl Handler for NoRequests {
    fn take(&self, _: Asked) -> Option<Answering> {
        None
    }
}

impl fmt::Debug for dyn Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}
