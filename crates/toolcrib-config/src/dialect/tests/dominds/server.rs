//! Tests of a server's entry: transport, command, URL and defaults.

use super::{dominds, ids, one};
use crate::model::choice::{InheritedEnv, Manual};
use crate::model::filter::FilterVerdict;
use crate::model::policy::{Connect, SessionScope};
use crate::model::transport::Transport;
use crate::model::units::Period;
use crate::testing::{compile_discovered, compile_text_in, problem_codes};
use crate::{Dialect, MemoryLookup, Severity, Value};

#[test]
fn dom_05_each_server_is_a_toolset_with_its_id() {
    let config = dominds(
        "version: 1\nservers:\n  play-wright: { transport: stdio, command: x }\n  a.b: { transport: stdio, command: x }\n",
    );
    let toolsets: Vec<_> = config.servers.iter().map(|s| s.toolset()).collect();
    assert_eq!(toolsets, ["play-wright", "a.b"]);
}

#[test]
fn dom_07_unsupported_transport_rejects_only_its_server() {
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
fn dom_08_arguments_are_literal() {
    let config = one(
        r#"{ transport: stdio, command: "my prog", args: ["a b", "$HOME", "${HOME}", ";", "$(ls)", "", "--x='y'"] }"#,
    );
    assert_eq!(config.problems, []);
    let Transport::Stdio(stdio) = &config.servers[0].transport else { panic!() };
    assert_eq!(stdio.command.0.as_literal(), Some("my prog"));
    let args: Vec<_> = stdio.args.iter().map(|a| a.0.as_literal().unwrap()).collect();
    assert_eq!(args, ["a b", "$HOME", "${HOME}", ";", "$(ls)", "", "--x='y'"]);
}

#[test]
fn dom_08_command_and_arguments_must_be_texts() {
    for entry in [
        "{ transport: stdio }",
        "{ transport: stdio, command: '' }",
        "{ transport: stdio, command: [x] }",
        "{ transport: stdio, command: 7 }",
        "{ transport: stdio, command: x, args: y }",
        "{ transport: stdio, command: x, args: [1] }",
        "{ transport: stdio, command: x, env: [A] }",
    ] {
        let config = one(entry);
        assert_eq!((config.servers.len(), config.problems.len()), (0, 1), "{entry}");
        let problem = &config.problems[0];
        assert_eq!((problem.server.as_deref(), problem.line), (Some("s"), Some(3)), "{entry}");
    }
}

#[test]
fn dom_09_and_10_http_has_url_headers_and_optional_session_id() {
    let http = |more: &str| {
        let config = one(&format!(
            "{{ transport: streamable_http, url: 'http://127.0.0.1:3000/mcp'{more} }}"
        ));
        assert_eq!(config.problems, [], "{more}");
        let Transport::StreamableHttp(http) = config.servers[0].transport.clone() else { panic!() };
        http
    };
    let full = http(", headers: { X: y }, sessionId: abc");
    assert_eq!(full.remote.url.display_text(), "http://127.0.0.1:3000/mcp"); // DOM-09
    assert_eq!(full.remote.headers["X"], Value::literal("y")); // DOM-09
    assert_eq!(full.session_id, Some(Value::literal("abc"))); // DOM-10
    assert_eq!(http("").session_id, None);
    assert_eq!(http(", sessionId: ''").session_id, None); // DOM-10
    assert_eq!(problem_codes(&one("{ transport: streamable_http }")), ["url.missing"]);
}

#[test]
fn dom_11_other_keys_are_optional() {
    let config = one("{ transport: stdio, command: x }");
    assert_eq!(config.problems, []);
    let server = &config.servers[0];
    let env = server.transport.env().unwrap();
    assert!(env.set.is_empty());
    assert_eq!(env.inherit, InheritedEnv::All); // DOM-56
    assert_eq!(server.policy.expose.tools.verdict("any"), FilterVerdict::Offered);
    assert_eq!(server.policy.naming.names("s", "any").unwrap().id, "any");
    assert_eq!(server.policy.session.scope, SessionScope::PerConversation); // DOM-12
    let empty = one(
        "{ transport: stdio, command: x, env: {}, tools: { whitelist: [], blacklist: [] }, transform: [] }",
    );
    assert_eq!(empty.servers[0].hash, server.hash); // DOM-30
    let http = "{ transport: streamable_http, url: 'http://h/' ";
    let (without, with) = (one(&format!("{http}}}")), one(&format!("{http}, headers: {{}} }}")));
    assert_eq!(with.servers[0].hash, without.servers[0].hash);
}

#[test]
fn dom_12_the_flag_is_spelled_truely_stateless() {
    let right = one("{ transport: stdio, command: x, truely-stateless: true }");
    assert_eq!(right.servers[0].policy.session.scope, SessionScope::Shared);
    assert!(!right.servers[0].policy.session.reminder);
    let wrong = one("{ transport: stdio, command: x, truly-stateless: true }");
    assert_eq!(wrong.servers[0].policy.session.scope, SessionScope::PerConversation);
    assert!(wrong.servers[0].policy.session.reminder);
    assert_eq!(problem_codes(&wrong), ["key.unknown"]);
    assert_eq!(wrong.problems[0].fix.as_deref(), Some("did you mean `truely-stateless`?"));
}

#[test]
fn dom_20_reserved_toolset_rejects_its_server() {
    let lookup = MemoryLookup::default()
        .with_file("/ws/toolcrib.yaml", "version: 1\nhost: { reserved_toolsets: [os] }\n")
        .with_file(
            "/ws/.minds/mcp.yaml",
            "version: 1\nservers:\n  os: { transport: stdio, command: x }\n  ok: { transport: stdio, command: x }\n",
        );
    let config = compile_discovered(&lookup, "/ws");
    assert_eq!(ids(&config), ["ok"]);
    let [problem] = config.problems.as_slice() else { panic!("{:?}", config.problems) };
    assert_eq!(problem.code, "toolset.reserved");
    assert_eq!((problem.server.as_deref(), problem.line), (Some("os"), Some(3)));
}

#[test]
fn dom_21_keys_of_other_clients_do_not_change_the_hash() {
    let plain = one("{ transport: stdio, command: x }");
    let more = one("{ transport: stdio, command: x, alwaysAllow: [a], timeout: 7, type: sse }");
    assert_eq!(more.servers[0].hash, plain.servers[0].hash);
    assert_eq!(problem_codes(&more), ["key.unknown"; 3]);
    assert!(more.problems.iter().all(|p| p.severity == Severity::Warning));
    assert_eq!(more.servers[0].extras["timeout"], 7);
}

#[test]
fn ext_01_disabled_server_stays_visible() {
    let config = one("{ transport: stdio, command: x, enabled: false }");
    assert_eq!(config.problems, []);
    assert!(!config.servers[0].policy.enabled);
    assert!(one("{ transport: stdio, command: x }").servers[0].policy.enabled);
}

#[test]
fn ext_05_manual_is_a_text_or_a_file_below_the_root() {
    let manual = |lookup: &MemoryLookup, manual: &str| {
        let text = format!(
            "version: 1\nservers: {{ s: {{ transport: stdio, command: x, manual: {manual} }} }}\n"
        );
        let config = compile_text_in(lookup, Dialect::Dominds, &text);
        let codes: Vec<String> = problem_codes(&config).into_iter().map(str::to_string).collect();
        (config.servers[0].policy.manual.clone().unwrap(), codes)
    };
    let lookup = MemoryLookup::default().with_file("/ws/docs/s.md", "use it");
    assert_eq!(manual(&lookup, "use it"), (Manual::Text("use it".into()), vec![]));
    let file = Manual::File("/ws/docs/s.md".into());
    assert_eq!(manual(&lookup, "{ file: docs/s.md }"), (file.clone(), vec![]));
    let missing = vec!["manual.missing".to_string()];
    assert_eq!(manual(&MemoryLookup::default(), "{ file: docs/s.md }"), (file, missing));
}

#[test]
fn ext_10_dominds_timeouts_and_limits() {
    let config = one("{ transport: stdio, command: npx }");
    let policy = &config.servers[0].policy;
    assert_eq!(policy.timeouts.connect, Period::secs(15));
    assert_eq!(
        policy.timeouts.startup,
        Period::secs(15),
        "connecting and listing share one timeout"
    );
    assert_eq!(policy.timeouts.request, Period::secs(60));
    assert_eq!(policy.lifecycle.drain_kill, None, "DOM-96");
    assert_eq!(policy.lifecycle.retry.max, 5, "DOM-95");
    assert_eq!(policy.limits.pages, 50);
    assert_eq!(policy.lifecycle.connect, Connect::Eager);
    assert_eq!(config.host.reload.debounce, Period::millis(200));
    assert_eq!(config.host.reload.poll, Period::millis(1500));
}
