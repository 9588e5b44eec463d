//! The interface of every transport: an outbox, an inbox, and an orderly close.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcrib_config::Problem;
use toolcrib_wire::header::Header;
use toolcrib_wire::notification::Cancelled;
use toolcrib_wire::{
    Channel, FrameError, FrameTooLarge, Framing, Id, MalformedMessage, Packet, RawJson, Version,
    method,
};

use super::direct_exchange::{DirectTransport, Exchange, StaticBoxFuture};
use super::http_fault::HttpFault;
use crate::process::{ProcessExit, StderrTail};
use crate::signals::{SecretMask, chain};

/// Capacity of the outbox. Further senders wait.
const OUTBOX_CAPACITY: usize = 64;

/// Capacity of the inbox. The reader of a transport waits while it is full, so its receiver must never wait for another
/// task.
const INBOX_CAPACITY: usize = 16;

/// Time limit of the close report for getting room in the inbox.
const CLOSE_REPORT_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection to one server. Dropping the closer ends everything that the transport started.
#[derive(Debug)]
pub struct Link {
    /// Sends messages to the server.
    pub outbox: Outbox,
    /// [`Incoming::Closed`] is the last item. A closed channel without it means the same.
    pub inbox: mpsc::Receiver<Incoming>,
    /// Facts about the link.
    pub info: LinkInfo,
    /// Ends the link.
    pub closer: Closer,
    /// Set for transports that send requests independently.
    pub direct: Option<Arc<dyn DirectTransport>>,
}

/// Facts about a link beside its messages.
#[derive(Clone, Debug)]
pub struct LinkInfo {
    /// Kind of the channel.
    pub channel: Channel,
    /// The server's process, if the transport started one on this machine.
    pub pid: Option<u32>,
    /// The server's stderr, if the transport sees it.
    pub stderr: Option<StderrTail>,
    /// Problems of a working link.
    pub problems: Vec<Problem>,
    /// Masks the secrets of the server.
    pub mask: SecretMask,
}

impl LinkInfo {
    /// Info without process, stderr and problems.
    pub fn new(channel: Channel) -> Self {
        LinkInfo {
            channel,
            pid: None,
            stderr: None,
            problems: Vec::new(),
            mask: SecretMask::default(),
        }
    }
}

/// Queue of messages to the server. Clones share the queue.
#[derive(Clone, Debug)]
pub struct Outbox(mpsc::Sender<Outgoing>);

/// Reserved room for one message in an [`Outbox`].
#[derive(Debug)]
pub struct OutboxPermit<'a>(mpsc::Permit<'a, Outgoing>);

/// An item for the transport.
#[derive(Debug)]
pub enum Outgoing {
    Message(OutgoingMessage),
    /// A started request without a waiting caller. Its outcome goes to the inbox.
    Adopt(Id, Exchange),
    /// Remaining work of an exchange.
    RunRemaining(RemainingWork),
    /// The caller does not wait for the response any more. A transport with a stream per request closes the stream.
    /// Others do nothing, since a notification was sent where the protocol requires one.
    Abandon(Id),
}

/// Work left after the response of an exchange, without a result.
pub struct RemainingWork(pub StaticBoxFuture<()>);

/// One message with the data that a transport may need beside its text.
#[derive(Clone, Debug)]
pub struct OutgoingMessage {
    /// The text of the message.
    pub raw: RawJson,
    /// Request, notification or response.
    pub kind: OutgoingKind,
    /// The protocol version, once it is negotiated.
    pub version: Option<Version>,
    /// Headers of this message, for transports with headers.
    pub headers: Vec<Header>,
}

/// The kind of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutgoingKind {
    Request {
        id: Id,
        method: Arc<str>,
        /// The tool, prompt or resource of the request, if the channel repeats it in a header.
        name: Option<Arc<str>>,
    },
    Notification {
        method: Arc<str>,
    },
    /// The response to one server request, or to a batch of them.
    Response,
}

