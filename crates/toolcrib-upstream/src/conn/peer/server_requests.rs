//! Runs handlers for incoming server requests, with a concurrency limit and batch responses.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::task::{AbortHandle, JoinError, JoinSet};
use toolcrib_wire::{Body, Id, RawJson, Request, RpcError, build, method};

use super::call_deadline::DeadlineTimer;
use super::cancellation::Cancellation;

/// Handles server requests. `ping` is answered before it gets here.
pub trait RequestHandler: Send + Sync + 'static {
    /// Returns `None` for an unknown method. Must not block; the future may take its time.
    fn handle(&self, request: ServerRequest) -> Option<HandlerFuture>;
}

/// Future of a handler's result.
pub type HandlerFuture = Pin<Box<dyn Future<Output = Result<RawJson, RpcError>> + Send>>;

/// A request from the server.
#[derive(Debug)]
pub struct ServerRequest {
    pub method: String,
    pub params: Body,
    /// Call that caused the request, if known.
    pub origin: RequestOrigin,
    /// Cancellation params of the server.
    pub cancellation: Cancellation,
    calls: CandidateCalls,
}

/// Call that caused a server request: the call of its stream, or the one that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOrigin {
    /// A pending call, with its tag.
    Call(Option<u64>),
    /// A completed call.
    Ended,
    Unknown,
}

/// Calls that may have caused a request, oldest first, with their tags and timers.
pub(super) type CandidateCalls = Vec<(Option<u64>, Arc<DeadlineTimer>)>;

/// Pauses the deadlines of the calls that may have caused a request until dropped.
#[derive(Debug)]
#[must_use = "the deadlines continue when it is dropped"]
pub struct DeadlinePause(Vec<Arc<DeadlineTimer>>);

/// Refuses every request except `ping`.
#[derive(Clone, Copy, Debug)]
pub struct RefuseRequests;

/// Limit of concurrent requests. Further ones get an error response.
const MAX_CONCURRENT_REQUESTS: usize = 16;

/// Requests with a running handler.
pub(super) struct ServerRequests {
    handler: Arc<dyn RequestHandler>,
    tasks: JoinSet<Result<RawJson, RpcError>>,
    running: Vec<RunningRequest>,
    batches: HashMap<u64, BatchResponses>,
    last_batch: u64,
}

struct RunningRequest {
    task: AbortHandle,
    key: RequestKey,
    cancellation: Cancellation,
}

/// Id of a request, and the batch that contained it.
#[derive(Clone, Debug)]
pub(super) struct RequestKey {
    pub(super) id: Id,
    pub(super) batch: Option<u64>,
}

/// Result of accepting a request.
pub(super) enum RequestDisposition {
    /// The response is ready.
    Answered(RawJson),
    Running,
    /// Refused because of the concurrency limit.
    TooMany(RawJson),
}

struct BatchResponses {
    /// Missing responses, plus one while the batch is still being parsed.
    pending: usize,
    answers: Vec<RawJson>,
}

impl ServerRequests {
    pub(super) fn new(handler: Arc<dyn RequestHandler>) -> Self {
        ServerRequests {
            handler,
            tasks: JoinSet::new(),
            running: Vec::new(),
            batches: HashMap::new(),
            last_batch: 0,
        }
    }

    pub(super) fn accept(
        &mut self,
        key: &RequestKey,
        request: Request,
        origin: RequestOrigin,
        calls: CandidateCalls,
    ) -> RequestDisposition {
        if request.method == method::PING {
            return RequestDisposition::Answered(build::response(
                &key.id,
                toolcrib_wire::Json::EMPTY.into(),
            ));
        }
        if self.running.len() >= MAX_CONCURRENT_REQUESTS {
            let refusal = RpcError::internal("too many requests at once");
            return RequestDisposition::TooMany(build::error(Some(&key.id), &refusal));
        }
        let refusal = RpcError::method_not_found(&request.method);
        let cancellation = Cancellation::default();
        let request = ServerRequest {
            method: request.method,
            params: request.params,
            origin,
            cancellation: cancellation.clone(),
            calls,
        };
        match self.handler.handle(request) {
            None => RequestDisposition::Answered(build::error(Some(&key.id), &refusal)),
            Some(future) => {
                let task = self.tasks.spawn(future);
                self.running.push(RunningRequest { task, key: key.clone(), cancellation });
                RequestDisposition::Running
            }
        }
    }

