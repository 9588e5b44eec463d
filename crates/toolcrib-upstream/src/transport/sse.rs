//! HTTP+SSE, the transport of 2024-11-05: one stream of events for all that comes, a POST for each message that goes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::HeaderMap;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use toolcrib_config::model::transport::Remote;
use toolcrib_wire::{Channel, Id, Limits, method};

use super::event_stream::{Cursor, EventStream, incoming};
use super::http::{Http, Post, SCHEMES, put};
use super::http_fault::HttpFault;
use super::link::{CloseReason, Ends, Facts, Incoming, Link, Outgoing, Outward, What};
use super::open::{OpenError, Opening};
use super::remote::{Target, without_secrets};
use super::waiting::Waiting;

/// Messages on their way at once.
const DELIVERIES: usize = 64;

/// A message that the server has not taken by then is given up.
const DELIVERY: Duration = Duration::from_secs(30);

pub(super) async fn open(remote: &Remote, opening: &Opening<'_>) -> Result<Link, OpenError> {
    let http = Arc::new(Http::new(Target::of(remote, SCHEMES, opening)?, opening)?);
    let connected = connect(&http).await;
    let (events, endpoint) = connected
        .map_err(|fault| OpenError::Connect(fault.while_doing("open the server's stream")))?;
    let facts = Facts::of(Channel::Shared);
    Ok(Link::start(facts, |ends| drive(ends, http, events, endpoint)))
}

/// Opens the stream and waits for the address that messages go to.
async fn connect(http: &Http) -> Result<(EventStream, Url), HttpFault> {
    let waiting = Waiting::NOBODY.at_most(http.connect_timeout);
    let response = http.get_events(http.headers(), waiting).await?;
    if !response.status().is_success() {
        return Err(http.refusal(response, false).await);
    }
    let events = EventStream::new(http.body(response), http.limits, Cursor::default());
    http.while_connecting(find_endpoint(http, events)).await
}

async fn find_endpoint(
    http: &Http,
    mut events: EventStream,
) -> Result<(EventStream, Url), HttpFault> {
    loop {
        match events.next().await? {
            Some(Ok(event)) if event.event.as_deref() == Some("endpoint") => {
                let endpoint = endpoint(http.url(), &String::from_utf8_lossy(&event.data))?;
                return Ok((events, endpoint));
            }
            Some(_) => {}
            None => return Err(HttpFault::NoAnswer),
        }
    }
}

/// Messages carry credentials, so they go nowhere but to the origin that was configured.
fn endpoint(url: &Url, named: &str) -> Result<Url, HttpFault> {
    let found = url.join(named.trim()).ok().filter(|found| found.origin() == url.origin());
    found.ok_or_else(|| HttpFault::ForeignEndpoint(without_secrets(named)))
}

async fn drive(mut ends: Ends, http: Arc<Http>, events: EventStream, endpoint: Url) {
    let mut reading = JoinSet::new();
    reading.spawn(read(events, http.limits, ends.incoming.clone()));
    let mut posts = Posts {
        http,
        endpoint: Arc::new(endpoint),
        incoming: ends.incoming.clone(),
        running: JoinSet::new(),
        requests: HashMap::new(),
        opening: false,
    };
    let reason = loop {
        tokio::select! {
            Ok(grace) = &mut ends.asked => {
                let _ = timeout(grace, posts.flush(&mut ends.outgoing)).await;
                break CloseReason::Asked;
            }
            Some(ended) = reading.join_next() => break ended.unwrap_or(CloseReason::Ended),
            Some(done) = posts.running.join_next() => posts.note(done),
            Some(next) = ends.outgoing.recv(), if posts.has_room() => posts.start(next),
            () = posts.http.tidy() => {}
        }
    };
    posts.running.shutdown().await;
    Ends::say_closed(&ends.incoming, reason).await;
}

