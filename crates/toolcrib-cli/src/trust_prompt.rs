//! Trust in discovered configuration: shows what would run and asks the user.

use serde_json::{Map, Value as Json, json};
use toolcrib_config::{LaunchDefinition, Problem, to_yaml};
use toolcrib_upstream::signals::chain;

use crate::api_client::ApiClient;
use crate::output::Output;
use crate::running_host::RunningHost;
use crate::settings::Settings;
use crate::terminal_text::{name_list, printable, printable_lines};

/// Explains why an untrusted server is not started.
pub(crate) fn withheld_message(server: &str) -> String {
    format!(
        "server `{server}` waits for trust: `toolcrib trust --show` shows what it would run, and \
         `toolcrib trust` lets it"
    )
}

/// Asks for trust if it is needed and a user can answer. Returns whether something became trusted.
pub(crate) fn ask_trust(
    settings: &Settings,
    out: &Output,
    running: Option<&RunningHost>,
) -> Result<bool, String> {
    if settings.trusts_discovered && running.is_some_and(|running| !running.trusts_discovered) {
        out.print_note(
            "--trust has no effect: the running host of this workspace was started without it",
        );
    }
    let is_needless =
        settings.trusts_discovered || running.is_some_and(|running| running.trusts_discovered);
    if settings.is_named || is_needless || !out.is_interactive() {
        return Ok(false);
    }
    let config = settings.compile();
    let Ok(trusted) =
        settings.trust_policy(&config).trusted_content(settings.root(), settings.root())
    else {
        // The command that starts servers reports this error.
        return Ok(false);
    };
    let (all, file) = (config.launches(), settings.trust_file());
    let unknown: Vec<&LaunchDefinition> =
        all.iter().filter(|launch| !trusted.contains(launch.hash)).collect();
    let (false, Some(file)) = (unknown.is_empty(), file) else { return Ok(false) };
    let folder = printable(&settings.root().display().to_string());
    let shown = describe_launches(unknown.into_iter());
    Output::write_log_line(&format!(
        "The configuration in {folder} is not trusted. It would run:\n{shown}"
    ));
    if !out.confirm("Trust it?") {
        return Ok(false);
    }
    let kept = file.trust(settings.root(), all.iter().map(|launch| launch.hash));
    kept.map(|()| true).map_err(|error| chain(&error))
}

/// Prints the servers that are not started because they are not trusted.
pub(crate) fn report_untrusted(out: &Output, problems: &[Problem]) {
    let needed = problems.iter().filter(|problem| problem.code == "trust.required");
    let servers: Vec<&str> = needed.filter_map(|problem| problem.server.as_deref()).collect();
    if !servers.is_empty() {
        let names = name_list(servers.into_iter());
        out.print_note(&format!(
            "not trusted: {names} (`toolcrib trust --show` shows what would run)"
        ));
    }
}

/// Makes a running host apply a change of trust.
pub(crate) async fn reload_host(running: &RunningHost) -> Result<(), String> {
    let response = ApiClient::remote(running).post("/reload", &json!({})).await?;
    response.parse_result::<Json>()?.map(drop).map_err(|error_body| error_body.message)
}

/// Describes what the launch definitions would run.
pub(crate) fn describe_launches<'a>(
    launches: impl Iterator<Item = &'a LaunchDefinition>,
) -> String {
    launches.map(describe_launch).collect()
}

fn describe_launch(launch: &LaunchDefinition) -> String {
    let mut shown = launch.masked_keys.clone();
    let (heading, first) = match &launch.server {
        None => ("the host".to_owned(), String::new()),
        Some(key) => {
            let (source, id) = key.rsplit_once('#').unwrap_or(("", key));
            (format!("{} ({})", printable(id), printable(source)), take_command_line(&mut shown))
        }
    };
    let rest = match shown.is_empty() {
        true => String::new(),
        false => printable_lines(&to_yaml(&Json::Object(shown))),
    };
    let rest: String = rest.lines().map(|line| format!("    {line}\n")).collect();
    format!("  {heading}\n{first}{rest}")
}

/// Removes the command or URL from the keys and returns it as one line.
fn take_command_line(shown: &mut Map<String, Json>) -> String {
    let Some(Json::Object(transport)) = shown.get_mut("transport") else { return String::new() };
    let kind = transport.remove("kind");
    let kind = kind.as_ref().and_then(Json::as_str).unwrap_or_default();
    let mut words: Vec<Json> =
        ["url", "command"].iter().filter_map(|key| transport.remove(*key)).collect();
    if let Some(Json::Array(args)) = transport.remove("args") {
        words.extend(args);
    }
    // Default values carry no information.
    transport.retain(|_, value| *value != json!("any") && *value != json!({"inherit": "minimal"}));
    if transport.is_empty() {
        shown.remove("transport");
    }
    let words: Vec<String> = words.iter().map(shell_word).collect();
    format!("    {kind}: {}\n", words.join(" "))
}

/// Quotes a word of a command line if needed.
fn shell_word(word: &Json) -> String {
    match word.as_str() {
        Some(text)
            if !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == '"') =>
        {
            printable(text)
        }
        _ => printable(&word.to_string()),
    }
}
