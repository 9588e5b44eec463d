//! A client of the running host: every byte is passed on, and nothing of it is read.

use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, UPGRADE};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split};
use toolcrib_server::front::pipe::{PATH, PROTOCOL};

use crate::running::Running;

/// Until the client ends, or the host does, which is an error.
pub(crate) async fn run(
    running: &Running,
    mut input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) -> Result<(), String> {
    let stream = open(running).await.map_err(|error| {
        format!("cannot speak to the host of this root ({}): {error}", running.told())
    })?;
    let (mut from_host, mut to_host) = split(stream);
    let there = async {
        let passed = copy(&mut input, &mut to_host).await;
        // The host answers what it was asked before this, and then ends the stream.
        to_host.shutdown().await.and(passed)
    };
    let back = async {
        let passed = copy(&mut from_host, &mut output).await;
        output.flush().await.and(passed)
    };
    let ended = || Err(format!("the host of this root has ended ({})", running.told()));
    tokio::pin!(back);
    tokio::select! {
        _ = &mut back => return ended(),
        passed = there => if passed.is_err() { return ended() },
    }
    // It gives itself a time for that.
    let _ = back.await;
    Ok(())
}

/// A connection to the host that is no HTTP any more.
async fn open(running: &Running) -> Result<TokioIo<hyper::upgrade::Upgraded>, String> {
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
