//! The host that a command talks to: the one that runs for its root, else one for the length of the command.

use std::pin::pin;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;
use toolcrib::{Host, HostBuilder};
use toolcrib_server::api::shape::{DialogStatus, Fault, NewDialog, Problems, ServerShape, Servers};
use toolcrib_server::front::Front;
use toolcrib_server::identity::Identity;
use toolcrib_upstream::secrets::Storage;
use toolcrib_upstream::signals::chain;

use crate::Exit;
use crate::api::{Answer, Api, path};
use crate::args::Who;
use crate::inputs;
use crate::out::Out;
use crate::report::{count, no_such_server};
use crate::running::{self, Running};
use crate::settings::Settings;
use crate::shown::{few, lines, reason};
use crate::trust;

/// How often is told what is waited for.
const TICK: Duration = Duration::from_millis(50);

/// The dialog of commands that name none. A running host keeps it, so that what a server remembers of one command
/// is there for the next.
const DIALOG: &str = "command-line";

/// A host, and the command that it works for.
pub(crate) struct Hosted<'a> {
    pub(crate) api: Api,
    pub(crate) out: &'a Out,
    pub(crate) settings: &'a Settings,
    /// The host that runs, if it is no host of the command's own.
    pub(crate) running: Option<Running>,
}

/// Does a command's work. A signal ends the work, and a host of its own always ends after it; a second signal ends
/// both at once.
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
            let done = runtime.block_on(begin_and_work(settings, out, work));
            // What still reads files cannot be called off, so its end is not waited for.
            runtime.shutdown_background();
            done
        });
    done.unwrap_or_else(|text| {
        out.error(&lines(&text));
        Exit::Failed
    })
}

async fn begin_and_work(
    settings: &Settings,
    out: &Out,
    work: impl AsyncFnOnce(&Hosted<'_>) -> Result<Exit, String>,
) -> Result<Exit, String> {
    let running = match running::find_reachable(settings).await {
        Ok(running) => running,
        Err(unreachable) => {
            out.error(&lines(&unreachable));
            return Ok(Exit::Unreached);
        }
    };
    // Before signals are watched: they end a question as they end any program.
    let is_news = trust::ask(settings, out, running.as_ref())?;
    let mut stop = Stop::new()?;
    let (hosted, own) = tokio::select! {
        begun = begin(settings, out, running, is_news) => begun?,
        () = stop.heard() => return Ok(Exit::Interrupted),
    };
    let done = tokio::select! {
        done = work(&hosted) => done,
        () = stop.heard() => Ok(Exit::Interrupted),
    };
    out.progress("");
    if let Some(own) = own {
        tokio::select! {
            () = own.close() => {}
            () = stop.heard() => {}
        }
    }
    if done == Ok(Exit::Interrupted) {
        out.note("interrupted");
    }
    done
}

/// The host, and the handle to end it by if it is the command's own. One that runs is told if something was trusted
/// just now.
async fn begin<'a>(
    settings: &'a Settings,
    out: &'a Out,
    running: Option<Running>,
    is_news: bool,
) -> Result<(Hosted<'a>, Option<Host>), String> {
    if let Some(running) = running {
        tracing::info!(host = %running.told(), "a host of this root runs and is used");
        let api = Api::running(&running);
        if is_news {
            trust::wake(&running).await?;
        }
        return Ok((Hosted { api, out, settings, running: Some(running) }, None));
    }
    tracing::info!("no host of this root runs: one of its own is used");
    ask(settings, out).await?;
    let host = builder(settings)?.start().await.map_err(|error| chain(&error))?;
    let front = Front::new(host.clone(), Identity::default());
    Ok((Hosted { api: Api::own(&front), out, settings, running: None }, Some(host)))
}

/// Asks for what servers need of the person, before a host starts them.
pub(crate) async fn ask(settings: &Settings, out: &Out) -> Result<(), String> {
    let config = settings.effective();
    let keep = settings.keep(config.host.credentials.into())?;
    let servers = config.servers.iter().filter(|spec| !spec.is_withheld());
    inputs::ask(out, &config, servers, &keep, |_| ()).await.map(drop)
}

