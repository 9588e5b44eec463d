//! Accepts connections within limits, assigns them to threads, and closes them gracefully.

use std::convert::Infallible;
use std::io;
use std::net::{self, IpAddr};
use std::os::unix;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::sleep;
use toolcrib_config::model::host::HttpMode;
use toolcrib_http::server::{ThreadSlot, WorkerThreads};
use toolcrib_http::write_batch::{BatchWrite, BatchedStream, Socket};
use toolcrib_upstream::process::open_file_limit;

use super::connection_limit::ConnectionState;
use super::write_timeout::WriteTimeout;
use super::{Front, fast_path, route};
use crate::identity::EntryPoint;

/// Maximum number of connections per listener. Above it, an unadmitted connection is closed for a new one; without one,
/// new connections wait to be accepted.
const MAX_CONNECTIONS: usize = 4096;

/// Time for the last responses after the front closes and all calls have ended.
const CLOSE_GRACE: Duration = Duration::from_secs(5);

/// Address of the peer, if it has one.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerAddress(pub(super) Option<IpAddr>);

/// Entry point and peer address of a connection.
pub(super) type ConnectionOrigin = (EntryPoint, PeerAddress);

/// A TCP or Unix listener.
pub(super) trait Listener {
    type Stream: AsyncRead + AsyncWrite + Socket + Unpin + Send + 'static;
    /// An accepted socket that is not registered with a runtime yet.
    type Unregistered: Send + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<(Self::Unregistered, PeerAddress)>> + Send;

    /// Registers the socket with the runtime of the current thread.
    fn register(socket: Self::Unregistered) -> io::Result<Self::Stream>;
}

impl Listener for TcpListener {
    type Stream = TcpStream;
    type Unregistered = net::TcpStream;

    async fn accept(&self) -> io::Result<(net::TcpStream, PeerAddress)> {
        let (stream, peer) = TcpListener::accept(self).await?;
        // A failure only costs latency.
        let _ = stream.set_nodelay(true);
        Ok((stream.into_std()?, PeerAddress(Some(peer.ip()))))
    }

    fn register(socket: net::TcpStream) -> io::Result<TcpStream> {
        TcpStream::from_std(socket)
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;
    type Unregistered = unix::net::UnixStream;

    async fn accept(&self) -> io::Result<(unix::net::UnixStream, PeerAddress)> {
        Ok((UnixListener::accept(self).await?.0.into_std()?, PeerAddress(None)))
    }

    fn register(socket: unix::net::UnixStream) -> io::Result<UnixStream> {
        UnixStream::from_std(socket)
    }
}

pub(super) async fn serve<L: Listener>(
    front: &Arc<Front>,
    listener: L,
    entry_point: EntryPoint,
    threads: &WorkerThreads,
) {
    let router = route::router(front);
    let mut connections = JoinSet::new();
    let max = max_connections(entry_point, open_file_limit());
    loop {
        let is_full = connections.len() >= max;
        tokio::select! {
            accepted = listener.accept(), if !is_full || front.connection_limit.has_idle() => match accepted {
                Ok((socket, peer)) => {
                    if is_full {
                        front.connection_limit.close_oldest_idle();
                    }
                    let limits = front.limits();
                    // Refused connections are closed: an unaccepted one would block others.
                    let Some(permit) = front.connection_limit.try_acquire(peer.0, limits.connections) else { continue };
                    let (front, router, origin) = (Arc::clone(front), router.clone(), (entry_point, peer));
                    let (state, served) = (permit.state(), permit.state());
                    let (slot, thread) = threads.assign_connection();
                    let serving = async move {
                        if let Ok(stream) = L::register(socket) {
                            let stream = WriteTimeout::new(BatchedStream::new(stream), limits.write, permit);
                            serve_connection(stream, front, router, (origin, state), &slot).await;
                        }
                    };
                    served.set_task(match thread {
                        Some(thread) => connections.spawn_on(serving, thread),
                        None => connections.spawn(serving),
                    });
                }
                // The usual error, too many open files, is temporary.
                Err(_) => sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
            () = front.wait_closing() => break,
        }
    }
    drop(listener);
    let drain_deadline = async {
        front.wait_for_calls().await;
        sleep(CLOSE_GRACE).await;
    };
    tokio::select! {
        () = async { while connections.join_next().await.is_some() {} } => {}
        // Remaining connections are aborted with their tasks.
        () = drain_deadline => {}
    }
}

/// Leaves a quarter of the file descriptors to servers and to the owner's socket.
fn max_connections(entry_point: EntryPoint, open_file_limit: Option<u64>) -> usize {
    let files =
        open_file_limit.filter(|_| entry_point != EntryPoint::OwnerSocket).map(|max| max - max / 4);
    let files = files.and_then(|max| usize::try_from(max).ok());
    files.map_or(MAX_CONNECTIONS, |max| max.clamp(1, MAX_CONNECTIONS))
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + BatchWrite + Unpin + Send + 'static,
    front: Arc<Front>,
    router: Router,
    (origin, state): (ConnectionOrigin, Arc<ConnectionState>),
    slot: &ThreadSlot,
) {
    // The configuration selects the HTTP implementation.
    tokio::select! {
        biased;
        () = front.wait_configured() => {}
        () = front.wait_closing() => return,
    }
    // Boxed, because most connections never need hyper.
    match front.host.config().gateway.http {
        HttpMode::Auto => {
            let serving =
                fast_path::serve(&front, stream, (origin, &state), slot.busy_poll.clone());
            if let Some(rest) = serving.await {
                Box::pin(serve_with_hyper(rest, front, router, (origin, state))).await;
            }
        }
        HttpMode::Hyper => {
            Box::pin(serve_with_hyper(stream, front, router, (origin, state))).await;
        }
    }
}

/// Serves a connection with hyper, including upgrades.
async fn serve_with_hyper(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    front: Arc<Front>,
    router: Router,
    (origin, state): (ConnectionOrigin, Arc<ConnectionState>),
) {
    let (answering, connection) = (Arc::clone(&front), Arc::clone(&state));
    let service = service_fn(move |request: Request<Incoming>| {
        let (front, router) = (Arc::clone(&answering), router.clone());
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Arc::clone(&state));
        async move { Ok::<_, Infallible>(route::handle_request(&front, &router, request, origin).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(front.limits().read);
    let serving = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut serving = pin!(serving);
    tokio::select! {
        // Polled first, so that requests read before the front closes are still started.
        biased;
        // Connection errors are not the server's concern.
        _ = &mut serving => return,
        () = front.wait_closing() => serving.as_mut().graceful_shutdown(),
        () = connection.wait_expired() => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_connections_leave_file_descriptors_for_the_owner_socket() {
        for (entry_point, files, max) in [
            (EntryPoint::Loopback, Some(1024), 768),
            (EntryPoint::Loopback, Some(1 << 20), MAX_CONNECTIONS),
            (EntryPoint::Loopback, None, MAX_CONNECTIONS),
            (EntryPoint::OwnerSocket, Some(64), MAX_CONNECTIONS),
        ] {
            assert_eq!(max_connections(entry_point, files), max, "{entry_point:?} {files:?}");
        }
    }
}
