//! The HTTP client under two transports: one pool for each server, redirects only within its origin, bounded bodies.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, StatusCode, Url};
use toolcrib_config::Hidden;
use toolcrib_wire::header::Header;
use toolcrib_wire::{Limits, Raw};

use super::answer::{Answer, Body, Content, unless_silent};
use super::http_fault::HttpFault;
use super::lane::Fault;
use super::lanes::Lanes;
use super::open::{OpenError, Opening};
use super::posting::Posting;
use super::remote::{Target, within};
use super::tls::Tls;
use super::tokens::{Denial, Tokens};
use super::waiting::{Waiting, limit};
use crate::signals::SecretMask;

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

/// Requests to one server.
pub(super) struct Http {
    client: Client,
    /// Where a plain connection is enough.
    lanes: Option<Lanes>,
    target: Target,
    pub(super) limits: Limits,
    /// Zero means without limit.
    pub(super) connect_timeout: Duration,
    silence: Option<Duration>,
    /// Masks the secrets that the server is given.
    mask: SecretMask,
}

/// Something to be posted.
pub(super) struct Post<'a> {
    pub(super) url: &'a Url,
    pub(super) posting: &'a Posting,
    /// Headers of its own, which are set over the common ones.
    pub(super) own: HeaderMap,
    pub(super) message: &'a Raw,
}

