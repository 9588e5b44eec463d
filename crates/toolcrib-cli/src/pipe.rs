//! A connection to the running host on which a client speaks as if the host had its streams.

use std::time::Duration;

use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, UPGRADE};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use toolcrib_server::front::pipe::{PATH, PROTOCOL};

use crate::running::Running;

/// How long a host may take to let somebody in: one that has just taken its place reads its files first.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is spoken to the host on.
pub(crate) type Pipe = TokioIo<hyper::upgrade::Upgraded>;

pub(crate) async fn open(running: &Running) -> Result<Pipe, String> {
    let opened = timeout(PATIENCE, upgrade(running)).await;
    let opened = opened.unwrap_or_else(|_| Err(format!("no answer within {PATIENCE:?}")));
    opened.map_err(|error| {
        format!("cannot speak to the host of this root ({}): {error}", running.told())
    })
}

/// A connection that is no HTTP any more.
async fn upgrade(running: &Running) -> Result<Pipe, String> {
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
            status => Err(format!("it answers {status}")),
        }
    };
    let connection = connection.with_upgrades();
    let (stream, _) = tokio::join!(asking, connection);
    stream.map(TokioIo::new)
}
