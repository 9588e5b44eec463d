//! One conversation over Streamable HTTP: what each request carries, and how each answer is read.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use toolcrib_wire::header::{self, Header};
use toolcrib_wire::{Id, Version, method};

use super::event_stream::{Cursor, EventStream, answers, incoming, message};
use super::http::{self, Content, Http, Waiting};
use super::http_fault::HttpFault;
use super::link::{CloseReason, Incoming, Outward, What};

/// How a part of the conversation ended; an error ends the link.
pub(super) type Ended = Result<(), CloseReason>;

const SESSION_ID: HeaderName = HeaderName::from_static(header::SESSION_ID);
const LAST_EVENT_ID: HeaderName = HeaderName::from_static(header::LAST_EVENT_ID);

/// A notification or an answer that is not accepted by then is given up.
const DELIVERY: Duration = Duration::from_secs(30);

/// A stream that is read to its end leaves a connection that can be used again, so its end is waited for.
const LINGER: Duration = Duration::from_millis(250);

/// A stream for the server's own messages that lasts this long was worth opening.
const LASTING: Duration = Duration::from_secs(5);

pub(super) struct Session {
    http: Http,
    incoming: mpsc::Sender<Incoming>,
    known: Mutex<Known>,
}

/// What is known of the server and goes into every request.
#[derive(Default)]
struct Known {
    session: Option<HeaderValue>,
    version: Option<Version>,
    /// It has answered at least once: connecting is over.
    answered: bool,
}

impl Session {
    pub(super) fn new(
        http: Http,
        incoming: mpsc::Sender<Incoming>,
        configured: Option<HeaderValue>,
    ) -> Self {
        let known = Known { session: configured.map(sensitive), ..Known::default() };
        Self { http, incoming, known: Mutex::new(known) }
    }

    /// Sends a request and reads its answer, however it comes. `arrives` is told when that has begun.
    pub(super) async fn call(
        &self,
        message: Outward,
        id: Id,
        arrives: &watch::Sender<bool>,
    ) -> Ended {
        let Err(fault) = self.exchange(&message, &id, arrives).await else { return Ok(()) };
        let is_over = matches!(fault, HttpFault::SessionGone);
        let fault = fault.while_doing("get an answer from the server");
        self.say(Incoming::Failed { request: id, fault: fault.clone() }).await;
        if is_over { Err(CloseReason::Broken(fault)) } else { Ok(()) }
    }

    /// Sends what has no answer.
    pub(super) async fn deliver(&self, message: Outward) -> Ended {
        let sent = timeout(DELIVERY, self.post(&message)).await;
        let fault = match sent.unwrap_or(Err(HttpFault::Unanswered(DELIVERY))) {
            Ok((response, _)) if response.status().is_success() => return Ok(()),
            Ok((response, had_session)) => self.fault(&response, had_session),
            Err(fault) => fault,
        };
        if matches!(fault, HttpFault::SessionGone) {
            return Err(CloseReason::Broken(fault.while_doing("send to the server")));
        }
        tracing::warn!(error = %fault, "a message could not be delivered");
        Ok(())
    }

    /// Listens for messages of the server that belong to no request, where it offers a stream for them.
    pub(super) async fn listen(&self) -> Ended {
        let mut cursor = Cursor::default();
        let mut was_there = false;
        loop {
            let start = Instant::now();
            let ended = match self.get(&cursor).await {
                Ok(response) => {
                    was_there = true;
                    self.read(response, None, &mut cursor).await.map(drop)
                }
                Err(fault) => Err(fault),
            };
            match ended {
                // Some servers have nothing at all for a GET; calls will tell whether the session is there.
                Err(HttpFault::SessionGone) if !was_there => return Ok(()),
                Err(fault @ HttpFault::SessionGone) => {
                    return Err(CloseReason::Broken(fault.while_doing("listen to the server")));
                }
                Err(fault) if !fault.may_pass() => return Ok(()),
                _ if start.elapsed() > LASTING => cursor.was_fruitful(),
                _ => {}
            }
            let Some(pause) = cursor.next_try() else { return Ok(()) };
            sleep(pause).await;
        }
    }

