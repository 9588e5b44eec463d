//! Tests of the native format: short and long forms, expansion, profiles, includes, mistakes.

use crate::model::choice::{AllowList, InheritedEnv, Manual, Protocol};
use crate::model::transport::{ContainerTarget, Transport, TransportKind};
use crate::model::units::Period;
use crate::testing::{compile_text, compile_text_in, problem_codes};
use crate::{Config, Dialect, MemoryLookup, Severity, Value};

fn native(text: &str) -> Config {
    compile_text(Dialect::Native, text)
}

fn good(text: &str) -> Config {
    let lookup =
        MemoryLookup::default().with_env("DOCS_TOKEN", "t0ps3cret").with_file("/ws/.env", "A=1");
    let config = compile_text_in(&lookup, Dialect::Native, text);
    assert_eq!(config.problems, [], "{text}");
    config
}

#[test]
fn short_form_compiles() {
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
    assert_eq!(files.env.inherit, InheritedEnv::All);
    assert_eq!(files.env.file.as_ref().unwrap().path.to_str(), Some("/ws/.env"));
    assert_eq!(files.allow_commands, AllowList::Any);
    assert_eq!(
        config.servers[0].policy.timeouts.startup,
        Period::secs(120),
        "npx may need time to download"
    );
    let Transport::DockerExec(db) = &config.servers[3].transport else { panic!() };
    assert_eq!(
        (db.command.display_text(), db.args.len(), &db.shell),
        ("mcp-server-postgres".into(), 1, &None)
    );
    assert!(
        matches!(&db.target, ContainerTarget::Existing(name) if name.display_text() == "pg-tools")
    );
    let Transport::DockerExec(text) = &config.servers[4].transport else { panic!() };
    assert_eq!(text.shell.as_deref(), Some("sh -lc"));
}

#[test]
fn invalid_server_keeps_other_servers() {
    let config = native(
        "version: 1\nservers:\n  git: { command: git-mcp }\n  db: { command: 7 }\n  none: {}\n  seven: 7\n",
    );
    let ids: Vec<_> = config.servers.iter().map(|s| s.id.as_str()).collect();
    assert_eq!(ids, ["git", "db"], "a number is read as text");
    assert_eq!(problem_codes(&config), ["server.invalid", "transport.missing"]);
}

#[test]
fn number_read_as_text_keeps_its_spelling() {
    let config = native(
        "version: 1\nservers:\n  a:\n    command: x\n    args: [1.10, 0x1F, +7, 1e3, 007]\n    env: { V: 1.10, W: 0o17, B: true }\n    protocol: 2025-11-25\n  b: { url: 'https://x/', headers: { N: 1.50 }, auth: { kind: bearer, token: 00 } }\n",
    );
    assert_eq!(problem_codes(&config), [""; 0]);
    let [a, b] = config.servers.as_slice() else { panic!() };
    let Transport::Stdio(stdio) = &a.transport else { panic!() };
    let args: Vec<_> = stdio.args.iter().map(|arg| arg.display_text()).collect();
    assert_eq!(args, ["1.10", "0x1F", "+7", "1e3", "007"]);
    let env = |name: &str| stdio.env.set[name].as_literal().unwrap();
    assert_eq!([env("V"), env("W"), env("B")], ["1.10", "0o17", "true"]);
    assert_eq!(a.policy.protocol, Protocol::Version("2025-11-25".into()));
    assert_eq!(b.transport.remote().unwrap().headers["N"].as_literal(), Some("1.50"));
    assert_eq!(b.policy.auth.values()[0].as_literal(), Some("00"));
}

#[test]
fn server_id_may_contain_a_hash_sign() {
    let config = native("version: 1\nservers: { c#: { command: x }, a#b: { command: x } }\n");
    let ids: Vec<_> = config.servers.iter().map(|s| (&*s.source, s.id.as_str())).collect();
    assert_eq!(ids, [("file.yaml", "c#"), ("file.yaml", "a#b")]);
}

#[test]
fn profile_and_secret_store_paths_are_relative_to_their_file() {
    let lookup =
        MemoryLookup::default().with_file("/ws/sub/v.env", "").with_file("/ws/sub/m.md", "");
    let text = "version: 1\nhost: { secrets: { s: { kind: file, path: secrets } } }\nprofiles: { p: { manual: { file: sub/m.md }, transport: { cwd: sub, env: { file: sub/v.env } } } }\nservers: { a: { profile: p, command: x } }\n";
    let config = compile_text_in(&lookup, Dialect::Native, text);
    assert_eq!(problem_codes(&config), [""; 0]);
    let Transport::Stdio(stdio) = &config.servers[0].transport else { panic!() };
    assert_eq!(stdio.cwd.as_ref().map(|cwd| cwd.display_text()), Some("/ws/sub".into()));
    assert_eq!(stdio.env.file.as_ref().unwrap().path, std::path::Path::new("/ws/sub/v.env"));
    assert_eq!(config.servers[0].policy.manual, Some(Manual::File("/ws/sub/m.md".into())));
    assert_eq!(config.host.secrets["s"].path.as_deref(), Some("/ws/secrets"));
}

#[test]
fn invalid_values_are_never_quoted_in_problems() {
    let config = native(
        "version: 1\nservers: { a: { command: x, env: { A: [hunter2], B: { from_env: [hunter2] }, C: 'x${hunter2!}' }, headers: hunter2 } }\n",
    );
    assert!(config.servers.is_empty());
    let text = format!("{:?}", config.problems);
    assert_eq!(problem_codes(&config), ["value.invalid"; 4], "{text}");
    assert!(
        !text.contains("hunter2") && text.contains("expected a text or a map, found a list"),
        "{text}"
    );
}

#[test]
fn two_unset_variables_in_one_value_give_two_problems() {
    let config = native("version: 1\nservers: { a: { command: x, env: { A: '${ONE}${TWO}' } } }\n");
    let mut ids: Vec<&str> = config.problems.iter().map(|problem| problem.id.as_str()).collect();
    assert_eq!(ids.len(), 2);
    ids.dedup();
    assert_eq!(ids.len(), 2, "{ids:?}");
}

#[test]
fn settings_the_gateway_ignores_are_reported_when_written() {
    let reported = |expose: &str| {
        let text = format!("{{version: 1, servers: {{s: {{command: x, expose: {expose}}}}}}}");
        let config = native(&text);
        assert!(config.problems.iter().all(|it| it.severity == Severity::Info), "{text}");
        config
            .problems
            .iter()
            .map(|it| it.text.split('`').nth(1).unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(reported("{resources: {as: context}}"), ["expose.resources.as: context"]);
    assert_eq!(reported("{prompts: {as: skill}}"), ["expose.prompts.as: skill"]);
    for silent in [
        "{resources: {as: off}, prompts: {as: off}}",
        "{resources: {as: tools}}",
        "{resources: {mime: [a/b]}}",
        "{}",
    ] {
        assert_eq!(reported(silent), [] as [String; 0], "{silent}");
    }
}