/// An item from the transport.
#[derive(Debug)]
pub enum Incoming {
    Packet {
        packet: Packet,
        /// The request whose response stream carried the message, if the transport knows it.
        on: Option<Id>,
    },
    /// A message that cannot be parsed.
    Malformed { fault: MalformedMessage, on: Option<Id> },
    /// Bytes that are no message. Excerpts are short.
    Unframed(FrameError),
    /// A message exceeds the limit before its end. The end may never come.
    Overrun(FrameTooLarge),
    /// The server's framing was detected or has changed.
    Framing(Framing),
    /// The request will get no response on this link: it was not delivered, or its response stream ended early.
    Failed { request: Id, fault: LinkFault },
    /// The request waits for something other than the server, so its deadline is paused or continues.
    DeadlinePaused { request: Id, is_paused: bool },
    /// The last item.
    Closed(CloseReason),
}

/// Reason why one message or the whole link failed. Cheap to clone, since every waiting call gets one.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot {operation}")]
pub struct LinkFault {
    /// The operation, as in "write to the server".
    pub operation: &'static str,
    /// The cause.
    #[source]
    pub cause: Arc<dyn std::error::Error + Send + Sync>,
}

/// A cause whose text contains a secret. It displays the masked texts of the whole chain.
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

/// Reason why a link ended.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CloseReason {
    /// The host closed the link.
    #[error("Transport closed")]
    HostClosed,
    #[error("the server ended the stream")]
    StreamEnded,
    #[error("the server's process ended with {0}")]
    Exited(ProcessExit),
    #[error("the connection broke")]
    Broken(#[source] LinkFault),
}

/// The link ended before the request was sent.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotSent(CloseReason);

/// Reason why the outbox rejected a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    #[error("Transport closed")]
    Closed,
    #[error("the queue of messages to the server is full")]
    Full,
}

/// A message that the outbox rejected.
#[derive(Debug)]
pub struct RejectedMessage {
    /// Why it was rejected.
    pub error: SendError,
    /// The rejected item.
    pub outgoing: Outgoing,
}

/// Ends a link. Dropping it ends everything immediately.
#[derive(Debug)]
pub struct Closer {
    request: Option<oneshot::Sender<Duration>>,
    driver: JoinSet<()>,
}

/// The transport's end of its link.
#[derive(Debug)]
pub(crate) struct TransportSide {
    pub(crate) outgoing: mpsc::Receiver<Outgoing>,
    pub(crate) incoming: mpsc::Sender<Incoming>,
    /// Fires once, with the grace period for queued messages. Dropping the link does not fire it.
    pub(crate) close_requested: oneshot::Receiver<Duration>,
}

impl Link {
    /// Starts a transport. `drive` does all its work, sends [`Incoming::Closed`] as soon as the reason is known, and
    /// returns when everything it started has ended. It owns its tasks (a `JoinSet`), so that dropping it ends them.
    pub(crate) fn start<F>(info: LinkInfo, drive: impl FnOnce(TransportSide) -> F) -> Link
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (outbox, outgoing) = mpsc::channel(OUTBOX_CAPACITY);
        let (incoming, inbox) = mpsc::channel(INBOX_CAPACITY);
        let (request, close_requested) = oneshot::channel();
        let mut driver = JoinSet::new();
        driver.spawn(drive(TransportSide { outgoing, incoming, close_requested }));
        Link {
            outbox: Outbox(outbox),
            inbox,
            info,
            closer: Closer { request: Some(request), driver },
            direct: None,
        }
    }

    #[must_use]
    pub(crate) fn with_direct(mut self, direct: Arc<dyn DirectTransport>) -> Self {
        self.direct = Some(direct);
        self
    }

    /// Masks these secrets in everything that the server sends.
    pub(crate) fn set_mask(&mut self, mask: SecretMask) {
        self.info.stderr.iter().for_each(|stderr| stderr.set_mask(mask.clone()));
        self.info.mask = mask;
    }

    #[must_use]
    pub(crate) fn with_problems(mut self, problems: Vec<Problem>) -> Self {
        self.info.problems = problems;
        self
    }
}

