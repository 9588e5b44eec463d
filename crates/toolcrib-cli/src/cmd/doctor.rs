//! `toolcrib doctor`: starts each server once and reports what is to be known of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::{Value as Json, json};
use tokio::runtime::Builder;
use toolcrib_config::model::host;
use toolcrib_config::{Config, Problem, ServerSpec};
use toolcrib_upstream::auth::Accounts;
use toolcrib_upstream::conn::peer::NoRequests;
use toolcrib_upstream::conn::{Caller, Memory, News, ServerLimit, World};
use toolcrib_upstream::process::{Graces, Held, Instance};
use toolcrib_upstream::secrets::{Keep, KeepError, Means, Sources, Standing};
use toolcrib_upstream::signals::chain;
use toolcrib_upstream::supervise::{
    Examined, Found, Supervisor, Terms, Watcher, Whose, clear, examine,
};
use toolcrib_upstream::transport::{Permissions, Tls};
use toolcrib_wire::handshake::Implementation;
use toolcrib_wire::view::ClientCapabilities;
use toolcrib_wire::{Era, Framing};

use crate::Exit;
use crate::account::wake;
use crate::args::Doctor;
use crate::hosted::Stop;
use crate::inputs;
use crate::out::Out;
use crate::report::{plural, problems};
use crate::settings::Settings;
use crate::shown::{bold, printable};
use crate::trust;

/// Servers that are started side by side.
const AT_A_TIME: usize = 8;

/// What killed hosts left is ended within this time, or left for the next start.
const CLEARING: Duration = Duration::from_secs(10);

pub(crate) fn run(settings: &Settings, out: &Out, args: &Doctor) -> Exit {
    if let Err(text) = trust::ask(settings, out, None) {
        out.error(&text);
        return Exit::Failed;
    }
    let config = settings.effective();
    let chosen = match chosen(&config, args.server.as_deref()) {
        Ok(chosen) => chosen,
        Err(text) => {
            out.error(&printable(&text));
            return Exit::Usage;
        }
    };
    let seen = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))
        .and_then(|runtime| {
            let seen = runtime.block_on(look(settings, out, &config, chosen));
            // What still reads files cannot be called off, so its end is not waited for.
            runtime.shutdown_background();
            seen
        });
    match seen {
        Ok(Some(seen)) => report(settings, out, &config, &seen),
        Ok(None) => {
            out.note("interrupted");
            Exit::Interrupted
        }
        Err(text) => {
            out.error(&text);
            Exit::Failed
        }
    }
}

/// What was asked for; what is switched off is not started.
fn chosen(config: &Config, name: Option<&str>) -> Result<Vec<Arc<ServerSpec>>, String> {
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
        true => Err(trust::withheld(name)),
        false => Ok(vec![Arc::new(spec.clone())]),
    }
}

/// What was looked at.
struct Seen {
    servers: Vec<(Arc<ServerSpec>, Examined)>,
    /// How credentials are kept, and where.
    credentials: Result<Standing, KeepError>,
    folder: PathBuf,
    /// Which processes are certain to end with a server.
    held: Held,
}

