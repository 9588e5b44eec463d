//! One conversation with one server: any number of calls at once, over any link.
//!
//! A [`Peer`] numbers requests, matches answers, keeps deadlines and cancels what nobody waits for. What the
//! server asks goes to a [`Handler`]; what it tells goes to one bounded mailbox. Nothing that the server sends
//! ends the conversation, and nothing that a listener fails to take holds it up.

mod asks;
mod call_off;
mod calls;
mod deadline;
mod dispatch;
mod error;
mod mailbox;
mod masking;
mod oddity;
mod shared;

pub use asks::{Answering, Asked, Handler, NoRequests, Origin, Pause};
pub use call_off::CallOff;
pub use deadline::{Limit, Patience};
pub use error::{BadAnswer, CallError};
pub use mailbox::{Receiver, Sender, mailbox};
pub use oddity::{Odd, Oddity};

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use toolcrib_wire::header::Header;
use toolcrib_wire::method::{Target, target};
use toolcrib_wire::{
    Body, Channel, Framing, Id, Notification, ObjectWriter, Raw, Version, build, meta,
};

use crate::transport::{
    CloseReason, Closer, Exchange, Facts, Finish, Link, Outgoing, Outward, Went, What,
};
use asks::Asks;
use calls::{Outcome, Waiting};
use deadline::Clock;
use dispatch::Dispatch;
use shared::Shared;

/// Notifications that wait for whoever listens; then the oldest are dropped.
const EVENTS: usize = 256;

/// How long a request that is on a way of its own may go on when the link has broken.
const LAST_WORD: Duration = Duration::from_secs(5);

/// Handle to a conversation. Clones share it; when the last one is dropped, the link is ended at once.
#[derive(Clone, Debug)]
pub struct Peer {
    shared: Arc<Shared>,
    owned: Arc<Owned>,
}

#[derive(Debug)]
pub struct PeerSettings {
    /// The server's name, for logs.
    pub server: String,
    pub handler: Arc<dyn Handler>,
    /// Whether secrets are masked in results, too.
    pub masks_results: bool,
}

/// What one call wants besides its answer.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    pub patience: Patience,
    pub progress: ProgressWish,
    /// The version of this request, where it is not the one that was settled on.
    pub version: Option<Version>,
    /// Headers of this request alone, for transports that have headers.
    pub headers: Vec<Header>,
    /// What whoever calls knows the call by; a question on its stream carries it.
    pub tag: Option<u64>,
    /// Whether the params are known to have no `_meta`, so that nobody has to look for it.
    pub has_no_meta: bool,
    /// Whether all calls of the session are of one caller: what comes on no call's stream is then for one of them.
    pub is_alone: bool,
    /// Whether the caller goes the way to the server himself, where there is one for each request. What was sent
    /// before may be overtaken, and nothing goes on while the call is not polled.
    pub is_direct: bool,
    /// What the server is told if it is called off by whoever has words of his own for that.
    pub call_off: Option<CallOff>,
    /// Told when the server acknowledges what this subscribes to. Nobody waits for room in it.
    pub acknowledged: Option<mpsc::Sender<()>>,
}

/// Whether a server is asked for progress.
#[derive(Clone, Debug, Default)]
pub enum ProgressWish {
    #[default]
    None,
    /// Only so that it extends the deadline.
    Extend,
    /// Each remark, in order; all that came before the answer have been heard when the call ends.
    Deliver(Arc<dyn Hears>),
}

/// Whoever hears what is said about a call. Must not block: the whole conversation waits.
pub trait Hears: fmt::Debug + Send + Sync {
    fn hear(&self, remark: Remark);
}

impl Hears for Sender<Remark> {
    fn hear(&self, remark: Remark) {
        let bytes = remark.params().text().len();
        self.push(remark, bytes);
    }
}

/// What a server says about a call while it is under way: the params of a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    Progress(Raw),
    Log(Raw),
}

impl Remark {
    pub fn params(&self) -> &Raw {
        match self {
            Remark::Progress(params) | Remark::Log(params) => params,
        }
    }
}