impl TransportSide {
    /// Reports why the link ended. If the inbox stays full, its receiver learns only that the channel closed.
    pub(crate) async fn report_closed(incoming: &mpsc::Sender<Incoming>, reason: CloseReason) {
        let _ = timeout(CLOSE_REPORT_TIMEOUT, incoming.send(Incoming::Closed(reason))).await;
    }
}

impl OutgoingMessage {
    /// The request that this message cancels, if it is a cancellation. Where messages travel separately, it must not
    /// overtake its request: servers ignore cancellations of unknown requests.
    pub(crate) fn cancelled_request(&self) -> Option<Id> {
        match &self.kind {
            OutgoingKind::Notification { method } if &**method == method::CANCELLED => {
                let cancelled = Cancelled::read(self.raw.json().get("params")?);
                cancelled.ok().map(|cancelled| cancelled.request)
            }
            _ => None,
        }
    }
}

impl Outbox {
    /// Waits for room and sends.
    pub async fn send(&self, outgoing: Outgoing) -> Result<(), SendError> {
        self.reserve().await.map(|permit| permit.send(outgoing))
    }

    /// Sends without waiting for room.
    pub fn try_send(&self, outgoing: Outgoing) -> Result<(), Box<RejectedMessage>> {
        self.0.try_send(outgoing).map_err(|error| {
            let (error, outgoing) = match error {
                mpsc::error::TrySendError::Full(outgoing) => (SendError::Full, outgoing),
                mpsc::error::TrySendError::Closed(outgoing) => (SendError::Closed, outgoing),
            };
            Box::new(RejectedMessage { error, outgoing })
        })
    }

    /// Waits for room before the message exists.
    pub async fn reserve(&self) -> Result<OutboxPermit<'_>, SendError> {
        let permit = self.0.reserve().await;
        permit.map(OutboxPermit).map_err(|_| SendError::Closed)
    }
}

impl OutboxPermit<'_> {
    /// Sends into the reserved room.
    pub fn send(self, outgoing: Outgoing) {
        self.0.send(outgoing);
    }
}

impl Closer {
    /// Sends queued messages within `grace`, then ends everything that the transport started. The inbox must be read
    /// meanwhile, or be dropped. Dropping the future ends everything immediately.
    pub async fn close(mut self, grace: Duration) {
        if let Some(request) = self.request.take() {
            // Fails only if the transport has ended already.
            let _ = request.send(grace);
        }
        self.driver.join_next().await;
    }
}

impl std::fmt::Debug for RemainingWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemainingWork").finish_non_exhaustive()
    }
}

impl LinkFault {
    /// True if only the session is gone, while the server is reachable.
    pub(crate) fn is_session_gone(&self) -> bool {
        matches!(self.http(), Some(HttpFault::SessionGone))
    }

    /// The cause, if it is an HTTP fault.
    pub fn http(&self) -> Option<&HttpFault> {
        self.unmasked_cause().downcast_ref()
    }

    fn unmasked_cause(&self) -> &Arc<dyn std::error::Error + Send + Sync> {
        let masked = self.cause.downcast_ref::<MaskedCause>().map(|masked| &masked.cause);
        masked.unwrap_or(&self.cause)
    }

    /// Masks the secrets that the server repeats.
    pub(crate) fn masked(self, mask: &SecretMask) -> Self {
        let text = chain(&*self.cause);
        let shown = mask.mask_excerpt(text.clone());
        if shown == text {
            return self;
        }
        LinkFault { cause: Arc::new(MaskedCause { shown, cause: self.cause }), ..self }
    }

    /// The fault of a request that was not sent before the link ended.
    pub(crate) fn unsent(reason: CloseReason) -> Self {
        LinkFault { operation: "send the request to the server", cause: Arc::new(NotSent(reason)) }
    }

    /// True if the request was never sent, so that the server cannot have run it.
    pub(crate) fn is_unsent(&self) -> bool {
        self.unmasked_cause().downcast_ref::<NotSent>().is_some()
    }

    /// The fault of a failed read or write.
    pub fn from_io(operation: &'static str, cause: io::Error) -> Self {
        LinkFault { operation, cause: Arc::new(cause) }
    }
}