async fn read(
    mut events: EventStream,
    limits: Limits,
    inbox: mpsc::Sender<Incoming>,
) -> CloseReason {
    loop {
        match events.next().await {
            Ok(Some(event)) => {
                if let Some(item) = incoming(event, None, &limits) {
                    // What nobody takes any more is dropped.
                    let _ = inbox.send(item).await;
                }
            }
            Ok(None) => return CloseReason::Ended,
            Err(fault) => {
                return CloseReason::Broken(fault.while_doing("read the server's stream"));
            }
        }
    }
}

/// Messages on their way. Each is a task, so that none waits for another.
struct Posts {
    http: Arc<Http>,
    endpoint: Arc<Url>,
    incoming: mpsc::Sender<Incoming>,
    running: JoinSet<IsOpening>,
    /// Requests on their way; the other end goes when the server has them.
    requests: HashMap<Id, watch::Receiver<()>>,
    /// `notifications/initialized` is on its way: nothing may overtake it.
    opening: IsOpening,
}

type IsOpening = bool;

impl Posts {
    fn has_room(&self) -> bool {
        !self.opening && self.running.len() < DELIVERIES
    }

    fn start(&mut self, next: Outgoing) {
        // Nothing is done for a request that nobody waits for: its answer has no stream of its own.
        let Outgoing::Message(message) = next else { return };
        let is_opening = matches!(&message.what, What::Notification { method } if &**method == method::INITIALIZED);
        self.opening |= is_opening;
        let (http, endpoint) = (Arc::clone(&self.http), Arc::clone(&self.endpoint));
        let inbox = self.incoming.clone();
        let arrives = self.note_request(&message);
        let mut cancelled = message.cancels().and_then(|id| self.requests.remove(&id));
        self.running.spawn(async move {
            let _arrives = arrives;
            if let Some(cancelled) = &mut cancelled {
                // An error means that it has arrived, or never will.
                let _ = cancelled.changed().await;
            }
            let waiting = match &message.what {
                What::Request { id, .. } => Waiting::for_answer(&inbox, id),
                What::Notification { .. } | What::Answer => Waiting::NOBODY,
            };
            if let Err(fault) = post(&http, &endpoint, &message, waiting).await {
                report(&http, fault, message.what, &inbox).await;
            }
            is_opening
        });
    }

    fn note_request(&mut self, message: &Outward) -> Option<watch::Sender<()>> {
        let What::Request { id, .. } = &message.what else { return None };
        self.requests.retain(|_, arrives| arrives.has_changed().is_ok());
        let (arrives, arrived) = watch::channel(());
        self.requests.insert(id.clone(), arrived);
        Some(arrives)
    }

    fn note(&mut self, done: Result<IsOpening, JoinError>) {
        if done.unwrap_or(true) {
            self.opening = false;
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
            match self.running.join_next().await {
                Some(done) => self.note(done),
                None => return,
            }
        }
    }
}

async fn post(
    http: &Http,
    endpoint: &Url,
    message: &Outward,
    waiting: Waiting<'_>,
) -> Result<(), HttpFault> {
    let posting = http.posting(endpoint, http.headers());
    let mut own = HeaderMap::new();
    for header in &message.headers {
        put(&mut own, header)?;
    }
    let post = Post { url: endpoint, posting: &posting, own, message: &message.raw };
    let response = http.post(post, waiting.at_most(DELIVERY)).await?;
    if response.status().is_success() {
        http.body(response).finish().await;
        return Ok(());
    }
    Err(http.refusal(response, false).await)
}

async fn report(http: &Http, fault: HttpFault, what: What, inbox: &mpsc::Sender<Incoming>) {
    match what {
        What::Request { id, .. } => {
            let fault = fault.while_doing("send to the server");
            // What nobody takes any more is dropped.
            let _ = inbox.send(Incoming::Failed { request: id, fault }).await;
        }
        What::Notification { .. } | What::Answer => http.log_undelivered(&fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_to_the_configured_origin_or_nowhere() {
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
            let found = endpoint(&url, named).ok();
            assert_eq!(found.as_ref().map(Url::as_str), expected, "{named}");
        }
    }
}
