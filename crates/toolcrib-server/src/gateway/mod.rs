//! The MCP gateway: the host as one MCP server in front of all others.
//!
//! All clients share one [`Gateway`]. Each [`Client`] is a dialog of the host and sees what its dialog sees. Its
//! requests run concurrently, each on the stream on which it arrived. A server request within a call goes to the client
//! that made the call: as a JSON-RPC request in the legacy era, inside an `input_required` result in the modern one. If
//! client and server are both of the modern era, the `input_required` result is the server's own. If only the client
//! is, the call stays open in the host until the client returns.

mod batch;
mod call;
mod changes;
mod client;
mod clients;
mod dispatch;
mod documents;
mod list_cache;
mod metered_stream;
mod parked_calls;
mod post_response;
mod reminder;
mod request_context;
mod response_channel;
mod sse;
mod stream_client;
mod streamable_http;
mod trace_context;
mod websocket;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::routing::any;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use toolcrib::Host;
use toolcrib_upstream::process::memory_limit;
use toolcrib_wire::MessageLimits;
use toolcrib_wire::handshake::Implementation;

pub use client::{Client, ClientIdentity};
pub(crate) use streamable_http::{serve, serve_whole};

use crate::body_budget::{self, BodyBudget, BodyShare, Reservation};
use crate::front::Front;
use crate::identity::{AccessDenied, PrincipalLimits, RequestRate};
use crate::message_stream::LIMITS;
use crate::shutdown::Shutdown;
use crate::trace::TraceSender;
use clients::ClientTable;
use list_cache::ListCache;
use parked_calls::ParkedCallsRegistry;

/// Capacity of a client's message queue. A full queue blocks only the messages of that client.
const QUEUE_CAPACITY: usize = 64;

/// Names the dialog of a modern request in `_meta`.
const DIALOG_META_KEY: &str = "toolcrib/dialog";
const DIALOG_HEADER: &str = "toolcrib-dialog";

/// The host as one MCP server.
#[derive(Debug)]
pub struct Gateway {
    host: Host,
    server: Implementation,
    traces: TraceSender,
    request_rate: RequestRate,
    bodies: BodyBudget,
    /// Memory limit of this process, read at the start.
    memory: Option<u64>,
    lists: ListCache,
    clients: ClientTable,
    shutdown: Shutdown,
    parked_calls: ParkedCallsRegistry,
    /// Background tasks that outlive their request.
    tasks: Mutex<JoinSet<()>>,
}

impl Gateway {
    /// Creates a gateway without trace export.
    pub fn new(host: Host) -> Arc<Self> {
        Self::with_traces(host, TraceSender::default())
    }

    /// Like [`Gateway::new`], and exports spans of calls.
    pub fn with_traces(host: Host, traces: TraceSender) -> Arc<Self> {
        Self::with_request_rate(host, traces, RequestRate::default())
    }

    /// Like [`Gateway::with_traces`], and counts requests together with those on other interfaces.
    pub(crate) fn with_request_rate(
        host: Host,
        traces: TraceSender,
        request_rate: RequestRate,
    ) -> Arc<Self> {
        let server = Implementation::new("toolcrib", env!("CARGO_PKG_VERSION"));
        Arc::new(Gateway {
            host,
            server,
            traces,
            request_rate,
            bodies: BodyBudget::default(),
            memory: memory_limit(),
            lists: ListCache::default(),
            clients: ClientTable::default(),
            shutdown: Shutdown::default(),
            parked_calls: ParkedCallsRegistry::default(),
            tasks: Mutex::default(),
        })
    }

    /// Serves one client on a stream, one message per line, until the stream ends.
    pub async fn serve(
        self: &Arc<Self>,
        identity: ClientIdentity,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin + Send + 'static,
    ) -> std::io::Result<()> {
        stream_client::serve(self, identity, input, output).await
    }

    /// Number of open HTTP sessions.
    pub fn sessions(&self) -> usize {
        self.clients.count()
    }

    /// Closes clients that are idle, except those whose dialog is in use elsewhere.
    pub(crate) async fn close_idle_clients(
        &self,
        max_idle: Duration,
        is_used: impl Fn(&str) -> bool,
    ) {
        for client in self.clients.remove_idle(max_idle, is_used) {
            client.close().await;
        }
    }

    /// Returns whether a client uses this dialog.
    pub(crate) fn has_dialog(&self, id: &str) -> bool {
        self.clients.has_dialog(id)
    }

    /// Ends change streams and parked calls. Running requests are still answered.
    pub(crate) fn close(&self) {
        // Set first, so that a call parked after `cancel_calls` sees the shutdown.
        self.shutdown.start();
        self.parked_calls.cancel_calls();
    }

    fn is_closing(&self) -> bool {
        self.shutdown.has_started()
    }

    async fn wait_closing(&self) {
        self.shutdown.wait_started().await;
    }

    /// Time limit for running calls during shutdown, the same as for a draining server.
    pub(crate) fn drain_timeout(&self) -> Duration {
        self.host.config().host.reload.shutdown_limit()
    }

    /// Limits of each principal.
    fn limits(&self) -> PrincipalLimits {
        PrincipalLimits::from_config(&self.host.config().gateway.limits)
    }

    /// Message limits, and the time limit for a body.
    pub(crate) fn message_limits(&self) -> (MessageLimits, Duration) {
        let own = self.limits();
        (MessageLimits { size: own.body.min(LIMITS.size), ..LIMITS }, own.read)
    }

    /// Opens a reservation for a body. A principal that may choose its agent counts as having grants.
    pub(crate) fn reservation(&self, may_choose_agent: bool, agent: &str) -> Reservation {
        let config = self.host.config();
        let max =
            body_budget::budget_bytes(config.gateway.limits.bodies.map(|it| it.0), self.memory);
        let has_grants = may_choose_agent || self.host.has_grants(agent);
        self.bodies.reserve(BodyShare::new(max, has_grants))
    }

    /// Memory used by request bodies now.
    pub(crate) fn body_bytes(&self) -> usize {
        self.bodies.used()
    }

    /// Counts a request that is not an HTTP request of its own. A client without a principal is the local user on a
    /// process's streams, and is not limited.
    fn count_request(&self, identity: &ClientIdentity) -> Result<(), AccessDenied> {
        let Some(principal) = &identity.principal else { return Ok(()) };
        self.request_rate.count_request(principal, &self.host.config().gateway.limits)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}

/// Path of Streamable HTTP; [`serve`] handles it.
pub(crate) const PATH: &str = "/mcp";

/// Routes of the other transports.
pub(crate) fn routes() -> Router<Arc<Front>> {
    Router::new()
        .route("/mcp/{server}", any(streamable_http::serve_one_server))
        .route("/sse", any(sse::serve))
        .route("/ws", any(websocket::serve))
}