/// Nothing where a signal has called it off.
async fn look(
    settings: &Settings,
    out: &Out,
    config: &Config,
    chosen: Vec<Arc<ServerSpec>>,
) -> Result<Option<Seen>, String> {
    let state = settings.state_folder()?;
    let keep = settings.keep(config.host.credentials.into())?;
    let specs = chosen.iter().map(|spec| &**spec);
    let answered = inputs::ask(out, config, specs, &keep, |_| ()).await?;
    for spec in chosen.iter().filter(|spec| answered.contains(&spec.key())) {
        // It waits for nothing else, so that nobody has to be told how it ended.
        wake(settings, spec, "connect").await;
    }
    // Before anything is started: questions end as any program does.
    let mut stop = Stop::new()?;
    let cleared = clear(&state, &settings.containment(), CLEARING).await;
    let cleared = cleared.map_err(|error| error.to_string())?;
    if !cleared.processes.killed.is_empty() {
        let count = plural(cleared.processes.killed.len(), "process");
        out.note(&format!("ended {count} that a killed host had left"));
    }
    let instance = Instance::open_with(&state, &settings.containment());
    let instance = instance.map_err(|error| error.to_string())?;
    let world = Arc::new(world(settings, config, keep.clone(), instance));
    let supervisor = Supervisor::new(Arc::clone(&world), Arc::new(Deaf));
    let count = chosen.len();
    let looks = chosen.into_iter().map(|spec| {
        let supervisor = &supervisor;
        async move {
            let examined = examine(supervisor, Arc::clone(&spec), terms(settings, config)).await;
            (spec, examined)
        }
    });
    let mut looks = stream::iter(looks).buffered(AT_A_TIME);
    let mut seen = Vec::new();
    let looking = async {
        while let Some(one) = looks.next().await {
            seen.push(one);
            out.progress(&format!("looked at {} of {}", seen.len(), plural(count, "server")));
        }
    };
    let is_over = tokio::select! {
        () = looking => true,
        () = stop.heard() => false,
    };
    drop(looks);
    out.progress("");
    supervisor.close(config.host.reload.shutdown_limit()).await;
    let held = world.instance.held();
    world.instance.close().await;
    if !is_over {
        return Ok(None);
    }
    let folder = keep.folder().to_path_buf();
    Ok(Some(Seen { servers: seen, credentials: keep.standing().await, folder, held }))
}

fn world(settings: &Settings, config: &Config, keep: Keep, instance: Instance) -> World {
    let (env, tls) = (settings.world.variables(), Tls::default());
    let means = Means {
        instance: instance.clone(),
        env: env.clone(),
        cwd: settings.root().to_path_buf(),
        tls: tls.clone(),
    };
    let accounts = Accounts::new(keep.clone(), tls.clone());
    let sources = Sources::new(keep, means);
    sources.configure(config);
    let host::Permissions { spawn, network, docker } = config.host.permissions;
    World {
        instance,
        env,
        sources,
        tls,
        accounts,
        permissions: Permissions { spawn, network, docker }.into(),
        graces: Graces::default(),
        memory: Memory::default(),
        connections: ServerLimit::default(),
        client: Implementation::new("toolcrib", env!("CARGO_PKG_VERSION")),
    }
}

fn terms(settings: &Settings, config: &Config) -> Terms {
    let caller =
        Caller { capabilities: ClientCapabilities::default(), handler: Arc::new(NoRequests) };
    Terms { cwd: settings.root().to_path_buf(), drain_kill: config.host.reload.drain_kill, caller }
}

struct Deaf;

impl Watcher for Deaf {
    fn hear(&self, _: u64, _: &Whose, _: News) {}
}

fn report(settings: &Settings, out: &Out, config: &Config, all: &Seen) -> Exit {
    let seen = &all.servers;
    let failed = seen.iter().filter(|(_, examined)| examined.outcome.is_err()).count();
    let (word, text) = kept(&all.credentials);
    if settings.json {
        let servers: Vec<Json> = seen.iter().map(|(spec, one)| to_json(spec, one)).collect();
        let credentials = json!({"storage": word, "text": text, "folder": all.folder});
        out.json(&json!({"ok": failed == 0, "servers": servers, "credentials": credentials,
            "processes": held(&all.held), "problems": config.problems}));
    } else {
        let shown: Vec<&Problem> = config.problems.iter().collect();
        out.result(&problems(config, &shown));
        seen.iter().for_each(|(spec, one)| out.result(&human(spec, one)));
        let folder = all.folder.display();
        out.result(&format!("credentials are kept {text} in {folder}\n"));
        let why = all.held.why.iter().map(|why| format!(" ({})", printable(why)));
        let text = all.held.guarantee.text();
        out.result(&format!("processes: {text}{}\n", why.collect::<String>()));
        let good = seen.len() - failed;
        out.note(&format!(
            "{} looked at: {good} good, {failed} failed",
            plural(seen.len(), "server")
        ));
    }
    if failed > 0 || config.has_errors() { Exit::Failed } else { Exit::Done }
}

