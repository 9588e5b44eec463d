//! `toolcrib doctor`: starts each server once and reports what it supports.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::{Value as Json, json};
use tokio::runtime::Builder;
use toolcrib_config::model::host;
use toolcrib_config::{Config, Problem, ServerSpec};
use toolcrib_upstream::auth::Accounts;
use toolcrib_upstream::conn::peer::RefuseRequests;
use toolcrib_upstream::conn::{
    ConnContext, ConnUpdate, ServerLimit, SessionClient, SharedHttpMode, TraitCache,
};
use toolcrib_upstream::process::{ContainmentStatus, GracePeriods, Instance};
use toolcrib_upstream::secrets::{
    CredentialStore, CredentialStoreError, SecretSources, StorageStatus, StoreContext,
};
use toolcrib_upstream::signals::chain;
use toolcrib_upstream::supervise::{
    ConnRole, ServerExamination, ServerOptions, ServerSummary, Supervisor, SupervisorListener,
    examine, reap_orphans,
};
use toolcrib_upstream::transport::{Permissions, Tls};
use toolcrib_wire::handshake::Implementation;
use toolcrib_wire::view::ClientCapabilities;
use toolcrib_wire::{Era, Framing};

use crate::Exit;
use crate::args::DoctorArgs;
use crate::host_access::StopSignals;
use crate::input_prompts;
use crate::output::Output;
use crate::problem_report::{plural, render_problems};
use crate::server_account::notify_host;
use crate::settings::Settings;
use crate::terminal_text::{bold_style, printable};
use crate::trust_prompt;

/// Number of servers that are started concurrently.
const CONCURRENT_SERVERS: usize = 8;

/// Time limit for stopping processes of killed hosts. Processes that remain are left for the next start.
const CLEAR_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn run(settings: &Settings, out: &Output, args: &DoctorArgs) -> Exit {
    if let Err(text) = trust_prompt::ask_trust(settings, out, None) {
        out.print_error(&text);
        return Exit::Failed;
    }
    let config = settings.compile_trusted();
    let chosen = match choose_servers(&config, args.server.as_deref()) {
        Ok(chosen) => chosen,
        Err(text) => {
            out.print_error(&printable(&text));
            return Exit::Usage;
        }
    };
    let seen = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))
        .and_then(|runtime| {
            let seen = runtime.block_on(examine_servers(settings, out, &config, chosen));
            // Blocking file reads cannot be cancelled, so the runtime does not wait for them.
            runtime.shutdown_background();
            seen
        });
    match seen {
        Ok(Some(seen)) => print_report(settings, out, &config, &seen),
        Ok(None) => {
            out.print_note("interrupted");
            Exit::Interrupted
        }
        Err(text) => {
            out.print_error(&text);
            Exit::Failed
        }
    }
}

/// Returns the named server, or all enabled servers.
fn choose_servers(config: &Config, name: Option<&str>) -> Result<Vec<Arc<ServerSpec>>, String> {
    let Some(name) = name else {
        let on = config.servers.iter().filter(|spec| spec.policy.enabled);
        return Ok(on.cloned().map(Arc::new).collect());
    };
    let known: Vec<&str> = config.servers.iter().map(|spec| spec.id.as_str()).collect();
    let none = || match known.is_empty() {
        true => format!("there is no server `{name}`: none is configured here"),
        false => format!("there is no server `{name}`; there are {}", known.join(", ")),
    };
    let spec = config.server(name).ok_or_else(none)?;
    match spec.is_withheld() {
        true => Err(trust_prompt::withheld_message(name)),
        false => Ok(vec![Arc::new(spec.clone())]),
    }
}

/// Result of the examination.
struct Examination {
    servers: Vec<(Arc<ServerSpec>, ServerExamination)>,
    /// The storage of credentials.
    credentials: Result<StorageStatus, CredentialStoreError>,
    folder: PathBuf,
    /// The processes that certainly end with their server.
    held: ContainmentStatus,
}

