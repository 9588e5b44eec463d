//! `toolcrib serve`: the host of a root for everybody who asks, or a pipe to the one that runs already.

mod join;

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
use toolcrib::Host;
use toolcrib::access::DEFAULT_AGENT;
use toolcrib::host::Answers;
use toolcrib_config::model::host::Gateway;
use toolcrib_config::model::security::{Protection, Section};
use toolcrib_config::{Config, Lookup};
use toolcrib_server::front::{Front, Loops};
use toolcrib_server::identity::{Identity, check_listen};
use toolcrib_server::trace::Traces;
use toolcrib_upstream::signals::chain;

use crate::Exit;
use crate::args::{Serve, address};
use crate::hosted::{self, Stop};
use crate::out::Out;
use crate::report::plural;
use crate::running::{self, Claim, Place, Running};
use crate::settings::Settings;
use crate::trust;

/// What clients may be able to answer. Servers that list their tools are told so, since some have tools only for whoever
/// can answer; a client's own session is told what that client can.
const CLIENTS: Answers = Answers::PERSON_AND_MODEL;

/// Threads that serve connections, at most: each has memory of its own, and calls are mostly waited for.
const LOOPS: usize = 4;

/// How long after the last server the start is over: the first lists have been asked for by then.
const STARTED: Duration = Duration::from_secs(1);

/// What a client is heard and answered on.
type Streams = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

pub(crate) fn run(settings: &Settings, out: &Out, args: &Serve) -> Exit {
    let asked = match args.stdio {
        true => Ok(false),
        false => trust::ask(settings, out, None),
    };
    trust::tell(out, &settings.effective().problems);
    let done = asked.and_then(|_| runtime()).and_then(|runtime| {
        let done = runtime.block_on(serve(settings, out, args));
        // Reading standard input cannot be called off, so its end is not waited for.
        runtime.shutdown_background();
        done
    });
    match done {
        Ok(()) => Exit::Done,
        Err(text) => {
            out.error(&text);
            Exit::Failed
        }
    }
}

fn runtime() -> Result<Runtime, String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(cannot_start)
}

/// One thread for each core, this one among them.
fn loops() -> Result<Loops, String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Loops::start(cores.min(LOOPS) - 1).map_err(cannot_start)
}

fn cannot_start(error: io::Error) -> String {
    format!("cannot start: {error}")
}

async fn serve(settings: &Settings, out: &Out, args: &Serve) -> Result<(), String> {
    let mut stop = Stop::of_host()?;
    let place = tokio::select! {
        place = running::claim(settings) => place?,
        () = stop.heard() => return Ok(()),
    };
    match place {
        Place::Free(claim) => {
            let streams = args.stdio.then(standard);
            be_the_host(settings, out, args, claim, stop, streams).await
        }
        Place::Taken(running) => join::join(settings, out, args, running, stop).await,
    }
}

/// The streams of the client that started this.
fn standard() -> Streams {
    (Box::new(tokio::io::stdin()), Box::new(tokio::io::stdout()))
}

async fn be_the_host(
    settings: &Settings,
    out: &Out,
    args: &Serve,
    mut claim: Claim,
    mut stop: Stop,
    streams: Option<Streams>,
) -> Result<(), String> {
    can_load(&settings.compile())?;
    // First of all: whoever comes from now on waits for an answer, and nothing is started in vain.
    let identity = Identity::of(&settings.state_folder()?);
    let listener = listener(settings, args, &identity).await?;
    // Only addresses have so many connections. What was begun on a thread may go on until servers have ended.
    let loops = Arc::new(if listener.is_some() { loops()? } else { Loops::default() });
    // Standard input is a client's where it speaks there.
    if !args.stdio {
        tokio::select! {
            asked = hosted::ask(settings, out) => asked?,
            () = stop.heard() => return Ok(()),
        }
    }
    let socket = claim.bind()?;
    let host = tokio::select! {
        host = hosted::builder(settings)?.reload_on_hangup().answers(CLIENTS).start() => host,
        () = stop.heard() => return Ok(()),
    };
    let host = host.map_err(|error| chain(&error))?;
    let url = listener.as_ref().map(url).transpose()?;
    let running = Running::new(settings, &claim, url);
    claim.announce(&running)?;
    tell(settings, out, args, &running, &identity)?;
    let mut aside = JoinSet::new();
    let traces = traces(settings, out, &mut aside);
    let front = Front::traced(host.clone(), identity, traces.clone());

    let (mut doors, mut client) = (JoinSet::new(), JoinSet::new());
    let (at_socket, at_address) = (Arc::clone(&front), Arc::clone(&front));
    doors.spawn(async move { at_socket.serve_socket(socket).await });
    let threads = Arc::clone(&loops);
    listener.map(|listener| doors.spawn(async move { at_address.serve(listener, &threads).await }));
    streams.map(|streams| client.spawn(serve_client(Arc::clone(&front), streams)));
    aside.spawn(forget_start(host.clone()));
    let served = tokio::select! {
        Some(Ok(served)) = client.join_next() => served,
        () = stop.heard() => Ok(()),
    };
    tokio::select! {
        () = end(out, &front, &host, doors, client) => traces.flush().await,
        () = stop.heard() => {}
    }
    served
}

