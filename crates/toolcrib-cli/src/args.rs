//! Command-line arguments.

mod server_commands;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};
use toolcrib_config::{ClientApp, Dialect};

use crate::client_entries;
use server_commands::parse_name;

pub(crate) use server_commands::{
    AccountArgs, CallArgs, CallerArgs, LoginArgs, PromptArgs, PromptsArgs, ReadArgs, ResourcesArgs,
    ServerCommand, ServerTarget, ToolsArgs, WhyArgs,
};

/// The counter where AI agents check out tools: every MCP server you have, from one place.
#[derive(Debug, Parser)]
#[command(name = "toolcrib", version, about, disable_help_subcommand = true)]
#[command(
    after_help = "Examples:\n  toolcrib check                    report problems of the configuration\n  toolcrib tools                    list the tools of all servers\n  toolcrib serve                    run one MCP server in front of all servers\n  toolcrib connect claude-code      add Toolcrib to a client\n  toolcrib call demo__add -a a=1 -a b=2\n  toolcrib explain files            show one server with the origin of each value\n  toolcrib import cursor            import the servers of Cursor\n  toolcrib doctor                   start each server once and report on it\n\nExit codes: 0 success, 1 the tool, check or server failed, 2 wrong usage, 3 no server could be reached, 130 interrupted."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Common {
    /// The workspace [default: the current folder]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Read this file instead of looking for configuration
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The format of --config, if the file's path does not imply it
    #[arg(long, global = true, value_name = "NAME", requires = "config", value_parser = parse_dialect)]
    pub(crate) dialect: Option<Dialect>,
    /// Trust what is configured in the current folder, for this run
    #[arg(long, global = true)]
    pub(crate) trust: bool,
    /// Print one JSON document on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print only errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more detail
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
    Explain(ExplainArgs),
    /// Show every server: its state, what it offers, its calls and its last error
    #[command(
        after_help = "Examples:\n  toolcrib servers\n  toolcrib servers --json\n\nUses the running host of this workspace (`toolcrib serve`), or else a host for the duration of the command."
    )]
    Servers,
    /// List the tools that an agent sees
    #[command(
        after_help = "Examples:\n  toolcrib tools\n  toolcrib tools --server files\n  toolcrib tools --agent reviewer --json\n\nExit code 3 if no server could be reached."
    )]
    Tools(ToolsArgs),
    /// Show which gates a tool passes or fails for an agent, and which rule decides
    #[command(
        after_help = "Examples:\n  toolcrib why files__write_file\n  toolcrib why files__write_file --agent reviewer\n\nExit code 1 if the agent cannot use the tool."
    )]
    Why(WhyArgs),
    /// Call a tool and print its result
    #[command(
        after_help = "Examples:\n  toolcrib call demo__add -a a=19 -a b=23\n  toolcrib call demo__echo --args '{\"text\": \"hello\"}'\n  echo '{\"text\": \"hello\"}' | toolcrib call demo__echo --args - --json\n\nArguments are checked against the tool's schema before anything is sent. Exit code 1 if the tool fails, 3 if its server could not be reached, 130 if the call was interrupted, which cancels it."
    )]
    Call(CallArgs),
    /// List the resources that an agent sees, and the templates of their URIs
    #[command(after_help = "Examples:\n  toolcrib resources\n  toolcrib resources --json")]
    Resources(ResourcesArgs),
    /// Read a resource and print what it holds
    #[command(
        after_help = "Examples:\n  toolcrib read demo://square/12\n  toolcrib read file:///notes.md --server files\n  toolcrib read file:///logo.png > logo.png"
    )]
    Read(ReadArgs),
    /// List the prompts that an agent sees
    #[command(after_help = "Examples:\n  toolcrib prompts\n  toolcrib prompts --json")]
    Prompts(PromptsArgs),
    /// Fill in a prompt and print its messages
    #[command(after_help = "Examples:\n  toolcrib prompt demo__introduce -a name=Ada")]
    Prompt(PromptArgs),
    /// Connect, disconnect, restart, refresh, enable or disable one server
    #[command(
        subcommand,
        disable_help_subcommand = true,
        after_help = "Examples:\n  toolcrib server restart files\n  toolcrib server disable files\n\nOperates on the running host of this workspace (`toolcrib serve`). Without one, the command starts its own host and stops it at its end. Only enable and disable then have a lasting effect: they apply to every later host, and `toolcrib explain` shows them. The lists that refresh reads from a server that starts on demand are stored as well."
    )]
    Server(ServerCommand),
    /// Reload the configuration and report the outcome for each server
    #[command(
        after_help = "Examples:\n  toolcrib reload\n  toolcrib reload --json\n\nUses the running host of this workspace, or else a host for the duration of the command. A host that watches its files applies changes by itself. Exit code 1 if a server does not start or the configuration has errors."
    )]
    Reload,
    /// Show the host's version and its number of servers, tools and problems
    #[command(
        after_help = "Examples:\n  toolcrib status\n  toolcrib status --json\n\nUses the running host of this workspace, or else a host for the duration of the command. Servers on this machine run with your own rights: there is no sandbox."
    )]
    Status,
    /// List the problems of the configuration and of the servers, or explain a problem code
    #[command(
        after_help = "Examples:\n  toolcrib problems\n  toolcrib problems --json\n  toolcrib problems --explain env.missing\n\nUses the running host of this workspace, or else a host for the duration of the command. `toolcrib check` lists the problems of the configuration without starting a server. Exit code 1 if any problem is an error, 2 if the code is unknown."
    )]
    Problems(ProblemsArgs),
    /// Run the host: one MCP server in front of all configured servers, over HTTP or standard streams
    #[command(
        after_help = "Examples:\n  toolcrib serve                          at http://127.0.0.1:7420/mcp, until Ctrl-C\n  toolcrib serve --listen :0 --json       on any free port; the line when it is ready is JSON\n  toolcrib serve --stdio --root ~/shop    for a client that starts it\n\n`toolcrib connect` adds it to the configuration of a client. It supports every protocol version from 2024-11-05 to 2026-07-28, independent of the servers' versions. The host watches its files; SIGHUP reloads them. SIGINT and SIGTERM stop the host after running calls have ended, within `host.reload.drain_kill` (30 s); a second signal stops it at once.\n\nA workspace has one host. While it runs, other commands use it, and `serve --stdio` relays its client to it. When the host ends, the relay continues with the next host of the workspace, or becomes the host itself."
    )]
    Serve(ServeArgs),
    /// Create, list and revoke the tokens of HTTP clients
    #[command(
        subcommand,
        disable_help_subcommand = true,
        after_help = "Examples:\n  toolcrib token new --agent reviewer --name ci\n  toolcrib token list\n  toolcrib token revoke ci\n\nOnly hashes are stored, in the state folder of this workspace. A running host applies changes within moments."
    )]
    Token(TokenCommand),
    /// Log in to a server with a browser
    #[command(
        after_help = "Examples:\n  toolcrib login linear\n  toolcrib login linear --no-browser   without a browser here: paste the final address\n  BROWSER=firefox toolcrib login linear\n  toolcrib login linear --agent reviewer   if `auth_per_agent` gives it its own account\n\nMissing inputs of the server, such as `inputs` of VS Code, are asked for first, on a terminal.\n\nTokens are stored for all workspaces, by the server's address and issuer, and are renewed automatically. A running host of this workspace connects the server at once. If a server has asked for more scopes than were granted, the next login requests both. Ctrl-C aborts the login: only the answers given by then are stored."
    )]
    Login(LoginArgs),
    /// Revoke the tokens of a server, and delete them and the answers that only this server uses
    #[command(
        after_help = "Examples:\n  toolcrib logout linear\n  toolcrib logout linear --agent reviewer\n  toolcrib logout linear && toolcrib login linear   to answer its inputs again\n\nTokens and answers are deleted even if the issuer cannot be reached."
    )]
    Logout(AccountArgs),
    /// Show what the configuration of a folder would run, and trust it
    #[command(
        after_help = "Examples:\n  toolcrib trust                    show and trust this folder's configuration\n  toolcrib trust ~/shop --show      only show it\n  toolcrib trust --list             list the trusted folders\n  toolcrib trust --forget ~/shop\n\nThe configuration in the current folder starts nothing until it is trusted. Files that you name with --root or --config, and your own file, need no trust. Trust covers the settings that decide what runs and where it sends data: commands, arguments, variables, addresses, headers, credentials. If they change, the changed server needs trust again. The files that a command runs are not checked. --trust trusts for one run."
    )]
    Trust(TrustArgs),
    /// Show which tools have changed since they were first seen, and accept the changes
    #[command(
        after_help = "Examples:\n  toolcrib accept                   list the changed tools\n  toolcrib accept files__read       accept this tool's new definition\n  toolcrib accept --all\n\nThe first definition of a tool is stored: its title, description, annotations and schemas. A changed definition is reported; with `host: { pins: enforce }` the tool is withheld until the change is accepted."
    )]
    Accept(AcceptArgs),
    /// Write Toolcrib into the configuration of a client, or take it out again
    #[command(
        after_help = "Examples:\n  toolcrib connect                  list the clients and their files\n  toolcrib connect claude-code      Claude Code starts `toolcrib serve --stdio` for this workspace\n  toolcrib connect cursor --http    Cursor uses the running host, in its own dialog\n  toolcrib connect vscode --print   print the entry to paste, and the file\n  toolcrib connect codex --undo\n\nComments and all other content of the file stay unchanged, and a backup is created beside it. --undo restores the file, or removes only the entry if the file has changed since."
    )]
    Connect(ConnectArgs),
    /// Import the servers that other clients have configured
    #[command(
        after_help = "Examples:\n  toolcrib import                   from every client\n  toolcrib import cursor            from Cursor only\n  toolcrib import --user            into your own toolcrib.yaml, for all folders\n\nAn existing file is not changed without --force, which creates a backup beside it."
    )]
    Import(ImportArgs),
    /// Start each server once and report its protocol, its offer and its peculiarities
    #[command(
        after_help = "Examples:\n  toolcrib doctor\n  toolcrib doctor files\n  toolcrib doctor --json\n\nExit code 1 if a server does not start."
    )]
    Doctor(DoctorArgs),
    /// Run a small MCP server for trying things out: echo, add, counter, slow, fail, image, elicit
    #[command(
        after_help = "Examples:\n  toolcrib demo-server               on standard input and output, for a client that starts it\n  toolcrib demo-server --http 7421   at http://127.0.0.1:7421/mcp, until Ctrl-C\n\nIn toolcrib.yaml:\n  servers: { demo: { command: toolcrib, args: [demo-server] } }\n\nIt supports every protocol version from 2024-11-05 to 2026-07-28 and has no side effects."
    )]
    DemoServer(DemoServerArgs),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ExplainArgs {
    /// Only this server, by its id or its key `FILE#ID`
    #[arg(value_parser = parse_name)]
    pub(crate) server: Option<String>,
    /// Print literal values of env and headers
    #[arg(long)]
    pub(crate) reveal: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ProblemsArgs {
    /// Explain this problem code instead: its cause, an example and the fix
    #[arg(long, value_name = "CODE", value_parser = parse_name)]
    pub(crate) explain: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ServeArgs {
    /// Listen on this address, or on this port of this machine; port 0 takes any that is free
    /// [default: gateway.listen of the configuration, 127.0.0.1:7420; and none with --stdio]
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Speak on standard input and output
    #[arg(long)]
    pub(crate) stdio: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TrustArgs {
    /// The folder [default: the workspace]
    pub(crate) dir: Option<PathBuf>,
    /// Only show what it would run
    #[arg(long, conflicts_with_all = ["forget", "list"])]
    pub(crate) show: bool,
    /// Stop trusting the folder
    #[arg(long, conflicts_with = "list")]
    pub(crate) forget: bool,
    /// List the folders that are trusted
    #[arg(long, conflicts_with = "dir")]
    pub(crate) list: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AcceptArgs {
    /// The tool, by any of its names [default: only show the changes]
    #[arg(conflicts_with = "all", value_parser = parse_name)]
    pub(crate) tool: Option<String>,
    /// Accept all changed tools
    #[arg(long)]
    pub(crate) all: bool,
}

/// Operations on tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print it once
    #[command(
        after_help = "Examples:\n  toolcrib token new\n  toolcrib token new --agent reviewer --name ci\n  toolcrib token new --owner"
    )]
    New(NewTokenArgs),
    /// List all tokens
    #[command(after_help = "Examples:\n  toolcrib token list\n  toolcrib token list --json")]
    List,
    /// Revoke a token
    #[command(
        after_help = "Examples:\n  toolcrib token revoke 1f0c9a3b\n  toolcrib token revoke ci"
    )]
    Revoke {
        /// The token, by its id or its name
        #[arg(value_name = "ID", value_parser = parse_name)]
        which: String,
    },
    /// Let everyone on this machine in without a token, until the next token is created
    #[command(after_help = "Example:\n  toolcrib token open")]
    Open,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NewTokenArgs {
    /// The agent that the token authenticates [default: default]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub(crate) agent: Option<String>,
    /// Give the token the owner's rights
    #[arg(long)]
    pub(crate) owner: bool,
    /// The name of the token [default: the agent]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub(crate) name: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ConnectArgs {
    /// claude-code, claude-desktop, cursor, vscode, codex, goose, windsurf, zed, gemini-cli or opencode
    /// [default: all are listed]
    #[arg(value_parser = parse_connect_client)]
    pub(crate) client: Option<client_entries::ConnectClient>,
    /// Use the running host instead of starting one
    #[arg(long)]
    pub(crate) http: bool,
    /// Undo the change
    #[arg(long, conflicts_with_all = ["http", "print"])]
    pub(crate) undo: bool,
    /// Only print the entry to paste
    #[arg(long)]
    pub(crate) print: bool,
    /// Write your own file, which applies to every workspace; this is the default
    #[arg(long, conflicts_with = "project")]
    pub(crate) user: bool,
    /// Write the file of this workspace
    #[arg(long)]
    pub(crate) project: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DoctorArgs {
    /// Only this server, by its id or its key `FILE#ID`
    #[arg(value_parser = parse_name)]
    pub(crate) server: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ImportArgs {
    /// Only this client: claude, claude-code, claude-desktop, vscode, cursor, codex, gemini or opencode
    #[arg(value_parser = parse_import_clients)]
    pub(crate) client: Option<ImportClients>,
    /// Write your own file, which applies to every workspace, instead of the workspace's file
    #[arg(long)]
    pub(crate) user: bool,
    /// Replace an existing file, after a backup
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DemoServerArgs {
    /// Serve Streamable HTTP at /mcp on this loopback address or port
    #[arg(long, value_name = "ADDR", value_parser = parse_loopback_address)]
    pub(crate) http: Option<SocketAddr>,
}

/// The demo server has no authentication, so other machines must not reach it.
fn parse_loopback_address(text: &str) -> Result<SocketAddr, String> {
    let reason = "the demo server has no authentication, so it listens on 127.0.0.1 or [::1] only";
    let address = parse_address(text)?;
    address.ip().is_loopback().then_some(address).ok_or_else(|| reason.to_owned())
}

/// A port without an address means 127.0.0.1.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let here = text.strip_prefix("localhost").unwrap_or(text);
    let port = here.strip_prefix(':').unwrap_or(here).parse().ok();
    let port = port.map(|port: u16| SocketAddr::from(([127, 0, 0, 1], port)));
    port.or_else(|| text.parse().ok())
        .ok_or_else(|| "expected a port or an address like 127.0.0.1:7421".to_owned())
}

fn parse_dialect(word: &str) -> Result<Dialect, String> {
    let words = Dialect::WORDS.join(", ");
    Dialect::from_word(word).ok_or_else(|| format!("unknown format; known formats: {words}"))
}

fn parse_connect_client(word: &str) -> Result<client_entries::ConnectClient, String> {
    let words: Vec<&str> = client_entries::CLIENTS.iter().map(|client| client.word).collect();
    client_entries::ConnectClient::from_word(word)
        .ok_or_else(|| format!("unknown client; known clients: {}", words.join(", ")))
}

/// The client programs that one command-line word selects.
#[derive(Clone, Debug)]
pub(crate) struct ImportClients(pub(crate) Vec<ClientApp>);

fn parse_import_clients(word: &str) -> Result<ImportClients, String> {
    if word == "claude" {
        return Ok(ImportClients(vec![ClientApp::ClaudeCode, ClientApp::ClaudeDesktop]));
    }
    let words = ClientApp::WORDS.join(", ");
    let one = ClientApp::from_word(word).map(|client| ImportClients(vec![client]));
    one.ok_or_else(|| format!("unknown client; known clients: claude, {words}"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// The terminal wraps help text. Fixed line breaks would wrap a second time on a narrow terminal.
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
    fn help_text_leaves_line_breaks_to_the_terminal() {
        check(&Args::command());
    }
}
