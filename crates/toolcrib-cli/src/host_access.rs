//! Access to the host of a command: the running host of the workspace, or a host for the duration of the command.

use std::pin::pin;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;
use toolcrib::{Host, HostBuilder};
use toolcrib_server::api::schema::{
    DialogStatus, ErrorBody, NewDialog, ProblemList, ServerList, ServerView,
};
use toolcrib_server::front::Front;
use toolcrib_server::identity::Identity;
use toolcrib_upstream::secrets::StorageMode;
use toolcrib_upstream::signals::chain;

use crate::Exit;
use crate::api_client::{ApiClient, ApiResponse, api_path};
use crate::args::CallerArgs;
use crate::input_prompts;
use crate::output::Output;
use crate::problem_report::{count_by_severity, report_unknown_server};
use crate::running_host::{self, RunningHost};
use crate::settings::Settings;
use crate::terminal_text::{error_line, name_list, printable_lines};
use crate::trust_prompt;

/// Interval between progress updates.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

/// The dialog of commands without `--dialog`. A running host keeps it, so that server state survives from one command
/// to the next.
const COMMAND_LINE_DIALOG: &str = "command-line";

/// A host and the command that uses it.
pub(crate) struct HostAccess<'a> {
    pub(crate) api: ApiClient,
    pub(crate) out: &'a Output,
    pub(crate) settings: &'a Settings,
    /// The running host, or `None` for the command's own host.
    pub(crate) running: Option<RunningHost>,
}

/// Runs a command. The first signal ends the command and then closes the command's own host; a second signal ends both
/// at once.
pub(crate) fn run(
    settings: &Settings,
    out: &Output,
    work: impl AsyncFnOnce(&HostAccess<'_>) -> Result<Exit, String>,
) -> Exit {
    let done = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))
        .and_then(|runtime| {
            let done = runtime.block_on(open_and_run(settings, out, work));
            // Blocking file reads cannot be cancelled, so the runtime does not wait for them.
            runtime.shutdown_background();
            done
        });
    done.unwrap_or_else(|text| {
        out.print_error(&printable_lines(&text));
        Exit::Failed
    })
}

async fn open_and_run(
    settings: &Settings,
    out: &Output,
    work: impl AsyncFnOnce(&HostAccess<'_>) -> Result<Exit, String>,
) -> Result<Exit, String> {
    let running = match running_host::find_reachable(settings).await {
        Ok(running) => running,
        Err(unreachable) => {
            out.print_error(&printable_lines(&unreachable));
            return Ok(Exit::Unreached);
        }
    };
    // Signals are watched after this prompt, so that Ctrl-C ends the prompt.
    let is_newly_trusted = trust_prompt::ask_trust(settings, out, running.as_ref())?;
    let mut stop = StopSignals::new()?;
    let (access, own) = tokio::select! {
        begun = open_host(settings, out, running, is_newly_trusted) => begun?,
        () = stop.recv() => return Ok(Exit::Interrupted),
    };
    let done = tokio::select! {
        done = work(&access) => done,
        () = stop.recv() => Ok(Exit::Interrupted),
    };
    out.show_progress("");
    if let Some(own) = own {
        tokio::select! {
            () = own.close() => {}
            () = stop.recv() => {}
        }
    }
    if done == Ok(Exit::Interrupted) {
        out.print_note("interrupted");
    }
    done
}

/// Returns the host access, and the host to close if it is the command's own. A running host reloads if something was
/// trusted just now.
async fn open_host<'a>(
    settings: &'a Settings,
    out: &'a Output,
    running: Option<RunningHost>,
    is_newly_trusted: bool,
) -> Result<(HostAccess<'a>, Option<Host>), String> {
    if let Some(running) = running {
        tracing::info!(host = %running.describe(), "using the running host");
        let api = ApiClient::remote(&running);
        if is_newly_trusted {
            trust_prompt::reload_host(&running).await?;
        }
        return Ok((HostAccess { api, out, settings, running: Some(running) }, None));
    }
    tracing::info!("no host is running, starting one for this command");
    ask_inputs(settings, out).await?;
    let host = host_builder(settings)?.start().await.map_err(|error| chain(&error))?;
    let front = Front::new(host.clone(), Identity::default());
    Ok((
        HostAccess { api: ApiClient::in_process(&front), out, settings, running: None },
        Some(host),
    ))
}

/// Asks the user for missing inputs of servers before a host starts them.
pub(crate) async fn ask_inputs(settings: &Settings, out: &Output) -> Result<(), String> {
    let config = settings.compile_trusted();
    let keep = settings.credential_store(config.host.credentials.into())?;
    let servers = config.servers.iter().filter(|spec| !spec.is_withheld());
    input_prompts::ask_missing(out, &config, servers, &keep, |_| ()).await.map(drop)
}