    /// Waits for the next finished handler, forever if there is none. The response is `None` if the request was
    /// cancelled.
    pub(super) async fn next_response(&mut self) -> (RequestKey, Option<RawJson>) {
        loop {
            let Some(joined) = self.tasks.join_next_with_id().await else {
                return std::future::pending().await;
            };
            let (task, outcome) = match joined {
                Ok((task, outcome)) => (task, Some(outcome)),
                Err(error) => (error.id(), panic_response(&error)),
            };
            let index = self.running.iter().position(|running| running.task.id() == task);
            let Some(RunningRequest { key, .. }) =
                index.map(|index| self.running.swap_remove(index))
            else {
                continue;
            };
            let answer = outcome.map(|outcome| match outcome {
                Ok(result) => build::response(&key.id, result),
                Err(error) => build::error(Some(&key.id), &error),
            });
            return (key, answer);
        }
    }

    /// Cancels a request of the server.
    pub(super) fn cancel(&mut self, id: &Id, params: Option<&RawJson>) {
        for matching in self.running.iter().filter(|running| running.key.id == *id) {
            if let Some(params) = params {
                matching.cancellation.set_params(params.clone());
            }
            matching.task.abort();
        }
    }

    pub(super) fn open_batch(&mut self) -> u64 {
        self.last_batch += 1;
        let empty = BatchResponses { pending: 1, answers: Vec::new() };
        self.batches.insert(self.last_batch, empty);
        self.last_batch
    }

    /// Announces one more response in the batch.
    pub(super) fn expect_response(&mut self, batch: u64) {
        if let Some(responses) = self.batches.get_mut(&batch) {
            responses.pending += 1;
        }
    }

    /// Adds a response, or `None` for the end of the batch itself. Returns the message to send when the batch is
    /// complete.
    pub(super) fn complete_in_batch(
        &mut self,
        batch: u64,
        answer: Option<RawJson>,
    ) -> Option<RawJson> {
        let responses = self.batches.get_mut(&batch)?;
        responses.answers.extend(answer);
        responses.pending -= 1;
        if responses.pending > 0 {
            return None;
        }
        let answers = self.batches.remove(&batch)?.answers;
        (!answers.is_empty()).then(|| build::batch(&answers))
    }
}

/// A panicked handler still gets an error response; a cancelled one does not.
fn panic_response(error: &JoinError) -> Option<Result<RawJson, RpcError>> {
    error.is_panic().then(|| Err(RpcError::internal("the request could not be handled")))
}

impl ServerRequest {
    /// Wraps an input request of the modern era. It pauses no deadline.
    pub(in crate::conn) fn from_input_request(request: Request) -> Self {
        ServerRequest {
            method: request.method,
            params: request.params,
            origin: RequestOrigin::Unknown,
            cancellation: Cancellation::default(),
            calls: Vec::new(),
        }
    }

    /// Tags of the calls that may have caused the request, oldest first.
    pub fn calls(&self) -> impl DoubleEndedIterator<Item = u64> + Clone {
        self.calls.iter().filter_map(|(tag, _)| *tag)
    }

    /// Pauses the deadlines of the matching calls while the user is asked. All other deadlines continue.
    pub fn pause(&self, is_meant: impl Fn(Option<u64>) -> bool) -> DeadlinePause {
        let matching = self.calls.iter().filter(|(tag, _)| is_meant(*tag));
        let timers: Vec<_> = matching.map(|(_, timer)| Arc::clone(timer)).collect();
        timers.iter().for_each(|timer| timer.pause());
        DeadlinePause(timers)
    }
}

impl Drop for DeadlinePause {
    fn drop(&mut self) {
        self.0.iter().for_each(|timer| timer.resume());
    }
}

impl RequestHandler for RefuseRequests {
    fn handle(&self, _: ServerRequest) -> Option<HandlerFuture> {
        None
    }
}

impl fmt::Debug for dyn RequestHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestHandler")
    }
}
