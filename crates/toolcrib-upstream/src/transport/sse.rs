//! HTTP+SSE, the transport of 2024-11-05: one event stream from the server, one POST per message to it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::HeaderMap;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use toolcrib_config::model::transport::Remote;
use toolcrib_wire::{Channel, Id, MessageLimits, method};

use super::event_stream::{EventStream, StreamCursor, parse_event};
use super::http_client::{HTTP_SCHEMES, HttpClient, PostRequest, insert_header};
use super::http_fault::HttpFault;
use super::link::{
    CloseReason, Incoming, Link, LinkInfo, Outgoing, OutgoingKind, OutgoingMessage, TransportSide,
};
use super::open::{OpenContext, OpenError};
use super::remote_target::{RemoteTarget, redact_url};
use super::request_waiter::RequestWaiter;

/// Most concurrent POSTs.
const MAX_CONCURRENT_POSTS: usize = 64;

/// Limit of one POST.
const POST_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) async fn open(remote: &Remote, context: &OpenContext<'_>) -> Result<Link, OpenError> {
    let http =
        Arc::new(HttpClient::new(RemoteTarget::resolve(remote, HTTP_SCHEMES, context)?, context)?);
    let connected = connect(&http).await;
    let (events, endpoint) = connected
        .map_err(|fault| OpenError::Connect(fault.into_link_fault("open the server's stream")))?;
    let info = LinkInfo::new(Channel::Shared);
    Ok(Link::start(info, |ends| run_link(ends, http, events, endpoint)))
}

/// Opens the stream and waits for the endpoint of the messages.
async fn connect(http: &HttpClient) -> Result<(EventStream, Url), HttpFault> {
    let waiter = RequestWaiter::NONE.with_limit(http.connect_timeout);
    let response = http.open_event_stream(http.headers(), waiter).await?;
    if !response.status().is_success() {
        return Err(http.read_refusal(response, false).await);
    }
    let events =
        EventStream::new(http.response_body(response), http.limits, StreamCursor::default());
    http.with_connect_timeout(wait_for_endpoint(http, events)).await
}

async fn wait_for_endpoint(
    http: &HttpClient,
    mut events: EventStream,
) -> Result<(EventStream, Url), HttpFault> {
    loop {
        match events.next().await? {
            Some(Ok(event)) if event.event.as_deref() == Some("endpoint") => {
                let endpoint = resolve_endpoint(http.url(), &String::from_utf8_lossy(&event.data))?;
                return Ok((events, endpoint));
            }
            Some(_) => {}
            None => return Err(HttpFault::NoResponse),
        }
    }
}

/// Accepts only endpoints in the configured origin, because messages carry credentials.
fn resolve_endpoint(url: &Url, named: &str) -> Result<Url, HttpFault> {
    let found = url.join(named.trim()).ok().filter(|found| found.origin() == url.origin());
    found.ok_or_else(|| HttpFault::ForeignEndpoint(redact_url(named)))
}

async fn run_link(
    mut ends: TransportSide,
    http: Arc<HttpClient>,
    events: EventStream,
    endpoint: Url,
) {
    let mut reading = JoinSet::new();
    reading.spawn(forward_events(events, http.limits, ends.incoming.clone()));
    let mut posts = PostQueue {
        http,
        endpoint: Arc::new(endpoint),
        incoming: ends.incoming.clone(),
        running: JoinSet::new(),
        requests: HashMap::new(),
        is_initializing: false,
    };
    let reason = loop {
        tokio::select! {
            Ok(grace) = &mut ends.close_requested => {
                let _ = timeout(grace, posts.flush(&mut ends.outgoing)).await;
                break CloseReason::HostClosed;
            }
            Some(ended) = reading.join_next() => break ended.unwrap_or(CloseReason::StreamEnded),
            Some(done) = posts.running.join_next() => posts.finish_post(done),
            Some(next) = ends.outgoing.recv(), if posts.has_room() => posts.start(next),
            () = posts.http.close_idle_connections() => {}
        }
    };
    posts.running.shutdown().await;
    TransportSide::report_closed(&ends.incoming, reason).await;
}

async fn forward_events(
    mut events: EventStream,
    limits: MessageLimits,
    inbox: mpsc::Sender<Incoming>,
) -> CloseReason {
    loop {
        match events.next().await {
            Ok(Some(event)) => {
                if let Some(item) = parse_event(event, None, &limits) {
                    // Dropped if the inbox is gone.
                    let _ = inbox.send(item).await;
                }
            }
            Ok(None) => return CloseReason::StreamEnded,
            Err(fault) => {
                return CloseReason::Broken(fault.into_link_fault("read the server's stream"));
            }
        }
    }
}