/// Examines the servers. Returns `None` if a signal interrupted it.
async fn examine_servers(
    settings: &Settings,
    out: &Output,
    config: &Config,
    chosen: Vec<Arc<ServerSpec>>,
) -> Result<Option<Examination>, String> {
    let state = settings.state_folder()?;
    let credential_store = settings.credential_store(config.host.credentials.into())?;
    let specs = chosen.iter().map(|spec| &**spec);
    let answered =
        input_prompts::ask_missing(out, config, specs, &credential_store, |_| ()).await?;
    for spec in chosen.iter().filter(|spec| answered.contains(&spec.key())) {
        // The result is not needed: the server only waited for the answers.
        notify_host(settings, spec, "connect").await;
    }
    // Signals are watched after the prompts, so that Ctrl-C ends a prompt, and before any server starts.
    let mut stop = StopSignals::new()?;
    let cleared = reap_orphans(&state, &settings.containment(), CLEAR_TIMEOUT).await;
    let cleared = cleared.map_err(|error| error.to_string())?;
    if !cleared.processes.killed.is_empty() {
        let count = plural(cleared.processes.killed.len(), "process");
        out.print_note(&format!("stopped {count} of a killed host"));
    }
    let instance = Instance::open_with(&state, &settings.containment());
    let instance = instance.map_err(|error| error.to_string())?;
    let world = Arc::new(build_context(settings, config, credential_store.clone(), instance));
    let supervisor = Supervisor::new(Arc::clone(&world), Arc::new(NoListener));
    let count = chosen.len();
    let looks = chosen.into_iter().map(|spec| {
        let supervisor = &supervisor;
        async move {
            let examined =
                examine(supervisor, Arc::clone(&spec), server_options(settings, config)).await;
            (spec, examined)
        }
    });
    let mut looks = stream::iter(looks).buffered(CONCURRENT_SERVERS);
    let mut seen = Vec::new();
    let looking = async {
        while let Some(one) = looks.next().await {
            seen.push(one);
            out.show_progress(&format!("examined {} of {}", seen.len(), plural(count, "server")));
        }
    };
    let is_over = tokio::select! {
        () = looking => true,
        () = stop.recv() => false,
    };
    drop(looks);
    out.show_progress("");
    supervisor.close(config.host.reload.shutdown_limit()).await;
    let held = world.instance.containment();
    world.instance.close().await;
    if !is_over {
        return Ok(None);
    }
    let folder = credential_store.folder().to_path_buf();
    Ok(Some(Examination {
        servers: seen,
        credentials: credential_store.storage_status().await,
        folder,
        held,
    }))
}

fn build_context(
    settings: &Settings,
    config: &Config,
    credential_store: CredentialStore,
    instance: Instance,
) -> ConnContext {
    let (env, tls) = (settings.environment.variables(), Tls::default());
    let means = StoreContext {
        instance: instance.clone(),
        env: env.clone(),
        cwd: settings.root().to_path_buf(),
        tls: tls.clone(),
    };
    let accounts = Accounts::new(credential_store.clone(), tls.clone());
    let sources = SecretSources::new(credential_store, means);
    sources.configure(config);
    let host::HostPermissions { spawn, network, docker } = config.host.permissions;
    let http_mode = SharedHttpMode::default();
    http_mode.set(config.gateway.http);
    ConnContext {
        instance,
        env,
        sources,
        tls,
        accounts,
        permissions: Permissions { spawn, network, docker }.into(),
        http_mode,
        graces: GracePeriods::default(),
        traits: TraitCache::default(),
        server_limit: ServerLimit::default(),
        client_info: Implementation::new("toolcrib", env!("CARGO_PKG_VERSION")),
    }
}

fn server_options(settings: &Settings, config: &Config) -> ServerOptions {
    let caller = SessionClient {
        capabilities: ClientCapabilities::default(),
        handler: Arc::new(RefuseRequests),
    };
    ServerOptions {
        cwd: settings.root().to_path_buf(),
        drain_kill: config.host.reload.drain_kill,
        client: caller,
    }
}

struct NoListener;

impl SupervisorListener for NoListener {
    fn on_update(&self, _: u64, _: &ConnRole, _: ConnUpdate) {}
}

fn print_report(settings: &Settings, out: &Output, config: &Config, all: &Examination) -> Exit {
    let seen = &all.servers;
    let failed = seen.iter().filter(|(_, examined)| examined.outcome.is_err()).count();
    let (word, text) = credential_storage_text(&all.credentials);
    if settings.json {
        let servers: Vec<Json> = seen.iter().map(|(spec, one)| server_json(spec, one)).collect();
        let credentials = json!({"storage": word, "text": text, "folder": all.folder});
        out.print_json(&json!({"ok": failed == 0, "servers": servers, "credentials": credentials,
            "processes": containment_json(&all.held), "problems": config.problems}));
    } else {
        let shown: Vec<&Problem> = config.problems.iter().collect();
        out.print_result(&render_problems(config, &shown));
        seen.iter().for_each(|(spec, one)| out.print_result(&server_text(spec, one)));
        let folder = all.folder.display();
        out.print_result(&format!("credentials are stored {text} in {folder}\n"));
        let why = all.held.reason.iter().map(|why| format!(" ({})", printable(why)));
        let text = all.held.guarantee.description();
        out.print_result(&format!("processes: {text}{}\n", why.collect::<String>()));
        let good = seen.len() - failed;
        out.print_note(&format!(
            "{} examined: {good} good, {failed} failed",
            plural(seen.len(), "server")
        ));
    }
    if failed > 0 || config.has_errors() { Exit::Failed } else { Exit::Done }
}

fn containment_json(held: &ContainmentStatus) -> Json {
    let guarantee = held.guarantee;
    json!({
        "guarantee": guarantee.as_str(),
        "text": guarantee.description(),
        "why": held.reason,
        "all_end_with_host": guarantee.covers_host_exit(),
        "all_end_after_kill": guarantee.covers_host_kill(),
    })
}

