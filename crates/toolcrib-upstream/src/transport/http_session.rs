//! One conversation over Streamable HTTP: how each answer is read, and when it is over.

mod requests;

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use reqwest::header::HeaderValue;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use toolcrib_wire::{Id, Message, Packet, Version, method};

use super::answer::{self, Answer, Content, LINGER};
use super::event_stream::{Cursor, EventStream, ROOM, answers, behind_room, incoming, message};
use super::exchange::{Alone, Went, Work};
use super::http::Http;
use super::http_fault::HttpFault;
use super::known::Known;
use super::link::{CloseReason, Incoming, LinkFault, Outward, What};

/// A notification or an answer that is not accepted by then is given up.
const DELIVERY: Duration = Duration::from_secs(30);

/// How long calls wait for the beginning of the stream for the server's own messages.
const SETTLING: Duration = Duration::from_millis(250);

/// A stream for the server's own messages that lasts this long was worth opening.
const LASTING: Duration = Duration::from_secs(5);

pub(super) struct Session {
    http: Http,
    incoming: mpsc::Sender<Incoming>,
    known: Mutex<Known>,
    /// Why the server will hear nothing more of it.
    over: watch::Sender<Option<CloseReason>>,
    /// Since when it is not known whether the server will have a stream for its own messages.
    unsettled: watch::Sender<Option<Instant>>,
}

impl Session {
    pub(super) fn new(
        http: Http,
        incoming: mpsc::Sender<Incoming>,
        configured: Option<HeaderValue>,
    ) -> Self {
        let known = Known::of(configured.map(sensitive));
        Self {
            http,
            incoming,
            known: Mutex::new(known),
            over: watch::Sender::new(None),
            unsettled: watch::Sender::new(None),
        }
    }

    /// From now on it is not known whether there will be such a stream.
    pub(super) fn will_listen(&self) {
        self.unsettled.send_replace(Some(Instant::now()));
    }

    /// Waits a moment for the stream on which the server may ask something within a call: what it says while there
    /// is none is lost.
    async fn settle(&self) {
        let Some(since) = *self.unsettled.borrow() else { return };
        let mut unsettled = self.unsettled.subscribe();
        // Some servers do not even begin to answer before they have something to say.
        let _ = timeout_at(since + SETTLING, unsettled.wait_for(Option::is_none)).await;
        self.unsettled.send_replace(None);
    }

    /// Waits until the server does not know it any more.
    pub(super) async fn over(&self) -> CloseReason {
        let mut over = self.over.subscribe();
        let reason = over.wait_for(Option::is_some).await;
        // The sender is in the session itself.
        reason.ok().and_then(|reason| reason.clone()).unwrap_or(CloseReason::Ended)
    }

    /// Keeps its connections in order, for ever.
    pub(super) async fn tidy(&self) {
        self.http.tidy().await;
    }

    /// Sends a request and reads its answer, however it comes. `arrives` is told when that has begun.
    pub(super) async fn call(
        self: Arc<Self>,
        message: Outward,
        arrives: oneshot::Sender<()>,
    ) -> Went {
        let What::Request { id, method, .. } = &message.what else { return Went::Said };
        if method::may_require_input(method) {
            self.settle().await;
        }
        match self.exchange(&message, id, arrives).await {
            Ok(went) => went,
            Err(fault) => {
                let is_over = matches!(fault, HttpFault::SessionGone);
                let fault = fault.while_doing("get an answer from the server");
                if is_over {
                    self.end(fault.clone());
                }
                Went::Failed(fault)
            }
        }
    }

    /// Hands on what nobody waits for in person.
    pub(super) async fn hand_on(&self, went: Went, request: Id) {
        match went {
            Went::Answered(alone) => {
                let packet = Packet::One(Message::Response(alone.response));
                self.say(Incoming::Packet { packet, on: Some(request) }).await;
                if let Some(rest) = alone.rest {
                    rest.await;
                }
            }
            Went::Failed(fault) => self.say(Incoming::Failed { request, fault }).await,
            Went::Said => {}
        }
    }

    /// Sends what has no answer.
    pub(super) async fn deliver(&self, message: Outward) {
        let fault = match self.post(&message).await {
            Ok((answer, _)) if answer.status().is_success() => {
                return self.http.body(answer).finish().await;
            }
            Ok((answer, had_session)) => self.http.refusal(answer, had_session).await,
            Err(fault) => fault,
        };
        if matches!(fault, HttpFault::SessionGone) {
            return self.end(fault.while_doing("send to the server"));
        }
        self.http.log_undelivered(&fault);
    }

