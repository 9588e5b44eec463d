//! The HTTP client under two transports: one pool for each server, redirects only within its origin, bounded bodies.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::http::response::Parts;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response, StatusCode, Url};
use tokio::sync::mpsc;
use tokio::time::timeout;
use toolcrib_config::Hidden;
use toolcrib_wire::header::Header;
use toolcrib_wire::{Id, Limits, Raw};

use super::http_fault::HttpFault;
use super::lane::{Lanes, Rest};
use super::link::Incoming;
use super::open::{OpenError, Opening};
use super::remote::{Target, within};
use super::tls::Tls;
use super::tokens::{Denial, Tokens};

pub(super) const AGENT: &str = concat!("toolcrib/", env!("CARGO_PKG_VERSION"));
pub(crate) const SCHEMES: [&str; 2] = ["http", "https"];
pub(super) const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// Node closes a connection that is idle for 5 s, and a request that meets the closing fails without anybody
/// knowing whether it was read. So we are first.
pub(super) const IDLE: Duration = Duration::from_secs(4);

/// A request is sent this often: with the token at hand, with a renewed one, and with one that is good for more.
const TRIES: usize = 3;

pub(super) const IDLE_CONNECTIONS: usize = 64;
const REDIRECTS: usize = 5;

/// Room that is made for an answer because it says how large it is: many can say so and send nothing.
const ANNOUNCED: usize = 2 << 20;

/// How long the end of an answer is waited for.
pub(super) const LINGER: Duration = Duration::from_millis(250);

/// As much of a refusal is read as a person may want to see, or an error answer takes.
const REFUSAL: usize = 64 * 1024;
const EXCERPT: usize = 200;

/// Requests to one server.
pub(super) struct Http {
    client: Client,
    /// Where a plain connection is enough.
    lanes: Option<Lanes>,
    target: Target,
    pub(super) limits: Limits,
    connect_timeout: Duration,
    silence: Option<Duration>,
}

/// An answer, with what is still to come of it.
pub(super) enum Answer {
    /// Over a connection of a pool that has tasks of its own.
    Pooled(Response),
    /// Over one that whoever reads it drives.
    Driven(Box<(Parts, Rest)>),
}

/// Who waits for a request, so that he can be told that it is not the server that takes its time.
#[derive(Clone, Copy)]
pub(super) struct Waiting<'a> {
    request: Option<(&'a mpsc::Sender<Incoming>, &'a Id)>,
    /// Nothing has been heard of the server yet: it has only the time that connecting may take.
    is_connecting: bool,
}

/// The rest of an answer. Reading fails when nothing comes for too long.
pub(super) struct Body {
    answer: Answer,
    silence: Option<Duration>,
}

/// What a successful answer holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    Json,
    Events,
    Nothing,
    Other(String),
}

impl Http {
    pub(super) fn new(target: Target, opening: &Opening<'_>) -> Result<Self, OpenError> {
        let mut tls = match target.url.scheme() {
            "https" => opening.tls.config().map(|config| (*config).clone()),
            _ => Tls::unused(),
        }
        .map_err(OpenError::Tls)?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut client = Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(AGENT)
            .tcp_nodelay(true)
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .redirect(same_origin())
            .referer(false)
            // The environment's proxies would be read behind the back of whoever passes the environment in.
            .no_proxy();
        if let Some(limit) = limit(opening.connect_timeout) {
            client = client.connect_timeout(limit);
        }
        Ok(Self {
            client: client.build().map_err(OpenError::Client)?,
            lanes: Lanes::to(&target.url, limit(opening.connect_timeout)),
            target,
            limits: opening.limits,
            connect_timeout: opening.connect_timeout,
            silence: limit(opening.sse_read_timeout),
        })
    }

    pub(super) fn url(&self) -> &Url {
        &self.target.url
    }

    /// The headers of every request; those of a single one are set over them.
    pub(super) fn headers(&self) -> HeaderMap {
        self.target.headers.clone()
    }