/// A file whose format fails as a whole, and no other: there is nothing to serve.
fn can_load(config: &Config) -> Result<(), String> {
    let Some(source) = config.failed_load() else { return Ok(()) };
    let cause = config.problems.iter().find(|problem| problem.is_error());
    let cause = cause.map(|problem| format!(": {}", problem.text)).unwrap_or_default();
    let label = &source.label;
    Err(format!(
        "cannot load `{label}`, and there is no other configuration{cause}; `toolcrib check` shows the place"
    ))
}

/// Spans of calls go where the usual variables say. Nobody's calls depend on that.
fn traces(settings: &Settings, out: &Out, aside: &mut JoinSet<()>) -> Traces {
    let Some(collector) = Traces::collector(|name| settings.world.env(name)) else {
        return Traces::default();
    };
    match Traces::to(&collector) {
        Ok((traces, sending)) => {
            aside.spawn(sending);
            traces
        }
        Err(error) => {
            out.note(&format!("no traces are sent: {}", chain(&error)));
            Traces::default()
        }
    }
}

/// What only the start needed is given back when it is over.
async fn forget_start(host: Host) {
    host.settled().await;
    sleep(STARTED).await;
    if let Err(error) = toolcrib_upstream::process::forget_code() {
        tracing::debug!(%error, "the memory of the start is kept");
    }
}

/// No new connections; what is under way has some time; then servers and their processes end.
async fn end(
    out: &Out,
    front: &Front,
    host: &Host,
    mut doors: JoinSet<()>,
    mut client: JoinSet<Result<(), String>>,
) {
    front.close();
    let under_way = usize::try_from(front.calls_under_way()).unwrap_or(usize::MAX);
    if under_way > 0 {
        let (calls, longest) = (plural(under_way, "call"), front.patience());
        out.note(&format!(
            "{calls} may end first, within {longest:?}; another signal ends at once"
        ));
    }
    while doors.join_next().await.is_some() {}
    while client.join_next().await.is_some() {}
    host.close().await;
}

/// Whoever started this process.
async fn serve_client(front: Arc<Front>, (input, output): Streams) -> Result<(), String> {
    let served = front.serve_stream(DEFAULT_AGENT, input, output).await;
    served.map_err(|error| format!("cannot read standard input: {error}"))
}

async fn listener(
    settings: &Settings,
    args: &Serve,
    identity: &Identity,
) -> Result<Option<TcpListener>, String> {
    let config = settings.effective();
    let address = match args.listen {
        Some(address) => address,
        None if args.stdio => return Ok(None),
        None => configured(&config.gateway)?,
    };
    // Where the section is invalid nobody is let in at all.
    let is_protected = identity.protection(&config) == Protection::Protected
        || config.security.is_invalid(Section::Gateway);
    check_listen(address, is_protected).map_err(|error| error.to_string())?;
    let listener = TcpListener::bind(address).await.map_err(|error| {
        format!("cannot listen on {address}: {error}; `--listen :0` takes any free port")
    })?;
    Ok(Some(listener))
}

/// Where it listens if the command line says nothing else.
pub(crate) fn configured(gateway: &Gateway) -> Result<SocketAddr, String> {
    address(&gateway.listen).map_err(|why| format!("gateway.listen is `{}`: {why}", gateway.listen))
}

fn url(listener: &TcpListener) -> Result<String, String> {
    let address = listener.local_addr();
    let address = address.map_err(|error| format!("cannot tell where this listens: {error}"))?;
    Ok(format!("http://{address}"))
}

/// One line when everything listens. Standard output belongs to the client where there is one. Whoever reads the
/// line is the owner, so that it opens the console.
fn tell(
    settings: &Settings,
    out: &Out,
    args: &Serve,
    running: &Running,
    identity: &Identity,
) -> Result<(), String> {
    let Some(url) = &running.url else { return Ok(()) };
    let (root, gateway) = (settings.root(), format!("{url}/mcp"));
    if args.stdio {
        out.note(&format!("toolcrib serves {} at {gateway}", root.display()));
        return Ok(());
    }
    let token = identity.fresh_owner_token().map_err(|error| chain(&error))?;
    let console = format!("{url}/#token={token}");
    let line = match settings.json {
        true => {
            let (pid, socket) = (running.pid, &running.socket);
            let told = json!({"pid": pid, "root": root, "url": url, "gateway": gateway,
                "console": console, "socket": socket});
            told.to_string()
        }
        false => {
            format!("toolcrib serves {} at {gateway}, console {console}", root.display())
        }
    };
    out.result(&format!("{line}\n"));
    Ok(())
}