/// What happens besides calls.
#[derive(Debug)]
pub enum Event {
    /// Any notification but progress and cancellation.
    Notification {
        notification: Notification,
        /// Whether a call has heard it as a remark.
        in_call: bool,
    },
    /// The first of its kind; [`Peer::oddities`] tells more.
    Odd(Odd),
    /// The last one.
    Closed(CloseReason),
}

/// What ends with the last handle.
#[derive(Debug)]
struct Owned {
    _tasks: JoinSet<()>,
    closer: Mutex<Option<Closer>>,
}

impl Peer {
    pub fn start(link: Link, settings: PeerSettings) -> (Peer, Receiver<Event>) {
        let Link { outbox, inbox, facts, closer, direct } = link;
        let (sender, events) = mailbox(EVENTS);
        let shared = Arc::new(Shared::new(&settings, facts, outbox, direct));
        let dispatch = Dispatch::new(Arc::clone(&shared), Asks::new(settings.handler), sender);
        let mut tasks = JoinSet::new();
        tasks.spawn(dispatch.run(inbox));
        let carrier = Arc::clone(&shared);
        tasks.spawn(async move { carrier.carry().await });
        let owned = Arc::new(Owned { _tasks: tasks, closer: Mutex::new(Some(closer)) });
        (Peer { shared, owned }, events)
    }

    /// Makes a request and waits for its answer. Dropping the future cancels the request at the server.
    pub async fn call(
        &self,
        method: &str,
        params: Raw,
        options: CallOptions,
    ) -> Result<Body, CallError> {
        match self.exchange(method, params, options).await {
            Ok(body) if !self.shared.masks(method, &body) => Ok(body),
            outcome => self.shared.masked_outcome(method, outcome),
        }
    }

    async fn exchange(
        &self,
        method: &str,
        params: Raw,
        options: CallOptions,
    ) -> Result<Body, CallError> {
        let clock = Clock::start(options.patience);
        let patience = options.patience;
        let late = |limit| CallError::Timeout {
            after: match limit {
                Limit::Request => patience.request.unwrap_or_default(),
                Limit::Max => patience.max.unwrap_or_default(),
            },
            limit,
        };
        let direct = self.shared.direct.as_ref().filter(|_| options.is_direct);
        let room = match direct {
            Some(_) => None,
            None => Some(tokio::select! {
                room = self.shared.outbox.room() => match room {
                    Ok(room) => room,
                    Err(_) => return Err(Box::pin(self.shared.why_unsent(method)).await),
                },
                limit = clock.ran_out() => return Err(late(limit)),
            }),
        };
        let call_off = options.call_off.clone();
        // From here to the guard nothing waits, so a call is either unknown to the server or guarded.
        let (mut answer, request) = self.begin(method, &params, options, &clock)?;
        let mut guard = Guard {
            shared: &self.shared,
            number: request.number,
            method,
            version: request.message.version.clone(),
            call_off,
            reason: "no longer wanted",
            exchange: None,
        };
        match (room, direct) {
            (Some(room), _) => room.send(Outgoing::Message(request.message)),
            (None, direct) => guard.exchange = direct.map(|it| it.exchange(request.message)),
        }
        loop {
            tokio::select! {
                biased;
                outcome = &mut answer => {
                    let outcome = outcome.unwrap_or_else(|_| Err(self.shared.why_closed()));
                    let is_broken = matches!(outcome, Err(CallError::Closed(CloseReason::Broken(_))));
                    return match &mut guard.exchange {
                        // What is rare does not make every call large.
                        exchange @ Some(_) if is_broken => {
                            Box::pin(last_word(outcome, exchange, &clock)).await
                        }
                        _ => outcome,
                    };
                }
                went = going(&mut guard.exchange) => {
                    if let Some(outcome) = self.take(guard.number, went, &mut answer) {
                        return outcome;
                    }
                }
                limit = clock.ran_out() => {
                    guard.reason = "timed out";
                    guard.call_off = None;
                    return Err(late(limit));
                }
            }
        }
    }