/// The POSTs in progress. Each is a task, so that none waits for another.
struct PostQueue {
    http: Arc<HttpClient>,
    endpoint: Arc<Url>,
    incoming: mpsc::Sender<Incoming>,
    running: JoinSet<IsInitialized>,
    /// Requests in progress. Their sender is dropped when the server has accepted the request.
    requests: HashMap<Id, watch::Receiver<()>>,
    /// `notifications/initialized` is being sent, and no message may overtake it.
    is_initializing: IsInitialized,
}

type IsInitialized = bool;

impl PostQueue {
    fn has_room(&self) -> bool {
        !self.is_initializing && self.running.len() < MAX_CONCURRENT_POSTS
    }

    fn start(&mut self, next: Outgoing) {
        // An abandoned request needs no action, since its response has no stream of its own.
        let Outgoing::Message(message) = next else { return };
        let is_initialized = matches!(&message.kind, OutgoingKind::Notification { method } if &**method == method::INITIALIZED);
        self.is_initializing |= is_initialized;
        let (http, endpoint) = (Arc::clone(&self.http), Arc::clone(&self.endpoint));
        let inbox = self.incoming.clone();
        let arrives = self.track_request(&message);
        let mut cancelled = message.cancelled_request().and_then(|id| self.requests.remove(&id));
        self.running.spawn(async move {
            let _arrives = arrives;
            if let Some(cancelled) = &mut cancelled {
                // An error means that the request was delivered or has failed.
                let _ = cancelled.changed().await;
            }
            let waiter = match &message.kind {
                OutgoingKind::Request { id, .. } => RequestWaiter::for_request(&inbox, id),
                OutgoingKind::Notification { .. } | OutgoingKind::Response => RequestWaiter::NONE,
            };
            if let Err(fault) = post_message(&http, &endpoint, &message, waiter).await {
                report_failure(&http, fault, message.kind, &inbox).await;
            }
            is_initialized
        });
    }

    fn track_request(&mut self, message: &OutgoingMessage) -> Option<watch::Sender<()>> {
        let OutgoingKind::Request { id, .. } = &message.kind else { return None };
        self.requests.retain(|_, arrives| arrives.has_changed().is_ok());
        let (arrives, arrived) = watch::channel(());
        self.requests.insert(id.clone(), arrived);
        Some(arrives)
    }

    fn finish_post(&mut self, done: Result<IsInitialized, JoinError>) {
        if done.unwrap_or(true) {
            self.is_initializing = false;
        }
    }

    /// Sends queued messages and waits until the server has accepted them.
    async fn flush(&mut self, outgoing: &mut mpsc::Receiver<Outgoing>) {
        outgoing.close();
        loop {
            while self.has_room()
                && let Ok(next) = outgoing.try_recv()
            {
                self.start(next);
            }
            match self.running.join_next().await {
                Some(done) => self.finish_post(done),
                None => return,
            }
        }
    }
}

async fn post_message(
    http: &HttpClient,
    endpoint: &Url,
    message: &OutgoingMessage,
    waiter: RequestWaiter<'_>,
) -> Result<(), HttpFault> {
    let template = http.request_template(endpoint, http.headers());
    let mut headers = HeaderMap::new();
    for header in &message.headers {
        insert_header(&mut headers, header)?;
    }
    let post = PostRequest { url: endpoint, template: &template, headers, message: &message.raw };
    let response = http.post(post, waiter.with_limit(POST_TIMEOUT)).await?;
    if response.status().is_success() {
        http.response_body(response).drain().await;
        return Ok(());
    }
    Err(http.read_refusal(response, false).await)
}

async fn report_failure(
    http: &HttpClient,
    fault: HttpFault,
    what: OutgoingKind,
    inbox: &mpsc::Sender<Incoming>,
) {
    match what {
        OutgoingKind::Request { id, .. } => {
            let fault = fault.into_link_fault("send to the server");
            // Dropped if the inbox is gone.
            let _ = inbox.send(Incoming::Failed { request: id, fault }).await;
        }
        OutgoingKind::Notification { .. } | OutgoingKind::Response => http.log_undelivered(&fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_must_be_in_configured_origin() {
        let url = Url::parse("http://a.example:1/sse").unwrap();
        for (named, expected) in [
            ("/messages?sessionId=1", Some("http://a.example:1/messages?sessionId=1")),
            ("messages", Some("http://a.example:1/messages")),
            ("?id=1", Some("http://a.example:1/sse?id=1")),
            ("http://a.example:1/x", Some("http://a.example:1/x")),
            ("http://a.example:2/x", None),
            ("https://a.example:1/x", None),
            ("//b.example/x", None),
            ("http://a.example:1@b.example/x", None),
        ] {
            let found = resolve_endpoint(&url, named).ok();
            assert_eq!(found.as_ref().map(Url::as_str), expected, "{named}");
        }
    }
}