    /// Ends the session on the server, if there is one.
    pub(super) async fn terminate(&self) {
        let (headers, had_session) = self.headers();
        // Servers may refuse; there is nothing left to do about it.
        if had_session && let Err(fault) = self.http.delete(headers).await {
            tracing::debug!(error = %fault, "the session could not be ended");
        }
    }

    async fn exchange(
        &self,
        request: &Outward,
        id: &Id,
        arrives: &watch::Sender<bool>,
    ) -> Result<(), HttpFault> {
        let (response, had_session) = self.post(request).await?;
        arrives.send_replace(true);
        if !response.status().is_success() {
            return self.refused(response, had_session, id).await;
        }
        match Content::of(&response) {
            Content::Json => {
                let body = self.http.body(response).whole(self.http.limits.size).await?;
                let item = message(body, Some(id.clone()), &self.http.limits);
                // Nothing else can come: what is no answer must not leave the call waiting.
                let settles = answers(&item, id);
                self.say(item).await;
                if settles { Ok(()) } else { Err(HttpFault::NoAnswer) }
            }
            Content::Events => {
                let is_modern = request.version.as_ref().is_some_and(Version::is_modern);
                self.follow(response, id, !is_modern).await
            }
            Content::Nothing => Err(HttpFault::NoAnswer),
            Content::Other(found) => Err(HttpFault::ContentType(found)),
        }
    }

    /// Reads an answer stream up to the answer, and takes it up again where it broke off, if it may be.
    async fn follow(&self, response: Response, id: &Id, may_resume: bool) -> Result<(), HttpFault> {
        let mut cursor = Cursor::default();
        let mut broken = match self.read(response, Some(id), &mut cursor).await {
            Ok(true) => return Ok(()),
            Ok(false) => HttpFault::NoAnswer,
            Err(fault) => fault,
        };
        while may_resume && cursor.last_id().is_some() && !matches!(broken, HttpFault::Silent(_)) {
            let Some(pause) = cursor.next_try() else { break };
            sleep(pause).await;
            let read = match self.get(&cursor).await {
                Ok(response) => self.read(response, Some(id), &mut cursor).await,
                Err(fault) if fault.may_pass() => Err(fault),
                // It cannot be taken up: what broke it remains the reason. Not that the session is gone, which is
                // what a request is told that was never begun.
                Err(_) => break,
            };
            match read {
                Ok(true) => return Ok(()),
                Ok(false) => broken = HttpFault::NoAnswer,
                Err(fault) => broken = fault,
            }
        }
        Err(broken)
    }

    /// Hands on what a stream brings. True if the answer that is waited for was there.
    async fn read(
        &self,
        response: Response,
        waiting: Option<&Id>,
        cursor: &mut Cursor,
    ) -> Result<bool, HttpFault> {
        let body = self.http.body(response);
        let mut stream = EventStream::new(body, self.http.limits, mem::take(cursor));
        let read = self.hand_on(&mut stream, waiting).await;
        *cursor = stream.cursor;
        read
    }