/// One request, which may be sent more than once.
struct Ask<'a> {
    method: Method,
    url: Cow<'a, Url>,
    headers: HeaderMap,
    /// What is posted, and what it has in common with all that is: more headers, for one.
    posts: Option<(&'a Posting, &'a Raw)>,
    /// How long the head of its answer may take, where that is bounded.
    silence: Option<Duration>,
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
            mask: opening.mask.clone(),
        })
    }

    pub(super) fn mask(&self) -> &SecretMask {
        &self.mask
    }

    /// Logs that a message without an answer was not taken.
    pub(super) fn log_undelivered(&self, fault: &HttpFault) {
        let error = self.mask.mask_excerpt(fault.to_string());
        tracing::warn!(%error, "a message could not be delivered");
    }

    pub(super) fn url(&self) -> &Url {
        &self.target.url
    }

    /// The headers of every request; those of a single one are set over them.
    pub(super) fn headers(&self) -> HeaderMap {
        self.target.headers.clone()
    }

    /// The same for whatever is posted there, once for many requests.
    pub(super) fn posting(&self, url: &Url, mut headers: HeaderMap) -> Posting {
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(ACCEPT, JSON_OR_EVENTS);
        if let Some(lanes) = &self.lanes {
            lanes.dress(&mut headers);
        }
        Posting::to(url, headers)
    }

    pub(super) async fn post(
        &self,
        post: Post<'_>,
        waiting: Waiting<'_>,
    ) -> Result<Answer, HttpFault> {
        let Some(lanes) = self.lanes.as_ref().filter(|_| self.needs_nothing(waiting)) else {
            return Box::pin(self.send(Ask::of(post), waiting)).await;
        };
        // Most calls go this way, so it is short, and what the others need does not make it larger.
        let head = post.posting.head(post.url, &post.own);
        let answer = lanes.post(&head, post.message.as_bytes()).await.map_err(broken)?;
        match keeps(answer.status()) || is_denied(&answer) {
            true => Box::pin(self.go_on(lanes, Ask::of(post), answer, waiting)).await,
            false => Ok(answer),
        }
    }

    /// Whether a request goes as it is: no token is shown, and nobody looks at the clock.
    fn needs_nothing(&self, waiting: Waiting<'_>) -> bool {
        let shows_none = |tokens: &Arc<dyn Tokens>| matches!(tokens.at_hand(), Some(None));
        self.target.tokens.as_ref().is_none_or(shows_none) && waiting.limit.is_none()
    }

    /// What becomes of a request that is not simply answered.
    async fn go_on(
        &self,
        lanes: &Lanes,
        ask: Ask<'_>,
        first: Answer,
        waiting: Waiting<'_>,
    ) -> Result<Answer, HttpFault> {
        let answer = follow(lanes, &ask, first).await?;
        match &self.target.tokens {
            Some(tokens) if is_denied(&answer) => {
                self.send_again(&**tokens, None, answer, ask, waiting).await
            }
            _ => Ok(answer),
        }
    }

    /// Keeps the connections in order, for ever.
    pub(super) async fn tidy(&self) {
        match &self.lanes {
            Some(lanes) => lanes.tidy().await,
            None => std::future::pending().await,
        }
    }

    /// Asks for a stream of events. Some servers send nothing at all, not even the head, before the first one.
    pub(super) async fn get_events(
        &self,
        mut headers: HeaderMap,
        waiting: Waiting<'_>,
    ) -> Result<Answer, HttpFault> {
        headers.insert(ACCEPT, EVENTS);
        let ask = Ask { silence: self.silence, ..Ask::new(Method::GET, self.url(), headers) };
        let response = self.send(ask, waiting).await?;
        match Content::of(&response) {
            _ if !response.status().is_success() => Ok(response),
            Content::Events => Ok(response),
            Content::Other(found) => Err(HttpFault::ContentType(found)),
            Content::Json | Content::Nothing => Err(HttpFault::ContentType(String::new())),
        }
    }

    /// Sends a request with the token of the moment.
    async fn send(&self, mut ask: Ask<'_>, waiting: Waiting<'_>) -> Result<Answer, HttpFault> {
        let Some(tokens) = &self.target.tokens else { return self.send_once(&ask, waiting).await };
        let token = match tokens.at_hand() {
            Some(token) => token,
            None => waiting.while_standing(tokens.token()).await.map_err(HttpFault::NoToken)?,
        };
        if let Some(token) = &token {
            self.show(&**tokens, token, &mut ask)?;
        }
        let answer = self.send_once(&ask, waiting).await?;
        match is_denied(&answer) {
            true => Box::pin(self.send_again(&**tokens, token, answer, ask, waiting)).await,
            false => Ok(answer),
        }
    }

    /// Sends a request that was denied with other tokens. What is denied has had no effect, so it may be sent again.
    async fn send_again(
        &self,
        tokens: &dyn Tokens,
        mut token: Option<Hidden>,
        mut answer: Answer,
        mut ask: Ask<'_>,
        waiting: Waiting<'_>,
    ) -> Result<Answer, HttpFault> {
        for _ in 1..TRIES {
            let denial = Denial::of(answer.status().as_u16(), &answer.headers());
            let instead = tokens.instead(token.as_ref(), &denial);
            let instead = waiting.while_standing(instead).await.map_err(HttpFault::NoToken)?;
            let Some(instead) = instead else { return Ok(answer) };
            self.show(tokens, &instead, &mut ask)?;
            token = Some(instead);
            self.body(answer).finish().await;
            answer = self.send_once(&ask, waiting).await?;
            if !is_denied(&answer) {
                break;
            }
        }
        Ok(answer)
    }

    /// Dresses a request with a token.
    fn show(
        &self,
        tokens: &dyn Tokens,
        token: &Hidden,
        ask: &mut Ask<'_>,
    ) -> Result<(), HttpFault> {
        tokens.put(&mut ask.headers, token)?;
        // One that the server has named itself is not the configured one.
        let is_configured = matches!(ask.url, Cow::Owned(_)) || *ask.url == self.target.url;
        let is_ours = |url: &Url| is_configured && url.origin() == self.target.url.origin();
        if let Some(url) = tokens.address().filter(is_ours) {
            ask.url = Cow::Owned(url);
        }
        Ok(())
    }

    async fn send_once(&self, ask: &Ask<'_>, waiting: Waiting<'_>) -> Result<Answer, HttpFault> {
        let going = async { unless_silent(ask.silence, self.go(ask)).await? };
        within(waiting.limit.unwrap_or_default(), going).await
    }

    async fn go(&self, ask: &Ask<'_>) -> Result<Answer, HttpFault> {
        match &self.lanes {
            Some(lanes) if ask.posts.is_some() => {
                let first = ask.plainly(lanes, &ask.url).await?;
                follow(lanes, ask, first).await
            }
            _ => ask.over(&self.client).await,
        }
    }

    /// A plain question, which needs no credentials.
    pub(super) async fn get(&self, url: Url) -> Result<Answer, HttpFault> {
        self.client.get(url).send().await.map(Answer::Pooled).map_err(HttpFault::network)
    }

    pub(super) async fn delete(&self, headers: HeaderMap) -> Result<StatusCode, HttpFault> {
        let ask = Ask::new(Method::DELETE, self.url(), headers);
        Ok(self.send(ask, Waiting::NOBODY).await?.status())
    }

    /// Fails if the work is not done in the time that connecting may take.
    pub(super) async fn while_connecting<T>(
        &self,
        work: impl Future<Output = Result<T, HttpFault>>,
    ) -> Result<T, HttpFault> {
        within(self.connect_timeout, work).await
    }

    /// What an answer without success means. It is read as far as that gives its connection back.
    pub(super) async fn refusal(&self, answer: Answer, had_session: bool) -> HttpFault {
        let fault = HttpFault::of(answer.status(), &answer.headers(), had_session, self.url());
        self.body(answer).finish().await;
        fault
    }

    pub(super) fn body(&self, answer: Answer) -> Body {
        Body::new(answer, self.silence)
    }
}

