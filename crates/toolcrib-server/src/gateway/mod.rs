//! One MCP server in front of all others: what a client sees is what its dialog sees.
//!
//! [`Gateway`] is the same for every client. A client is a [`Client`], which is a dialog of the host; its requests
//! are answered side by side, each on the stream that it came on. What a server asks within a call goes to the
//! client that made the call: as a request of its own in the legacy era, inside of an `input_required` result in the
//! modern one. Where client and server are both of the modern era that result is the server's own; where only the
//! client is, the call stays open in the host until the client comes back.

mod answer;
mod batch;
mod call;
mod caller;
mod changes;
mod client;
mod clients;
mod documents;
mod http;
mod lists;
mod metered;
mod outlet;
mod parked;
mod reminder;
mod respond;
mod sse;
mod stream;
mod traced;
mod websocket;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::routing::any;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use toolcrib::Host;
use toolcrib_upstream::process::memory_limit;
use toolcrib_wire::Limits;
use toolcrib_wire::handshake::Implementation;

pub use client::{Client, Who};
pub(crate) use http::{all as serve, whole as serve_whole};

use crate::body_budget::{self, BodyBudget, BodyShare, Reservation};
use crate::closing::Closing;
use crate::front::Front;
use crate::identity::{Limits as Share, Pace, Refused};
use crate::lines::LIMITS;
use crate::trace::Traces;
use clients::Clients;
use lists::Lists;
use parked::Parkings;

/// Messages that wait for a client; whoever has more waits, and only he.
const QUEUE: usize = 64;

/// Where a request of the modern era says which dialog it is of: in `_meta`, and as a header.
const DIALOG: &str = "toolcrib/dialog";
const DIALOG_HEADER: &str = "toolcrib-dialog";

/// The host as one server.
#[derive(Debug)]
pub struct Gateway {
    host: Host,
    server: Implementation,
    traces: Traces,
    pace: Pace,
    bodies: BodyBudget,
    /// The memory that this process may use, as it was when it began.
    memory: Option<u64>,
    lists: Lists,
    clients: Clients,
    closing: Closing,
    parkings: Parkings,
    /// Conversations that outlive the request that began them.
    tasks: Mutex<JoinSet<()>>,
}

impl Gateway {
    pub fn new(host: Host) -> Arc<Self> {
        Self::traced(host, Traces::default())
    }

    /// The same, and spans of calls go somewhere.
    pub fn traced(host: Host, traces: Traces) -> Arc<Self> {
        Self::paced(host, traces, Pace::default())
    }

    /// The same, and its clients' requests are counted together with others of theirs.
    pub(crate) fn paced(host: Host, traces: Traces, pace: Pace) -> Arc<Self> {
        let server = Implementation::new("toolcrib", env!("CARGO_PKG_VERSION"));
        Arc::new(Gateway {
            host,
            server,
            traces,
            pace,
            bodies: BodyBudget::default(),
            memory: memory_limit(),
            lists: Lists::default(),
            clients: Clients::default(),
            closing: Closing::default(),
            parkings: Parkings::default(),
            tasks: Mutex::default(),
        })
    }

    /// Serves one client on a stream, one message a line, until its end.
    pub async fn serve(
        self: &Arc<Self>,
        who: Who,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin + Send + 'static,
    ) -> std::io::Result<()> {
        stream::serve(self, who, input, output).await
    }

    /// Sessions that are open over HTTP.
    pub fn sessions(&self) -> usize {
        self.clients.count()
    }

    /// Ends clients that have gone without a word, but for those whose dialog is used otherwise.
    pub(crate) async fn end_idle(&self, longest: Duration, is_used: impl Fn(&str) -> bool) {
        for client in self.clients.idle(longest, is_used) {
            client.end().await;
        }
    }

    /// Whether a client has this dialog.
    pub(crate) fn has_dialog(&self, id: &str) -> bool {
        self.clients.has_dialog(id)
    }

    /// Ends the streams on which clients only wait to be told something, and calls that nobody may come back for any
    /// more; what was asked is still answered.
    pub(crate) fn close(&self) {
        // First: whoever parks a call after the others have ended sees it.
        self.closing.begin();
        self.parkings.end_calls();
    }

    fn is_closing(&self) -> bool {
        self.closing.has_begun()
    }

    async fn closing(&self) {
        self.closing.begins().await;
    }

    /// How long calls that are under way may take when nothing more is to come: as long as those of a server that
    /// drains.
    pub(crate) fn patience(&self) -> Duration {
        self.host.config().host.reload.shutdown_limit()
    }

    /// What each principal may use.
    fn limits(&self) -> Share {
        Share::of(&self.host.config().gateway.limits)
    }

    /// What may be posted, and how long it may take to come.
    pub(crate) fn bounds(&self) -> (Limits, Duration) {
        let own = self.limits();
        (Limits { size: own.body.min(LIMITS.size), ..LIMITS }, own.read)
    }

    /// Counts the memory of a body. Whoever may be any agent has grants.
    pub(crate) fn reservation(&self, chooses: bool, agent: &str) -> Reservation {
        let config = self.host.config();
        let most = body_budget::most(config.gateway.limits.bodies.map(|it| it.0), self.memory);
        let has_grants = chooses || self.host.has_grants(agent);
        self.bodies.open(BodyShare::new(most, has_grants))
    }

    /// The memory that bodies take now.
    pub(crate) fn body_bytes(&self) -> usize {
        self.bodies.used()
    }

    /// Counts a request that is no request of HTTP by itself. Whoever is no principal is the person at this machine,
    /// on streams of a process of his own: the limit is his.
    fn count(&self, who: &Who) -> Result<(), Refused> {
        let Some(principal) = &who.principal else { return Ok(()) };
        self.pace.count(principal, &self.host.config().gateway.limits)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}

/// Where the host is one server over Streamable HTTP; [`serve`] answers there.
pub(crate) const PATH: &str = "/mcp";

/// What else clients may speak.
pub(crate) fn routes() -> Router<Arc<Front>> {
    Router::new()
        .route("/mcp/{server}", any(http::one))
        .route("/sse", any(sse::serve))
        .route("/ws", any(websocket::serve))
}