    /// Listens for messages of the server that belong to no request, where it offers a stream for them.
    pub(super) async fn listen(&self) {
        let mut cursor = Cursor::default();
        let mut was_there = false;
        loop {
            let start = Instant::now();
            let admitted = self.admission();
            let opened = self.get(&cursor).await;
            self.unsettled.send_replace(None);
            let ended = match opened {
                Ok(response) => {
                    was_there = true;
                    self.read_all(response, &mut cursor).await
                }
                Err(fault) => Err(fault),
            };
            match ended {
                // Some servers have nothing at all for a GET; calls will tell whether the session is there.
                Err(HttpFault::SessionGone) if !was_there => return,
                Err(fault @ HttpFault::SessionGone) => {
                    return self.end(fault.while_doing("listen to the server"));
                }
                // A person may have to log in first. The other end is in the session itself.
                Err(fault) if fault.is_denial() => drop(admitted.await),
                Err(fault) if !fault.may_pass() => return,
                _ if start.elapsed() > LASTING => cursor.was_fruitful(),
                _ => {}
            }
            let Some(pause) = cursor.next_try() else { return };
            sleep(pause).await;
        }
    }

    /// Comes with the next request that the server takes.
    fn admission(&self) -> oneshot::Receiver<()> {
        let (admits, admitted) = oneshot::channel();
        self.known().admits = Some(admits);
        admitted
    }

    /// Ends the session on the server, if there is one.
    pub(super) async fn terminate(&self) {
        let (headers, had_session) = self.known().headers(&self.http);
        // Servers may refuse; there is nothing left to do about it.
        if had_session && let Err(fault) = self.http.delete(headers).await {
            let error = self.http.mask().mask_excerpt(fault.to_string());
            tracing::debug!(%error, "the session could not be ended");
        }
    }

    async fn exchange(
        self: &Arc<Self>,
        request: &Outward,
        id: &Id,
        arrives: oneshot::Sender<()>,
    ) -> Result<Went, HttpFault> {
        let (answer, had_session) = match is_opening(request) {
            true => Box::pin(self.post_opening(request)).await?,
            false => self.post(request).await?,
        };
        // Nobody has to want to know.
        let _ = arrives.send(());
        if !answer.status().is_success() {
            return Box::pin(self.refused(answer, had_session, id)).await;
        }
        match Content::of(&answer) {
            Content::Json => {
                let body = self.http.body(answer).whole(self.http.limits.size, ROOM).await?;
                let item = behind_room(body, id, &self.http.limits);
                // Nothing else can come: what is no answer must not leave the call waiting.
                let settles = answers(&item, id);
                let found = self.found(item, id, None).await;
                if settles { Ok(found) } else { Err(HttpFault::NoAnswer) }
            }
            Content::Events => {
                let is_modern = request.version.as_ref().is_some_and(Version::is_modern);
                Box::pin(self.follow(answer, id, !is_modern)).await
            }
            Content::Nothing => Err(HttpFault::NoAnswer),
            Content::Other(found) => Err(HttpFault::ContentType(found)),
        }
    }

    /// An answer goes straight to its call if nothing can be in the inbox that was said before it.
    async fn found(&self, item: Incoming, id: &Id, rest: Option<Work<()>>) -> Went {
        let is_empty = self.incoming.capacity() == self.incoming.max_capacity();
        match item {
            Incoming::Packet { packet: Packet::One(Message::Response(response)), .. }
                if is_empty && response.id.as_ref() == Some(id) =>
            {
                Went::Answered(Box::new(Alone { response, rest }))
            }
            item => {
                Box::pin(self.say(item)).await;
                if let Some(rest) = rest {
                    rest.await;
                }
                Went::Said
            }
        }
    }

