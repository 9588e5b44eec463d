//! Terminal prompts for inputs that servers need.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::task::spawn_blocking;
use toolcrib_config::model::host::InputSpec;
use toolcrib_config::{Config, Reference, SecretString, ServerSpec, Value};
use toolcrib_upstream::secrets::{CredentialStore, CredentialStoreError, input_credential_name};
use toolcrib_upstream::signals::chain;

use crate::output::Output;
use crate::terminal_text::printable;

/// Number of invalid answers until the input is skipped.
const MAX_ATTEMPTS: usize = 3;

/// Asks for missing inputs of these servers and returns the keys of the servers that got an answer. Without a terminal
/// nothing is asked, and the servers report the missing inputs. `on_stored` gets the id of each answer as soon as it is
/// stored, because the prompts may be interrupted.
pub(crate) async fn ask_missing<'a>(
    out: &Output,
    config: &Config,
    servers: impl Iterator<Item = &'a ServerSpec>,
    store: &CredentialStore,
    on_stored: impl Fn(&str),
) -> Result<BTreeSet<String>, String> {
    let mut answered = BTreeSet::new();
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(answered);
    }
    for (name, (id, specs)) in required_inputs(servers) {
        if store.read(&name).await.map_err(store_error)?.is_some() {
            continue;
        }
        let input = config.inputs.get(&id).cloned().unwrap_or_default();
        let server = specs.first().map(|spec| spec.id.clone()).unwrap_or_default();
        if let Some(answer) = ask_input(out, &id, &server, &input).await? {
            store.write(&name, &answer).await.map_err(store_error)?;
            on_stored(&id);
            answered.extend(specs.iter().map(ServerSpec::key));
        }
    }
    Ok(answered)
}

/// Deletes the answers that only this server, or this agent at this server, needs. Returns their number.
pub(crate) async fn forget_unshared(
    config: &Config,
    spec: &ServerSpec,
    store: &CredentialStore,
) -> Result<usize, String> {
    let mut count = 0;
    for name in unshared_names(config, spec) {
        if store.read(&name).await.map_err(store_error)?.is_some() {
            store.remove(&name).await.map_err(store_error)?;
            count += 1;
        }
    }
    Ok(count)
}

/// Returns the storage names of a server's inputs, with their ids.
pub(crate) fn storage_names(spec: &ServerSpec) -> BTreeMap<String, String> {
    let references = spec.values().into_iter().flat_map(Value::references);
    let inputs = references.filter_map(|reference| match reference {
        Reference::Input(id) => Some((input_credential_name(&spec.base, &id), id)),
        _ => None,
    });
    inputs.collect()
}

fn store_error(error: CredentialStoreError) -> String {
    format!("cannot store the answers: {}", chain(&error))
}

/// Returns the storage names that only this server, or only this agent at this server, uses.
fn unshared_names(config: &Config, spec: &ServerSpec) -> BTreeSet<String> {
    let is_other = |other: &ServerSpec| other.key() != spec.key() || other.agent != spec.agent;
    let others = config.servers.iter().flat_map(account_variants).filter(is_other);
    let theirs: BTreeSet<String> =
        others.flat_map(|other| storage_names(&other).into_keys()).collect();
    storage_names(spec).into_keys().filter(|name| !theirs.contains(name)).collect()
}

/// Returns the server, and a variant for each agent with its own credentials.
fn account_variants(spec: &ServerSpec) -> Vec<ServerSpec> {
    let agents = spec.policy.auth_per_agent.keys();
    let own = agents.filter(|_| spec.agent.is_none()).filter_map(|agent| spec.for_agent(agent));
    std::iter::once(spec.clone()).chain(own).collect()
}

/// Returns the required inputs by storage name: the id and the servers that need it.
fn required_inputs<'a>(
    servers: impl Iterator<Item = &'a ServerSpec>,
) -> BTreeMap<String, (String, Vec<ServerSpec>)> {
    let mut wanted = BTreeMap::new();
    for spec in servers.filter(|spec| spec.policy.enabled).flat_map(account_variants) {
        for (name, id) in storage_names(&spec) {
            wanted.entry(name).or_insert_with(|| (id, Vec::new())).1.push(spec.clone());
        }
    }
    wanted
}

