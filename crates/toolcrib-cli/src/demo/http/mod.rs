//! The demo server over Streamable HTTP on loopback addresses.

mod endpoint;
mod sessions;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::SHUTDOWN_TIMEOUT;
use super::server::DemoServer;
use endpoint::HttpEndpoint;

/// Path of the MCP endpoint.
pub(crate) const PATH: &str = "/mcp";

/// Maximum number of concurrent connections. Further connections wait.
const MAX_CONNECTIONS: usize = 1024;

/// Time limit for reading a request head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// Serves until the server closes.
pub(crate) async fn serve(server: Arc<DemoServer>, listener: TcpListener) {
    let endpoint = Arc::new(HttpEndpoint::new(Arc::clone(&server)));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve_connection(stream, Arc::clone(&endpoint)));
                }
                // The usual cause, too many open files, is temporary.
                Err(_) => sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
            () = server.closed() => break,
        }
    }
    drop(listener);
    let ending = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(SHUTDOWN_TIMEOUT, ending).await;
}

async fn serve_connection(stream: TcpStream, endpoint: Arc<HttpEndpoint>) {
    // A failure only costs latency.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| endpoint.handle(request));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let mut serving = pin!(http.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        // Connection errors are the client's concern.
        _ = &mut serving => return,
        () = endpoint.closed() => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await;
}
