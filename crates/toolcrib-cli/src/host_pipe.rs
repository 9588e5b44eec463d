//! A byte stream to the running host that behaves like the host's standard streams.

use std::time::Duration;

use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, UPGRADE};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use toolcrib_server::front::pipe::{PATH, PROTOCOL};

use crate::running_host::RunningHost;

/// Time limit for opening a pipe. A host that has just claimed its slot reads its files first.
const OPEN_TIMEOUT: Duration = Duration::from_secs(20);

/// An upgraded HTTP connection to the host.
pub(crate) type HostPipe = TokioIo<hyper::upgrade::Upgraded>;

pub(crate) async fn open(running: &RunningHost) -> Result<HostPipe, String> {
    let opened = timeout(OPEN_TIMEOUT, upgrade(running)).await;
    let opened = opened.unwrap_or_else(|_| Err(format!("no answer within {OPEN_TIMEOUT:?}")));
    opened.map_err(|error| {
        format!("cannot connect to the host of this workspace ({}): {error}", running.describe())
    })
}

/// Upgrades an HTTP connection to a byte stream.
async fn upgrade(running: &RunningHost) -> Result<HostPipe, String> {
    let stream = running.connect().await.map_err(|error| error.to_string())?;
    let opening = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = opening.map_err(|error| error.to_string())?;
    let request = Request::get(PATH)
        .header(HOST, "toolcrib")
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, PROTOCOL)
        .body(String::new())
        .map_err(|error| error.to_string())?;
    let asking = async move {
        let reply = sender.send_request(request).await.map_err(|error| error.to_string())?;
        match reply.status() {
            StatusCode::SWITCHING_PROTOCOLS => {
                hyper::upgrade::on(reply).await.map_err(|error| error.to_string())
            }
            status => Err(format!("unexpected status {status}")),
        }
    };
    let connection = connection.with_upgrades();
    let (stream, _) = tokio::join!(asking, connection);
    stream.map(TokioIo::new)
}
