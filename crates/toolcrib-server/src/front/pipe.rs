//! A client on a pair of byte streams, one message a line: standard streams, or a process that only passes them on.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, UPGRADE};
use axum::http::{HeaderValue, StatusCode};
use axum::routing::get;
use axum::{Extension, Router};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, split};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Front;
use super::reply::{self, Reply};
use crate::gateway::Who;
use crate::identity::{Door, Principal};

/// Where a process becomes a pipe to this host, on the owner's socket.
pub const PATH: &str = "/pipe";

/// What the connection is used for from then on.
pub const PROTOCOL: &str = "toolcrib-lines";

/// How often is looked whether calls are still under way when the front closes.
const TICK: Duration = Duration::from_millis(20);

pub(super) fn routes() -> Router<Arc<Front>> {
    Router::new().route(PATH, get(open))
}

impl Front {
    /// Serves one client on a stream until it ends. When the front closes, calls that are under way are waited
    /// for as long as connections are, and then the client is told the end.
    pub async fn serve_stream(
        &self,
        agent: &str,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin + Send + 'static,
    ) -> io::Result<()> {
        let input = Ending { input, end: Box::pin(self.drained()) };
        self.gateway.serve(Who::agent(agent), input, output).await
    }

    async fn drained(&self) {
        self.closing().await;
        self.calls_ended().await;
    }

    /// Waits until no call is under way, as long as a server that drains has (`host.reload.drain_kill`).
    pub(super) async fn calls_ended(&self) {
        let quiet = async {
            while self.calls_under_way() > 0 {
                sleep(TICK).await;
            }
        };
        // What takes longer is cut off.
        let _ = timeout(self.patience(), quiet).await;
    }

    /// How long calls that are under way may take when the front closes.
    pub fn patience(&self) -> Duration {
        self.gateway.patience()
    }

    pub fn calls_under_way(&self) -> u64 {
        self.host.servers().iter().map(|server| server.calls.in_flight).sum()
    }

    /// Waits for the end of all pipes.
    pub(super) async fn pipes_ended(&self) {
        let mut pipes =
            std::mem::take(&mut *self.pipes.lock().unwrap_or_else(PoisonError::into_inner));
        // Each is bounded by itself.
        while pipes.join_next().await.is_some() {}
    }
}

async fn open(
    State(front): State<Arc<Front>>,
    Extension(principal): Extension<Principal>,
    mut request: Request,
) -> Reply {
    let asked = request.headers().get(UPGRADE).map(HeaderValue::as_bytes);
    if request.extensions().get() != Some(&Door::Socket) {
        return reply::empty(StatusCode::NOT_FOUND);
    }
    if asked != Some(PROTOCOL.as_bytes()) {
        return reply::empty(StatusCode::UPGRADE_REQUIRED);
    }
    let upgrading = hyper::upgrade::on(&mut request);
    let carrying = carry(Arc::clone(&front), principal, upgrading);
    add(&mut front.pipes.lock().unwrap_or_else(PoisonError::into_inner), carrying);
    let mut reply = reply::empty(StatusCode::SWITCHING_PROTOCOLS);
    reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    reply.headers_mut().insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
    reply
}

fn add(pipes: &mut JoinSet<()>, carrying: impl Future<Output = ()> + Send + 'static) {
    while pipes.try_join_next().is_some() {}
    pipes.spawn(carrying);
}

async fn carry(front: Arc<Front>, principal: Principal, upgrading: OnUpgrade) {
    // Whoever went away meanwhile needs nothing any more.
    let Ok(stream) = upgrading.await else { return };
    let (input, output) = split(TokioIo::new(stream));
    // A stream that breaks is the client's matter.
    let _ = front.serve_stream(&principal.agent, input, output).await;
}

/// A stream that is over when its sender ends it or something else is over.
struct Ending<R, F> {
    input: R,
    end: Pin<Box<F>>,
}

impl<R: AsyncRead + Unpin, F: Future<Output = ()>> AsyncRead for Ending<R, F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.end.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => Pin::new(&mut self.input).poll_read(cx, buffer),
        }
    }
}
