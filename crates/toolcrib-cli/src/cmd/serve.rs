//! `toolcrib serve`: runs the host of a workspace, or relays to the host that already runs.

mod relay_client;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::sleep;
use toolcrib::internal::DEFAULT_AGENT;
use toolcrib::{DialogCapabilities, Host};
use toolcrib_config::model::host::GatewaySettings;
use toolcrib_config::model::security::{GatewayProtection, SecuritySection};
use toolcrib_config::{Config, Lookup};
use toolcrib_server::front::{Front, WorkerThreads};
use toolcrib_server::identity::{Identity, check_listen};
use toolcrib_server::trace::TraceSender;
use toolcrib_upstream::signals::chain;

use crate::Exit;
use crate::args::{ServeArgs, parse_address};
use crate::host_access::{self, StopSignals};
use crate::output::Output;
use crate::problem_report::plural;
use crate::running_host::{self, HostClaim, HostSlot, RunningHost};
use crate::settings::Settings;
use crate::trust_prompt;

/// The capabilities that clients may have. Servers see them while their tools are listed, because some servers offer
/// certain tools only to capable clients. A client's own session declares the client's real capabilities.
const CLIENT_CAPABILITIES: DialogCapabilities = DialogCapabilities::PERSON_AND_MODEL;

/// Maximum number of threads that serve connections. Each thread has its own memory, and calls mostly wait.
const MAX_THREADS: usize = 4;

/// Delay after the last server has connected until the start counts as finished. The first lists have been requested by
/// then.
const STARTUP_GRACE: Duration = Duration::from_secs(1);

/// The input and output streams of a client.
type ClientStreams = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

pub(crate) fn run(settings: &Settings, out: &Output, args: &ServeArgs) -> Exit {
    let trust_result = match args.stdio {
        true => Ok(false),
        false => trust_prompt::ask_trust(settings, out, None),
    };
    trust_prompt::report_untrusted(out, &settings.compile_trusted().problems);
    let done = trust_result.and_then(|_| build_runtime()).and_then(|runtime| {
        let done = runtime.block_on(serve(settings, out, args));
        // A read from standard input cannot be cancelled, so the runtime does not wait for it.
        runtime.shutdown_background();
        done
    });
    match done {
        Ok(()) => Exit::Done,
        Err(text) => {
            out.print_error(&text);
            Exit::Failed
        }
    }
}

fn build_runtime() -> Result<Runtime, String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(cannot_start)
}

/// Starts one worker thread for each core, including the current thread.
fn start_worker_threads() -> Result<WorkerThreads, String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    WorkerThreads::start(cores.min(MAX_THREADS) - 1).map_err(cannot_start)
}

fn cannot_start(error: io::Error) -> String {
    format!("cannot start: {error}")
}

async fn serve(settings: &Settings, out: &Output, args: &ServeArgs) -> Result<(), String> {
    let mut stop = StopSignals::for_host()?;
    let place = tokio::select! {
        place = running_host::claim(settings) => place?,
        () = stop.recv() => return Ok(()),
    };
    match place {
        HostSlot::Free(claim) => {
            let streams = args.stdio.then(standard_streams);
            run_host(settings, out, args, claim, stop, streams).await
        }
        HostSlot::Taken(running) => {
            relay_client::relay_to_host(settings, out, args, running, stop).await
        }
    }
}

/// The standard streams of this process.
fn standard_streams() -> ClientStreams {
    (Box::new(tokio::io::stdin()), Box::new(tokio::io::stdout()))
}

async fn run_host(
    settings: &Settings,
    out: &Output,
    args: &ServeArgs,
    mut claim: HostClaim,
    mut stop: StopSignals,
    streams: Option<ClientStreams>,
) -> Result<(), String> {
    check_loadable(&settings.compile())?;
    // The listener is bound first: early clients wait in its queue, and a bind failure starts nothing.
    let identity = Identity::with_tokens_in(&settings.state_folder()?);
    let listener = bind_listener(settings, args, &identity).await?;
    // Only a TCP listener needs worker threads. Work on a thread may continue until the servers have ended.
    let loops = Arc::new(if listener.is_some() {
        start_worker_threads()?
    } else {
        WorkerThreads::default()
    });
    // With `--stdio` standard input belongs to the client.
    if !args.stdio {
        tokio::select! {
            result = host_access::ask_inputs(settings, out) => result?,
            () = stop.recv() => return Ok(()),
        }
    }
    let socket = claim.bind()?;
    let host = tokio::select! {
        host = host_access::host_builder(settings)?.reload_on_hangup().capabilities(CLIENT_CAPABILITIES).start() => host,
        () = stop.recv() => return Ok(()),
    };
    let host = host.map_err(|error| chain(&error))?;
    let url = listener.as_ref().map(listener_url).transpose()?;
    let running = RunningHost::new(settings, &claim, url);
    claim.announce(&running)?;
    announce(settings, out, args, &running, &identity)?;
    let mut background = JoinSet::new();
    let traces = start_traces(settings, out, &mut background);
    let front = Front::with_traces(host.clone(), identity, traces.clone());

    let (mut listeners, mut client) = (JoinSet::new(), JoinSet::new());
    let (at_socket, at_address) = (Arc::clone(&front), Arc::clone(&front));
    listeners.spawn(async move { at_socket.serve_socket(socket).await });
    let threads = Arc::clone(&loops);
    listener
        .map(|listener| listeners.spawn(async move { at_address.serve(listener, &threads).await }));
    streams.map(|streams| client.spawn(serve_client(Arc::clone(&front), streams)));
    background.spawn(release_startup_memory(host.clone()));
    let served = tokio::select! {
        Some(Ok(served)) = client.join_next() => served,
        () = stop.recv() => Ok(()),
    };
    tokio::select! {
        () = shut_down(out, &front, &host, listeners, client) => traces.flush().await,
        () = stop.recv() => {}
    }
    served
}

