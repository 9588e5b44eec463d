//! Arguments of the commands that use servers.

use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};
use toolcrib_config::model::units::Period;

/// The agent and the dialog of a command.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct CallerArgs {
    /// The agent [default: default]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub(crate) agent: Option<String>,
    /// The dialog, with the servers that are switched off in it
    #[arg(long, value_name = "ID", value_parser = parse_name)]
    pub(crate) dialog: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ToolsArgs {
    /// Only the tools of this server, by its id or its key `FILE#ID`
    #[arg(long, value_name = "ID", value_parser = parse_name)]
    pub(crate) server: Option<String>,
    #[command(flatten)]
    pub(crate) caller: CallerArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct WhyArgs {
    /// The tool, by its id or its model name
    #[arg(value_parser = parse_name)]
    pub(crate) tool: String,
    #[command(flatten)]
    pub(crate) caller: CallerArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CallArgs {
    /// The tool, by its id or its model name
    #[arg(value_parser = parse_name)]
    pub(crate) tool: String,
    /// The arguments as a JSON object; `-` reads it from standard input
    #[arg(long, value_name = "JSON", conflicts_with = "words")]
    pub(crate) args: Option<String>,
    /// One argument, converted to the type in the tool's schema. May be repeated
    #[arg(short = 'a', value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub(crate) words: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) caller: CallerArgs,
    /// Give up after this time without progress, such as 500ms, 30s or 2m, instead of the server's own limit
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    pub(crate) timeout: Option<Duration>,
    /// Print the complete result as the server sent it
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ResourcesArgs {
    #[command(flatten)]
    pub(crate) caller: CallerArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ReadArgs {
    /// The resource's URI, listed or filled in from a template
    #[arg(value_parser = parse_name)]
    pub(crate) uri: String,
    /// The server to ask, if several offer the URI
    #[arg(long, value_name = "ID", value_parser = parse_name)]
    pub(crate) server: Option<String>,
    #[command(flatten)]
    pub(crate) caller: CallerArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PromptsArgs {
    #[command(flatten)]
    pub(crate) caller: CallerArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PromptArgs {
    /// The prompt, by its listed name
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// One argument, always text. May be repeated
    #[arg(short = 'a', value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub(crate) words: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) caller: CallerArgs,
}

/// Operations on one server.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ServerCommand {
    /// Connect a server, regardless of earlier failures
    #[command(after_help = "Examples:\n  toolcrib server connect files")]
    Connect(ServerTarget),
    /// End all sessions with a server
    #[command(after_help = "Examples:\n  toolcrib server disconnect files")]
    Disconnect(ServerTarget),
    /// Close all sessions with a server and connect again
    #[command(after_help = "Examples:\n  toolcrib server restart files")]
    Restart(ServerTarget),
    /// Read a server's lists again
    #[command(after_help = "Examples:\n  toolcrib server refresh files")]
    Refresh(ServerTarget),
    /// Enable a server that was disabled by command or in its file; the setting is kept
    #[command(after_help = "Examples:\n  toolcrib server enable files")]
    Enable(ServerTarget),
    /// Disable a server until it is enabled again; the setting is kept and the file is not changed
    #[command(after_help = "Examples:\n  toolcrib server disable files")]
    Disable(ServerTarget),
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct ServerTarget {
    /// The server, by its id or its key `FILE#ID`
    #[arg(value_parser = parse_name)]
    pub(crate) id: String,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct AccountArgs {
    /// The server, by its id or its key `FILE#ID`
    #[arg(value_name = "SERVER", value_parser = parse_name)]
    pub(crate) id: String,
    /// The account of this agent, if it has its own (`auth_per_agent`)
    #[arg(long, value_name = "AGENT", value_parser = parse_name)]
    pub(crate) agent: Option<String>,
}

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct LoginArgs {
    #[command(flatten)]
    pub(crate) account: AccountArgs,
    /// Open no browser and no port; paste the address where the browser ends
    #[arg(long)]
    pub(crate) no_browser: bool,
}

/// Rejects empty names, because an unset variable in a script would otherwise select the default.
pub(super) fn parse_name(word: &str) -> Result<String, String> {
    match word.trim().is_empty() {
        true => Err("the name is empty".to_owned()),
        false => Ok(word.to_owned()),
    }
}

fn parse_pair(word: &str) -> Result<(String, String), String> {
    match word.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// Parses a duration. A number without a unit is in seconds.
fn parse_timeout(word: &str) -> Result<Duration, String> {
    let seconds = || word.parse().ok().and_then(Period::from_secs_f64);
    let time = Period::parse(word).or_else(seconds).map(|period| period.0);
    let time = time.filter(|time| !time.is_zero());
    time.ok_or_else(|| "expected a time such as 500ms, 30s or 2m".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_without_unit_is_in_seconds() {
        for (word, millis) in [("500ms", 500), ("2m", 120_000), ("1.5", 1500), ("3", 3000)] {
            assert_eq!(parse_timeout(word), Ok(Duration::from_millis(millis)), "{word}");
        }
        for word in ["", "0", "0s", "-1", "soon", "inf"] {
            assert!(parse_timeout(word).is_err(), "{word}");
        }
    }

    #[test]
    fn blank_names_are_rejected() {
        for word in ["a", "a b", " a "] {
            assert_eq!(parse_name(word), Ok(word.to_owned()));
        }
        for word in ["", " ", "\t\n", "\u{a0}"] {
            assert!(parse_name(word).is_err(), "{word:?}");
        }
    }

    #[test]
    fn argument_needs_a_name_but_no_value() {
        let owned = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(parse_pair("a=b=c"), Ok(owned("a", "b=c")));
        assert_eq!(parse_pair("a="), Ok(owned("a", "")));
        assert!(parse_pair("a").is_err() && parse_pair("=b").is_err());
    }
}
