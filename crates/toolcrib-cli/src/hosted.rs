//! A host for the length of one command: started, waited for, and ended in good order whatever happens.

use std::pin::pin;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;
use toolcrib::conn::State;
use toolcrib::host::DialogRequest;
use toolcrib::signals::chain;
use toolcrib::{Dialog, Host, HostBuilder, ServerStatus, Turn};

use crate::Exit;
use crate::args::Who;
use crate::out::Out;
use crate::report::{count, no_such_server};
use crate::settings::Settings;
use crate::shown::{few, reason};

/// How often is told what is waited for.
const TICK: Duration = Duration::from_secs(1);

/// A running host, and the command that it runs for.
pub(crate) struct Hosted<'a> {
    pub(crate) host: Host,
    pub(crate) out: &'a Out,
}

/// Does a command's work on a host of its own. A signal ends the work, the host always ends after it; a second
/// signal ends both at once.
pub(crate) fn run(
    settings: &Settings,
    out: &Out,
    work: impl AsyncFnOnce(&Hosted<'_>) -> Result<Exit, String>,
) -> Exit {
    let done = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))
        .and_then(|runtime| {
            let done = runtime.block_on(start_and_work(settings, out, work));
            // What still reads files cannot be called off, so its end is not waited for.
            runtime.shutdown_background();
            done
        });
    done.unwrap_or_else(|text| {
        out.error(&text);
        Exit::Failed
    })
}