impl<'a> Ask<'a> {
    fn new(method: Method, url: &'a Url, headers: HeaderMap) -> Self {
        Self { method, url: Cow::Borrowed(url), headers, posts: None, silence: None }
    }

    fn of(post: Post<'a>) -> Self {
        let posts = Some((post.posting, post.message));
        Self { posts, ..Self::new(Method::POST, post.url, post.own) }
    }

    /// Posts over a plain connection.
    async fn plainly(&self, lanes: &Lanes, url: &Url) -> Result<Answer, HttpFault> {
        let Some((posting, message)) = self.posts else { return Err(HttpFault::NoAnswer) };
        let head = posting.head(url, &self.headers);
        lanes.post(&head, message.as_bytes()).await.map_err(broken)
    }

    async fn over(&self, client: &Client) -> Result<Answer, HttpFault> {
        let request = client.request(self.method.clone(), Url::clone(&self.url));
        let request = match self.posts {
            None => request.headers(self.headers.clone()),
            Some((posting, message)) => request
                .headers(posting.headers(&self.headers))
                .body(Bytes::from_owner(Shared(message.clone()))),
        };
        request.send().await.map(Answer::Pooled).map_err(HttpFault::network)
    }
}

fn is_denied(answer: &Answer) -> bool {
    matches!(answer.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

pub(super) fn put(headers: &mut HeaderMap, header: &Header) -> Result<(), HttpFault> {
    let refused = || HttpFault::BadHeader(header.name.clone().into_owned());
    let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| refused())?;
    let value = HeaderValue::from_str(&header.value).map_err(|_| refused())?;
    headers.insert(name, value);
    Ok(())
}

/// Posts again where the server wants it instead, as long as that may be.
async fn follow(lanes: &Lanes, ask: &Ask<'_>, first: Answer) -> Result<Answer, HttpFault> {
    let (mut url, mut answer) = (Cow::Borrowed(&*ask.url), first);
    for _ in 0..REDIRECTS {
        let Some(to) = moved(&url, &answer) else { break };
        answer = ask.plainly(lanes, &to).await?;
        url = Cow::Owned(to);
    }
    Ok(answer)
}

/// Where a request is to be made again, if it may be.
fn moved(from: &Url, answer: &Answer) -> Option<Url> {
    let location = answer.header(&LOCATION).filter(|_| keeps(answer.status()))?;
    let to = from.join(location).ok()?;
    (to.origin() == from.origin()).then_some(to)
}

fn broken(fault: Fault) -> HttpFault {
    HttpFault::Network(fault.into())
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
