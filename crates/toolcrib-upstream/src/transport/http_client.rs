//! HTTP client of the HTTP transports: one pool per server, redirects only within its origin, bounded bodies.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, StatusCode, Url};
use toolcrib_config::SecretString;
use toolcrib_config::model::host::HttpMode;
use toolcrib_http::client::{BoxError, ConnectionPool, PoolOptions, RequestTemplate};
use toolcrib_wire::header::Header;
use toolcrib_wire::{MessageLimits, RawJson};

use super::http_fault::HttpFault;
use super::http_response::{HttpResponse, ResponseBody, ResponseContent, with_idle_timeout};
use super::open::{OpenContext, OpenError};
use super::remote_target::{RemoteTarget, with_timeout};
use super::request_waiter::{RequestWaiter, nonzero};
use super::tls::Tls;
use super::token_provider::{Denial, TokenProvider};
use crate::signals::SecretMask;

const AGENT_NAME: &str = concat!("toolcrib/", env!("CARGO_PKG_VERSION"));
pub(crate) const HTTP_SCHEMES: [&str; 2] = ["http", "https"];
pub(super) const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const JSON_OR_EVENT_STREAM: HeaderValue =
    HeaderValue::from_static("application/json, text/event-stream");

/// Shorter than the 5 s after which Node closes idle connections. A request that meets the close fails, and the client
/// cannot know whether the server read it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Attempts per request: with the cached token, with a renewed one, and with one of a wider scope.
const MAX_ATTEMPTS: usize = 3;

const MAX_IDLE_CONNECTIONS: usize = 64;
const MAX_REDIRECTS: usize = 5;

/// HTTP client of one server.
pub(super) struct HttpClient {
    client: Client,
    /// Plain HTTP/1.1 connections, if the URL and the HTTP mode allow them.
    pool: Option<ConnectionPool>,
    target: RemoteTarget,
    pub(super) limits: MessageLimits,
    /// Zero means no limit.
    pub(super) connect_timeout: Duration,
    idle_timeout: Option<Duration>,
    /// Masks the secrets of the server.
    mask: SecretMask,
}

/// One POST.
pub(super) struct PostRequest<'a> {
    pub(super) url: &'a Url,
    pub(super) template: &'a RequestTemplate,
    /// Headers of this request, which override those of the template.
    pub(super) headers: HeaderMap,
    pub(super) message: &'a RawJson,
}

/// One request, which may be sent more than once.
struct HttpRequest<'a> {
    method: Method,
    url: Cow<'a, Url>,
    headers: HeaderMap,
    /// Template and message of a POST.
    post: Option<(&'a RequestTemplate, &'a RawJson)>,
    /// Limit for the response head, if there is one.
    idle_timeout: Option<Duration>,
}

impl HttpClient {
    pub(super) fn new(target: RemoteTarget, context: &OpenContext<'_>) -> Result<Self, OpenError> {
        let mut tls = match target.url.scheme() {
            "https" => context.tls.config().map(|config| (*config).clone()),
            _ => Tls::without_authorities(),
        }
        .map_err(OpenError::Tls)?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut client = Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(AGENT_NAME)
            .tcp_nodelay(true)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .redirect(same_origin_policy())
            .referer(false)
            // `reqwest` would read proxy variables from the process, although the caller passes the environment
            // explicitly.
            .no_proxy();
        if let Some(limit) = nonzero(context.connect_timeout) {
            client = client.connect_timeout(limit);
        }
        let pool_options = PoolOptions {
            user_agent: AGENT_NAME,
            connect_timeout: nonzero(context.connect_timeout),
            idle_timeout: IDLE_TIMEOUT,
            max_idle: MAX_IDLE_CONNECTIONS,
        };
        Ok(Self {
            client: client.build().map_err(OpenError::Client)?,
            pool: match context.http_mode {
                HttpMode::Auto => ConnectionPool::for_plain_url(&target.url, &pool_options),
                HttpMode::Hyper => None,
            },
            target,
            limits: context.limits,
            connect_timeout: context.connect_timeout,
            idle_timeout: nonzero(context.sse_read_timeout),
            mask: context.mask.clone(),
        })
    }