/// Describes how credentials are stored: a word for JSON and a phrase for people.
fn credential_storage_text(
    standing: &Result<StorageStatus, CredentialStoreError>,
) -> (&'static str, String) {
    match standing {
        Ok(StorageStatus::Sealed) => {
            ("sealed", "encrypted, with the key in the system's keyring,".to_owned())
        }
        Ok(StorageStatus::Plain) => (
            "file",
            "unencrypted, readable by their owner only (`host.credentials: file`),".to_owned(),
        ),
        Ok(StorageStatus::PlainWithout(why)) => (
            "file",
            format!("unencrypted, readable by their owner only ({}),", printable(&why.to_string())),
        ),
        Ok(StorageStatus::Refused(why)) => {
            ("none", format!("not at all ({}): nothing is written", printable(&why.to_string())))
        }
        Err(error) => {
            ("none", format!("not at all ({}): nothing is written", printable(&chain(error))))
        }
    }
}

fn server_json(spec: &ServerSpec, examined: &ServerExamination) -> Json {
    let found = examined.outcome.as_ref().ok();
    let eras = found.map(|found| found.eras.iter().map(|era| era_name(*era)).collect::<Vec<_>>());
    let oddities: Vec<Json> =
        examined.findings.iter().map(|odd| json!({"code": odd.code, "text": odd.text})).collect();
    let error = examined.outcome.as_ref().err().map(|failure| {
        json!({"kind": failure.kind.as_str(), "code": failure.code, "message": failure.message,
            "fix": failure.fix})
    });
    json!({
        "id": spec.id,
        "key": spec.key(),
        "transport": spec.transport.kind().as_str(),
        "ok": found.is_some(),
        "start_ms": u64::try_from(examined.elapsed.as_millis()).unwrap_or(u64::MAX),
        "eras": eras,
        "protocol_version": found.map(|found| found.version.as_str()),
        "framing": found.and_then(|found| found.framing).map(framing_name),
        "name": found.and_then(|found| found.name.as_deref()),
        "version": found.and_then(|found| found.release.as_deref()),
        "tools": found.map(|found| found.tools),
        "prompts": found.map(|found| found.prompts),
        "resources": found.map(|found| found.resources),
        "templates": found.map(|found| found.templates),
        "oddities": oddities,
        "stderr": examined.stderr,
        "error": error,
    })
}

fn server_text(spec: &ServerSpec, examined: &ServerExamination) -> String {
    let (green, red, dim) = (
        bold_style(anstyle::AnsiColor::Green),
        bold_style(anstyle::AnsiColor::Red),
        anstyle::Style::new().dimmed(),
    );
    let took = format!("{:.2} s", examined.elapsed.as_secs_f64());
    let kind = spec.transport.kind().as_str();
    let mut text = match &examined.outcome {
        Ok(found) => {
            let summary = summary_text(found);
            format!(
                "{green}good{green:#}    {} {dim}{kind}, up in {took}{dim:#}\n{summary}",
                printable(&spec.id)
            )
        }
        Err(failure) => {
            let fix = failure.fix.iter().map(|fix| format!("        fix: {}\n", printable(fix)));
            format!(
                "{red}failed{red:#}  {} {dim}{kind}, after {took}{dim:#}\n        {} [{}]\n{}",
                printable(&spec.id),
                printable(&failure.message),
                failure.code,
                fix.collect::<String>()
            )
        }
    };
    for odd in &examined.findings {
        text += &format!("        odd: {} [{}]\n", printable(&odd.text), odd.code);
    }
    if examined.outcome.is_err() {
        let lines: Vec<&str> = examined.stderr.lines().collect();
        let last = lines.iter().skip(lines.len().saturating_sub(5));
        last.for_each(|line| text += &format!("        {dim}stderr: {}{dim:#}\n", printable(line)));
    }
    text
}

fn summary_text(found: &ServerSummary) -> String {
    let eras: Vec<&str> = found.eras.iter().map(|era| era_name(*era)).collect();
    let server_name = match (&found.name, &found.release) {
        (Some(name), Some(release)) => format!("{} {}", printable(name), printable(release)),
        (Some(name), None) => printable(name),
        _ => "nameless".to_owned(),
    };
    let framing = found.framing.map(|it| format!(", {}", framing_name(it))).unwrap_or_default();
    format!(
        "        {server_name}; speaks {} ({}){framing}\n        {}, {}, {}, {}\n",
        found.version.as_str(),
        eras.join(" and "),
        plural(found.tools, "tool"),
        plural(found.resources, "resource"),
        plural(found.templates, "template"),
        plural(found.prompts, "prompt"),
    )
}

fn era_name(era: Era) -> &'static str {
    match era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

fn framing_name(framing: Framing) -> &'static str {
    match framing {
        Framing::Newline => "newline",
        Framing::ContentLength => "content_length",
    }
}