/// A host for these settings, which is not started yet.
pub(crate) fn builder(settings: &Settings) -> Result<HostBuilder, String> {
    let state = settings.state_folder()?;
    let credentials = settings.keep(Storage::default())?;
    let mut builder = Host::builder(settings.root(), state)
        .env(settings.world.variables())
        .credentials(credentials.folder())
        .containment(settings.containment())
        .trust(settings.trust(&settings.compile()));
    if let Some(home) = &settings.workspace.home {
        builder = builder.config_home(home);
    }
    if let Some(named) = &settings.workspace.named {
        builder = builder.config_file(named.clone());
    }
    Ok(builder)
}

impl Hosted<'_> {
    /// Asks for what somebody sees, when each server has told what it offers or has failed once.
    pub(crate) async fn list(
        &self,
        segments: &[&str],
        who: &Who,
        more: &[(&str, Option<&str>)],
    ) -> Result<Answer, String> {
        let path = listing(segments, who, more);
        self.waited(self.api.get(&path)).await
    }

    /// The id of the dialog that is meant, which is there from now on.
    pub(crate) async fn dialog(&self, who: &Who) -> Result<String, String> {
        let id = Some(dialog_of(who));
        let new = NewDialog { id, agent: who.agent.clone(), ..NewDialog::default() };
        let answer = self.waited(self.api.post("/dialogs", &new)).await?;
        answer.good::<DialogStatus>()?.map(|it| it.id).map_err(|fault| fault.message)
    }

    /// Whether to wait for servers before telling how they are: a host that runs tells how it is.
    pub(crate) fn wait(&self) -> Option<&'static str> {
        self.running.is_none().then_some("true")
    }

    /// How servers are now; nothing is started or waited for.
    pub(crate) async fn servers(&self) -> Result<Vec<ServerShape>, String> {
        let answer = self.api.get("/servers").await?;
        answer.good::<Servers>()?.map(|it| it.servers).map_err(|fault| fault.message)
    }

    /// Does something that may take as long as servers take to start, and tells of that.
    pub(crate) async fn waited<T>(&self, work: impl Future<Output = T>) -> T {
        if !self.out.shows_progress() {
            return work.await;
        }
        let mut work = pin!(work);
        let mut told = String::new();
        let done = loop {
            tokio::select! {
                biased;
                done = &mut work => break done,
                servers = self.servers() => {
                    let now = waiting(&servers.unwrap_or_default());
                    if now != told {
                        self.out.progress(&now);
                        told = now;
                    }
                }
            }
            tokio::select! {
                done = &mut work => break done,
                () = sleep(TICK) => {}
            }
        };
        self.out.progress("");
        done
    }

    /// Tells that something was refused. What is wrong with a server's entry says more than that it is missing.
    pub(crate) fn refused(&self, fault: &Fault, server: Option<&str>) -> Exit {
        if let (Some(name), "server.unknown") = (server, fault.code.as_str()) {
            let config = self.settings.compile();
            if config.problems.iter().any(|problem| problem.server.as_deref() == Some(name)) {
                return no_such_server(&config, self.out, name);
            }
        }
        self.out.error(&lines(&fault.message));
        Exit::Failed
    }

    /// Tells that something could not be had of servers, and who of them is missing.
    pub(crate) async fn failed(&self, fault: &Fault, server: Option<&str>) -> Result<Exit, String> {
        if self.settings.json {
            self.out.json(&serde_json::json!({"error": fault}));
        } else {
            self.out.error(&lines(&fault.message));
            self.footnotes().await?;
        }
        let unreached = self.is_unreached(fault, server).await? || self.is_cut_off().await?;
        Ok(if unreached { Exit::Unreached } else { Exit::Failed })
    }

    /// Whether nothing was sent because there is nobody to send it to. A tool may be known of a server that was
    /// never there: from an earlier time.
    pub(crate) async fn is_unreached(
        &self,
        fault: &Fault,
        server: Option<&str>,
    ) -> Result<bool, String> {
        let of_connection =
            matches!(fault.kind.as_str(), "connection" | "timeout" | "authentication");
        let servers = self.servers().await?;
        let mut meant = servers.iter().filter(|it| server.is_some_and(|name| is_called(it, name)));
        let was_never_there = meant.any(|server| server.last_connected.is_none());
        Ok(is_down(fault) || (of_connection && was_never_there))
    }

    /// Whether there are servers to be asked and none of them answers.
    pub(crate) async fn is_cut_off(&self) -> Result<bool, String> {
        let servers = self.servers().await?;
        let mut on = servers.iter().filter(|server| server.state != "disabled").peekable();
        Ok(on.peek().is_some() && on.all(is_away))
    }

    /// How a command ends that has nothing to show.
    pub(crate) async fn exit_of_nothing(&self) -> Result<Exit, String> {
        Ok(match (self.is_cut_off().await?, self.settings.effective().has_errors()) {
            (true, _) => Exit::Unreached,
            (false, true) => Exit::Failed,
            (false, false) => Exit::Done,
        })
    }

    /// What a list does not show: who is missing from it, and why.
    pub(crate) async fn footnotes(&self) -> Result<(), String> {
        let servers = self.servers().await?;
        for server in servers.iter().filter(|server| is_away(server)) {
            let why = server.last_error.as_deref().map(reason);
            let why = why.unwrap_or_else(|| "it has not answered yet".to_owned());
            self.out.note(&format!("server `{}` is {}: {why}", server.id, server.state));
        }
        let names = |is_so: fn(&ServerShape) -> bool| {
            let found = servers.iter().filter(|server| is_so(server));
            let found: Vec<&str> = found.map(|server| server.id.as_str()).collect();
            (!found.is_empty()).then(|| few(found.into_iter()))
        };
        if let Some(off) = names(|server| server.state == "disabled") {
            self.out.note(&format!("disabled: {off}"));
        }
        self.differences().await?;
        if let Some(stale) = names(|server| server.tools > 0 && server.last_connected.is_none()) {
            self.out.note(&format!(
                "not started, shown as last seen: {stale} (`toolcrib server refresh ID` asks anew)"
            ));
        }
        let config = self.settings.compile();
        if config.has_errors() {
            self.out.note(&format!("{}: see `toolcrib check`", count(&config.problems)));
        }
        Ok(())
    }

    /// Tells what is not as the files say: what nobody trusts is not started, and what failed is as it was before.
    pub(crate) async fn differences(&self) -> Result<(), String> {
        let answer = self.api.get("/problems").await?;
        let Ok(told) = answer.good::<Problems>()? else { return Ok(()) };
        trust::tell(self.out, &told.problems);
        for kept in told.problems.iter().filter(|it| it.code == "reload.kept_last_good") {
            self.out.note(&lines(&kept.text));
        }
        Ok(())
    }
}