/// Returns a builder for a host with these settings.
pub(crate) fn host_builder(settings: &Settings) -> Result<HostBuilder, String> {
    let state = settings.state_folder()?;
    let credentials = settings.credential_store(StorageMode::default())?;
    let mut builder = Host::builder(settings.root(), state)
        .env(settings.environment.variables())
        .credentials(credentials.folder())
        .containment(settings.containment())
        .trust(settings.trust_policy(&settings.compile()));
    if let Some(home) = &settings.workspace.home {
        builder = builder.config_home(home);
    }
    if let Some(named) = &settings.workspace.config_file {
        builder = builder.config_file(named.clone());
    }
    Ok(builder)
}

impl HostAccess<'_> {
    /// Gets a list for the caller, after each server has sent its lists or has failed once.
    pub(crate) async fn get_list(
        &self,
        segments: &[&str],
        caller: &CallerArgs,
        more: &[(&str, Option<&str>)],
    ) -> Result<ApiResponse, String> {
        let path = list_path(segments, caller, more);
        self.with_progress(self.api.get(&path)).await
    }

    /// Creates the caller's dialog if needed and returns its id.
    pub(crate) async fn open_dialog(&self, caller: &CallerArgs) -> Result<String, String> {
        let id = Some(dialog_id(caller));
        let new = NewDialog { id, agent: caller.agent.clone(), ..NewDialog::default() };
        let response = self.with_progress(self.api.post("/dialogs", &new)).await?;
        response
            .parse_result::<DialogStatus>()?
            .map(|it| it.id)
            .map_err(|error_body| error_body.message)
    }

    /// The `wait` parameter. Only the command's own host waits for its servers; a running host answers at once.
    pub(crate) fn wait_parameter(&self) -> Option<&'static str> {
        self.running.is_none().then_some("true")
    }

    /// Returns the current state of the servers without starting or waiting for any.
    pub(crate) async fn get_servers(&self) -> Result<Vec<ServerView>, String> {
        let response = self.api.get("/servers").await?;
        response
            .parse_result::<ServerList>()?
            .map(|it| it.servers)
            .map_err(|error_body| error_body.message)
    }

    /// Runs work that may wait for servers to start, and shows the progress of the start.
    pub(crate) async fn with_progress<T>(&self, work: impl Future<Output = T>) -> T {
        if !self.out.shows_progress() {
            return work.await;
        }
        let mut work = pin!(work);
        let mut told = String::new();
        let done = loop {
            tokio::select! {
                biased;
                done = &mut work => break done,
                servers = self.get_servers() => {
                    let now = startup_progress(&servers.unwrap_or_default());
                    if now != told {
                        self.out.show_progress(&now);
                        told = now;
                    }
                }
            }
            tokio::select! {
                done = &mut work => break done,
                () = sleep(PROGRESS_INTERVAL) => {}
            }
        };
        self.out.show_progress("");
        done
    }

    /// Prints an API error. Problems in a server's configuration explain more than the message that the server is
    /// unknown.
    pub(crate) fn report_refusal(&self, error_body: &ErrorBody, server: Option<&str>) -> Exit {
        if let (Some(name), "server.unknown") = (server, error_body.code.as_str()) {
            let config = self.settings.compile();
            if config.problems.iter().any(|problem| problem.server.as_deref() == Some(name)) {
                return report_unknown_server(&config, self.out, name);
            }
        }
        self.out.print_error(&printable_lines(&error_body.message));
        Exit::Failed
    }

    /// Prints an API error and the servers that are unavailable.
    pub(crate) async fn report_failure(
        &self,
        error_body: &ErrorBody,
        server: Option<&str>,
    ) -> Result<Exit, String> {
        if self.settings.json {
            self.out.print_json(&serde_json::json!({"error": error_body}));
        } else {
            self.out.print_error(&printable_lines(&error_body.message));
            self.print_footnotes().await?;
        }
        let unreached =
            self.is_unreached(error_body, server).await? || self.are_all_unavailable().await?;
        Ok(if unreached { Exit::Unreached } else { Exit::Failed })
    }

    /// Returns whether nothing was sent because the server is not reachable. A tool may be known from an earlier run of
    /// a server that has never connected to this host.
    pub(crate) async fn is_unreached(
        &self,
        error_body: &ErrorBody,
        server: Option<&str>,
    ) -> Result<bool, String> {
        let of_connection =
            matches!(error_body.kind.as_str(), "connection" | "timeout" | "authentication");
        let servers = self.get_servers().await?;
        let mut meant =
            servers.iter().filter(|it| server.is_some_and(|name| matches_name(it, name)));
        let was_never_there = meant.any(|server| server.last_connected.is_none());
        Ok(is_down(error_body) || (of_connection && was_never_there))
    }

    /// Returns whether there are enabled servers and none of them is available.
    pub(crate) async fn are_all_unavailable(&self) -> Result<bool, String> {
        let servers = self.get_servers().await?;
        let mut on = servers.iter().filter(|server| server.state != "disabled").peekable();
        Ok(on.peek().is_some() && on.all(is_unavailable))
    }

    /// Returns the exit code of a command whose list is empty.
    pub(crate) async fn empty_exit(&self) -> Result<Exit, String> {
        Ok(
            match (self.are_all_unavailable().await?, self.settings.compile_trusted().has_errors())
            {
                (true, _) => Exit::Unreached,
                (false, true) => Exit::Failed,
                (false, false) => Exit::Done,
            },
        )
    }

    /// Prints the servers that a list omits, and why.
    pub(crate) async fn print_footnotes(&self) -> Result<(), String> {
        let servers = self.get_servers().await?;
        for server in servers.iter().filter(|server| is_unavailable(server)) {
            let why = server.last_error.as_deref().map(error_line);
            let why = why.unwrap_or_else(|| "it has not answered yet".to_owned());
            self.out.print_note(&format!("server `{}` is {}: {why}", server.id, server.state));
        }
        let names = |is_so: fn(&ServerView) -> bool| {
            let found = servers.iter().filter(|server| is_so(server));
            let found: Vec<&str> = found.map(|server| server.id.as_str()).collect();
            (!found.is_empty()).then(|| name_list(found.into_iter()))
        };
        if let Some(off) = names(|server| server.state == "disabled") {
            self.out.print_note(&format!("disabled: {off}"));
        }
        self.print_differences().await?;
        if let Some(stale) = names(|server| server.tools > 0 && server.last_connected.is_none()) {
            self.out.print_note(&format!(
                "not started, shown as last seen: {stale} (`toolcrib server refresh ID` updates the lists)"
            ));
        }
        let config = self.settings.compile();
        if config.has_errors() {
            self.out.print_note(&format!(
                "{}: see `toolcrib check`",
                count_by_severity(&config.problems)
            ));
        }
        Ok(())
    }

    /// Prints differences from the configuration files: servers that are not trusted, and servers that kept their last
    /// good definition.
    pub(crate) async fn print_differences(&self) -> Result<(), String> {
        let response = self.api.get("/problems").await?;
        let Ok(told) = response.parse_result::<ProblemList>()? else { return Ok(()) };
        trust_prompt::report_untrusted(self.out, &told.problems);
        for kept in told.problems.iter().filter(|it| it.code == "reload.kept_last_good") {
            self.out.print_note(&printable_lines(&kept.text));
        }
        Ok(())
    }
}