    pub(super) fn mask(&self) -> &SecretMask {
        &self.mask
    }

    /// Logs that a message without a response was not delivered.
    pub(super) fn log_undelivered(&self, fault: &HttpFault) {
        let error = self.mask.mask_excerpt(fault.to_string());
        tracing::warn!(%error, "a message could not be delivered");
    }

    pub(super) fn url(&self) -> &Url {
        &self.target.url
    }

    /// Headers of every request. Headers of a single request override them.
    pub(super) fn headers(&self) -> HeaderMap {
        self.target.headers.clone()
    }

    /// Template of all POSTs to a URL.
    pub(super) fn request_template(&self, url: &Url, mut headers: HeaderMap) -> RequestTemplate {
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(ACCEPT, JSON_OR_EVENT_STREAM);
        if let Some(pool) = &self.pool {
            pool.add_common_headers(&mut headers);
        }
        RequestTemplate::new(url, headers)
    }

    pub(super) async fn post(
        &self,
        post: PostRequest<'_>,
        waiter: RequestWaiter<'_>,
    ) -> Result<HttpResponse, HttpFault> {
        let Some(pool) = self.pool.as_ref().filter(|_| self.is_plain(waiter)) else {
            return Box::pin(self.send(HttpRequest::from_post(post), waiter)).await;
        };
        // Most calls take this path. The boxed futures keep the other paths from making it larger.
        let head = post.template.head(post.url, &post.headers);
        let posted = pool.post(&head, post.message.as_bytes()).await.map_err(network_fault)?;
        let response = HttpResponse::Direct(posted.0, posted.1);
        match preserves_method(response.status()) || is_denied(&response) {
            true => {
                Box::pin(self.continue_post(pool, HttpRequest::from_post(post), response, waiter))
                    .await
            }
            false => Ok(response),
        }
    }

    /// True if a request needs neither a token nor a timeout.
    fn is_plain(&self, waiter: RequestWaiter<'_>) -> bool {
        let sends_no_token =
            |tokens: &Arc<dyn TokenProvider>| matches!(tokens.cached_token(), Some(None));
        self.target.tokens.as_ref().is_none_or(sends_no_token) && waiter.limit.is_none()
    }

    /// Handles a redirect or a denial of a POST.
    async fn continue_post(
        &self,
        pool: &ConnectionPool,
        request: HttpRequest<'_>,
        first: HttpResponse,
        waiter: RequestWaiter<'_>,
    ) -> Result<HttpResponse, HttpFault> {
        let response = follow_redirects(pool, &request, first).await?;
        match &self.target.tokens {
            Some(tokens) if is_denied(&response) => {
                self.retry_with_token(&**tokens, None, response, request, waiter).await
            }
            _ => Ok(response),
        }
    }

    /// Closes idle connections. Never returns.
    pub(super) async fn close_idle_connections(&self) {
        match &self.pool {
            Some(pool) => pool.close_idle_connections().await,
            None => std::future::pending().await,
        }
    }

    /// Opens an event stream. Some servers send not even the head before the first event.
    pub(super) async fn open_event_stream(
        &self,
        mut headers: HeaderMap,
        waiter: RequestWaiter<'_>,
    ) -> Result<HttpResponse, HttpFault> {
        headers.insert(ACCEPT, EVENT_STREAM);
        let request = HttpRequest {
            idle_timeout: self.idle_timeout,
            ..HttpRequest::new(Method::GET, self.url(), headers)
        };
        let response = self.send(request, waiter).await?;
        match ResponseContent::of_response(&response) {
            _ if !response.status().is_success() => Ok(response),
            ResponseContent::Events => Ok(response),
            ResponseContent::Other(found) => Err(HttpFault::ContentType(found)),
            ResponseContent::Json | ResponseContent::Nothing => {
                Err(HttpFault::ContentType(String::new()))
            }
        }
    }

