//! What the commands accept that talk to servers.

use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};
use toolcrib_config::model::units::Period;

/// Who asks, and in which conversation.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct Who {
    /// The agent that asks [default: default]
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) agent: Option<String>,
    /// The dialog that it asks in, with the servers that are switched off in it
    #[arg(long, value_name = "ID", value_parser = name)]
    pub(crate) dialog: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Tools {
    /// Only what this server offers, by its id or its key `FILE#ID`
    #[arg(long, value_name = "ID", value_parser = name)]
    pub(crate) server: Option<String>,
    #[command(flatten)]
    pub(crate) who: Who,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Why {
    /// The tool, by its id or by the name that models are given
    #[arg(value_parser = name)]
    pub(crate) tool: String,
    #[command(flatten)]
    pub(crate) who: Who,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Call {
    /// The tool, by its id or by the name that models are given
    #[arg(value_parser = name)]
    pub(crate) tool: String,
    /// The arguments as a JSON object; `-` reads it from standard input
    #[arg(long, value_name = "JSON", conflicts_with = "words")]
    pub(crate) args: Option<String>,
    /// One argument; its type is taken from the tool's schema. May be repeated
    #[arg(short = 'a', value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) words: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) who: Who,
    /// Give up after this time without a sign of progress, such as 500ms, 30s or 2m, instead of the
    /// server's own limit
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) timeout: Option<Duration>,
    /// Print the result as the server gave it, whole
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Resources {
    #[command(flatten)]
    pub(crate) who: Who,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Read {
    /// The resource's URI, as it is listed or made of a template
    #[arg(value_parser = name)]
    pub(crate) uri: String,
    /// The server to ask, where several have the URI
    #[arg(long, value_name = "ID", value_parser = name)]
    pub(crate) server: Option<String>,
    #[command(flatten)]
    pub(crate) who: Who,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Prompts {
    #[command(flatten)]
    pub(crate) who: Who,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Prompt {
    /// The prompt, by the name that it is listed with
    #[arg(value_parser = name)]
    pub(crate) name: String,
    /// One argument, always text. May be repeated
    #[arg(short = 'a', value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) words: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) who: Who,
}

/// What can be done to one server.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Server {
    /// Connect a server, however often that failed before
    #[command(after_help = "Examples:\n  toolcrib server connect files")]
    Connect(Target),
    /// End all sessions with a server
    #[command(after_help = "Examples:\n  toolcrib server disconnect files")]
    Disconnect(Target),
    /// End all sessions with a server and begin anew
    #[command(after_help = "Examples:\n  toolcrib server restart files")]
    Restart(Target),
    /// Ask a server anew what it offers
    #[command(after_help = "Examples:\n  toolcrib server refresh files")]
    Refresh(Target),
    /// Let a server work again that was disabled, or that its file disables; this is kept
    #[command(after_help = "Examples:\n  toolcrib server enable files")]
    Enable(Target),
    /// Switch a server off until it is enabled again; this is kept, and its file is not changed
    #[command(after_help = "Examples:\n  toolcrib server disable files")]
    Disable(Target),
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Target {
    /// The server, by its id or its key `FILE#ID`
    #[arg(value_parser = name)]
    pub(crate) id: String,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Account {
    /// The server, by its id or its key `FILE#ID`
    #[arg(value_name = "SERVER", value_parser = name)]
    pub(crate) id: String,
    /// The account of this agent, where it has its own (`auth_per_agent`)
    #[arg(long, value_name = "AGENT", value_parser = name)]
    pub(crate) agent: Option<String>,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Login {
    #[command(flatten)]
    pub(crate) account: Account,
    /// Open nothing and listen nowhere: the address that the browser ends at is pasted
    #[arg(long)]
    pub(crate) no_browser: bool,
}

/// What names something is not empty. A variable that is not set in a script would else name nobody.
pub(super) fn name(word: &str) -> Result<String, String> {
    match word.trim().is_empty() {
        true => Err("it is empty, and names nothing".to_owned()),
        false => Ok(word.to_owned()),
    }
}

fn pair(word: &str) -> Result<(String, String), String> {
    match word.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// A bare number is seconds.
fn time(word: &str) -> Result<Duration, String> {
    let seconds = || word.parse().ok().and_then(Period::from_secs_f64);
    let time = Period::parse(word).or_else(seconds).map(|period| period.0);
    let time = time.filter(|time| !time.is_zero());
    time.ok_or_else(|| "expected a time such as 500ms, 30s or 2m".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_or_is_in_seconds() {
        for (word, millis) in [("500ms", 500), ("2m", 120_000), ("1.5", 1500), ("3", 3000)] {
            assert_eq!(time(word), Ok(Duration::from_millis(millis)), "{word}");
        }
        for word in ["", "0", "0s", "-1", "soon", "inf"] {
            assert!(time(word).is_err(), "{word}");
        }
    }

    #[test]
    fn what_names_something_is_not_blank() {
        for word in ["a", "a b", " a "] {
            assert_eq!(name(word), Ok(word.to_owned()));
        }
        for word in ["", " ", "\t\n", "\u{a0}"] {
            assert!(name(word).is_err(), "{word:?}");
        }
    }

    #[test]
    fn an_argument_has_a_name_and_may_be_empty() {
        let owned = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(pair("a=b=c"), Ok(owned("a", "b=c")));
        assert_eq!(pair("a="), Ok(owned("a", "")));
        assert!(pair("a").is_err() && pair("=b").is_err());
    }
}
