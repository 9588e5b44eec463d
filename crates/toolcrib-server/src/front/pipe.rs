//! Serves clients on byte streams: standard streams, or a process that forwards them over the owner's socket.

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
use super::response::{self, HttpResponse};
use crate::gateway::ClientIdentity;
use crate::identity::{EntryPoint, Principal};

/// Path on the owner's socket where a process upgrades its connection to a message stream.
pub const PATH: &str = "/pipe";

/// Name of the upgraded protocol.
pub const PROTOCOL: &str = "toolcrib-lines";

/// Interval between checks for running calls while the front closes.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(super) fn routes() -> Router<Arc<Front>> {
    Router::new().route(PATH, get(upgrade))
}

impl Front {
    /// Serves one client on a stream until it ends. When the front closes, running calls may finish like on other
    /// connections; then the stream ends.
    pub async fn serve_stream(
        &self,
        agent: &str,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin + Send + 'static,
    ) -> io::Result<()> {
        let input = ReadUntil { input, until: Box::pin(self.wait_drained()) };
        self.gateway.serve(ClientIdentity::for_agent(agent), input, output).await
    }

    async fn wait_drained(&self) {
        self.wait_closing().await;
        self.wait_for_calls().await;
    }

    /// Waits until no call is running, at most as long as a draining server may take (`host.reload.drain_kill`).
    pub(super) async fn wait_for_calls(&self) {
        let calls_finished = async {
            while self.calls_in_flight() > 0 {
                sleep(POLL_INTERVAL).await;
            }
        };
        // Calls that take longer are aborted.
        let _ = timeout(self.drain_timeout(), calls_finished).await;
    }

    /// Time limit for running calls when the front closes.
    pub fn drain_timeout(&self) -> Duration {
        self.gateway.drain_timeout()
    }

    /// Number of running calls.
    pub fn calls_in_flight(&self) -> u64 {
        self.host.servers().iter().map(|server| server.calls.in_flight).sum()
    }

    /// Waits until all pipes have ended.
    pub(super) async fn wait_for_pipes(&self) {
        let mut pipes =
            std::mem::take(&mut *self.pipes.lock().unwrap_or_else(PoisonError::into_inner));
        // Each pipe has its own time limit.
        while pipes.join_next().await.is_some() {}
    }
}

async fn upgrade(
    State(front): State<Arc<Front>>,
    Extension(principal): Extension<Principal>,
    mut request: Request,
) -> HttpResponse {
    let protocol = request.headers().get(UPGRADE).map(HeaderValue::as_bytes);
    if request.extensions().get() != Some(&EntryPoint::OwnerSocket) {
        return response::empty(StatusCode::NOT_FOUND);
    }
    if protocol != Some(PROTOCOL.as_bytes()) {
        return response::empty(StatusCode::UPGRADE_REQUIRED);
    }
    let upgrading = hyper::upgrade::on(&mut request);
    let serving = serve_upgraded(Arc::clone(&front), principal, upgrading);
    spawn_pipe(&mut front.pipes.lock().unwrap_or_else(PoisonError::into_inner), serving);
    let mut response = response::empty(StatusCode::SWITCHING_PROTOCOLS);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
    response
}

fn spawn_pipe(pipes: &mut JoinSet<()>, serving: impl Future<Output = ()> + Send + 'static) {
    while pipes.try_join_next().is_some() {}
    pipes.spawn(serving);
}

async fn serve_upgraded(front: Arc<Front>, principal: Principal, upgrading: OnUpgrade) {
    // An error means that the client has disconnected.
    let Ok(stream) = upgrading.await else { return };
    let (input, output) = split(TokioIo::new(stream));
    // Stream errors are not the server's concern.
    let _ = front.serve_stream(&principal.agent, input, output).await;
}

/// A reader that ends when its input ends or when `until` is ready.
struct ReadUntil<R, F> {
    input: R,
    until: Pin<Box<F>>,
}

impl<R: AsyncRead + Unpin, F: Future<Output = ()>> AsyncRead for ReadUntil<R, F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.until.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => Pin::new(&mut self.input).poll_read(cx, buffer),
        }
    }
}