/// Asks for one input. Returns `None` if the user has no answer.
async fn ask_input(
    out: &Output,
    id: &str,
    server: &str,
    input: &InputSpec,
) -> Result<Option<SecretString>, String> {
    let question = prompt_text(id, server, input);
    for _ in 0..MAX_ATTEMPTS {
        let given = read_answer(out, &question, input.password).await?;
        match resolve_answer(given.reveal(), input) {
            Some(answer) => return Ok(Some(answer)),
            None if input.options.is_empty() => break,
            None => out.print_note("the answer is not one of the options"),
        }
    }
    out.print_note(&format!("`{}` stays unanswered", printable(id)));
    Ok(None)
}

fn prompt_text(id: &str, server: &str, input: &InputSpec) -> String {
    let what = if input.description.is_empty() { id } else { &input.description };
    let mut text = format!("{} (`{}`, for server `{server}`)", printable(what), printable(id));
    for (number, option) in input.options.iter().enumerate() {
        text += &format!("\n  {}) {}", number + 1, printable(option));
    }
    match &input.default {
        Some(_) if input.password => text += " [Enter takes the default]",
        Some(default) => text += &format!(" [{}]", printable(default)),
        None => {}
    }
    text + ": "
}

/// Resolves an answer: an option by number or by text, the default, or the answer itself.
fn resolve_answer(given: &str, input: &InputSpec) -> Option<SecretString> {
    let given = match given {
        "" => input.default.as_deref()?,
        given => given,
    };
    if input.options.is_empty() || input.options.iter().any(|option| option == given) {
        return Some(SecretString::new(given));
    }
    let number = given.parse::<usize>().ok()?.checked_sub(1)?;
    input.options.get(number).map(SecretString::new)
}

/// Reads one line from the terminal, with or without echo.
async fn read_answer(
    out: &Output,
    question: &str,
    is_secret: bool,
) -> Result<SecretString, String> {
    // The guard lives here and not in the blocking read, because an interrupt drops this future while the read
    // continues. The guard precedes the question: it discards earlier input, which must not become the answer.
    let quiet = is_secret.then(EchoOff::start);
    out.prompt(question);
    let read = spawn_blocking(|| {
        let mut line = String::with_capacity(1 << 12);
        io::stdin().read_line(&mut line).map(|_| {
            let end = line.trim_end_matches(['\n', '\r']).len();
            line.truncate(end);
            SecretString::new(line)
        })
    });
    let read = read.await.unwrap_or_else(|error| Err(error.into()));
    if quiet.is_some() {
        out.prompt("\n");
    }
    read.map_err(|error| format!("cannot read the answer: {error}"))
}

/// Disables the terminal's echo until dropped.
struct EchoOff(Option<Termios>);

impl EchoOff {
    fn start() -> Self {
        let Ok(before) = tcgetattr(io::stdin()) else { return EchoOff(None) };
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        let done = tcsetattr(io::stdin(), OptionalActions::Flush, &silent);
        EchoOff(done.is_ok().then_some(before))
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // A failure means that the terminal is gone.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_resolve_to_option_default_or_literal_text() {
        let free = InputSpec { default: Some("d".into()), ..InputSpec::default() };
        let pick = InputSpec {
            options: vec!["eu".into(), "us".into(), "1".into()],
            ..InputSpec::default()
        };
        for (input, given, answer) in [
            (&free, "x", Some("x")),
            (&free, "", Some("d")),
            (&InputSpec::default(), "", None),
            (&pick, "us", Some("us")),
            (&pick, "2", Some("us")),
            // A text that equals an option selects it, even if it is also a number.
            (&pick, "1", Some("1")),
            (&pick, "4", None),
            (&pick, "0", None),
            (&pick, "", None),
        ] {
            assert_eq!(
                resolve_answer(given, input).as_ref().map(SecretString::reveal),
                answer,
                "{given}"
            );
        }
        let asked = prompt_text("id", "s", &InputSpec { password: true, ..free });
        assert!(!asked.contains("[d]"), "{asked}");
    }
}
