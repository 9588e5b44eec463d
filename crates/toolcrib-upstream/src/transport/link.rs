//! What every transport gives: a way to send, an inbox, and an orderly end of all that it started.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcrib_config::Problem;
use toolcrib_wire::header::Header;
use toolcrib_wire::notice::Cancelled;
use toolcrib_wire::{
    Channel, FrameError, Framing, Id, Malformed, Overrun, Packet, Raw, Version, method,
};

use super::exchange::{Direct, Exchange, Work};
use super::http_fault::HttpFault;
use crate::process::{Exit, StderrTail};
use crate::signals::{SecretMask, chain};

/// Messages on their way out; who sends more waits.
const OUTBOX: usize = 64;

/// What has come in and was not taken yet. The transport's reader waits when it is full, so whoever holds the
/// inbox must take without waiting for anybody.
const INBOX: usize = 16;

/// How long the news of the end may wait for room in the inbox.
const LAST_WORD: Duration = Duration::from_secs(1);

/// A connection to one server. Dropping the closer ends at once whatever the transport started.
#[derive(Debug)]
pub struct Link {
    pub outbox: Outbox,
    /// Nothing of interest comes after [`Incoming::Closed`]; its end without that means the same.
    pub inbox: mpsc::Receiver<Incoming>,
    pub facts: Facts,
    pub closer: Closer,
    /// Where requests have ways of their own.
    pub direct: Option<Arc<dyn Direct>>,
}

/// What can be told of a connection besides its messages.
#[derive(Clone, Debug)]
pub struct Facts {
    pub channel: Channel,
    /// The server's process, where the transport started one on this machine.
    pub pid: Option<u32>,
    /// What the server wrote to its stderr, where the transport sees it.
    pub stderr: Option<StderrTail>,
    /// What is wrong with this way to the server although it works.
    pub problems: Vec<Problem>,
    /// Masks the secrets that the server was given.
    pub mask: SecretMask,
}

impl Facts {
    /// Where there is nothing more to say.
    pub fn of(channel: Channel) -> Self {
        Facts {
            channel,
            pid: None,
            stderr: None,
            problems: Vec::new(),
            mask: SecretMask::default(),
        }
    }
}

/// Takes messages for the server. Clones share one queue.
#[derive(Clone, Debug)]
pub struct Outbox(mpsc::Sender<Outgoing>);

/// Room for one message in an [`Outbox`].
#[derive(Debug)]
pub struct Room<'a>(mpsc::Permit<'a, Outgoing>);

/// Something for the server.
#[derive(Debug)]
pub enum Outgoing {
    Message(Outward),
    /// A request that is on its way, and that nobody waits for any more: what comes of it goes to the inbox.
    Adopt(Id, Exchange),
    /// What is left to do of an exchange.
    Finish(Finish),
    /// Nobody waits for the answer to this request any more. A transport that has a stream for it closes it; the
    /// others have nothing to do, since a notification was sent where the protocol asks for one.
    Abandon(Id),
}

/// The end of an exchange, of which nothing is expected any more.
pub struct Finish(pub Work<()>);

/// One message, and what a transport may have to say about it beside its text.
#[derive(Clone, Debug)]
pub struct Outward {
    pub raw: Raw,
    pub what: What,
    /// The version that is spoken, as far as it is settled.
    pub version: Option<Version>,
    /// Headers of this message alone, for transports that have headers.
    pub headers: Vec<Header>,
}

/// What a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Request {
        id: Id,
        method: Arc<str>,
        /// The tool, prompt or resource it is about, where it is about one and the channel repeats it in a header.
        name: Option<Arc<str>>,
    },
    Notification {
        method: Arc<str>,
    },
    /// The answer to a request of the server, or to a batch of them.
    Answer,
}