async fn start_and_work(
    settings: &Settings,
    out: &Out,
    work: impl AsyncFnOnce(&Hosted<'_>) -> Result<Exit, String>,
) -> Result<Exit, String> {
    let mut stop = Stop::new()?;
    let host = tokio::select! {
        started = builder(settings)?.start() => started.map_err(|error| chain(&error))?,
        () = stop.heard() => return Ok(Exit::Interrupted),
    };
    let hosted = Hosted { host, out };
    let done = tokio::select! {
        done = work(&hosted) => done,
        () = stop.heard() => Ok(Exit::Interrupted),
    };
    out.progress("");
    tokio::select! {
        () = hosted.host.close() => {}
        () = stop.heard() => {}
    }
    if done == Ok(Exit::Interrupted) {
        out.note("interrupted");
    }
    done
}

/// A host for these settings, which is not started yet.
pub(crate) fn builder(settings: &Settings) -> Result<HostBuilder, String> {
    let state = settings.state_folder()?;
    let mut builder = Host::builder(settings.root(), state).env(settings.world.variables());
    if let Some(home) = &settings.workspace.home {
        builder = builder.config_home(home);
    }
    if let Some(named) = &settings.workspace.named {
        builder = builder.config_file(named.clone());
    }
    Ok(builder)
}

impl Hosted<'_> {
    pub(crate) async fn dialog(&self, who: &Who) -> Result<Dialog, String> {
        let request = DialogRequest {
            id: who.dialog.clone(),
            agent: who.agent.clone(),
            ..DialogRequest::default()
        };
        self.host.dialog(request).await.map_err(|error| chain(&error))
    }

    /// Waits until each server has told what it offers or has failed once, or until enough is known. What starts
    /// only when it is wanted is started only if the others do not know enough.
    pub(crate) async fn settled(&self, dialog: &Dialog, is_enough: impl Fn(&Turn) -> bool) -> Turn {
        if !self.wait(dialog, self.host.settled(), &is_enough).await {
            let listed = async { drop(dialog.turn().await) };
            self.wait(dialog, listed, &is_enough).await;
        }
        self.out.progress("");
        dialog.turn_now()
    }

    /// The same, for one server or for all.
    pub(crate) async fn settled_of(&self, dialog: &Dialog, server: Option<&str>) -> Turn {
        let is_settled = |turn: &Turn, name: &str| {
            let listed = turn.snapshot().servers().find(|server| server.is_called(name));
            let is_listed = listed.is_some_and(|server| server.is_discovered && !server.from_cache);
            // Before anything is published, nobody knows which servers there are.
            let is_nobody = turn.version() > 0 && self.server(name).is_none();
            is_nobody || is_listed || self.server(name).is_some_and(|server| is_away(&server))
        };
        self.settled(dialog, |turn| server.is_some_and(|name| is_settled(turn, name))).await
    }

    /// Whether enough was known before the work was done.
    async fn wait(
        &self,
        dialog: &Dialog,
        work: impl Future<Output = ()>,
        is_enough: &impl Fn(&Turn) -> bool,
    ) -> bool {
        let mut events = self.host.listen();
        let mut work = pin!(work);
        loop {
            if is_enough(&dialog.turn_now()) {
                return true;
            }
            self.out.progress(&waiting(&self.host.servers()));
            tokio::select! {
                () = &mut work => return is_enough(&dialog.turn_now()),
                heard = events.next() => if heard.is_none() { events = self.host.listen() },
                () = sleep(TICK) => {}
            }
        }
    }

    /// A server by its id or key, if just one is meant.
    pub(crate) fn server(&self, name: &str) -> Option<ServerStatus> {
        let servers = self.host.servers();
        let mut found = servers.iter().filter(|server| server.spec.id == name);
        match (found.next(), found.next()) {
            (Some(server), None) => Some(server.clone()),
            _ => servers.iter().find(|server| &*server.key == name).cloned(),
        }
    }

    /// Tells that there is no such server, and why.
    pub(crate) fn no_server(&self, name: &str) -> Exit {
        no_such_server(&self.host.config(), self.out, name)
    }

    /// Whether there are servers to be asked and none of them answers.
    pub(crate) fn is_cut_off(&self) -> bool {
        let servers = self.host.servers();
        let mut on = servers.iter().filter(|server| server.state != State::Disabled).peekable();
        on.peek().is_some() && on.all(is_away)
    }

    /// How a command ends that has nothing to show.
    pub(crate) fn exit_of_nothing(&self) -> Exit {
        match (self.is_cut_off(), self.host.config().has_errors()) {
            (true, _) => Exit::Unreached,
            (false, true) => Exit::Failed,
            (false, false) => Exit::Done,
        }
    }

    /// What a list does not show: who is missing from it, and why.
    pub(crate) fn footnotes(&self, turn: &Turn) {
        let servers = self.host.servers();
        for server in servers.iter().filter(|server| is_away(server)) {
            let why = server.last_error.as_deref().map(reason).unwrap_or_default();
            let (id, state) = (&server.spec.id, server.state.as_str());
            self.out.note(&format!("server `{id}` is {state}: {why}"));
        }
        let off = servers.iter().filter(|server| server.state == State::Disabled);
        let off: Vec<&str> = off.map(|server| server.spec.id.as_str()).collect();
        if !off.is_empty() {
            self.out.note(&format!("disabled: {}", few(off.into_iter())));
        }
        let stale = turn.snapshot().servers().filter(|server| server.from_cache);
        let stale: Vec<&str> = stale.map(|server| server.id()).collect();
        if !stale.is_empty() {
            self.out.note(&format!(
                "not started, shown as last seen: {} (`toolcrib server refresh ID` asks anew)",
                few(stale.into_iter())
            ));
        }
        let config = self.host.config();
        if config.has_errors() {
            self.out.note(&format!("{}: see `toolcrib check`", count(&config.problems)));
        }
    }
}

pub(crate) fn is_up(server: &ServerStatus) -> bool {
    matches!(server.state, State::Ready | State::Degraded)
}

fn is_away(server: &ServerStatus) -> bool {
    use State::{Backoff, Failed, Reconnecting, Stopped};
    matches!(server.state, Backoff | Failed | Reconnecting | Stopped)
}

fn waiting(servers: &[ServerStatus]) -> String {
    let coming = servers.iter().filter(|server| server.state == State::Connecting);
    let coming: Vec<&str> = coming.map(|server| server.spec.id.as_str()).collect();
    if coming.is_empty() {
        return "starting".to_owned();
    }
    let up = servers.iter().filter(|server| is_up(server)).count();
    format!("{up} of {} up, starting {}", servers.len(), few(coming.into_iter()))
}

/// What tells a command to end.
#[derive(Debug)]
pub(crate) struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    pub(crate) fn new() -> Result<Self, String> {
        let listen =
            |kind| signal(kind).map_err(|error| format!("cannot watch for signals: {error}"));
        let interrupt = listen(SignalKind::interrupt())?;
        Ok(Stop { interrupt, terminate: listen(SignalKind::terminate())? })
    }

    pub(crate) async fn heard(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