    pub(super) async fn post(
        &self,
        url: &Url,
        mut headers: HeaderMap,
        message: &Raw,
        waiting: Waiting<'_>,
    ) -> Result<Answer, HttpFault> {
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(ACCEPT, JSON_OR_EVENTS);
        self.send(headers, waiting, None, |headers| self.post_once(url, headers, message)).await
    }

    async fn post_once(
        &self,
        url: &Url,
        headers: HeaderMap,
        message: &Raw,
    ) -> Result<Answer, HttpFault> {
        let body = Bytes::from_owner(Shared(message.clone()));
        if let Some(lanes) = &self.lanes {
            return post_plainly(lanes, url, &headers, body).await;
        }
        let request = self.client.post(url.clone()).headers(headers).body(body);
        // What is large and rare does not make every call large.
        Box::pin(request.send()).await.map(Answer::Pooled).map_err(HttpFault::network)
    }

    /// Keeps the connections in order, for ever.
    pub(super) async fn tidy(&self) {
        match &self.lanes {
            Some(lanes) => lanes.tidy().await,
            None => std::future::pending().await,
        }
    }

    /// Asks for a stream of events. Some servers send nothing at all, not even the head, before the first one.
    pub(super) async fn get_events(&self, mut headers: HeaderMap) -> Result<Answer, HttpFault> {
        headers.insert(ACCEPT, EVENTS);
        let ask = async |headers| {
            let request = self.client.get(self.url().clone()).headers(headers);
            request.send().await.map(Answer::Pooled).map_err(HttpFault::network)
        };
        let response = self.send(headers, Waiting::NOBODY, self.silence, ask).await?;
        match Content::of(&response) {
            _ if !response.status().is_success() => Ok(response),
            Content::Events => Ok(response),
            Content::Other(found) => Err(HttpFault::ContentType(found)),
            Content::Json | Content::Nothing => Err(HttpFault::ContentType(String::new())),
        }
    }

    async fn send<F>(
        &self,
        headers: HeaderMap,
        waiting: Waiting<'_>,
        silence: Option<Duration>,
        attempt: impl Fn(HeaderMap) -> F,
    ) -> Result<Answer, HttpFault>
    where
        F: Future<Output = Result<Answer, HttpFault>>,
    {
        match &self.target.tokens {
            None => self.send_once(attempt(headers), waiting, silence).await,
            Some(tokens) => {
                let sent = self.send_with(&**tokens, headers, waiting, silence, attempt);
                Box::pin(sent).await
            }
        }
    }

    /// Sends a request with the token of the moment; where it is refused, with another one. What is refused has had
    /// no effect, so it may be sent again.
    async fn send_with<F>(
        &self,
        tokens: &dyn Tokens,
        headers: HeaderMap,
        waiting: Waiting<'_>,
        silence: Option<Duration>,
        attempt: impl Fn(HeaderMap) -> F,
    ) -> Result<Answer, HttpFault>
    where
        F: Future<Output = Result<Answer, HttpFault>>,
    {
        let mut token = token(tokens, waiting).await?;
        for _ in 1..TRIES {
            let sent = attempt(with(tokens, &headers, token.as_ref())?);
            let sent = self.send_once(sent, waiting, silence).await?;
            if !matches!(sent.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
                return Ok(sent);
            }
            let denial = Denial::of(sent.status().as_u16(), sent.headers());
            let instead = tokens.instead(token.as_ref(), &denial);
            match waiting.while_standing(instead).await.map_err(HttpFault::NoToken)? {
                Some(instead) => token = Some(instead),
                None => return Ok(sent),
            }
        }
        self.send_once(attempt(with(tokens, &headers, token.as_ref())?), waiting, silence).await
    }

