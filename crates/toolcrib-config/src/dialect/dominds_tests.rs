//! `.minds/mcp.yaml` and `team.yaml`, row by row.

use crate::model::filter::Verdict;
use crate::model::policy::{Grant, OnConfigError, SessionScope};
use crate::model::transport::Transport;
use crate::testing::{codes, compiled, compiled_in};
use crate::{Config, Dialect, Memory, Outcome, Value};

fn dominds(text: &str) -> Config {
    compiled(Dialect::Dominds, text)
}

fn one(entry: &str) -> Config {
    dominds(&format!("version: 1\nservers:\n  s: {entry}\n"))
}

#[test]
fn dom_04_version_must_be_the_number_one() {
    for version in ["", "version: 2\n", "version: '1'\n", "version: null\n"] {
        let config =
            dominds(&format!("{version}servers: {{ s: {{ transport: stdio, command: x }} }}\n"));
        assert_eq!(config.servers.len(), 0, "{version}");
        assert!(
            codes(&config).contains(&"version.unsupported"),
            "{version}: {:?}",
            config.problems
        );
        assert_eq!(config.sources[0].outcome, Outcome::Rejected, "{version}");
    }
}

#[test]
fn dom_07_another_transport_rejects_only_its_server() {
    let config = dominds(
        "version: 1\nservers:\n  a: { transport: stdio, command: x }\n  b: { transport: sse, url: 'http://x' }\n  c: { transport: streamable_http, url: 'http://x' }\n",
    );
    let ids: Vec<_> = config.servers.iter().map(|s| s.id.as_str()).collect();
    assert_eq!(ids, ["a", "c"]); // DOM-06
    let [problem] = config.problems.as_slice() else { panic!("{:?}", config.problems) };
    assert_eq!((problem.server.as_deref(), problem.line), (Some("b"), Some(4)));
    assert!(problem.text.contains("`sse`"));
    assert_eq!(
        config.rejected.iter().map(|r| (r.id.as_str(), r.keep_last_good)).collect::<Vec<_>>(),
        [("b", true)]
    ); // DOM-90
}

#[test]
fn dom_12_the_flag_is_spelled_truely_stateless() {
    let right = one("{ transport: stdio, command: x, truely-stateless: true }");
    assert_eq!(right.servers[0].policy.session.scope, SessionScope::Shared);
    assert!(!right.servers[0].policy.session.reminder);
    let wrong = one("{ transport: stdio, command: x, truly-stateless: true }");
    assert_eq!(wrong.servers[0].policy.session.scope, SessionScope::PerConversation);
    assert!(wrong.servers[0].policy.session.reminder);
    assert_eq!(codes(&wrong), ["key.unknown"]);
    assert_eq!(wrong.problems[0].fix.as_deref(), Some("did you mean `truely-stateless`?"));
}

#[test]
fn dom_54_and_58_values_are_literal_or_of_the_host() {
    let world = Memory::default().with_env("OLD", "v").with_env("TOKEN", "t");
    let text = "version: 1\nservers:\n  s:\n    transport: stdio\n    command: x\n    env: { A: '${HOME}', NEW: { env: OLD } }\n  h:\n    transport: streamable_http\n    url: http://h/mcp\n    headers: { Authorization: { prefix: 'Bearer ', env: TOKEN }, X: y }\n";
    let config = compiled_in(&world, Dialect::Dominds, text);
    assert_eq!(config.problems, []);
    let env = config.servers[0].transport.env().unwrap();
    assert_eq!(env.set["A"], Value::literal("${HOME}")); // DOM-54
    assert_eq!(env.set["NEW"], Value::from_env("OLD")); // DOM-55
    let headers = &config.servers[1].transport.remote().unwrap().headers;
    assert_eq!(headers["X"], Value::literal("y")); // DOM-58
    assert_eq!(headers["Authorization"].references().len(), 1); // EXT-03
}

#[test]
fn dom_57_a_missing_variable_is_told_and_its_server_is_still_there_to_be_started_later() {
    let config = one("{ transport: stdio, command: x, env: { A: { env: GONE } } }");
    let [problem] = config.problems.as_slice() else { panic!("{:?}", config.problems) };
    assert_eq!((problem.code.as_str(), problem.server.as_deref()), ("env.missing", Some("s")));
    assert!(problem.text.contains("GONE"));
    assert_eq!(config.servers.len(), 1);
}

#[test]
fn dom_89_a_broken_file_keeps_what_was_good() {
    for text in [
        "version: 1\nservers: [",
        "version: 1\nservers:\n  a: { transport: stdio, command: x }\n  a: { transport: stdio, command: y }\n",
    ] {
        let config = dominds(text);
        assert_eq!(
            (config.servers.len(), config.sources[0].outcome),
            (0, Outcome::Rejected),
            "{text}"
        );
        assert!(config.has_errors());
    }
}

#[test]
fn the_seeds_example_loads() {
    let config = one(
        "{ transport: stdio, command: npx, tools: { whitelist: ['browser_*'], blacklist: ['*_unsafe'] }, transform: [{ prefix: playwright_ }] }",
    );
    let server = &config.servers[0];
    assert_eq!(config.problems, []);
    let named = server.policy.naming.names("s", "browser_click").unwrap();
    assert_eq!(named.id, "playwright_browser_click");
    assert_eq!(server.policy.expose.tools.verdict("x_unsafe"), Verdict::Denied("*_unsafe"));
    assert_eq!(server.policy.access.grant, Grant::Toolsets);
    assert_eq!(server.policy.availability.on_config_error, OnConfigError::KeepLastGood);
    assert!(matches!(server.transport, Transport::Stdio(_)));
}