/// Something from the server, or about the way to it.
#[derive(Debug)]
pub enum Incoming {
    Packet {
        packet: Packet,
        /// The request whose answer stream it came on, where the transport knows.
        on: Option<Id>,
    },
    /// A message that cannot be used.
    Malformed { fault: Malformed, on: Option<Id> },
    /// Something on a byte stream that is no message at all; excerpts are short.
    Unframed(FrameError),
    /// A message that is over the limit, and its end has not come yet. It may never come.
    Overrun(Overrun),
    /// The server's way of setting off messages has become known, or changed.
    Framing(Framing),
    /// A request that will not be answered while the link goes on: it could not be delivered, or its answer
    /// stream ended without an answer.
    Failed { request: Id, fault: LinkFault },
    /// A request waits for something that is not the server's fault, or does so no more: its clock stands still.
    Standing { request: Id, stands: bool },
    /// The last one.
    Closed(CloseReason),
}

/// Why one message, or the whole link, failed. Cheap to clone: every call that waits gets one.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot {doing}")]
pub struct LinkFault {
    /// The operation, as in "write to the server".
    pub doing: &'static str,
    #[source]
    pub cause: Arc<dyn std::error::Error + Send + Sync>,
}

/// A cause whose text repeats a secret. It is shown with its own causes, masked.
#[derive(thiserror::Error)]
#[error("{shown}")]
struct MaskedCause {
    shown: String,
    cause: Arc<dyn std::error::Error + Send + Sync>,
}

impl std::fmt::Debug for MaskedCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MaskedCause").field("shown", &self.shown).finish_non_exhaustive()
    }
}

/// Why a link ended.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CloseReason {
    /// The host closed it.
    #[error("Transport closed")]
    Asked,
    #[error("the server ended the stream")]
    Ended,
    #[error("the server's process ended with {0}")]
    Exited(Exit),
    #[error("the connection broke")]
    Broken(#[source] LinkFault),
}

/// The link ended before a request was sent.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotSent(CloseReason);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    #[error("Transport closed")]
    Closed,
    #[error("the queue of messages to the server is full")]
    Full,
}

/// What there was no room for.
#[derive(Debug)]
pub struct Unsent {
    pub error: SendError,
    pub outgoing: Outgoing,
}

/// Ends a link. Dropped, it ends everything at once and waits for nothing.
#[derive(Debug)]
pub struct Closer {
    ask: Option<oneshot::Sender<Duration>>,
    driver: JoinSet<()>,
}

/// A transport's side of its link.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) outgoing: mpsc::Receiver<Outgoing>,
    pub(crate) incoming: mpsc::Sender<Incoming>,
    /// Fires once, with the time in which what is queued may still be sent. A dropped link does not fire it.
    pub(crate) asked: oneshot::Receiver<Duration>,
}

impl Link {
    /// Starts a transport. `drive` does all its work, says [`Incoming::Closed`] as soon as that is known, and
    /// returns when all that it started has ended. Its own tasks belong to it (a `JoinSet`), so that dropping it
    /// ends them.
    pub(crate) fn start<F>(facts: Facts, drive: impl FnOnce(Ends) -> F) -> Link
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (outbox, outgoing) = mpsc::channel(OUTBOX);
        let (incoming, inbox) = mpsc::channel(INBOX);
        let (ask, asked) = oneshot::channel();
        let mut driver = JoinSet::new();
        driver.spawn(drive(Ends { outgoing, incoming, asked }));
        Link {
            outbox: Outbox(outbox),
            inbox,
            facts,
            closer: Closer { ask: Some(ask), driver },
            direct: None,
        }
    }

    #[must_use]
    pub(crate) fn with_direct(mut self, direct: Arc<dyn Direct>) -> Self {
        self.direct = Some(direct);
        self
    }

    /// Masks these secrets in all that the server says.
    pub(crate) fn hide(&mut self, mask: SecretMask) {
        self.facts.stderr.iter().for_each(|stderr| stderr.hide(mask.clone()));
        self.facts.mask = mask;
    }

    #[must_use]
    pub(crate) fn with_problems(mut self, problems: Vec<Problem>) -> Self {
        self.facts.problems = problems;
        self
    }
}