    /// Reads an answer stream up to the answer, and takes it up again where it broke off, if it may be.
    async fn follow(
        self: &Arc<Self>,
        answer: Answer,
        id: &Id,
        may_resume: bool,
    ) -> Result<Went, HttpFault> {
        let mut cursor = Cursor::default();
        let mut broken = match self.read(answer, id, &mut cursor).await {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => HttpFault::NoAnswer,
            Err(fault) => fault,
        };
        while may_resume && cursor.last_id().is_some() && !matches!(broken, HttpFault::Silent(_)) {
            let Some(pause) = cursor.next_try() else { break };
            sleep(pause).await;
            let read = match self.get(&cursor).await {
                Ok(answer) => self.read(answer, id, &mut cursor).await,
                Err(fault) if fault.may_pass() => Err(fault),
                // It cannot be taken up: what broke it remains the reason. Not that the session is gone, which is
                // what a request is told that was never begun.
                Err(_) => break,
            };
            match read {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => broken = HttpFault::NoAnswer,
                Err(fault) => broken = fault,
            }
        }
        Err(broken)
    }

    /// Hands on what a stream brings before the answer that is waited for. None if it ends without.
    async fn read(
        self: &Arc<Self>,
        answer: Answer,
        id: &Id,
        cursor: &mut Cursor,
    ) -> Result<Option<Went>, HttpFault> {
        let mut stream = self.stream(answer, cursor);
        loop {
            let event = match stream.next().await {
                Ok(Some(event)) => event,
                ended => {
                    *cursor = stream.cursor;
                    return ended.map(|_| None);
                }
            };
            let on = Some(id.clone());
            let Some(item) = incoming(event, on, &self.http.limits) else { continue };
            if answers(&item, id) {
                let rest = Arc::clone(self).drain(stream, id.clone());
                return Ok(Some(self.found(item, id, soon(rest)).await));
            }
            self.say(item).await;
        }
    }

    /// Hands on all that a stream brings.
    async fn read_all(&self, answer: Answer, cursor: &mut Cursor) -> Result<(), HttpFault> {
        let mut stream = self.stream(answer, cursor);
        let ended = loop {
            match stream.next().await {
                Ok(Some(event)) => {
                    if let Some(item) = incoming(event, None, &self.http.limits) {
                        self.say(item).await;
                    }
                }
                ended => break ended.map(drop),
            }
        };
        *cursor = stream.cursor;
        ended
    }

    fn stream(&self, answer: Answer, cursor: &mut Cursor) -> EventStream {
        EventStream::new(self.http.body(answer), self.http.limits, mem::take(cursor))
    }

    /// What comes after the answer. A stream that is read to its end leaves a connection that can be used again.
    async fn drain(self: Arc<Self>, mut stream: EventStream, on: Id) {
        let reading = async {
            while let Ok(Some(event)) = stream.next().await {
                if let Some(item) = incoming(event, Some(on.clone()), &self.http.limits) {
                    self.say(item).await;
                }
            }
        };
        let _ = timeout(LINGER, reading).await;
    }

    /// A request that was refused: with an error answer of its own, or just by a status.
    async fn refused(&self, answer: Answer, had_session: bool, id: &Id) -> Result<Went, HttpFault> {
        let mut fault = self.fault(&answer, had_session);
        let HttpFault::Status { said, .. } = &mut fault else {
            self.http.body(answer).finish().await;
            return Err(fault);
        };
        let body = self.http.body(answer).beginning().await;
        *said = answer::excerpt(&body, self.http.mask());
        let item = message(body, Some(id.clone()), &self.http.limits);
        match &item {
            Incoming::Packet { .. } if answers(&item, id) => Ok(self.found(item, id, None).await),
            _ => Err(fault),
        }
    }

    fn fault(&self, response: &Answer, had_session: bool) -> HttpFault {
        HttpFault::of(response.status(), &response.headers(), had_session, self.http.url())
    }

    /// The first reason counts.
    fn end(&self, fault: LinkFault) {
        self.over.send_if_modified(|over| {
            let is_first = over.is_none();
            over.get_or_insert(CloseReason::Broken(fault));
            is_first
        });
    }

    /// What nobody takes any more is dropped.
    async fn say(&self, item: Incoming) {
        let _ = self.incoming.send(item).await;
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

fn is_opening(message: &Outward) -> bool {
    matches!(&message.what, What::Request { method, .. } if &**method == method::INITIALIZE)
}

/// What is left of some work, if it is not done at once: mostly the end of a stream comes with its last event.
fn soon(work: impl Future<Output = ()> + Send + 'static) -> Option<Work<()>> {
    let mut work: Work<()> = Box::pin(work);
    (&mut work).now_or_never().is_none().then_some(work)
}

/// Whoever has the id of a session has the session.
fn sensitive(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}
