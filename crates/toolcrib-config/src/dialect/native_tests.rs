//! The native format: short and long forms, expansion, profiles, includes, mistakes.

use crate::model::choice::{AnyOf, Inherit};
use crate::model::transport::{Container, Transport, TransportKind};
use crate::model::units::Period;
use crate::testing::{codes, compiled, compiled_in};
use crate::{Config, Dialect, Memory, Value};

fn native(text: &str) -> Config {
    compiled(Dialect::Native, text)
}

fn good(text: &str) -> Config {
    let world = Memory::default().with_env("DOCS_TOKEN", "t0ps3cret").with_file("/ws/.env", "A=1");
    let config = compiled_in(&world, Dialect::Native, text);
    assert_eq!(config.problems, [], "{text}");
    config
}

#[test]
fn the_short_form_says_enough() {
    let config = good(
        r#"
version: 1
servers:
  files:
    command: npx
    args: ["-y", "@modelcontextprotocol/server-filesystem", "."]
    env: { LEVEL: 3 }
    env_file: .env
    inherit_env: all
  docs:
    url: https://example.com/mcp
    headers: { Authorization: "Bearer ${DOCS_TOKEN}" }
  live: { url: "wss://example.com/ws" }
  db:
    docker: { container: pg-tools, command: [mcp-server-postgres, --ro] }
  text:
    docker: { image: "tools:1", command: "mcp start --stdio" }
"#,
    );
    let kinds: Vec<_> = config.servers.iter().map(|s| s.transport.kind()).collect();
    use TransportKind::*;
    assert_eq!(kinds, [Stdio, StreamableHttp, WebSocket, DockerExec, DockerExec]);
    let Transport::Stdio(files) = &config.servers[0].transport else { panic!() };
    assert_eq!(files.env.set["LEVEL"], Value::literal("3"));
    assert_eq!(files.env.inherit, Inherit::All);
    assert_eq!(files.env.file.as_ref().unwrap().path.to_str(), Some("/ws/.env"));
    assert_eq!(files.allow_commands, AnyOf::Any);
    assert_eq!(
        config.servers[0].policy.timeouts.startup,
        Period::secs(120),
        "npx may download first"
    );
    let Transport::DockerExec(db) = &config.servers[3].transport else { panic!() };
    assert_eq!(
        (db.command.shown(), db.args.len(), &db.shell),
        ("mcp-server-postgres".into(), 1, &None)
    );
    assert!(matches!(&db.target, Container::Existing(name) if name.shown() == "pg-tools"));
    let Transport::DockerExec(text) = &config.servers[4].transport else { panic!() };
    assert_eq!(text.shell.as_deref(), Some("sh -lc"));
}

#[test]
fn one_bad_server_keeps_its_neighbours() {
    let config = native(
        "version: 1\nservers:\n  git: { command: git-mcp }\n  db: { command: 7 }\n  none: {}\n  seven: 7\n",
    );
    let ids: Vec<_> = config.servers.iter().map(|s| s.id.as_str()).collect();
    assert_eq!(ids, ["git", "db"], "a number is read as the text that was written");
    assert_eq!(codes(&config), ["server.invalid", "transport.missing"]);
}