    /// What came of a way that the caller has gone himself, if that is how the call ends.
    fn take(
        &self,
        number: i64,
        went: Went,
        answer: &mut oneshot::Receiver<Outcome>,
    ) -> Option<Outcome> {
        let own = match went {
            Went::Answered(alone) => {
                if let Some(rest) = alone.rest {
                    self.shared.post(Outgoing::Finish(Finish(rest)));
                }
                dispatch::outcome(&alone.response)
            }
            Went::Failed(fault) => Err(CallError::Failed(fault)),
            Went::Said => return None,
        };
        if self.shared.found(number) {
            return Some(own);
        }
        // An answer counts wherever it came. The end of the link does not: it may have come of just this way, and knows
        // less of it, such as whether the server has begun.
        Some(answer.try_recv().ok().filter(Result::is_ok).unwrap_or(own))
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: Option<Raw>) -> Result<(), CallError> {
        let sent = self.shared.outbox.send(self.notification(method, params.as_ref())).await;
        sent.map_err(|_| self.shared.why_closed())
    }

    /// The same without waiting: at once if there is room, else as soon as there is.
    pub fn tell(&self, method: &str, params: Option<&Raw>) {
        self.shared.post(self.notification(method, params));
    }

    fn notification(&self, method: &str, params: Option<&Raw>) -> Outgoing {
        Outgoing::Message(Outward {
            raw: build::notification(method, params.map(Raw::json)),
            what: What::Notification { method: method.into() },
            version: self.version(),
            headers: Vec::new(),
        })
    }

    /// Settles which version is spoken from here on.
    pub fn speak(&self, version: Version) {
        self.shared.state().version = Some(version);
    }

    pub fn version(&self) -> Option<Version> {
        self.shared.state().version.clone()
    }

    /// Whether nothing can be said any more.
    pub fn is_over(&self) -> bool {
        self.shared.closed.borrow().is_some()
    }

    /// How the server sets off its messages, as soon as it has sent one on a byte stream.
    pub fn framing(&self) -> Option<Framing> {
        self.shared.state().framing
    }

    pub fn facts(&self) -> &Facts {
        &self.shared.facts
    }

    pub fn in_flight(&self) -> usize {
        self.shared.state().calls.len()
    }

    /// When anything last came from the server.
    pub fn last_heard(&self) -> Instant {
        self.shared.state().heard
    }

    /// What the server did that it should not, by kind.
    pub fn oddities(&self) -> Vec<Oddity> {
        self.shared.state().tally.all()
    }

    /// Waits for the end of the link.
    pub async fn closed(&self) -> CloseReason {
        let mut closed = self.shared.closed.subscribe();
        let known = closed.wait_for(Option::is_some).await;
        known.ok().and_then(|reason| reason.clone()).unwrap_or(CloseReason::Asked)
    }

    /// Fails what is under way, sends what is queued as far as `grace` allows, and ends all that the link
    /// started. Dropping the future ends it at once.
    pub async fn close(&self, grace: Duration) {
        self.shared.end(&CloseReason::Asked, Vec::new());
        let closer = self.owned.closer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(closer) = closer {
            closer.close(grace).await;
        }
    }

