//! What the command line accepts.

mod hosted;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};
use toolcrib_config::{Client, Dialect};

use crate::clients;
use hosted::name;

pub(crate) use hosted::{
    Account, Call, Login, Prompt, Prompts, Read, Resources, Server, Target, Tools, Who, Why,
};

/// The counter where AI agents check out tools: every MCP server you have, from one place.
#[derive(Debug, Parser)]
#[command(name = "toolcrib", version, about, disable_help_subcommand = true)]
#[command(
    after_help = "Examples:\n  toolcrib check                    what is wrong with the configuration here\n  toolcrib tools                    what all servers offer\n  toolcrib serve                    one MCP server in front of them all\n  toolcrib connect claude-code      write it into a client\n  toolcrib call demo__add -a a=1 -a b=2\n  toolcrib explain files            one server, with the origin of each value\n  toolcrib import cursor            take over the servers that Cursor has\n  toolcrib doctor                   start each server once and see how it does\n\nExit codes: 0 done, 1 the tool, check or server failed, 2 wrong usage, 3 nothing could be reached, 130 interrupted."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Common {
    /// The workspace [default: the current folder]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Read this file instead of looking for configuration
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The format of --config, where the file's place does not tell
    #[arg(long, global = true, value_name = "NAME", requires = "config", value_parser = dialect)]
    pub(crate) dialect: Option<Dialect>,
    /// Trust what is configured in the current folder, for this run
    #[arg(long, global = true)]
    pub(crate) trust: bool,
    /// Print one JSON document on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print only what is wrong
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say more about what is done
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Read the configuration, start nothing, and print what is wrong
    #[command(
        after_help = "Examples:\n  toolcrib check\n  toolcrib check --root ~/shop --json\n  toolcrib check --config servers.json --dialect claude\n\nExit code 1 if any problem is an error."
    )]
    Check,
    /// Print the compiled configuration, each value with where it came from
    #[command(
        after_help = "Examples:\n  toolcrib explain\n  toolcrib explain files\n  toolcrib explain --reveal > everything.yaml\n\nLiteral values of env and headers print as `***`; with --reveal they are shown, and the output compiles to the same configuration."
    )]
    Explain(Explain),
    /// Show every server: its state, what it offers, how calls went, and what went wrong
    #[command(
        after_help = "Examples:\n  toolcrib servers\n  toolcrib servers --json\n\nOf the host that runs for this workspace (`toolcrib serve`), else of one for the length of the command."
    )]
    Servers,
    /// List the tools that an agent sees
    #[command(
        after_help = "Examples:\n  toolcrib tools\n  toolcrib tools --server files\n  toolcrib tools --agent reviewer --json\n\nExit code 3 if no server could be reached."
    )]
    Tools(Tools),
    /// Tell which gates a tool passes or fails for an agent, and which rule decides
    #[command(
        after_help = "Examples:\n  toolcrib why files__write_file\n  toolcrib why files__write_file --agent reviewer\n\nExit code 1 if the agent cannot use the tool."
    )]
    Why(Why),
    /// Call a tool and print its result
    #[command(
        after_help = "Examples:\n  toolcrib call demo__add -a a=19 -a b=23\n  toolcrib call demo__echo --args '{\"text\": \"hello\"}'\n  echo '{\"text\": \"hello\"}' | toolcrib call demo__echo --args - --json\n\nArguments are checked against the tool's schema before anything is sent. Exit code 1 if the tool fails, 3 if its server could not be reached, 130 if the call was interrupted: it is cancelled then."
    )]
    Call(Call),
    /// List the resources that an agent sees, and the templates of their URIs
    #[command(after_help = "Examples:\n  toolcrib resources\n  toolcrib resources --json")]
    Resources(Resources),
    /// Read a resource and print what it holds
    #[command(
        after_help = "Examples:\n  toolcrib read demo://square/12\n  toolcrib read file:///notes.md --server files\n  toolcrib read file:///logo.png > logo.png"
    )]
    Read(Read),
    /// List the prompts that an agent sees
    #[command(after_help = "Examples:\n  toolcrib prompts\n  toolcrib prompts --json")]
    Prompts(Prompts),
    /// Fill in a prompt and print its messages
    #[command(after_help = "Examples:\n  toolcrib prompt demo__introduce -a name=Ada")]
    Prompt(Prompt),
    /// Do something to one server: connect, disconnect, restart, refresh, enable or disable it
    #[command(
        subcommand,
        disable_help_subcommand = true,
        after_help = "Examples:\n  toolcrib server restart files\n  toolcrib server disable files\n\nIt is done to the host that runs for this workspace (`toolcrib serve`). Without one, it is done to a host of the command's own, which ends with it: what lasts then is enable and disable, which are kept for every later host (`toolcrib explain` shows them), and the lists that refresh reads of a server that starts on demand."
    )]
    Server(Server),
    /// Read the configuration as a host does and tell what becomes of each server
    #[command(
        after_help = "Examples:\n  toolcrib reload\n  toolcrib reload --json\n\nThe host that runs for this workspace does it, else one of the command's own, which ends with it. A host that watches its files takes up what changes by itself. Exit code 1 if a server does not start or the configuration is wrong."
    )]
    Reload,
    /// Show how the host is: its version, how many servers, tools and problems there are
    #[command(
        after_help = "Examples:\n  toolcrib status\n  toolcrib status --json\n\nIt tells of the host that runs for this workspace, else of one of the command's own. Servers that it starts on this machine run with your own rights: there is no sandbox around them."
    )]
    Status,
    /// Run the host: one MCP server in front of all that are configured, over HTTP or on standard streams
    #[command(
        after_help = "Examples:\n  toolcrib serve                          at http://127.0.0.1:7420/mcp, until Ctrl-C\n  toolcrib serve --listen :0 --json       on any free port; the line when it is ready is JSON\n  toolcrib serve --stdio --root ~/shop    for a client that starts it\n\n`toolcrib connect` writes it into the configuration of a client. It speaks every version of the protocol from 2024-11-05 to 2026-07-28, whatever the servers speak. Files are watched; SIGHUP reads them anew; SIGINT and SIGTERM let running calls end first, within `host.reload.drain_kill` (30 s); a second one does not wait for them.\n\nA workspace has one host. While it runs, other commands use it, and `serve --stdio` passes its client on to it. When it ends, such a client goes on with the next host of the workspace, or its own `serve --stdio` is the host from then on."
    )]
    Serve(Serve),
    /// Make, list and revoke the tokens that tell clients apart who come over HTTP
    #[command(
        subcommand,
        disable_help_subcommand = true,
        after_help = "Examples:\n  toolcrib token new --agent reviewer --name ci\n  toolcrib token list\n  toolcrib token revoke ci\n\nOnly hashes are kept, in the state folder of this workspace. A host that runs knows of a change within a moment."
    )]
    Token(Token),
    /// Log in to a server that wants it, with a browser
    #[command(
        after_help = "Examples:\n  toolcrib login linear\n  toolcrib login linear --no-browser   where there is none: paste the address it ends at\n  BROWSER=firefox toolcrib login linear\n  toolcrib login linear --agent reviewer   where `auth_per_agent` gives it an account of its own\n\nWhat the server asks a person for, as with `inputs` of VS Code, is asked first, on a terminal.\n\nTokens are kept for all workspaces, by the server's address and who issued them, and are renewed by themselves. A host that runs for this workspace connects the server at once. Where a server asked for more than it was given, the next login asks for both. Ctrl-C ends it: only what was answered by then is kept."
    )]
    Login(Login),
    /// Give back the tokens of a server, and forget them and the answers that only it uses
    #[command(
        after_help = "Examples:\n  toolcrib logout linear\n  toolcrib logout linear --agent reviewer\n  toolcrib logout linear && toolcrib login linear   to answer anew what it asks for\n\nThey are forgotten whether their issuer can be reached or not."
    )]
    Logout(Account),
    /// Show what the configuration of a folder would run, and trust it
    #[command(
        after_help = "Examples:\n  toolcrib trust                    what is configured in this folder\n  toolcrib trust ~/shop --show      only show it\n  toolcrib trust --list             which folders are trusted\n  toolcrib trust --forget ~/shop\n\nWhat is configured in the current folder starts nothing until it is trusted; what you name with --root or --config, and your own file, needs no trust. Trusted is what decides what runs and where it sends something: commands, arguments, variables, addresses, headers, credentials. If that changes, the changed server needs trust again; the files that a command runs are not looked at. --trust trusts for one run."
    )]
    Trust(Trust),
    /// Show which tools have changed since they were first seen, and accept that
    #[command(
        after_help = "Examples:\n  toolcrib accept                   what has changed\n  toolcrib accept files__read       this tool is right as it is now\n  toolcrib accept --all\n\nThe first definition of a tool is remembered: its title, description, annotations and schemas. One that becomes another is told of; with `host: { pins: enforce }` nobody gets it until it is accepted."
    )]
    Accept(Accept),
    /// Write Toolcrib into the configuration of a client, or take it out again
    #[command(
        after_help = "Examples:\n  toolcrib connect                  which clients there are, and where their files\n  toolcrib connect claude-code      Claude Code starts `toolcrib serve --stdio` for this workspace\n  toolcrib connect cursor --http    Cursor asks the host that runs, in a dialog of its own\n  toolcrib connect vscode --print   what to paste, and where\n  toolcrib connect codex --undo\n\nComments and everything else in the file stay; there is a backup beside it. --undo makes the file what it was before, or takes only the entry out if the file has changed since."
    )]
    Connect(Connect),
    /// Take over the servers that other clients have configured
    #[command(
        after_help = "Examples:\n  toolcrib import                   from every client that is found\n  toolcrib import cursor            from Cursor only\n  toolcrib import --user            into your own toolcrib.yaml, for all folders\n\nAn existing file is kept unless --force is given, and then there is a backup beside it."
    )]
    Import(Import),
    /// Start each server once and report what it speaks, what it offers and what is odd
    #[command(
        after_help = "Examples:\n  toolcrib doctor\n  toolcrib doctor files\n  toolcrib doctor --json\n\nExit code 1 if a server does not start."
    )]
    Doctor(Doctor),
    /// Run a small MCP server to try things with: echo, add, counter, slow, fail, image, elicit
    #[command(
        after_help = "Examples:\n  toolcrib demo-server               on standard input and output, for a client that starts it\n  toolcrib demo-server --http 7421   at http://127.0.0.1:7421/mcp, until Ctrl-C\n\nIn toolcrib.yaml:\n  servers: { demo: { command: toolcrib, args: [demo-server] } }\n\nIt speaks every version of the protocol from 2024-11-05 to 2026-07-28 and has no effect outside of itself."
    )]
    DemoServer(DemoServer),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Explain {
    /// Only this server, by its id or its key `FILE#ID`
    #[arg(value_parser = name)]
    pub(crate) server: Option<String>,
    /// Print literal values of env and headers
    #[arg(long)]
    pub(crate) reveal: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Serve {
    /// Listen on this address, or on this port of this machine; port 0 takes any that is free
    /// [default: gateway.listen of the configuration, 127.0.0.1:7420; and none with --stdio]
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Speak on standard input and output
    #[arg(long)]
    pub(crate) stdio: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Trust {
    /// The folder [default: the workspace]
    pub(crate) dir: Option<PathBuf>,
    /// Only show what it would run
    #[arg(long, conflicts_with_all = ["forget", "list"])]
    pub(crate) show: bool,
    /// Trust it no longer
    #[arg(long, conflicts_with = "list")]
    pub(crate) forget: bool,
    /// List the folders that are trusted
    #[arg(long, conflicts_with = "dir")]
    pub(crate) list: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Accept {
    /// The tool, by any of its names [default: nothing is accepted, only shown]
    #[arg(conflicts_with = "all", value_parser = name)]
    pub(crate) tool: Option<String>,
    /// Accept all that have changed
    #[arg(long)]
    pub(crate) all: bool,
}

/// What can be done to tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Make a token and print it, once
    #[command(
        after_help = "Examples:\n  toolcrib token new\n  toolcrib token new --agent reviewer --name ci\n  toolcrib token new --owner"
    )]
    New(NewToken),
    /// List the tokens there are
    #[command(after_help = "Examples:\n  toolcrib token list\n  toolcrib token list --json")]
    List,
    /// End a token
    #[command(
        after_help = "Examples:\n  toolcrib token revoke 1f0c9a3b\n  toolcrib token revoke ci"
    )]
    Revoke {
        /// The token, by its id or its name
        #[arg(value_name = "ID", value_parser = name)]
        which: String,
    },
    /// Let everybody on this machine in without a token, until the next one is made
    #[command(after_help = "Example:\n  toolcrib token open")]
    Open,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NewToken {
    /// The agent that it stands for [default: default]
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) agent: Option<String>,
    /// Give it the rights of the owner
    #[arg(long)]
    pub(crate) owner: bool,
    /// What to call it [default: the agent]
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) name: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Connect {
    /// claude-code, claude-desktop, cursor, vscode, codex, goose, windsurf, zed, gemini-cli or opencode
    /// [default: all are listed]
    #[arg(value_parser = connectable)]
    pub(crate) client: Option<clients::Client>,
    /// Ask the host that runs, instead of starting one
    #[arg(long)]
    pub(crate) http: bool,
    /// Take it back
    #[arg(long, conflicts_with_all = ["http", "print"])]
    pub(crate) undo: bool,
    /// Only print what is to be pasted
    #[arg(long)]
    pub(crate) print: bool,
    /// Into your own file, which every workspace sees; this is the default
    #[arg(long, conflicts_with = "project")]
    pub(crate) user: bool,
    /// Into the file of this workspace
    #[arg(long)]
    pub(crate) project: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Doctor {
    /// Only this server, by its id or its key `FILE#ID`
    #[arg(value_parser = name)]
    pub(crate) server: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Import {
    /// Only this client: claude, claude-code, claude-desktop, vscode, cursor, codex, gemini or opencode
    #[arg(value_parser = importable)]
    pub(crate) client: Option<Clients>,
    /// Write your own file, which every folder sees, instead of the workspace's
    #[arg(long)]
    pub(crate) user: bool,
    /// Write over an existing file, after a backup
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DemoServer {
    /// Serve Streamable HTTP at /mcp on this address of this machine, or on this port
    #[arg(long, value_name = "ADDR", value_parser = loopback)]
    pub(crate) http: Option<SocketAddr>,
}

/// There is no authentication, so nobody else may reach it.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let reason = "the demo server knows no users, so it listens on 127.0.0.1 or [::1] only";
    let address = address(text)?;
    address.ip().is_loopback().then_some(address).ok_or_else(|| reason.to_owned())
}

/// A port alone is one of this machine.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let here = text.strip_prefix("localhost").unwrap_or(text);
    let port = here.strip_prefix(':').unwrap_or(here).parse().ok();
    let port = port.map(|port: u16| SocketAddr::from(([127, 0, 0, 1], port)));
    port.or_else(|| text.parse().ok())
        .ok_or_else(|| "expected a port or an address like 127.0.0.1:7421".to_owned())
}

fn dialect(word: &str) -> Result<Dialect, String> {
    let words = Dialect::WORDS.join(", ");
    Dialect::from_word(word).ok_or_else(|| format!("there is no such format; there are {words}"))
}

fn connectable(word: &str) -> Result<clients::Client, String> {
    let words: Vec<&str> = clients::CLIENTS.iter().map(|client| client.word).collect();
    clients::Client::from_word(word)
        .ok_or_else(|| format!("there is no such client; there are {}", words.join(", ")))
}

/// One or several programs that one word stands for.
#[derive(Clone, Debug)]
pub(crate) struct Clients(pub(crate) Vec<Client>);

fn importable(word: &str) -> Result<Clients, String> {
    if word == "claude" {
        return Ok(Clients(vec![Client::ClaudeCode, Client::ClaudeDesktop]));
    }
    let words = Client::WORDS.join(", ");
    let one = Client::from_word(word).map(|client| Clients(vec![client]));
    one.ok_or_else(|| format!("there is no such client; there are claude, {words}"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// What is broken into lines here is broken once more where the terminal is narrower.
    fn check(command: &clap::Command) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for part in help.split("\n\n") {
            let is_list = part.lines().skip(1).all(|line| line.starts_with("  "));
            assert!(is_list, "{}: {part}", command.get_name());
            let is_wide = |line: &str| line.starts_with("  ") && line.chars().count() > 100;
            assert!(!part.lines().any(is_wide), "{}: {part}", command.get_name());
        }
        command.get_subcommands().for_each(check);
    }

    #[test]
    fn help_is_broken_into_lines_by_whoever_shows_it() {
        check(&Args::command());
    }
}