/// Fails if the only file has a format that fails as a whole, because there is nothing to serve.
fn check_loadable(config: &Config) -> Result<(), String> {
    let Some(source) = config.failed_load() else { return Ok(()) };
    let cause = config.problems.iter().find(|problem| problem.is_error());
    let cause = cause.map(|problem| format!(": {}", problem.text)).unwrap_or_default();
    let label = &source.label;
    Err(format!(
        "cannot load `{label}`, and there is no other configuration{cause}; `toolcrib check` shows the place"
    ))
}

/// Sends spans of calls to the collector in the standard environment variables. No call depends on it.
fn start_traces(settings: &Settings, out: &Output, background: &mut JoinSet<()>) -> TraceSender {
    let Some(collector) = TraceSender::collector_from_env(|name| settings.environment.env(name))
    else {
        return TraceSender::default();
    };
    match TraceSender::with_collector(&collector) {
        Ok((traces, sending)) => {
            background.spawn(sending);
            traces
        }
        Err(error) => {
            out.print_note(&format!("traces are disabled: {}", chain(&error)));
            TraceSender::default()
        }
    }
}

/// Releases memory that only the start needed.
async fn release_startup_memory(host: Host) {
    host.wait_until_settled().await;
    sleep(STARTUP_GRACE).await;
    if let Err(error) = toolcrib_upstream::process::release_code_pages() {
        tracing::debug!(%error, "cannot release start-up memory");
    }
}

/// Accepts no new connections, waits for calls in flight, then stops the servers and their processes.
async fn shut_down(
    out: &Output,
    front: &Front,
    host: &Host,
    mut listeners: JoinSet<()>,
    mut client: JoinSet<Result<(), String>>,
) {
    front.close();
    let under_way = usize::try_from(front.calls_in_flight()).unwrap_or(usize::MAX);
    if under_way > 0 {
        let (calls, longest) = (plural(under_way, "call"), front.drain_timeout());
        out.print_note(&format!(
            "waiting up to {longest:?} for {calls}; another signal stops at once"
        ));
    }
    while listeners.join_next().await.is_some() {}
    while client.join_next().await.is_some() {}
    host.close().await;
}

/// Serves the client that started this process.
async fn serve_client(front: Arc<Front>, (input, output): ClientStreams) -> Result<(), String> {
    let served = front.serve_stream(DEFAULT_AGENT, input, output).await;
    served.map_err(|error| format!("cannot read standard input: {error}"))
}

async fn bind_listener(
    settings: &Settings,
    args: &ServeArgs,
    identity: &Identity,
) -> Result<Option<TcpListener>, String> {
    let config = settings.compile_trusted();
    let address = match args.listen {
        Some(address) => address,
        None if args.stdio => return Ok(None),
        None => configured_address(&config.gateway)?,
    };
    // An invalid gateway section admits no one, so any address is safe.
    let is_protected = identity.protection(&config) == GatewayProtection::Protected
        || config.security.is_invalid(SecuritySection::Gateway);
    check_listen(address, is_protected).map_err(|error| error.to_string())?;
    let listener = TcpListener::bind(address).await.map_err(|error| {
        format!("cannot listen on {address}: {error}; `--listen :0` takes any free port")
    })?;
    Ok(Some(listener))
}

/// Returns the configured address, which `--listen` overrides.
pub(crate) fn configured_address(gateway: &GatewaySettings) -> Result<SocketAddr, String> {
    parse_address(&gateway.listen)
        .map_err(|why| format!("gateway.listen is `{}`: {why}", gateway.listen))
}

fn listener_url(listener: &TcpListener) -> Result<String, String> {
    let address = listener.local_addr();
    let address =
        address.map_err(|error| format!("cannot read the listener's address: {error}"))?;
    Ok(format!("http://{address}"))
}

/// Prints one line when everything listens. With `--stdio` standard output belongs to the client. The reader of the
/// line is the owner, so the line contains the console URL with a token.
fn announce(
    settings: &Settings,
    out: &Output,
    args: &ServeArgs,
    running: &RunningHost,
    identity: &Identity,
) -> Result<(), String> {
    let Some(url) = &running.url else { return Ok(()) };
    let (root, gateway) = (settings.root(), format!("{url}/mcp"));
    if args.stdio {
        out.print_note(&format!("toolcrib serves {} at {gateway}", root.display()));
        return Ok(());
    }
    let token = identity.new_owner_token().map_err(|error| chain(&error))?;
    let console = format!("{url}/#token={token}");
    let line = match settings.json {
        true => {
            let (pid, socket) = (running.pid, &running.socket);
            let document = json!({"pid": pid, "root": root, "url": url, "gateway": gateway,
                "console": console, "socket": socket});
            document.to_string()
        }
        false => {
            format!("toolcrib serves {} at {gateway}, console {console}", root.display())
        }
    };
    out.print_result(&format!("{line}\n"));
    Ok(())
}