    /// Sends a request with the current token.
    async fn send(
        &self,
        mut request: HttpRequest<'_>,
        waiter: RequestWaiter<'_>,
    ) -> Result<HttpResponse, HttpFault> {
        let Some(tokens) = &self.target.tokens else {
            return self.send_once(&request, waiter).await;
        };
        let token = match tokens.cached_token() {
            Some(token) => token,
            None => waiter.pause_while(tokens.fetch_token()).await.map_err(HttpFault::Token)?,
        };
        if let Some(token) = &token {
            self.add_token(&**tokens, token, &mut request)?;
        }
        let response = self.send_once(&request, waiter).await?;
        match is_denied(&response) {
            true => {
                Box::pin(self.retry_with_token(&**tokens, token, response, request, waiter)).await
            }
            false => Ok(response),
        }
    }

    /// Repeats a denied request with other tokens. A denied request had no effect.
    async fn retry_with_token(
        &self,
        tokens: &dyn TokenProvider,
        mut token: Option<SecretString>,
        mut response: HttpResponse,
        mut request: HttpRequest<'_>,
        waiter: RequestWaiter<'_>,
    ) -> Result<HttpResponse, HttpFault> {
        for _ in 1..MAX_ATTEMPTS {
            let denial = Denial::from_response(response.status().as_u16(), &response.headers());
            let replacement = tokens.replacement_token(token.as_ref(), &denial);
            let replacement = waiter.pause_while(replacement).await.map_err(HttpFault::Token)?;
            let Some(replacement) = replacement else { return Ok(response) };
            self.add_token(tokens, &replacement, &mut request)?;
            token = Some(replacement);
            self.response_body(response).drain().await;
            response = self.send_once(&request, waiter).await?;
            if !is_denied(&response) {
                break;
            }
        }
        Ok(response)
    }

    /// Adds a token to a request.
    fn add_token(
        &self,
        tokens: &dyn TokenProvider,
        token: &SecretString,
        request: &mut HttpRequest<'_>,
    ) -> Result<(), HttpFault> {
        tokens.insert_header(&mut request.headers, token)?;
        // A URL that the server announced is not the configured one.
        let is_configured = matches!(request.url, Cow::Owned(_)) || *request.url == self.target.url;
        let is_ours = |url: &Url| is_configured && url.origin() == self.target.url.origin();
        if let Some(url) = tokens.current_url().filter(is_ours) {
            request.url = Cow::Owned(url);
        }
        Ok(())
    }

    async fn send_once(
        &self,
        request: &HttpRequest<'_>,
        waiter: RequestWaiter<'_>,
    ) -> Result<HttpResponse, HttpFault> {
        let going =
            async { with_idle_timeout(request.idle_timeout, self.dispatch(request)).await? };
        with_timeout(waiter.limit.unwrap_or_default(), going).await
    }

    async fn dispatch(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, HttpFault> {
        match &self.pool {
            Some(pool) if request.post.is_some() => {
                let first = request.post_plain(pool, &request.url).await?;
                follow_redirects(pool, request, first).await
            }
            _ => request.send_with(&self.client).await,
        }
    }

    /// Sends a GET without credentials.
    pub(super) async fn get(&self, url: Url) -> Result<HttpResponse, HttpFault> {
        self.client.get(url).send().await.map(HttpResponse::Reqwest).map_err(HttpFault::network)
    }

    pub(super) async fn delete(&self, headers: HeaderMap) -> Result<StatusCode, HttpFault> {
        let request = HttpRequest::new(Method::DELETE, self.url(), headers);
        Ok(self.send(request, RequestWaiter::NONE).await?.status())
    }

    /// Fails if `work` exceeds the connect timeout.
    pub(super) async fn with_connect_timeout<T>(
        &self,
        work: impl Future<Output = Result<T, HttpFault>>,
    ) -> Result<T, HttpFault> {
        with_timeout(self.connect_timeout, work).await
    }

    /// Translates a response with an error status. Drains the body, so that the connection can be reused.
    pub(super) async fn read_refusal(
        &self,
        response: HttpResponse,
        had_session: bool,
    ) -> HttpFault {
        let fault = HttpFault::from_response(
            response.status(),
            &response.headers(),
            had_session,
            self.url(),
        );
        self.response_body(response).drain().await;
        fault
    }

    pub(super) fn response_body(&self, response: HttpResponse) -> ResponseBody {
        ResponseBody::new(response, self.idle_timeout)
    }
}

impl<'a> HttpRequest<'a> {
    fn new(method: Method, url: &'a Url, headers: HeaderMap) -> Self {
        Self { method, url: Cow::Borrowed(url), headers, post: None, idle_timeout: None }
    }