/// The path of a list, for whoever asks, that waits for servers.
pub(crate) fn listing(segments: &[&str], who: &Who, more: &[(&str, Option<&str>)]) -> String {
    let dialog = dialog_of(who);
    let asked =
        [("agent", who.agent.as_deref()), ("dialog", Some(&*dialog)), ("wait", Some("true"))];
    path(segments, &[&asked, more].concat())
}

/// The dialog that is named, or the one that all commands of that agent have.
fn dialog_of(who: &Who) -> String {
    let own = || match &who.agent {
        Some(agent) => format!("{DIALOG}:{agent}"),
        None => DIALOG.to_owned(),
    };
    who.dialog.clone().unwrap_or_else(own)
}

/// Whether it failed because a server is down.
pub(crate) fn is_down(fault: &Fault) -> bool {
    fault.code == "connection.down"
}

pub(crate) fn is_up(server: &ServerShape) -> bool {
    matches!(server.state.as_str(), "ready" | "degraded")
}

fn is_away(server: &ServerShape) -> bool {
    // Who is still connecting was waited for as long as he has to start.
    let state = server.state.as_str();
    matches!(state, "backoff" | "connecting" | "failed" | "reconnecting" | "stopped")
}

fn is_called(server: &ServerShape, name: &str) -> bool {
    server.id == name || server.key == name
}

fn waiting(servers: &[ServerShape]) -> String {
    let coming = servers.iter().filter(|server| server.state == "connecting");
    let coming: Vec<&str> = coming.map(|server| server.id.as_str()).collect();
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
    /// Of a terminal that is closed; a host that serves reads its files then.
    hangup: Option<Signal>,
}

impl Stop {
    pub(crate) fn new() -> Result<Self, String> {
        let hangup = Some(watch(SignalKind::hangup())?);
        Ok(Stop { hangup, ..Stop::of_host()? })
    }

    /// For a host, which goes on without a terminal.
    pub(crate) fn of_host() -> Result<Self, String> {
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        Ok(Stop { interrupt: watch(interrupt)?, terminate: watch(terminate)?, hangup: None })
    }

    pub(crate) async fn heard(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            Some(_) = async { self.hangup.as_mut()?.recv().await } => {}
        }
    }
}

fn watch(kind: SignalKind) -> Result<Signal, String> {
    signal(kind).map_err(|error| format!("cannot watch for signals: {error}"))
}
