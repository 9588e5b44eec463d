//! `toolcrib demo-server`: runs the demo server on standard streams or over HTTP.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::Exit;
use crate::args::DemoServerArgs;
use crate::demo::{DemoServer, State, http, stdio};
use crate::output::Output;
use crate::settings::Settings;

pub(crate) fn run(settings: &Settings, out: &Output, args: &DemoServerArgs) -> Exit {
    let served = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))
        .and_then(|runtime| {
            let served = runtime.block_on(serve(settings, out, args));
            // A read from standard input cannot be cancelled, so the runtime does not wait for it.
            runtime.shutdown_background();
            served
        });
    match served {
        Ok(()) => Exit::Done,
        Err(text) => {
            out.print_error(&text);
            Exit::Failed
        }
    }
}

/// Serves until the client disconnects or a signal arrives. Requests in flight then get a response.
async fn serve(settings: &Settings, out: &Output, args: &DemoServerArgs) -> Result<(), String> {
    let server = Arc::new(DemoServer::new(State::default()));
    let mut serving = pin!(serve_transport(settings, out, args, Arc::clone(&server)));
    let mut terminate = watch_signal(SignalKind::terminate())?;
    let mut interrupt = watch_signal(SignalKind::interrupt())?;
    tokio::select! {
        served = &mut serving => return served,
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    server.close();
    serving.await
}

async fn serve_transport(
    settings: &Settings,
    out: &Output,
    args: &DemoServerArgs,
    server: Arc<DemoServer>,
) -> Result<(), String> {
    let Some(address) = args.http else {
        let served = stdio::serve(server, tokio::io::stdin(), tokio::io::stdout()).await;
        return served.map_err(|error| format!("cannot read standard input: {error}"));
    };
    let failed = |error: io::Error| format!("cannot listen on {address}: {error}");
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address: SocketAddr = listener.local_addr().map_err(failed)?;
    let url = format!("http://{address}{}", http::PATH);
    match settings.json {
        true => out.print_json(&json!({ "url": url })),
        false => out.print_result(&format!("{url}\n")),
    }
    http::serve(server, listener).await;
    Ok(())
}

fn watch_signal(kind: SignalKind) -> Result<tokio::signal::unix::Signal, String> {
    signal(kind).map_err(|error| format!("cannot watch for signals: {error}"))
}
