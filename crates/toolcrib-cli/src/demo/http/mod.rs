//! The demo server over Streamable HTTP, on this machine only.

mod exchange;
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

use super::GRACE;
use super::hub::Hub;
use exchange::Shop;

/// Where the protocol is spoken.
pub(crate) const PATH: &str = "/mcp";

/// Connections at once; more wait.
const CONNECTIONS: usize = 1024;

/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(15);

/// Serves until the hub closes.
pub(crate) async fn serve(hub: Arc<Hub>, listener: TcpListener) {
    let shop = Arc::new(Shop::new(Arc::clone(&hub)));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, Arc::clone(&shop)));
                }
                // The usual reason, too many open files, passes.
                Err(_) => sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
            () = hub.closing() => break,
        }
    }
    drop(listener);
    let ending = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(GRACE, ending).await;
}

async fn connection(stream: TcpStream, shop: Arc<Shop>) {
    // It only costs speed.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| shop.answer(request));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD);
    let mut serving = pin!(http.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        // A connection that breaks is the client's matter.
        _ = &mut serving => return,
        () = shop.closing() => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await;
}
