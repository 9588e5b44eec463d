//! Connections: so many at once, so long for the head of a request and for reading an answer, and an end in good order.

use std::convert::Infallible;
use std::io;
use std::net::{self, IpAddr};
use std::os::fd::AsRawFd;
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
use toolcrib_upstream::burst::Outlet;
use toolcrib_upstream::process::open_files;

use super::crowd::Seen;
use super::loops::{Loops, Seat};
use super::patient::Patient;
use super::{Front, quick, route};
use crate::identity::Door;

/// Connections at once. Over that, one on which nobody was admitted makes room; where there is none, more wait to be
/// accepted.
const CONNECTIONS: usize = 4096;

/// How long the last of an answer may take when the front closes and no call is under way any more.
const GRACE: Duration = Duration::from_secs(5);

/// Where a connection comes from, if it has an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) Option<IpAddr>);

/// Which way a connection comes, and from where.
pub(super) type Origin = (Door, Peer);

/// Where connections come from.
pub(super) trait Listener {
    type Stream: AsyncRead + AsyncWrite + AsRawFd + Unpin + Send + 'static;
    /// A connection that no thread has yet.
    type Fresh: Send + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<(Self::Fresh, Peer)>> + Send;

    /// From now on it is this thread's.
    fn settle(fresh: Self::Fresh) -> io::Result<Self::Stream>;
}

impl Listener for TcpListener {
    type Stream = TcpStream;
    type Fresh = net::TcpStream;

    async fn accept(&self) -> io::Result<(net::TcpStream, Peer)> {
        let (stream, peer) = TcpListener::accept(self).await?;
        // It only costs speed.
        let _ = stream.set_nodelay(true);
        Ok((stream.into_std()?, Peer(Some(peer.ip()))))
    }

    fn settle(fresh: net::TcpStream) -> io::Result<TcpStream> {
        TcpStream::from_std(fresh)
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;
    type Fresh = unix::net::UnixStream;

    async fn accept(&self) -> io::Result<(unix::net::UnixStream, Peer)> {
        Ok((UnixListener::accept(self).await?.0.into_std()?, Peer(None)))
    }

    fn settle(fresh: unix::net::UnixStream) -> io::Result<UnixStream> {
        UnixStream::from_std(fresh)
    }
}

pub(super) async fn serve<L: Listener>(front: &Arc<Front>, listener: L, door: Door, loops: &Loops) {
    let router = route::router(front);
    let mut connections = JoinSet::new();
    let most = most_connections(door, open_files());
    loop {
        let is_full = connections.len() >= most;
        tokio::select! {
            accepted = listener.accept(), if !is_full || front.crowd.has_idle() => match accepted {
                Ok((fresh, peer)) => {
                    if is_full {
                        front.crowd.close_oldest_idle();
                    }
                    let limits = front.limits();
                    // Whoever has too many is hung up on: left unaccepted he would hold up others.
                    let Some(place) = front.crowd.enter(peer.0, limits.connections) else { continue };
                    let (front, router, origin) = (Arc::clone(front), router.clone(), (door, peer));
                    let (seen, served) = (place.seen(), place.seen());
                    let (seat, thread) = loops.seat();
                    let serving = async move {
                        if let Ok(stream) = L::settle(fresh) {
                            let outlet = Outlet::here(&stream);
                            let stream = Patient::new(stream, limits.write, place);
                            connection(stream, outlet, front, router, (origin, seen), &seat).await;
                        }
                    };
                    served.is_served_by(match thread {
                        Some(thread) => connections.spawn_on(serving, thread),
                        None => connections.spawn(serving),
                    });
                }
                // The usual reason, too many open files, passes.
                Err(_) => sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
            () = front.closing() => break,
        }
    }
    drop(listener);
    let late = async {
        front.calls_ended().await;
        sleep(GRACE).await;
    };
    tokio::select! {
        () = async { while connections.join_next().await.is_some() {} } => {}
        // Whoever is slower than that is cut off with the tasks.
        () = late => {}
    }
}

/// A quarter of the files that may be open is left to servers and to the owner's socket.
fn most_connections(door: Door, open_files: Option<u64>) -> usize {
    let files = open_files.filter(|_| door != Door::Socket).map(|most| most - most / 4);
    let files = files.and_then(|most| usize::try_from(most).ok());
    files.map_or(CONNECTIONS, |most| most.clamp(1, CONNECTIONS))
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    outlet: Option<Outlet>,
    front: Arc<Front>,
    router: Router,
    (origin, seen): (Origin, Arc<Seen>),
    seat: &Seat,
) {
    let quick = quick::serve(&front, stream, (origin, &seen), seat.vigil.clone(), outlet);
    if let Some(rest) = quick.await {
        // Most connections never need the room for it.
        Box::pin(other(rest, front, router, (origin, seen))).await;
    }
}

/// Whatever else is spoken on a connection.
async fn other(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    front: Arc<Front>,
    router: Router,
    (origin, seen): (Origin, Arc<Seen>),
) {
    let (answering, connection) = (Arc::clone(&front), Arc::clone(&seen));
    let service = service_fn(move |request: Request<Incoming>| {
        let (front, router) = (Arc::clone(&answering), router.clone());
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Arc::clone(&seen));
        async move { Ok::<_, Infallible>(route::answer(&front, &router, request, origin).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(front.limits().read);
    let serving = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut serving = pin!(serving);
    tokio::select! {
        // First, so that what was read before is begun with when the front closes.
        biased;
        // A connection that breaks is the client's matter.
        _ = &mut serving => return,
        () = front.closing() => serving.as_mut().graceful_shutdown(),
        () = connection.expires() => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_from_outside_leave_files_for_the_owner() {
        for (door, files, most) in [
            (Door::Tcp, Some(1024), 768),
            (Door::Tcp, Some(1 << 20), CONNECTIONS),
            (Door::Tcp, None, CONNECTIONS),
            (Door::Socket, Some(64), CONNECTIONS),
        ] {
            assert_eq!(most_connections(door, files), most, "{door:?} {files:?}");
        }
    }
}
