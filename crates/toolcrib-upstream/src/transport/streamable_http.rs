//! Streamable HTTP: a POST for each message, and an answer that is one message or a stream of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderValue;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, timeout, timeout_at};
use toolcrib_config::model::transport::StreamableHttp;
use toolcrib_wire::{Channel, Id, method};

use super::exchange::{Direct, Exchange};
use super::http::{Http, SCHEMES};
use super::http_session::Session;
use super::link::{CloseReason, Ends, Facts, Link, Outgoing, Outward, What};
use super::open::{OpenError, Opening};
use super::remote::Target;

/// Notifications and answers that are being delivered at once; each has a time limit.
const DELIVERIES: usize = 64;

/// How long a cancellation waits for its request to reach the server. One that answers with a stream says so at
/// once; one that answers with a single message says nothing before it.
const FOLLOWING: Duration = Duration::from_millis(500);

/// How long the server may take to end the session, whatever little time closing was given.
const FAREWELL: Duration = Duration::from_secs(2);

pub(super) fn open(spec: &StreamableHttp, opening: &Opening<'_>) -> Result<Link, OpenError> {
    let target = Target::of(&spec.remote, SCHEMES, opening)?;
    let http = Http::new(target, opening)?;
    let configured = configured_session(spec, opening)?;
    let terminate = spec.terminate_on_close;
    let facts = Facts::of(Channel::Http);
    let mut session = None;
    let link = Link::start(facts, |ends| {
        let own = Arc::new(Session::new(http, ends.incoming.clone(), configured));
        session = Some(Arc::clone(&own));
        drive(ends, own, terminate)
    });
    Ok(match session {
        Some(session) => link.with_direct(Arc::new(Ways(session))),
        None => link,
    })
}

fn configured_session(
    spec: &StreamableHttp,
    opening: &Opening<'_>,
) -> Result<Option<HeaderValue>, OpenError> {
    let Some(id) = &spec.session_id else { return Ok(None) };
    let id = opening.text(id)?;
    if id.is_empty() {
        return Ok(None);
    }
    let refused = |_| OpenError::BadHeader(toolcrib_wire::header::SESSION_ID.to_owned());
    HeaderValue::from_str(&id).map(Some).map_err(refused)
}

async fn drive(mut ends: Ends, session: Arc<Session>, terminate: bool) {
    let mut tasks = Tasks::new(Arc::clone(&session));
    let (reason, goodbye) = loop {
        tokio::select! {
            Ok(grace) = &mut ends.asked => {
                let deadline = Instant::now() + grace;
                let _ = timeout_at(deadline, tasks.flush(&mut ends.outgoing)).await;
                let left = deadline.saturating_duration_since(Instant::now());
                break (CloseReason::Asked, terminate.then_some(left.max(FAREWELL)));
            }
            reason = session.over() => break (reason, None),
            Some(done) = tasks.running.join_next() => tasks.note(done),
            Some(next) = ends.outgoing.recv(), if tasks.has_room() => tasks.start(next),
            () = session.tidy() => {}
        }
    };
    tasks.running.shutdown().await;
    Ends::say_closed(&ends.incoming, reason).await;
    if let Some(limit) = goodbye {
        let _ = timeout(limit, session.terminate()).await;
    }
}

/// The ways to the server, one for each request.
#[derive(Debug)]
struct Ways(Arc<Session>);

impl Direct for Ways {
    fn exchange(&self, request: Outward) -> Exchange {
        let (arrives, arrived) = oneshot::channel();
        let work = Box::pin(Arc::clone(&self.0).call(request, arrives));
        Exchange { work, arrived }
    }
}

/// All that is under way. Each request with its answer stream is a task, so that none waits for another.
struct Tasks {
    session: Arc<Session>,
    running: JoinSet<Done>,
    requests: HashMap<Id, Request>,
    /// Notifications and answers on their way.
    deliveries: usize,
    /// Cancellations that follow their requests.
    cancellations: usize,
    /// `notifications/initialized` is on its way: nothing may overtake it.
    opening: bool,
}