fn held(held: &Held) -> Json {
    let guarantee = held.guarantee;
    json!({
        "guarantee": guarantee.as_str(),
        "text": guarantee.text(),
        "why": held.why,
        "all_end_with_host": guarantee.holds_at_the_end(),
        "all_end_after_kill": guarantee.holds_after_a_kill(),
    })
}

/// How credentials are kept: a word for machines, and a sentence's part for people.
fn kept(standing: &Result<Standing, KeepError>) -> (&'static str, String) {
    match standing {
        Ok(Standing::Sealed) => {
            ("sealed", "encrypted, with the key in the system's keyring,".to_owned())
        }
        Ok(Standing::Plain) => {
            ("file", "as they are, for their owner alone (`host.credentials: file`),".to_owned())
        }
        Ok(Standing::PlainWithout(why)) => (
            "file",
            format!("as they are, for their owner alone ({}),", printable(&why.to_string())),
        ),
        Ok(Standing::Refused(why)) => {
            ("none", format!("not at all ({}): nothing is written", printable(&why.to_string())))
        }
        Err(error) => {
            ("none", format!("not at all ({}): nothing is written", printable(&chain(error))))
        }
    }
}

fn to_json(spec: &ServerSpec, examined: &Examined) -> Json {
    let found = examined.outcome.as_ref().ok();
    let eras = found.map(|found| found.eras.iter().map(|era| word(*era)).collect::<Vec<_>>());
    let oddities: Vec<Json> =
        examined.oddities.iter().map(|odd| json!({"code": odd.code, "text": odd.text})).collect();
    let error = examined.outcome.as_ref().err().map(|failure| {
        json!({"kind": failure.kind.as_str(), "code": failure.code, "message": failure.message,
            "fix": failure.fix})
    });
    json!({
        "id": spec.id,
        "key": spec.key(),
        "transport": spec.transport.kind().as_str(),
        "ok": found.is_some(),
        "start_ms": u64::try_from(examined.took.as_millis()).unwrap_or(u64::MAX),
        "eras": eras,
        "protocol_version": found.map(|found| found.version.as_str()),
        "framing": found.and_then(|found| found.framing).map(framing),
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

fn human(spec: &ServerSpec, examined: &Examined) -> String {
    let (green, red, dim) = (
        bold(anstyle::AnsiColor::Green),
        bold(anstyle::AnsiColor::Red),
        anstyle::Style::new().dimmed(),
    );
    let took = format!("{:.2} s", examined.took.as_secs_f64());
    let kind = spec.transport.kind().as_str();
    let mut text = match &examined.outcome {
        Ok(found) => {
            let said = told(found);
            format!(
                "{green}good{green:#}    {} {dim}{kind}, up in {took}{dim:#}\n{said}",
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
    for odd in &examined.oddities {
        text += &format!("        odd: {} [{}]\n", printable(&odd.text), odd.code);
    }
    if examined.outcome.is_err() {
        let lines: Vec<&str> = examined.stderr.lines().collect();
        let last = lines.iter().skip(lines.len().saturating_sub(5));
        last.for_each(|line| text += &format!("        {dim}stderr: {}{dim:#}\n", printable(line)));
    }
    text
}

fn told(found: &Found) -> String {
    let eras: Vec<&str> = found.eras.iter().map(|era| word(*era)).collect();
    let who = match (&found.name, &found.release) {
        (Some(name), Some(release)) => format!("{} {}", printable(name), printable(release)),
        (Some(name), None) => printable(name),
        _ => "nameless".to_owned(),
    };
    let framing = found.framing.map(|it| format!(", {}", framing(it))).unwrap_or_default();
    format!(
        "        {who}; speaks {} ({}){framing}\n        {}, {}, {}, {}\n",
        found.version.as_str(),
        eras.join(" and "),
        plural(found.tools, "tool"),
        plural(found.resources, "resource"),
        plural(found.templates, "template"),
        plural(found.prompts, "prompt"),
    )
}

fn word(era: Era) -> &'static str {
    match era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

fn framing(framing: Framing) -> &'static str {
    match framing {
        Framing::Newline => "newline",
        Framing::ContentLength => "content_length",
    }
}
