//! Pool of plain HTTP connections to one server.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::{HOST, HeaderMap, HeaderValue, USER_AGENT};
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tower::Service;
use url::{Position, Url};

use super::http_connection::{
    BodyReader, BoxError, HttpConnection, RequestWrite, SMALL_REQUEST, SendFailure,
};
use super::request_template::ContentLengthLine;
use super::response_head::ResponseHead;
use crate::write_batch::WriteBatch;

/// Connections to one server. Clients of several servers use one pool for each.
pub struct ConnectionPool {
    connector: HttpConnector,
    origin: String,
    host: HeaderValue,
    user_agent: HeaderValue,
    idle: Arc<IdleConnections>,
}

/// Limits and identity of a pool.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// Value of the `User-Agent` header of requests without one.
    pub user_agent: &'static str,
    /// Time limit for opening a connection.
    pub connect_timeout: Option<Duration>,
    /// Connections that were idle for longer are closed.
    pub idle_timeout: Duration,
    /// Most idle connections. The oldest is closed for a newer one.
    pub max_idle: usize,
}

/// Unused connections, the newest last.
pub(super) struct IdleConnections {
    timeout: Duration,
    max: usize,
    connections: Mutex<Vec<(HttpConnection, Instant)>>,
    returned: Notify,
}

impl ConnectionPool {
    /// Returns `None` when a plain connection is not enough, as for TLS or credentials in the URL.
    pub fn for_plain_url(url: &Url, options: &PoolOptions) -> Option<Self> {
        let is_plain = url.scheme() == "http" && url.username().is_empty();
        if !is_plain || url.password().is_some() {
            return None;
        }
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(options.connect_timeout);
        Some(ConnectionPool {
            connector,
            origin: url[..Position::BeforePath].to_owned(),
            host: HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort]).ok()?,
            user_agent: HeaderValue::from_static(options.user_agent),
            idle: Arc::new(IdleConnections::new(options)),
        })
    }

    /// Adds the headers that every request needs. No later stage adds them.
    pub fn add_common_headers(&self, headers: &mut HeaderMap) {
        headers.insert(HOST, self.host.clone());
        headers.entry(USER_AGENT).or_insert(self.user_agent.clone());
    }

    /// Sends one POST. `head` comes from a [`RequestTemplate`](super::request_template::RequestTemplate).
    pub async fn post(
        &self,
        head: &[u8],
        body: &[u8],
    ) -> Result<(ResponseHead, BodyReader), BoxError> {
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
                    return Ok((head, reader));
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
    pub async fn close_idle_connections(&self) {
        loop {
            match self.idle.oldest_since() {
                Some(since) => {
                    sleep_until(since + self.idle.timeout).await;
                    self.idle.close_expired();
                }
                None => self.idle.returned.notified().await,
            }
        }
    }
}

impl IdleConnections {
    fn new(options: &PoolOptions) -> Self {
        let (timeout, max) = (options.idle_timeout, options.max_idle);
        IdleConnections { timeout, max, connections: Mutex::default(), returned: Notify::new() }
    }

    /// Takes the newest open connection whose runtime is the current one.
    fn check_out(&self) -> Option<HttpConnection> {
        let here = Handle::current().id();
        let mut connections = self.lock();
        loop {
            let newest =
                connections.iter().rposition(|(connection, _)| connection.runtime == here)?;
            let (connection, since) = connections.remove(newest);
            if since.elapsed() >= self.timeout {
                return None;
            }
            if connection.is_open() {
                return Some(connection);
            }
        }
    }

    pub(super) fn insert(&self, connection: HttpConnection) {
        let mut connections = self.lock();
        if connections.len() >= self.max {
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
        self.lock().retain(|(_, since)| since.elapsed() < self.timeout);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(HttpConnection, Instant)>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ConnectionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionPool").field("origin", &self.origin).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "connection_pool_tests.rs"]
mod tests;