/// A request that waits for its answer.
struct Request {
    task: AbortHandle,
    /// Told when the server begins to answer.
    arrived: oneshot::Receiver<()>,
}

enum Done {
    Request(Id),
    Delivery,
    Cancellation,
    Opening,
    /// Something that nothing waits for.
    Other,
}

impl Tasks {
    fn new(session: Arc<Session>) -> Self {
        Self {
            session,
            running: JoinSet::new(),
            requests: HashMap::new(),
            deliveries: 0,
            cancellations: 0,
            opening: false,
        }
    }

    fn has_room(&self) -> bool {
        !self.opening && self.deliveries < DELIVERIES
    }

    fn start(&mut self, next: Outgoing) {
        match next {
            Outgoing::Message(message) => self.send(message),
            Outgoing::Adopt(id, exchange) => self.adopt(id, exchange),
            Outgoing::Finish(rest) => {
                self.running.spawn(async move {
                    rest.0.await;
                    Done::Other
                });
            }
            // The server sees the stream closed, which in the modern era is how a call is cancelled.
            Outgoing::Abandon(id) => {
                if let Some(request) = self.requests.remove(&id) {
                    request.task.abort();
                }
            }
        }
    }

    fn send(&mut self, message: Outward) {
        let session = Arc::clone(&self.session);
        match message.what.clone() {
            What::Request { id, .. } => {
                let exchange = Ways(session).exchange(message);
                self.adopt(id, exchange);
            }
            What::Notification { method } if &*method == method::INITIALIZED => {
                self.opening = true;
                self.running.spawn(async move {
                    session.deliver(message).await;
                    Done::Opening
                });
            }
            What::Notification { .. } | What::Answer => {
                if let Some(request) = self.called_off(&message) {
                    return self.cancel(request, message);
                }
                self.deliveries += 1;
                self.running.spawn(async move {
                    session.deliver(message).await;
                    Done::Delivery
                });
            }
        }
    }

    /// What comes of it goes to the inbox.
    fn adopt(&mut self, id: Id, exchange: Exchange) {
        let session = Arc::clone(&self.session);
        let Exchange { work, arrived } = exchange;
        let key = id.clone();
        let task = self.running.spawn(async move {
            session.hand_on(work.await, id.clone()).await;
            Done::Request(id)
        });
        self.requests.insert(key, Request { task, arrived });
    }

    /// The request that a message cancels. None where too many are being cancelled to wait for any more of them.
    fn called_off(&mut self, message: &Outward) -> Option<Request> {
        let request = message.cancels().filter(|_| self.cancellations < DELIVERIES)?;
        self.requests.remove(&request)
    }

    fn cancel(&mut self, request: Request, message: Outward) {
        let session = Arc::clone(&self.session);
        let Request { task, arrived } = request;
        self.cancellations += 1;
        self.running.spawn(async move {
            // An error means that the request is over.
            let _ = timeout(FOLLOWING, arrived).await;
            session.deliver(message).await;
            task.abort();
            Done::Cancellation
        });
    }

    fn note(&mut self, done: Result<Done, JoinError>) {
        match done {
            // Abandoned.
            Err(_) | Ok(Done::Other) => {}
            Ok(Done::Request(id)) => {
                self.requests.remove(&id);
            }
            Ok(Done::Delivery) => self.deliveries -= 1,
            Ok(Done::Cancellation) => self.cancellations -= 1,
            Ok(Done::Opening) => {
                self.opening = false;
                let session = Arc::clone(&self.session);
                session.will_listen();
                self.running.spawn(async move {
                    session.listen().await;
                    Done::Other
                });
            }
        }
    }

    /// Sends what is queued, and waits until the server has it.
    async fn flush(&mut self, outgoing: &mut mpsc::Receiver<Outgoing>) {
        outgoing.close();
        loop {
            while self.has_room()
                && let Ok(next) = outgoing.try_recv()
            {
                self.start(next);
            }
            if self.deliveries + self.cancellations == 0 && !self.opening {
                return;
            }
            tokio::select! {
                Some(done) = self.running.join_next() => self.note(done),
                _ = self.session.over() => return,
            }
        }
    }
}