    async fn hand_on(
        &self,
        stream: &mut EventStream,
        waiting: Option<&Id>,
    ) -> Result<bool, HttpFault> {
        while let Some(event) = stream.next().await? {
            let Some(item) = incoming(event, waiting.cloned(), &self.http.limits) else { continue };
            let is_answer = waiting.is_some_and(|id| answers(&item, id));
            self.say(item).await;
            if is_answer {
                let _ = timeout(LINGER, self.drain(stream, waiting)).await;
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn drain(&self, stream: &mut EventStream, on: Option<&Id>) {
        while let Ok(Some(event)) = stream.next().await {
            if let Some(item) = incoming(event, on.cloned(), &self.http.limits) {
                self.say(item).await;
            }
        }
    }

    /// A request that was refused: with an error answer of its own, or just by a status.
    async fn refused(
        &self,
        response: Response,
        had_session: bool,
        id: &Id,
    ) -> Result<(), HttpFault> {
        let mut fault = self.fault(&response, had_session);
        let HttpFault::Status { said, .. } = &mut fault else { return Err(fault) };
        let body = self.http.body(response).beginning().await;
        *said = http::excerpt(&body);
        let item = message(body, Some(id.clone()), &self.http.limits);
        match &item {
            Incoming::Packet { .. } if answers(&item, id) => {
                self.say(item).await;
                Ok(())
            }
            _ => Err(fault),
        }
    }

    /// Sends one message. Tells besides whether the request named a session.
    async fn post(&self, message: &Outward) -> Result<(Response, bool), HttpFault> {
        let is_opening = matches!(&message.what, What::Request { method, .. } if &**method == method::INITIALIZE);
        if is_opening {
            // What was spoken before, to find out the era, is not what this begins.
            self.known().version = None;
        } else if let Some(version) = &message.version {
            self.known().version = Some(version.clone());
        }
        let (mut response, mut had_session) = self.post_once(message).await?;
        if is_opening && had_session && response.status() == StatusCode::NOT_FOUND {
            // The session that was configured is gone, so this begins another. It has had no effect yet.
            self.known().session = None;
            (response, had_session) = self.post_once(message).await?;
        }
        if is_opening
            && response.status().is_success()
            && let Some(given) = response.headers().get(SESSION_ID)
        {
            self.known().session = Some(sensitive(given.clone()));
        }
        Ok((response, had_session))
    }

    async fn post_once(&self, message: &Outward) -> Result<(Response, bool), HttpFault> {
        let (mut headers, had_session) = self.headers();
        for header in of_message(message) {
            http::put(&mut headers, &header)?;
        }
        let waiting = match &message.what {
            What::Request { id, .. } => Waiting::for_answer(&self.incoming, id),
            What::Notification { .. } | What::Answer => Waiting::NOBODY,
        };
        let waiting = waiting.while_connecting(!self.known().answered);
        let response = self.http.post(self.http.url(), headers, &message.raw, waiting).await?;
        self.known().answered = true;
        Ok((response, had_session))
    }

    async fn get(&self, cursor: &Cursor) -> Result<Response, HttpFault> {
        let (mut headers, had_session) = self.headers();
        if let Some(id) = cursor.last_id() {
            let refused = |_| HttpFault::BadHeader(header::LAST_EVENT_ID.to_owned());
            headers.insert(LAST_EVENT_ID, HeaderValue::from_str(id).map_err(refused)?);
        }
        let response = self.http.get_events(headers).await?;
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(self.fault(&response, had_session))
        }
    }

    /// The headers of every request of this conversation, and whether a session is among them.
    fn headers(&self) -> (HeaderMap, bool) {
        let mut headers = self.http.headers();
        let known = self.known();
        let version = known.version.as_ref();
        if let Some(version) = version.filter(|version| names_itself(version))
            && let Ok(value) = HeaderValue::from_str(version.as_str())
        {
            headers.insert(HeaderName::from_static(header::PROTOCOL_VERSION), value);
        }
        let session = known.session.clone().filter(|_| !version.is_some_and(Version::is_modern));
        let has_session = session.is_some();
        headers.extend(session.map(|session| (SESSION_ID, session)));
        (headers, has_session)
    }

    fn fault(&self, response: &Response, had_session: bool) -> HttpFault {
        HttpFault::of(response.status(), response.headers(), had_session, self.http.url())
    }

    /// What nobody takes any more is dropped.
    async fn say(&self, item: Incoming) {
        let _ = self.incoming.send(item).await;
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn names_itself(version: &Version) -> bool {
    version.has_version_header() || version.is_modern()
}

/// What a message of the modern era repeats in headers, and what was given along.
fn of_message(message: &Outward) -> Vec<Header> {
    let mut headers = Vec::new();
    let (method, name) = match &message.what {
        What::Request { method, name, .. } => (Some(method), name.as_ref()),
        What::Notification { method } => (Some(method), None),
        What::Answer => (None, None),
    };
    if message.version.as_ref().is_some_and(Version::is_modern) {
        let header =
            |key, value: &str| Header { name: key, value: header::encode(value).into_owned() };
        headers.extend(method.map(|method| header(header::METHOD.into(), method)));
        headers.extend(name.map(|name| header(header::NAME.into(), name)));
    }
    headers.extend(message.headers.iter().cloned());
    headers
}

/// Whoever has the id of a session has the session.
fn sensitive(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}
