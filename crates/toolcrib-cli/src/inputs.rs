//! Values that a person is asked for once: on a terminal, before the servers that need them are started.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::task::spawn_blocking;
use toolcrib_config::model::host::Input;
use toolcrib_config::{Config, Hidden, Reference, ServerSpec, Value};
use toolcrib_upstream::secrets::{Keep, KeepError, input_name};
use toolcrib_upstream::signals::chain;

use crate::out::Out;
use crate::shown::printable;

/// A wrong answer may be given so often before the server has to do without.
const TRIES: usize = 3;

/// Asks for what these servers need and nobody has answered yet. Where there is no terminal nothing is asked: the
/// servers tell what they miss. The keys of the servers that something was answered for; `kept` is told the id of each
/// answer as soon as it is kept, since asking may be interrupted.
pub(crate) async fn ask<'a>(
    out: &Out,
    config: &Config,
    servers: impl Iterator<Item = &'a ServerSpec>,
    keep: &Keep,
    kept: impl Fn(&str),
) -> Result<BTreeSet<String>, String> {
    let mut answered = BTreeSet::new();
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(answered);
    }
    for (name, (id, specs)) in wanted(servers) {
        if keep.read(&name).await.map_err(told)?.is_some() {
            continue;
        }
        let input = config.inputs.get(&id).cloned().unwrap_or_default();
        let server = specs.first().map(|spec| spec.id.clone()).unwrap_or_default();
        if let Some(answer) = answer(out, &id, &server, &input).await? {
            keep.write(&name, &answer).await.map_err(told)?;
            kept(&id);
            answered.extend(specs.iter().map(ServerSpec::key));
        }
    }
    Ok(answered)
}

/// Forgets the answers that nobody needs but this server, or this agent at it; how many there were.
pub(crate) async fn forget(
    config: &Config,
    spec: &ServerSpec,
    keep: &Keep,
) -> Result<usize, String> {
    let mut count = 0;
    for name in own(config, spec) {
        if keep.read(&name).await.map_err(told)?.is_some() {
            keep.remove(&name).await.map_err(told)?;
            count += 1;
        }
    }
    Ok(count)
}

/// What a server's answers are kept under, with their ids.
pub(crate) fn names(spec: &ServerSpec) -> BTreeMap<String, String> {
    let references = spec.values().into_iter().flat_map(Value::references);
    let inputs = references.filter_map(|reference| match reference {
        Reference::Input(id) => Some((input_name(&spec.base, &id), id)),
        _ => None,
    });
    inputs.collect()
}

fn told(error: KeepError) -> String {
    format!("cannot keep what is asked for: {}", chain(&error))
}

/// The names of what only this server uses, or only this agent at it.
fn own(config: &Config, spec: &ServerSpec) -> BTreeSet<String> {
    let is_other = |other: &ServerSpec| other.key() != spec.key() || other.agent != spec.agent;
    let others = config.servers.iter().flat_map(users).filter(is_other);
    let theirs: BTreeSet<String> = others.flat_map(|other| names(&other).into_keys()).collect();
    names(spec).into_keys().filter(|name| !theirs.contains(name)).collect()
}

/// The server as everybody sees it who has credentials of his own.
fn users(spec: &ServerSpec) -> Vec<ServerSpec> {
    let agents = spec.policy.auth_per_agent.keys();
    let own = agents.filter(|_| spec.agent.is_none()).filter_map(|agent| spec.of_agent(agent));
    std::iter::once(spec.clone()).chain(own).collect()
}

/// Each once, by what it is kept under: its id and the servers that need it.
fn wanted<'a>(
    servers: impl Iterator<Item = &'a ServerSpec>,
) -> BTreeMap<String, (String, Vec<ServerSpec>)> {
    let mut wanted = BTreeMap::new();
    for spec in servers.filter(|spec| spec.policy.enabled).flat_map(users) {
        for (name, id) in names(&spec) {
            wanted.entry(name).or_insert_with(|| (id, Vec::new())).1.push(spec.clone());
        }
    }
    wanted
}

/// Nothing where the person has no answer.
async fn answer(
    out: &Out,
    id: &str,
    server: &str,
    input: &Input,
) -> Result<Option<Hidden>, String> {
    let question = question(id, server, input);
    for _ in 0..TRIES {
        let given = line(out, &question, input.password).await?;
        match chosen(given.reveal(), input) {
            Some(answer) => return Ok(Some(answer)),
            None if input.options.is_empty() => break,
            None => out.note("that is none of them"),
        }
    }
    out.note(&format!("`{}` goes without an answer", printable(id)));
    Ok(None)
}

fn question(id: &str, server: &str, input: &Input) -> String {
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

/// What an answer stands for: an option, by its number or its text, the default, or itself.
fn chosen(given: &str, input: &Input) -> Option<Hidden> {
    let given = match given {
        "" => input.default.as_deref()?,
        given => given,
    };
    if input.options.is_empty() || input.options.iter().any(|option| option == given) {
        return Some(Hidden::new(given));
    }
    let number = given.parse::<usize>().ok()?.checked_sub(1)?;
    input.options.get(number).map(Hidden::new)
}

/// The line that answers a question on the terminal, seen while it is typed or not.
async fn line(out: &Out, question: &str, is_secret: bool) -> Result<Hidden, String> {
    // Held here and not where it is read: an interrupt ends this, and a read goes on. Before the question: what was
    // typed by then is dropped, and must not be the answer.
    let quiet = is_secret.then(Quiet::begin);
    out.ask(question);
    let read = spawn_blocking(|| {
        let mut line = String::with_capacity(1 << 12);
        io::stdin().read_line(&mut line).map(|_| {
            let end = line.trim_end_matches(['\n', '\r']).len();
            line.truncate(end);
            Hidden::new(line)
        })
    });
    let read = read.await.unwrap_or_else(|error| Err(error.into()));
    if quiet.is_some() {
        out.ask("\n");
    }
    read.map_err(|error| format!("cannot read the answer: {error}"))
}

/// While it lives the terminal does not show what is typed.
struct Quiet(Option<Termios>);

impl Quiet {
    fn begin() -> Self {
        let Ok(before) = tcgetattr(io::stdin()) else { return Quiet(None) };
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        let done = tcsetattr(io::stdin(), OptionalActions::Flush, &silent);
        Quiet(done.is_ok().then_some(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // There is nobody to tell: the terminal is gone.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_an_option_the_default_or_itself() {
        let free = Input { default: Some("d".into()), ..Input::default() };
        let pick =
            Input { options: vec!["eu".into(), "us".into(), "1".into()], ..Input::default() };
        for (input, given, answer) in [
            (&free, "x", Some("x")),
            (&free, "", Some("d")),
            (&Input::default(), "", None),
            (&pick, "us", Some("us")),
            (&pick, "2", Some("us")),
            // A text that is an option is that option, whatever its number.
            (&pick, "1", Some("1")),
            (&pick, "4", None),
            (&pick, "0", None),
            (&pick, "", None),
        ] {
            assert_eq!(chosen(given, input).as_ref().map(Hidden::reveal), answer, "{given}");
        }
        let asked = question("id", "s", &Input { password: true, ..free });
        assert!(!asked.contains("[d]"), "{asked}");
    }
}