    /// Fails what is under way and ends all that the link started at once.
    pub fn kill(&self) {
        self.shared.end(&CloseReason::Asked, Vec::new());
        drop(self.owned.closer.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn begin(
        &self,
        method: &str,
        params: &Raw,
        options: CallOptions,
        clock: &Arc<Clock>,
    ) -> Result<(oneshot::Receiver<Outcome>, Begun), CallError> {
        let (sender, answer) = oneshot::channel();
        let (wanted, progress) = match options.progress {
            ProgressWish::None => (false, None),
            ProgressWish::Extend => (true, None),
            ProgressWish::Deliver(who) => (true, Some(who)),
        };
        let mut state = self.shared.state();
        // The end fails what it finds under the same lock, so no call slips in between.
        if self.is_over() {
            drop(state);
            return Err(unbegun(self.shared.why_closed()));
        }
        let number = state.calls.begin();
        let waiting = Waiting {
            answer: sender,
            clock: Arc::clone(clock),
            remarks: progress,
            is_alone: options.is_alone,
            tag: options.tag,
            acknowledged: options.acknowledged,
        };
        state.calls.insert(number, waiting);
        let version = options.version.or_else(|| state.version.clone());
        drop(state);
        let id = Id::Number(number);
        let name = self.name(method, params, version.as_ref());
        let raw = match wanted {
            true if options.has_no_meta => build::request_for_progress(&id, method, params.json()),
            true => build::request(&id, method, Some(with_token(params, &id).json())),
            false => build::request(&id, method, Some(params.json())),
        };
        let message = Outward {
            raw,
            what: What::Request { id, method: method.into(), name },
            version,
            headers: options.headers,
        };
        Ok((answer, Begun { number, message }))
    }

    /// Read from the params themselves, so that a header cannot say anything else than the body.
    fn name(&self, method: &str, params: &Raw, version: Option<&Version>) -> Option<Arc<str>> {
        if self.shared.facts.channel != Channel::Http || !version.is_some_and(Version::is_modern) {
            return None;
        }
        let key = match target(method)? {
            Target::Name => "name",
            Target::Uri => "uri",
        };
        Some(params.json().get(key)?.as_str()?.into())
    }
}

/// A call that is known here and not yet sent.
struct Begun {
    number: i64,
    message: Outward,
}

/// Cancels its call at the server unless that has ended.
struct Guard<'a> {
    shared: &'a Shared,
    number: i64,
    method: &'a str,
    version: Option<Version>,
    call_off: Option<CallOff>,
    /// What is said where nobody else has said something.
    reason: &'static str,
    /// The way that the caller goes himself, until its end.
    exchange: Option<Exchange>,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let exchange = self.exchange.take();
        let (call_off, reason) = (self.call_off.take(), self.reason);
        let told = |id| call_off.unwrap_or_default().notification(id, reason);
        self.shared.give_up(self.number, self.method, self.version.as_ref(), told, exchange);
    }
}

/// A call that nothing was sent of is as one that a server refused because it does not know the session any more.
fn unbegun(closed: CallError) -> CallError {
    match closed {
        CallError::Closed(CloseReason::Broken(fault)) if fault.is_session_gone() => {
            CallError::Failed(fault)
        }
        closed => closed,
    }
}

/// Goes on with an exchange to its end, which it has but once.
async fn going(exchange: &mut Option<Exchange>) -> Went {
    let Some(going) = exchange else { return std::future::pending().await };
    let went = going.work.as_mut().await;
    *exchange = None;
    went
}

/// A link that breaks does not know what becomes of requests that are on ways of their own: each hears it there, such as
/// that it was not begun.
async fn last_word(outcome: Outcome, exchange: &mut Option<Exchange>, clock: &Clock) -> Outcome {
    let went = tokio::select! {
        biased;
        went = timeout(LAST_WORD, going(exchange)) => went.unwrap_or(Went::Said),
        // Nobody waits for it longer than for an answer.
        _ = clock.ran_out() => Went::Said,
    };
    match went {
        Went::Answered(alone) => dispatch::outcome(&alone.response),
        Went::Failed(fault) => Err(CallError::Failed(fault)),
        Went::Said => outcome,
    }
}

impl Event {
    fn is(&self, method: &str) -> bool {
        matches!(self, Event::Notification { notification, .. } if notification.method == method)
    }
}

/// The request's own id serves as its progress token: it is as unique.
fn with_token(params: &Raw, id: &Id) -> Raw {
    let token = progress_token(id);
    let Some(meta) = params.get("_meta") else { return params.with_new("_meta", token.json()) };
    let meta = meta.with_members([(meta::PROGRESS_TOKEN, token.get(meta::PROGRESS_TOKEN))]);
    params.with_members([("_meta", Some(meta))])
}

fn progress_token(id: &Id) -> Raw {
    ObjectWriter::new().id(meta::PROGRESS_TOKEN, id).finish()
}

#[cfg(test)]
mod tests;