    fn from_post(post: PostRequest<'a>) -> Self {
        let PostRequest { url, template, headers, message } = post;
        Self { post: Some((template, message)), ..Self::new(Method::POST, url, headers) }
    }

    /// Sends the POST over a plain connection.
    async fn post_plain(
        &self,
        pool: &ConnectionPool,
        url: &Url,
    ) -> Result<HttpResponse, HttpFault> {
        let Some((template, message)) = self.post else { return Err(HttpFault::NoResponse) };
        let head = template.head(url, &self.headers);
        let posted = pool.post(&head, message.as_bytes()).await.map_err(network_fault)?;
        Ok(HttpResponse::Direct(posted.0, posted.1))
    }

    async fn send_with(&self, client: &Client) -> Result<HttpResponse, HttpFault> {
        let request = client.request(self.method.clone(), Url::clone(&self.url));
        let request = match self.post {
            None => request.headers(self.headers.clone()),
            Some((template, message)) => request
                .headers(template.headers_with(&self.headers))
                .body(Bytes::from_owner(RawBody(message.clone()))),
        };
        request.send().await.map(HttpResponse::Reqwest).map_err(HttpFault::network)
    }
}

fn is_denied(response: &HttpResponse) -> bool {
    matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

pub(super) fn insert_header(headers: &mut HeaderMap, header: &Header) -> Result<(), HttpFault> {
    let refused = || HttpFault::BadHeader(header.name.clone().into_owned());
    let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| refused())?;
    let value = HeaderValue::from_str(&header.value).map_err(|_| refused())?;
    headers.insert(name, value);
    Ok(())
}

/// Repeats a POST at the redirect target, if the redirect is allowed.
async fn follow_redirects(
    pool: &ConnectionPool,
    request: &HttpRequest<'_>,
    first: HttpResponse,
) -> Result<HttpResponse, HttpFault> {
    let (mut url, mut response) = (Cow::Borrowed(&*request.url), first);
    for _ in 0..MAX_REDIRECTS {
        let Some(to) = redirect_target(&url, &response) else { break };
        response = request.post_plain(pool, &to).await?;
        url = Cow::Owned(to);
    }
    Ok(response)
}

/// The target of a redirect that keeps method and body, within the same origin.
fn redirect_target(from: &Url, response: &HttpResponse) -> Option<Url> {
    let location = response.header(&LOCATION).filter(|_| preserves_method(response.status()))?;
    let to = from.join(location).ok()?;
    (to.origin() == from.origin()).then_some(to)
}

fn network_fault(fault: BoxError) -> HttpFault {
    HttpFault::Network(fault.into())
}

/// True if a redirect keeps method and body.
fn preserves_method(status: StatusCode) -> bool {
    matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT)
}

/// Allows only redirects that keep method and body and stay within the origin, so that no header leaves it.
fn same_origin_policy() -> Policy {
    Policy::custom(|attempt| {
        let here = attempt.previous().last().map(Url::origin);
        let followed = attempt.previous().len() <= MAX_REDIRECTS;
        if preserves_method(attempt.status()) && followed && here == Some(attempt.url().origin()) {
            attempt.follow()
        } else {
            attempt.stop()
        }
    })
}

/// Lets `reqwest` send a message without copying it.
struct RawBody(RawJson);

impl AsRef<[u8]> for RawBody {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}