/// Returns the path of a list for the caller. The request waits for servers.
pub(crate) fn list_path(
    segments: &[&str],
    caller: &CallerArgs,
    more: &[(&str, Option<&str>)],
) -> String {
    let dialog = dialog_id(caller);
    let asked =
        [("agent", caller.agent.as_deref()), ("dialog", Some(&*dialog)), ("wait", Some("true"))];
    api_path(segments, &[&asked, more].concat())
}

/// Returns the named dialog, or the default dialog of the agent.
fn dialog_id(caller: &CallerArgs) -> String {
    let own = || match &caller.agent {
        Some(agent) => format!("{COMMAND_LINE_DIALOG}:{agent}"),
        None => COMMAND_LINE_DIALOG.to_owned(),
    };
    caller.dialog.clone().unwrap_or_else(own)
}

/// Returns whether an operation failed because a server is down.
pub(crate) fn is_down(error_body: &ErrorBody) -> bool {
    error_body.code == "connection.down"
}

pub(crate) fn is_up(server: &ServerView) -> bool {
    matches!(server.state.as_str(), "ready" | "degraded")
}

fn is_unavailable(server: &ServerView) -> bool {
    // A connecting server has already had its full start timeout.
    let state = server.state.as_str();
    matches!(state, "backoff" | "connecting" | "failed" | "reconnecting" | "stopped")
}

fn matches_name(server: &ServerView, name: &str) -> bool {
    server.id == name || server.key == name
}

fn startup_progress(servers: &[ServerView]) -> String {
    let coming = servers.iter().filter(|server| server.state == "connecting");
    let coming: Vec<&str> = coming.map(|server| server.id.as_str()).collect();
    if coming.is_empty() {
        return "starting".to_owned();
    }
    let up = servers.iter().filter(|server| is_up(server)).count();
    format!("{up} of {} up, starting {}", servers.len(), name_list(coming.into_iter()))
}

/// The signals that end a command.
#[derive(Debug)]
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    /// Sent when the terminal closes. A serving host uses this signal for a reload instead.
    hangup: Option<Signal>,
}

impl StopSignals {
    pub(crate) fn new() -> Result<Self, String> {
        let hangup = Some(watch(SignalKind::hangup())?);
        Ok(StopSignals { hangup, ..StopSignals::for_host()? })
    }

    /// Signals for a serving host, which continues without a terminal.
    pub(crate) fn for_host() -> Result<Self, String> {
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        Ok(StopSignals { interrupt: watch(interrupt)?, terminate: watch(terminate)?, hangup: None })
    }

    pub(crate) async fn recv(&mut self) {
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