impl Ends {
    /// Tells why the link ended. Whoever does not take even that learns it from the end of the inbox.
    pub(crate) async fn say_closed(incoming: &mpsc::Sender<Incoming>, reason: CloseReason) {
        let _ = timeout(LAST_WORD, incoming.send(Incoming::Closed(reason))).await;
    }
}

impl Outward {
    /// The request that this calls off, if it is a notification that does. Where messages take ways of their own
    /// it must not overtake that request: a server forgets a cancellation of what it has not heard of.
    pub(crate) fn cancels(&self) -> Option<Id> {
        match &self.what {
            What::Notification { method } if &**method == method::CANCELLED => {
                let cancelled = Cancelled::read(self.raw.json().get("params")?);
                cancelled.ok().map(|cancelled| cancelled.request)
            }
            _ => None,
        }
    }
}

impl Outbox {
    /// Waits for room.
    pub async fn send(&self, outgoing: Outgoing) -> Result<(), SendError> {
        self.room().await.map(|room| room.send(outgoing))
    }

    pub fn try_send(&self, outgoing: Outgoing) -> Result<(), Box<Unsent>> {
        self.0.try_send(outgoing).map_err(|error| {
            let (error, outgoing) = match error {
                mpsc::error::TrySendError::Full(outgoing) => (SendError::Full, outgoing),
                mpsc::error::TrySendError::Closed(outgoing) => (SendError::Closed, outgoing),
            };
            Box::new(Unsent { error, outgoing })
        })
    }

    /// Waits for room without having the message yet.
    pub async fn room(&self) -> Result<Room<'_>, SendError> {
        let permit = self.0.reserve().await;
        permit.map(Room).map_err(|_| SendError::Closed)
    }
}

impl Room<'_> {
    pub fn send(self, outgoing: Outgoing) {
        self.0.send(outgoing);
    }
}

impl Closer {
    /// Sends what is queued, as far as `grace` allows, and ends what the transport started. The inbox must be
    /// read meanwhile, or be dropped. Dropping the future ends everything at once.
    pub async fn close(mut self, grace: Duration) {
        if let Some(ask) = self.ask.take() {
            // It has ended by itself if nobody listens.
            let _ = ask.send(grace);
        }
        self.driver.join_next().await;
    }
}

impl std::fmt::Debug for Finish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Finish").finish_non_exhaustive()
    }
}

impl LinkFault {
    /// Whether the server is there, and only the session is not.
    pub(crate) fn is_session_gone(&self) -> bool {
        matches!(self.http(), Some(HttpFault::SessionGone))
    }

    /// The cause, where it is one of HTTP.
    pub fn http(&self) -> Option<&HttpFault> {
        self.unmasked().downcast_ref()
    }

    fn unmasked(&self) -> &Arc<dyn std::error::Error + Send + Sync> {
        let masked = self.cause.downcast_ref::<MaskedCause>().map(|masked| &masked.cause);
        masked.unwrap_or(&self.cause)
    }

    /// The same without the secrets that the server repeats.
    pub(crate) fn masked(self, mask: &SecretMask) -> Self {
        let text = chain(&*self.cause);
        let shown = mask.mask_excerpt(text.clone());
        if shown == text {
            return self;
        }
        LinkFault { cause: Arc::new(MaskedCause { shown, cause: self.cause }), ..self }
    }

    /// A request that did not get out before the link ended.
    pub(crate) fn unsent(reason: CloseReason) -> Self {
        LinkFault { doing: "send the request to the server", cause: Arc::new(NotSent(reason)) }
    }

    /// Whether the server cannot have run the request, because it was never sent.
    pub(crate) fn is_unsent(&self) -> bool {
        self.unmasked().downcast_ref::<NotSent>().is_some()
    }

    pub fn io(doing: &'static str, cause: io::Error) -> Self {
        LinkFault { doing, cause: Arc::new(cause) }
    }
}
