//! Configuration that was found where somebody is: what it would run is shown, and it is asked whether that is trusted.

use serde_json::{Map, Value as Json, json};
use toolcrib_config::{Launch, Problem, to_yaml};
use toolcrib_upstream::signals::chain;

use crate::api::Api;
use crate::out::Out;
use crate::running::Running;
use crate::settings::Settings;
use crate::shown::{few, lines, printable};

/// Why a server that nobody trusts is left alone.
pub(crate) fn withheld(server: &str) -> String {
    format!(
        "server `{server}` waits for trust: `toolcrib trust --show` shows what it would run, and \
         `toolcrib trust` lets it"
    )
}

/// Asks for trust where it is needed and somebody is there to be asked. Whether something is trusted from now on that
/// was not before.
pub(crate) fn ask(
    settings: &Settings,
    out: &Out,
    running: Option<&Running>,
) -> Result<bool, String> {
    if settings.trusts && running.is_some_and(|running| !running.trusts) {
        out.note(
            "--trust is of no use: a host of this workspace runs, which was started without it",
        );
    }
    let is_needless = settings.trusts || running.is_some_and(|running| running.trusts);
    if settings.is_named || is_needless || !out.can_ask() {
        return Ok(false);
    }
    let config = settings.compile();
    let Ok(trusted) = settings.trust(&config).of(settings.root(), settings.root()) else {
        // What is wrong is told by whoever starts something.
        return Ok(false);
    };
    let (all, file) = (config.launches(), settings.trust_file());
    let unknown: Vec<&Launch> = all.iter().filter(|launch| !trusted.has(launch.hash)).collect();
    let (false, Some(file)) = (unknown.is_empty(), file) else { return Ok(false) };
    let folder = printable(&settings.root().display().to_string());
    let shown = text(unknown.into_iter());
    Out::log(&format!("What is configured in {folder} is not trusted. It would run:\n{shown}"));
    if !out.asks("Trust it?") {
        return Ok(false);
    }
    let kept = file.trust(settings.root(), all.iter().map(|launch| launch.hash));
    kept.map(|()| true).map_err(|error| chain(&error))
}

/// Tells who is not started because nobody trusts it.
pub(crate) fn tell(out: &Out, problems: &[Problem]) {
    let needed = problems.iter().filter(|problem| problem.code == "trust.required");
    let servers: Vec<&str> = needed.filter_map(|problem| problem.server.as_deref()).collect();
    if !servers.is_empty() {
        let names = few(servers.into_iter());
        out.note(&format!("not trusted: {names} (`toolcrib trust --show` shows what would run)"));
    }
}

/// Tells a host that runs that something is trusted now, or is not any more.
pub(crate) async fn wake(running: &Running) -> Result<(), String> {
    let answer = Api::running(running).post("/reload", &json!({})).await?;
    answer.good::<Json>()?.map(drop).map_err(|fault| fault.message)
}

/// What parts of a configuration would run, for a person to read.
pub(crate) fn text<'a>(launches: impl Iterator<Item = &'a Launch>) -> String {
    launches.map(part).collect()
}

fn part(launch: &Launch) -> String {
    let mut shown = launch.shown.clone();
    let (heading, first) = match &launch.server {
        None => ("the host".to_owned(), String::new()),
        Some(key) => {
            let (source, id) = key.rsplit_once('#').unwrap_or(("", key));
            (format!("{} ({})", printable(id), printable(source)), run(&mut shown))
        }
    };
    let rest = match shown.is_empty() {
        true => String::new(),
        false => lines(&to_yaml(&Json::Object(shown))),
    };
    let rest: String = rest.lines().map(|line| format!("    {line}\n")).collect();
    format!("  {heading}\n{first}{rest}")
}

/// The line that says what a server is; it is not said again below.
fn run(shown: &mut Map<String, Json>) -> String {
    let Some(Json::Object(transport)) = shown.get_mut("transport") else { return String::new() };
    let kind = transport.remove("kind");
    let kind = kind.as_ref().and_then(Json::as_str).unwrap_or_default();
    let mut words: Vec<Json> =
        ["url", "command"].iter().filter_map(|key| transport.remove(*key)).collect();
    if let Some(Json::Array(args)) = transport.remove("args") {
        words.extend(args);
    }
    // What leaving it out says as well tells nobody anything.
    transport.retain(|_, value| *value != json!("any") && *value != json!({"inherit": "minimal"}));
    if transport.is_empty() {
        shown.remove("transport");
    }
    let words: Vec<String> = words.iter().map(word).collect();
    format!("    {kind}: {}\n", words.join(" "))
}

/// A word of a command line, told from its neighbours.
fn word(word: &Json) -> String {
    match word.as_str() {
        Some(text)
            if !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == '"') =>
        {
            printable(text)
        }
        _ => printable(&word.to_string()),
    }
}
