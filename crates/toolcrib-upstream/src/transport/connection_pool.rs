//! Pool of plain HTTP connections to one server.

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

use super::http_client::{AGENT_NAME, IDLE_TIMEOUT, MAX_IDLE_CONNECTIONS};
use super::http_connection::{
    BodyReader, BoxError, HttpConnection, RequestWrite, SMALL_REQUEST, SendFailure,
};
use super::http_response::HttpResponse;
use super::request_template::ContentLengthLine;
use crate::write_batch::WriteBatch;

pub(super) struct ConnectionPool {
    connector: HttpConnector,
    origin: String,
    host: HeaderValue,
    idle: Arc<IdleConnections>,
}

/// Unused connections, the newest last.
#[derive(Default)]
pub(super) struct IdleConnections {
    connections: Mutex<Vec<(HttpConnection, Instant)>>,
    returned: Notify,
}

impl ConnectionPool {
    /// Returns `None` when a plain connection is not enough, as for TLS or credentials in the URL.
    pub(super) fn for_plain_url(url: &Url, connect_timeout: Option<Duration>) -> Option<Self> {
        let is_plain = url.scheme() == "http" && url.username().is_empty();
        if !is_plain || url.password().is_some() {
            return None;
        }
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(connect_timeout);
        Some(ConnectionPool {
            connector,
            origin: url[..Position::BeforePath].to_owned(),
            host: HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort]).ok()?,
            idle: Arc::default(),
        })
    }

    /// Adds the headers that every request needs. No later stage adds them.
    pub(super) fn add_common_headers(&self, headers: &mut HeaderMap) {
        headers.insert(HOST, self.host.clone());
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT_NAME));
    }

    /// Sends one POST. `head` comes from a [`RequestTemplate`](super::request_template::RequestTemplate).
    pub(super) async fn post(&self, head: &[u8], body: &[u8]) -> Result<HttpResponse, BoxError> {
        let last_line = ContentLengthLine::new(body.len());
        let parts = [head, last_line.as_bytes(), body];
        // Copying a small request is cheaper than a vectored write. A write batch copies it anyway.
        let is_small = parts.iter().map(|part| part.len()).sum::<usize>() <= SMALL_REQUEST;
        let is_joined = is_small && !WriteBatch::has_current();
        let joined = if is_joined { parts.concat() } else { Vec::new() };
        let mut sending = RequestWrite::new(if is_joined { [&*joined, &[], &[]] } else { parts });
        loop {
            let (mut connection, is_new) = match self.idle.check_out() {
                Some(connection) => (connection, false),
                None => (Box::pin(self.connect()).await?, true),
            };
            match connection.send_request(&mut sending).await {
                Ok(head) => {
                    let reader = BodyReader::new(connection, &head, &sending, &self.idle);
                    return Ok(HttpResponse::Direct(head, reader));
                }
                // The server has closed the idle connection.
                Err(SendFailure::Unsent(_)) if !is_new => {}
                Err(SendFailure::Unsent(fault) | SendFailure::Lost(fault)) => return Err(fault),
            }
        }
    }

    async fn connect(&self) -> Result<HttpConnection, BoxError> {
        let mut connector = self.connector.clone();
        poll_fn(|cx| connector.poll_ready(cx)).await?;
        let stream = connector.call(self.origin.parse()?).await?;
        Ok(HttpConnection::new(stream.into_inner()))
    }

    /// Closes connections that were idle for too long. Never returns.
    pub(super) async fn close_idle_connections(&self) {
        loop {
            match self.idle.oldest_since() {
                Some(since) => {
                    sleep_until(since + IDLE_TIMEOUT).await;
                    self.idle.close_expired();
                }
                None => self.idle.returned.notified().await,
            }
        }
    }
}

impl IdleConnections {
    /// Takes the newest open connection whose runtime is the current one.
    fn check_out(&self) -> Option<HttpConnection> {
        let here = Handle::current().id();
        let mut connections = self.lock();
        loop {
            let newest =
                connections.iter().rposition(|(connection, _)| connection.runtime == here)?;
            let (connection, since) = connections.remove(newest);
            if since.elapsed() >= IDLE_TIMEOUT {
                return None;
            }
            if connection.is_open() {
                return Some(connection);
            }
        }
    }

    pub(super) fn insert(&self, connection: HttpConnection) {
        let mut connections = self.lock();
        if connections.len() >= MAX_IDLE_CONNECTIONS {
            // The oldest connection may belong to a runtime that has sent nothing for long.
            connections.remove(0);
        }
        connections.push((connection, Instant::now()));
        let is_first = connections.len() == 1;
        drop(connections);
        if is_first {
            self.returned.notify_one();
        }
    }

    fn oldest_since(&self) -> Option<Instant> {
        self.lock().first().map(|(_, since)| *since)
    }

    fn close_expired(&self) {
        self.lock().retain(|(_, since)| since.elapsed() < IDLE_TIMEOUT);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(HttpConnection, Instant)>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "connection_pool_tests.rs"]
mod tests;
