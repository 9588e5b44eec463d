//! The native format: short and long forms, expansion, profiles, includes, mistakes.

use crate::model::choice::{AnyOf, Inherit, Manual, Protocol};
use crate::model::transport::{Container, Transport, TransportKind};
use crate::model::units::Period;
use crate::testing::{codes, compiled, compiled_in};
use crate::{Config, Dialect, Memory, Severity, Value};

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

#[test]
fn a_number_in_the_place_of_a_text_keeps_its_form() {
    let config = native(
        "version: 1\nservers:\n  a:\n    command: x\n    args: [1.10, 0x1F, +7, 1e3, 007]\n    env: { V: 1.10, W: 0o17, B: true }\n    protocol: 2025-11-25\n  b: { url: 'https://x/', headers: { N: 1.50 }, auth: { kind: bearer, token: 00 } }\n",
    );
    assert_eq!(codes(&config), [""; 0]);
    let [a, b] = config.servers.as_slice() else { panic!() };
    let Transport::Stdio(stdio) = &a.transport else { panic!() };
    let args: Vec<_> = stdio.args.iter().map(|arg| arg.shown()).collect();
    assert_eq!(args, ["1.10", "0x1F", "+7", "1e3", "007"]);
    let env = |name: &str| stdio.env.set[name].as_literal().unwrap();
    assert_eq!([env("V"), env("W"), env("B")], ["1.10", "0o17", "true"]);
    assert_eq!(a.policy.protocol, Protocol::Version("2025-11-25".into()));
    assert_eq!(b.transport.remote().unwrap().headers["N"].as_literal(), Some("1.50"));
    assert_eq!(b.policy.auth.values()[0].as_literal(), Some("00"));
}

#[test]
fn a_server_may_have_a_hash_in_its_id() {
    let config = native("version: 1\nservers: { c#: { command: x }, a#b: { command: x } }\n");
    let ids: Vec<_> = config.servers.iter().map(|s| (&*s.source, s.id.as_str())).collect();
    assert_eq!(ids, [("file.yaml", "c#"), ("file.yaml", "a#b")]);
}

#[test]
fn paths_of_profiles_and_secret_stores_start_from_their_file() {
    let world = Memory::default().with_file("/ws/sub/v.env", "").with_file("/ws/sub/m.md", "");
    let text = "version: 1\nhost: { secrets: { s: { kind: file, path: secrets } } }\nprofiles: { p: { manual: { file: sub/m.md }, transport: { cwd: sub, env: { file: sub/v.env } } } }\nservers: { a: { profile: p, command: x } }\n";
    let config = compiled_in(&world, Dialect::Native, text);
    assert_eq!(codes(&config), [""; 0]);
    let Transport::Stdio(stdio) = &config.servers[0].transport else { panic!() };
    assert_eq!(stdio.cwd.as_ref().map(|cwd| cwd.shown()), Some("/ws/sub".into()));
    assert_eq!(stdio.env.file.as_ref().unwrap().path, std::path::Path::new("/ws/sub/v.env"));
    assert_eq!(config.servers[0].policy.manual, Some(Manual::File("/ws/sub/m.md".into())));
    assert_eq!(config.host.secrets["s"].path.as_deref(), Some("/ws/secrets"));
}

#[test]
fn a_list_is_no_value_and_no_problem_quotes_one() {
    let config = native(
        "version: 1\nservers: { a: { command: x, env: { A: [hunter2], B: { from_env: [hunter2] }, C: 'x${hunter2!}' }, headers: hunter2 } }\n",
    );
    assert!(config.servers.is_empty());
    let text = format!("{:?}", config.problems);
    assert_eq!(codes(&config), ["value.invalid"; 4], "{text}");
    assert!(
        !text.contains("hunter2") && text.contains("expected a text or a map, found a list"),
        "{text}"
    );
}

#[test]
fn two_missing_variables_of_one_value_are_two_problems() {
    let config = native("version: 1\nservers: { a: { command: x, env: { A: '${ONE}${TWO}' } } }\n");
    let mut ids: Vec<&str> = config.problems.iter().map(|problem| problem.id.as_str()).collect();
    assert_eq!(ids.len(), 2);
    ids.dedup();
    assert_eq!(ids.len(), 2, "{ids:?}");
}

#[test]
fn what_the_gateway_does_not_look_at_is_said_where_somebody_wrote_it() {
    let told = |expose: &str| {
        let text = format!("{{version: 1, servers: {{s: {{command: x, expose: {expose}}}}}}}");
        let config = native(&text);
        assert!(config.problems.iter().all(|it| it.severity == Severity::Info), "{text}");
        config
            .problems
            .iter()
            .map(|it| it.text.split('`').nth(1).unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(told("{resources: {as: context}}"), ["expose.resources.as: context"]);
    assert_eq!(told("{prompts: {as: skill}}"), ["expose.prompts.as: skill"]);
    for silent in [
        "{resources: {as: off}, prompts: {as: off}}",
        "{resources: {as: tools}}",
        "{resources: {mime: [a/b]}}",
        "{}",
    ] {
        assert_eq!(told(silent), [] as [String; 0], "{silent}");
    }
}
