//! `toolcrib demo-server`: a small MCP server, on standard streams or over HTTP.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::Exit;
use crate::args::DemoServer;
use crate::demo::{Hub, State, http, stdio};
use crate::out::Out;
use crate::settings::Settings;

pub(crate) fn run(settings: &Settings, out: &Out, args: &DemoServer) -> Exit {
    let served = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))
        .and_then(|runtime| {
            let served = runtime.block_on(serve(settings, out, args));
            // Reading standard input cannot be called off, so its end is not waited for.
            runtime.shutdown_background();
            served
        });
    match served {
        Ok(()) => Exit::Done,
        Err(text) => {
            out.error(&text);
            Exit::Failed
        }
    }
}

/// Until the client goes, or somebody ends us; then what is under way gets an answer.
async fn serve(settings: &Settings, out: &Out, args: &DemoServer) -> Result<(), String> {
    let hub = Arc::new(Hub::new(State::default()));
    let mut serving = pin!(speak(settings, out, args, Arc::clone(&hub)));
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    tokio::select! {
        served = &mut serving => return served,
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    hub.close();
    serving.await
}

async fn speak(
    settings: &Settings,
    out: &Out,
    args: &DemoServer,
    hub: Arc<Hub>,
) -> Result<(), String> {
    let Some(address) = args.http else {
        let served = stdio::serve(hub, tokio::io::stdin(), tokio::io::stdout()).await;
        return served.map_err(|error| format!("cannot read standard input: {error}"));
    };
    let failed = |error: io::Error| format!("cannot listen on {address}: {error}");
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address: SocketAddr = listener.local_addr().map_err(failed)?;
    let url = format!("http://{address}{}", http::PATH);
    match settings.json {
        true => out.json(&json!({ "url": url })),
        false => out.result(&format!("{url}\n")),
    }
    http::serve(hub, listener).await;
    Ok(())
}

fn listen(kind: SignalKind) -> Result<tokio::signal::unix::Signal, String> {
    signal(kind).map_err(|error| format!("cannot watch for signals: {error}"))
}
