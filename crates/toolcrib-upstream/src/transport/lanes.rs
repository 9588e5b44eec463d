//! The plain HTTP connections to one server: those that nobody uses wait for the next request, for a while.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use reqwest::header::{HOST, HeaderMap, HeaderValue, USER_AGENT};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tower::Service;
use url::{Position, Url};

use super::answer::Answer;
use super::http::{AGENT, IDLE, IDLE_CONNECTIONS};
use super::lane::{Failed, Fault, Lane, Rest, SMALL, Sending};
use super::posting::LastLine;
use crate::burst::Burst;

pub(super) struct Lanes {
    connector: HttpConnector,
    origin: String,
    host: HeaderValue,
    idle: Arc<Idle>,
}

/// Connections that nobody uses, the newest last.
#[derive(Default)]
pub(super) struct Idle {
    lanes: Mutex<Vec<(Lane, Instant)>>,
    returned: Notify,
}

impl Lanes {
    /// None where more is needed than a plain connection.
    pub(super) fn to(url: &Url, connect_timeout: Option<Duration>) -> Option<Self> {
        let is_plain = url.scheme() == "http" && url.username().is_empty();
        if !is_plain || url.password().is_some() {
            return None;
        }
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(connect_timeout);
        Some(Lanes {
            connector,
            origin: url[..Position::BeforePath].to_owned(),
            host: HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort]).ok()?,
            idle: Arc::default(),
        })
    }

    /// What every request has to say besides: nothing adds it on the way.
    pub(super) fn dress(&self, headers: &mut HeaderMap) {
        headers.insert(HOST, self.host.clone());
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
    }

    /// Posts once. The head is that of a [`Posting`](super::posting::Posting).
    pub(super) async fn post(&self, head: &[u8], body: &[u8]) -> Result<Answer, Fault> {
        let last_line = LastLine::of(body.len());
        let parts = [head, last_line.text(), body];
        // What is small is cheaper copied than gathered by the system; in a burst it is copied anyway.
        let is_small = parts.iter().map(|part| part.len()).sum::<usize>() <= SMALL;
        let is_joined = is_small && !Burst::is_here();
        let joined = if is_joined { parts.concat() } else { Vec::new() };
        let mut sending = Sending::of(if is_joined { [&*joined, &[], &[]] } else { parts });
        loop {
            let (mut lane, is_new) = match self.idle.take() {
                Some(lane) => (lane, false),
                None => (Box::pin(self.connect()).await?, true),
            };
            match lane.ask(&mut sending).await {
                Ok(head) => {
                    let rest = Rest::of(lane, &head, &sending, &self.idle);
                    return Ok(Answer::Driven(head, rest));
                }
                // The server has closed it meanwhile.
                Err(Failed::Unsent(_)) if !is_new => {}
                Err(Failed::Unsent(fault) | Failed::Lost(fault)) => return Err(fault),
            }
        }
    }

    async fn connect(&self) -> Result<Lane, Fault> {
        let mut connector = self.connector.clone();
        poll_fn(|cx| connector.poll_ready(cx)).await?;
        let stream = connector.call(self.origin.parse()?).await?;
        Ok(Lane::over(stream.into_inner()))
    }

    /// Closes what was idle for too long, for ever.
    pub(super) async fn tidy(&self) {
        loop {
            match self.idle.oldest() {
                Some(since) => {
                    sleep_until(since + IDLE).await;
                    self.idle.close_old();
                }
                None => self.idle.returned.notified().await,
            }
        }
    }
}

impl Idle {
    /// The newest that is still open, of those that this thread would be woken for.
    fn take(&self) -> Option<Lane> {
        let here = Handle::current().id();
        let mut lanes = self.lanes();
        loop {
            let newest = lanes.iter().rposition(|(lane, _)| lane.home == here)?;
            let (lane, since) = lanes.remove(newest);
            if since.elapsed() >= IDLE {
                return None;
            }
            if lane.is_open() {
                return Some(lane);
            }
        }
    }

    pub(super) fn put(&self, lane: Lane) {
        let mut lanes = self.lanes();
        if lanes.len() >= IDLE_CONNECTIONS {
            // It may be of a thread that has not called for long.
            lanes.remove(0);
        }
        lanes.push((lane, Instant::now()));
        let is_first = lanes.len() == 1;
        drop(lanes);
        if is_first {
            self.returned.notify_one();
        }
    }

    fn oldest(&self) -> Option<Instant> {
        self.lanes().first().map(|(_, since)| *since)
    }

    fn close_old(&self) {
        self.lanes().retain(|(_, since)| since.elapsed() < IDLE);
    }

    fn lanes(&self) -> MutexGuard<'_, Vec<(Lane, Instant)>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "lanes_tests.rs"]
mod tests;