    async fn send_once(
        &self,
        sent: impl Future<Output = Result<Answer, HttpFault>>,
        waiting: Waiting<'_>,
        silence: Option<Duration>,
    ) -> Result<Answer, HttpFault> {
        let sent = async { unless_silent(silence, sent).await? };
        match waiting.is_connecting {
            true => Box::pin(self.while_connecting(sent)).await,
            false => sent.await,
        }
    }

    /// A plain question, which needs no credentials.
    pub(super) async fn get(&self, url: Url) -> Result<Answer, HttpFault> {
        self.client.get(url).send().await.map(Answer::Pooled).map_err(HttpFault::network)
    }

    pub(super) async fn delete(&self, headers: HeaderMap) -> Result<StatusCode, HttpFault> {
        let ask = async |headers| {
            let request = self.client.request(Method::DELETE, self.url().clone()).headers(headers);
            request.send().await.map(Answer::Pooled).map_err(HttpFault::network)
        };
        Ok(self.send(headers, Waiting::NOBODY, None, ask).await?.status())
    }

    /// Fails if the work is not done in the time that connecting may take.
    pub(super) async fn while_connecting<T>(
        &self,
        work: impl Future<Output = Result<T, HttpFault>>,
    ) -> Result<T, HttpFault> {
        within(self.connect_timeout, work).await
    }

    pub(super) fn body(&self, answer: Answer) -> Body {
        Body { answer, silence: self.silence }
    }
}

impl Answer {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Pooled(response) => response.status(),
            Self::Driven(driven) => driven.0.status,
        }
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        match self {
            Self::Pooled(response) => response.headers(),
            Self::Driven(driven) => &driven.0.headers,
        }
    }

    /// How long it is, where the server has said so.
    fn announced(&self) -> Option<u64> {
        match self {
            Self::Pooled(response) => response.content_length(),
            Self::Driven(driven) => driven.1.announced(),
        }
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, HttpFault> {
        match self {
            Self::Pooled(response) => response.chunk().await.map_err(HttpFault::network),
            Self::Driven(driven) => {
                driven.1.chunk().await.map_err(|error| HttpFault::Network(Arc::new(error)))
            }
        }
    }
}

impl<'a> Waiting<'a> {
    pub(super) const NOBODY: Self = Self { request: None, is_connecting: false };

    pub(super) fn for_answer(inbox: &'a mpsc::Sender<Incoming>, id: &'a Id) -> Self {
        Self { request: Some((inbox, id)), is_connecting: false }
    }

    pub(super) fn while_connecting(self, is_connecting: bool) -> Self {
        Self { is_connecting, ..self }
    }

    /// The time that a token takes is not the request's.
    async fn while_standing<T>(self, work: impl Future<Output = T>) -> T {
        self.say(true).await;
        let done = work.await;
        self.say(false).await;
        done
    }

    async fn say(self, stands: bool) {
        if let Some((inbox, id)) = self.request {
            // What nobody takes any more is dropped.
            let _ = inbox.send(Incoming::Standing { request: id.clone(), stands }).await;
        }
    }
}

async fn token(tokens: &dyn Tokens, waiting: Waiting<'_>) -> Result<Option<Hidden>, HttpFault> {
    match tokens.at_hand() {
        Some(token) => Ok(token),
        None => waiting.while_standing(tokens.token()).await.map_err(HttpFault::NoToken),
    }
}

fn with(
    tokens: &dyn Tokens,
    headers: &HeaderMap,
    token: Option<&Hidden>,
) -> Result<HeaderMap, HttpFault> {
    let mut headers = headers.clone();
    if let Some(token) = token {
        tokens.put(&mut headers, token)?;
    }
    Ok(headers)
}

impl Body {
    /// The next piece; none at the end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, HttpFault> {
        unless_silent(self.silence, self.answer.chunk()).await?
    }

    pub(super) async fn whole(mut self, limit: usize) -> Result<Vec<u8>, HttpFault> {
        let announced = self.answer.announced().and_then(|size| usize::try_from(size).ok());
        let mut body = Vec::with_capacity(announced.unwrap_or(0).min(ANNOUNCED.min(limit)));
        while let Some(chunk) = self.chunk().await? {
            if body.len() + chunk.len() > limit {
                return Err(HttpFault::TooLarge { limit });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// Reads what is not wanted: a connection on which nothing is left can be used again, so its end is waited for.
    pub(super) async fn finish(self) {
        let _ = timeout(LINGER, self.beginning()).await;
    }

    /// The body of a refusal, as far as it is worth reading.
    pub(super) async fn beginning(mut self) -> Vec<u8> {
        let mut body = Vec::new();
        while let Ok(Some(chunk)) = self.chunk().await {
            body.extend_from_slice(&chunk);
            if body.len() > REFUSAL {
                break;
            }
        }
        body
    }
}

impl Content {
    pub(super) fn of(response: &Answer) -> Self {
        if matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Self::Nothing;
        }
        let named = response.headers().get(CONTENT_TYPE);
        let named = named.and_then(|value| value.to_str().ok()).unwrap_or_default();
        match named.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "application/json" => Self::Json,
            "text/event-stream" => Self::Events,
            "" if response.announced() == Some(0) => Self::Nothing,
            _ => Self::Other(named.to_owned()),
        }
    }
}

pub(super) fn put(headers: &mut HeaderMap, header: &Header) -> Result<(), HttpFault> {
    let refused = || HttpFault::BadHeader(header.name.clone().into_owned());
    let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| refused())?;
    let value = HeaderValue::from_str(&header.value).map_err(|_| refused())?;
    headers.insert(name, value);
    Ok(())
}

/// The beginning of what a server said beside a status, where it is text.
pub(super) fn excerpt(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let plain: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = plain.chars().filter(|c| !c.is_control()).take(EXCERPT).collect();
    (!short.is_empty()).then_some(short)
}

async fn unless_silent<F: Future>(
    silence: Option<Duration>,
    work: F,
) -> Result<F::Output, HttpFault> {
    match silence {
        Some(limit) => timeout(limit, work).await.map_err(|_| HttpFault::Silent(limit)),
        None => Ok(work.await),
    }
}

fn limit(time: Duration) -> Option<Duration> {
    (!time.is_zero()).then_some(time)
}

async fn post_plainly(
    lanes: &Lanes,
    url: &Url,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Answer, HttpFault> {
    let mut url = Cow::Borrowed(url);
    let mut followed = 0;
    loop {
        let posted = lanes.post(&url, headers.clone(), body.clone()).await;
        let (head, rest) = posted.map_err(|error| HttpFault::Network(error.into()))?;
        match moved(&url, head.status, &head.headers).filter(|_| followed < REDIRECTS) {
            Some(to) => url = Cow::Owned(to),
            None => return Ok(Answer::Driven(Box::new((head, rest)))),
        }
        followed += 1;
    }
}

/// Where a request is to be made again, if it may be.
fn moved(from: &Url, status: StatusCode, headers: &HeaderMap) -> Option<Url> {
    let location = headers.get(LOCATION).filter(|_| keeps(status))?;
    let to = from.join(location.to_str().ok()?).ok()?;
    (to.origin() == from.origin()).then_some(to)
}

/// Whether a redirect keeps method and body.
fn keeps(status: StatusCode) -> bool {
    matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT)
}

/// Follows only redirects that keep method and body, and only within the origin: no header goes elsewhere.
fn same_origin() -> Policy {
    Policy::custom(|attempt| {
        let here = attempt.previous().last().map(Url::origin);
        let followed = attempt.previous().len() <= REDIRECTS;
        if keeps(attempt.status()) && followed && here == Some(attempt.url().origin()) {
            attempt.follow()
        } else {
            attempt.stop()
        }
    })
}

/// A message as a body, without a copy of its own.
struct Shared(Raw);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}
