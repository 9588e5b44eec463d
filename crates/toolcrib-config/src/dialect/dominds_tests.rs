//! `.minds/mcp.yaml` and `team.yaml`, row by row.

use proptest::prelude::*;

use crate::model::choice::{Inherit, Manual};
use crate::model::filter::Verdict;
use crate::model::naming::BadName;
use crate::model::policy::{Connect, Grant, OnConfigError, PromptsAs, SessionScope};
use crate::model::transport::Transport;
use crate::model::units::{Period, Size};
use crate::testing::{codes, compiled, compiled_in, discovered};
use crate::{Config, Dialect, Hash, Memory, Outcome, Severity, Value};

fn dominds(text: &str) -> Config {
    compiled(Dialect::Dominds, text)
}

fn ids(config: &Config) -> Vec<&str> {
    config.servers.iter().map(|s| s.id.as_str()).collect()
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

const SMALL: &str = "version: 1\nservers:\n  a: { transport: stdio, command: x, cwd: sub }\n";

#[test]
fn dom_01_the_file_is_read_below_the_root_and_its_paths_start_there() {
    let world =
        Memory::default().with_file("/ws/.minds/mcp.yaml", SMALL).with_file("/ws/sub/x", "");
    let config = discovered(&world, "/ws");
    assert_eq!(config.problems, []);
    let Transport::Stdio(stdio) = &config.servers[0].transport else { panic!() };
    assert_eq!(stdio.cwd.as_ref().unwrap().shown(), "/ws/sub"); // EXT-02
    assert_eq!(ids(&discovered(&world, "/elsewhere")), [""; 0]);
}

#[test]
fn ext_02_the_working_directory_must_be_there() {
    let world = Memory::default().with_file("/ws/.minds/mcp.yaml", SMALL);
    let nowhere = discovered(&world, "/ws");
    assert_eq!(codes(&nowhere), ["cwd.missing"]);
    let file = discovered(&world.with_file("/ws/sub", "a file"), "/ws");
    assert_eq!(codes(&file), ["cwd.missing"]);
    assert_eq!(file.servers.len(), 1, "it may be there when the server starts");
}

#[test]
fn dom_02_without_a_file_there_is_nothing_and_nothing_is_wrong() {
    let config = discovered(&Memory::default(), "/ws");
    assert_eq!(config.problems, []);
    assert!(config.servers.is_empty() && config.sources.is_empty());
}

#[test]
fn dom_03_other_formats_beside_it_are_read_too() {
    let world = Memory::default()
        .with_file(
            "/ws/.minds/mcp.yaml",
            "version: 1\nservers: { y: { transport: stdio, command: x } }\n",
        )
        .with_file(
            "/ws/toolcrib.yaml",
            "version: 1\ninclude: [{ path: more.json, dialect: native }]\n",
        )
        .with_file("/ws/more.json", r#"{ "version": 1, "servers": { "j": { "command": "x" } } }"#)
        .with_file("/ws/.dispatch/mcp.json", r#"{ "servers": { "d": { "command": "x" } } }"#);
    let config = discovered(&world, "/ws");
    assert!(ids(&config).starts_with(&["j", "y"]), "{:?}", ids(&config));
    assert_eq!(codes(&config), [""; 0]);
    let labels: Vec<_> = config.sources.iter().map(|s| &*s.label).collect();
    let all = ["toolcrib.yaml", "more.json", ".minds/mcp.yaml", ".dispatch/mcp.json"];
    assert_eq!(labels, all);
}

#[test]
fn dom_05_each_server_is_a_toolset_of_its_name() {
    let config = dominds(
        "version: 1\nservers:\n  play-wright: { transport: stdio, command: x }\n  a.b: { transport: stdio, command: x }\n",
    );
    let toolsets: Vec<_> = config.servers.iter().map(|s| s.toolset()).collect();
    assert_eq!(toolsets, ["play-wright", "a.b"]);
}

#[test]
fn dom_08_arguments_are_what_was_written() {
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
fn dom_08_a_command_is_a_text_and_arguments_are_texts() {
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
fn dom_09_and_10_http_has_an_address_headers_and_perhaps_a_session() {
    let http = |more: &str| {
        let config = one(&format!(
            "{{ transport: streamable_http, url: 'http://127.0.0.1:3000/mcp'{more} }}"
        ));
        assert_eq!(config.problems, [], "{more}");
        let Transport::StreamableHttp(http) = config.servers[0].transport.clone() else { panic!() };
        http
    };
    let full = http(", headers: { X: y }, sessionId: abc");
    assert_eq!(full.remote.url.shown(), "http://127.0.0.1:3000/mcp"); // DOM-09
    assert_eq!(full.remote.headers["X"], Value::literal("y")); // DOM-09
    assert_eq!(full.session_id, Some(Value::literal("abc"))); // DOM-10
    assert_eq!(http("").session_id, None);
    assert_eq!(http(", sessionId: ''").session_id, None); // DOM-10
    assert_eq!(codes(&one("{ transport: streamable_http }")), ["url.missing"]);
}

#[test]
fn dom_11_everything_else_may_be_left_out() {
    let config = one("{ transport: stdio, command: x }");
    assert_eq!(config.problems, []);
    let server = &config.servers[0];
    let env = server.transport.env().unwrap();
    assert!(env.set.is_empty());
    assert_eq!(env.inherit, Inherit::All); // DOM-56
    assert_eq!(server.policy.expose.tools.verdict("any"), Verdict::Offered);
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
fn dom_20_a_built_in_toolset_is_not_taken_over() {
    let world = Memory::default()
        .with_file("/ws/toolcrib.yaml", "version: 1\nhost: { reserved_toolsets: [os] }\n")
        .with_file(
            "/ws/.minds/mcp.yaml",
            "version: 1\nservers:\n  os: { transport: stdio, command: x }\n  ok: { transport: stdio, command: x }\n",
        );
    let config = discovered(&world, "/ws");
    assert_eq!(ids(&config), ["ok"]);
    let [problem] = config.problems.as_slice() else { panic!("{:?}", config.problems) };
    assert_eq!(problem.code, "toolset.reserved");
    assert_eq!((problem.server.as_deref(), problem.line), (Some("os"), Some(3)));
}

#[test]
fn dom_21_keys_of_other_clients_change_nothing() {
    let plain = one("{ transport: stdio, command: x }");
    let more = one("{ transport: stdio, command: x, alwaysAllow: [a], timeout: 7, type: sse }");
    assert_eq!(more.servers[0].hash, plain.servers[0].hash);
    assert_eq!(codes(&more), ["key.unknown"; 3]);
    assert!(more.problems.iter().all(|p| p.severity == Severity::Warning));
    assert_eq!(more.servers[0].extras["timeout"], 7);
}

#[test]
fn dom_28_patterns_are_of_the_original_name() {
    let policy = |pattern: &str| {
        let config = one(&format!(
            "{{ transport: stdio, command: x, tools: {{ whitelist: ['{pattern}'] }}, transform: [{{ prefix: x_ }}] }}"
        ));
        assert_eq!(config.problems, []);
        config.servers[0].policy.clone()
    };
    let open = policy("open*");
    assert_eq!(open.expose.tools.verdict("open"), Verdict::Offered);
    assert_eq!(open.naming.names("s", "open").unwrap().id, "x_open");
    assert_eq!(policy("x_*").expose.tools.verdict("open"), Verdict::NotAllowed);
}

#[test]
fn dom_29_to_32_the_two_lists_of_a_file() {
    let filter = |tools: &str| {
        let config = one(&format!("{{ transport: stdio, command: x, tools: {tools} }}"));
        assert_eq!(config.problems, [], "{tools}");
        config.servers[0].policy.expose.tools.clone()
    };
    let white = filter("{ whitelist: ['open*', 'a.c'], blacklist: [] }");
    assert_eq!(white.verdict("openAll"), Verdict::Offered); // DOM-29
    assert_eq!(white.verdict("abc"), Verdict::NotAllowed); // DOM-27, DOM-29
    let both = filter("{ whitelist: ['browser_*'], blacklist: ['*_unsafe'] }");
    assert_eq!(both.verdict("browser_unsafe"), Verdict::Offered); // DOM-31
    assert_eq!(both.verdict("other_unsafe"), Verdict::Denied("*_unsafe")); // DOM-31
    assert_eq!(both.verdict("zoom"), Verdict::Offered); // DOM-32
    let none = filter("{ whitelist: [], blacklist: [] }");
    assert_eq!(none.verdict("zoom"), Verdict::Offered); // DOM-30
}

#[test]
fn dom_33_to_39_the_names_of_a_file() {
    let names = |transform: &str, tool: &str| {
        let config = one(&format!("{{ transport: stdio, command: x, transform: {transform} }}"));
        assert_eq!(config.problems, [], "{transform}");
        let naming = &config.servers[0].policy.naming;
        naming.names("s", tool).map(|n| (n.id, n.model))
    };
    let same = |name: &str| Ok((name.to_string(), name.to_string()));
    assert_eq!(names("[{prefix: a_}, {suffix: _z}, {prefix: b_}]", "t"), same("b_a_t_z")); // DOM-33
    assert_eq!(names("[{prefix: x_}]", "x_open"), same("x_x_open")); // DOM-34
    assert_eq!(names("[{prefix: {remove: q_, add: m_}}]", "q_go"), same("m_go")); // DOM-35
    assert_eq!(names("[{prefix: {remove: q_, add: m_}}]", "go"), same("m_go")); // DOM-35
    assert_eq!(names("[{suffix: _x}]", "open_x"), same("open_x_x")); // DOM-36
    let bad = names("[{prefix: {remove: 'a.', add: ''}}]", "a.b");
    assert_eq!(bad, Err(BadName::Original("a.b".into()))); // DOM-37, DOM-39
    assert_eq!(names("[{suffix: ':x'}]", "a"), Err(BadName::Transformed("a:x".into()))); // DOM-38
}

#[test]
fn dom_57_and_90_a_missing_variable_leaves_its_neighbour_alone() {
    let config = dominds(
        "version: 1\nservers:\n  a:\n    transport: streamable_http\n    url: http://h/\n    headers:\n      X: { env: GONE }\n  b: { transport: stdio, command: x }\n",
    );
    let [problem] = config.problems.as_slice() else { panic!("{:?}", config.problems) };
    assert_eq!((problem.code.as_str(), problem.server.as_deref()), ("env.missing", Some("a"))); // DOM-58
    assert_eq!((problem.line, problem.column), (Some(7), Some(7)));
    assert!(problem.text.contains("GONE"));
    assert!(ids(&config).contains(&"b")); // DOM-90
}

#[test]
fn dom_73_only_what_a_server_does_is_in_its_hash() {
    let base = "{ transport: stdio, command: x, args: [a, b], env: { K: v, L: { env: HOME } }, tools: { whitelist: [w], blacklist: [u] }, transform: [{ prefix: p }] }";
    let same = [
        "{ transform: [{ prefix: p }], tools: { blacklist: [u], whitelist: [w] }, env: { L: { env: HOME }, K: v }, args: [a, b], command: x, transport: stdio }",
        "\n    # a note\n    transport:   stdio\n    command: 'x'\n    args:\n      - a\n      - b\n    env:\n      K: \"v\"\n      L:\n        env: HOME\n    tools: { whitelist: [w], blacklist: [u] }\n    transform:\n      - prefix: p",
    ];
    let others = [
        base.replace("command: x", "command: y"),
        base.replace("[a, b]", "[b, a]"),
        base.replace("[a, b]", "[a]"),
        base.replace("[a, b]", "['a b']"),
        base.replace("K: v", "K: w"),
        base.replace("K: v", "J: v"),
        base.replace("env: HOME", "env: HOST"),
        base.replace("[w]", "[w, w2]"),
        base.replace("[u]", "[]"),
        base.replace("prefix: p", "suffix: p"),
        base.replace("command: x", "command: x, truely-stateless: true"),
        base.replace("command: x", "command: x, enabled: false"),
    ];
    distinct(base, &same, &others);
}

#[test]
fn dom_73_the_hash_of_a_remote_server() {
    let base =
        "{ transport: streamable_http, url: 'http://h/', headers: { A: b, C: d }, sessionId: s }";
    let same = [
        "{ sessionId: s, headers: { C: d, A: b }, url: \"http://h/\", transport: streamable_http }",
    ];
    let others = [
        base.replace("http://h/", "http://h/x"),
        base.replace("A: b", "A: c"),
        base.replace("A: b", "A: { env: b }"),
        base.replace("A: b", "A: { env: b, prefix: 'Bearer ' }"),
        base.replace("sessionId: s", "sessionId: t"),
        base.replace("sessionId: s", "sessionId: ''"),
    ];
    distinct(base, &same, &others);
}

fn distinct(base: &str, same: &[&str], others: &[String]) {
    let hash = |entry: &str| -> Hash {
        let world =
            Memory::default().with_env("HOME", "h").with_env("HOST", "h").with_env("b", "h");
        let text = format!("version: 1\nservers:\n  s: {entry}\n");
        let config = compiled_in(&world, Dialect::Dominds, &text);
        assert_eq!(config.problems, [], "{entry}");
        config.servers[0].hash
    };
    for entry in same {
        assert_eq!(hash(entry), hash(base), "{entry}");
    }
    let mut seen = vec![hash(base)];
    for entry in others {
        let hash = hash(entry);
        assert!(!seen.contains(&hash), "{entry}");
        seen.push(hash);
    }
}

const TEAM: &str = "members:
  alice:
    toolsets:
      - ws_read
      - playwright
";

#[test]
fn dom_85_the_team_file_grants_toolsets() {
    let world = Memory::default().with_file("/ws/.minds/team.yaml", TEAM);
    let text = "version: 1\nservers: { playwright: { transport: stdio, command: x } }\n";
    let config = compiled_in(&world, Dialect::Dominds, text);
    assert_eq!(config.problems, []);
    let members = &config.host.grants.members;
    assert_eq!(members["alice"].toolsets, ["ws_read", "playwright"]);
    assert_eq!(members.get("bob"), None);
    assert_eq!(config.servers[0].policy.access.grant, Grant::Toolsets);
}

#[test]
fn a_bad_team_file_is_told_and_the_servers_stay() {
    for (team, line) in [("members: [", 2), ("members:\n  alice: { toolsets: ws_read }\n", 2)] {
        let world = Memory::default().with_file("/ws/.minds/team.yaml", team);
        let config = compiled_in(
            &world,
            Dialect::Dominds,
            "version: 1\nservers: { a: { transport: stdio, command: x } }\n",
        );
        assert_eq!(ids(&config), ["a"], "{team}");
        let [problem] = config.problems.as_slice() else { panic!("{:?}", config.problems) };
        assert_eq!(problem.source.as_deref(), Some(".minds/team.yaml"), "{team}");
        assert!(problem.line <= Some(line), "{problem:?}");
    }
}

proptest! {
    #[test]
    fn dom_88_whatever_the_bytes_reading_ends(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let world = Memory::default().with_file("/ws/.minds/mcp.yaml", bytes.clone()).with_file("/ws/.minds/team.yaml", bytes);
        let config = discovered(&world, "/ws");
        prop_assert!(config.problems.iter().all(|p| p.source.is_some()));
    }

    #[test]
    fn dom_88_whatever_stands_in_an_entry_its_neighbour_stays(entry in "[-a1 :{}\\[\\],'\"&*<?|>!]{0,40}", key in "(transport|command|args|env|tools|transform|url)") {
        let quoted = serde_json::to_string(&entry).unwrap();
        let text = format!("version: 1\nservers:\n  bad: {{ transport: stdio, {key}: {quoted} }}\n  ok: {{ transport: stdio, command: x }}\n");
        let config = dominds(&text);
        prop_assert!(ids(&config).contains(&"ok"), "{:?}", config.problems);
    }
}

#[test]
fn dom_89_what_is_wrong_with_the_whole_file_is_one_problem_of_the_file() {
    for (text, code, line) in [
        ("version: 1\nservers: [", "yaml.syntax", 2),
        ("version: 3\n", "version.unsupported", 1),
        ("version: 1\nservers: { a: {}, a: {} }\n", "key.duplicate", 2),
        ("version: 1\nversion: 1\n", "key.duplicate", 2),
        ("version: 1\nservers: 7\n", "value.invalid", 2),
        ("- version: 1\n", "version.unsupported", 1),
    ] {
        let config = dominds(text);
        assert_eq!(config.sources[0].outcome, Outcome::Rejected, "{text}");
        let found = config
            .problems
            .iter()
            .find(|p| p.code == code)
            .unwrap_or_else(|| panic!("{text}: {:?}", config.problems));
        assert_eq!((found.line, found.server.as_deref()), (Some(line), None), "{text}");
        assert!(found.is_error() && found.fix.is_some(), "{text}");
    }
}

#[test]
fn dom_90_a_duplicate_key_inside_one_server_rejects_that_one() {
    let config = dominds(
        "version: 1\nservers:\n  a: { transport: stdio, command: x, command: y }\n  b: { transport: stdio, command: x }\n  c: { transport: stdio, command: x, env: { K: 1, K: 2 } }\n",
    );
    assert_eq!(ids(&config), ["b"]);
    assert_eq!(codes(&config)[..2], ["key.duplicate"; 2]);
    let rejected: Vec<_> =
        config.rejected.iter().map(|r| (r.id.as_str(), r.keep_last_good)).collect();
    assert_eq!(rejected, [("a", true), ("c", true)]);
}

#[test]
fn ext_01_a_disabled_server_stays_visible() {
    let config = one("{ transport: stdio, command: x, enabled: false }");
    assert_eq!(config.problems, []);
    assert!(!config.servers[0].policy.enabled);
    assert!(one("{ transport: stdio, command: x }").servers[0].policy.enabled);
}

#[test]
fn ext_03_a_header_may_have_text_in_front_of_the_variable() {
    let world = Memory::default().with_env("TOKEN", "t");
    let text = "version: 1\nservers:\n  h: { transport: streamable_http, url: 'http://h/', headers: { Authorization: { prefix: 'Bearer ', env: TOKEN } } }\n";
    let config = compiled_in(&world, Dialect::Dominds, text);
    let header = &config.servers[0].transport.remote().unwrap().headers["Authorization"];
    let resolved = header.resolve(&|_| Some("t".to_string())).unwrap();
    assert_eq!(resolved.reveal(), "Bearer t");
}

#[test]
fn ext_04_prompts_and_resources_have_lists_of_their_own() {
    let config = one(
        "{ transport: stdio, command: x, transform: [{ prefix: t_ }], prompts: { whitelist: [p*], blacklist: [q], skills: { enabled: true }, transform: [{ suffix: _p }] }, resources: { whitelist: ['file:*'], mimeTypes: [text/plain], maxBytes: 100 } }",
    );
    assert_eq!(config.problems, []);
    let expose = &config.servers[0].policy.expose;
    assert_eq!(expose.prompts.r#as, PromptsAs::Skill);
    assert_eq!(
        (&expose.prompts.allow[..], &expose.prompts.deny[..]),
        (&["p*".to_string()][..], &["q".to_string()][..])
    );
    let own = expose.prompts.transforms.as_ref().unwrap();
    assert_eq!(own.apply("x".to_string()), "x_p", "it stands instead of the other, not after it");
    assert_eq!(expose.resources.mime, ["text/plain"]);
    assert_eq!(expose.resources.max_bytes, Size(100));
    assert_eq!(expose.resources.transforms, None);
    let plain = one("{ transport: stdio, command: x }");
    assert_eq!(plain.servers[0].policy.expose.resources.max_bytes, Size(64_000));
}

#[test]
fn ext_05_a_manual_is_a_text_or_a_file_below_the_root() {
    let manual = |world: &Memory, manual: &str| {
        let text = format!(
            "version: 1\nservers: {{ s: {{ transport: stdio, command: x, manual: {manual} }} }}\n"
        );
        let config = compiled_in(world, Dialect::Dominds, &text);
        let codes: Vec<String> = codes(&config).into_iter().map(str::to_string).collect();
        (config.servers[0].policy.manual.clone().unwrap(), codes)
    };
    let world = Memory::default().with_file("/ws/docs/s.md", "use it");
    assert_eq!(manual(&world, "use it"), (Manual::Text("use it".into()), vec![]));
    let file = Manual::File("/ws/docs/s.md".into());
    assert_eq!(manual(&world, "{ file: docs/s.md }"), (file.clone(), vec![]));
    let missing = vec!["manual.missing".to_string()];
    assert_eq!(manual(&Memory::default(), "{ file: docs/s.md }"), (file, missing));
}

#[test]
fn ext_10_the_numbers_that_dominds_uses() {
    let config = one("{ transport: stdio, command: npx }");
    let policy = &config.servers[0].policy;
    assert_eq!(policy.timeouts.connect, Period::secs(15));
    assert_eq!(policy.timeouts.startup, Period::secs(15), "connecting and listing");
    assert_eq!(policy.timeouts.request, Period::secs(60));
    assert_eq!(policy.lifecycle.drain_kill, Some(Period::secs(3)));
    assert_eq!(policy.limits.pages, 50);
    assert_eq!(policy.lifecycle.connect, Connect::Eager);
    assert_eq!(config.host.reload.debounce, Period::millis(200));
    assert_eq!(config.host.reload.poll, Period::millis(1500));
}

/// The fragments of Dominds' own document, under a server.
fn fragment(world: &Memory, kind: &str, yaml: &str) -> Config {
    let indented: String = yaml.lines().map(|line| format!("    {line}\n")).collect();
    let text = format!("version: 1\nservers:\n  s:\n    {kind}\n{indented}");
    let config = compiled_in(world, Dialect::Dominds, &text);
    assert_eq!(config.problems, [], "{text}");
    config
}

const STDIO: &str = "transport: stdio\n    command: x";

#[test]
fn the_documents_transforms_apply_in_order() {
    let config = fragment(
        &Memory::default(),
        STDIO,
        r#"transform:
  - prefix: 'playwright_'
  - prefix:
      remove: 'stock_prefix_'
      add: 'my_prefix_'
  - suffix: '_playwright'
"#,
    );
    let naming = &config.servers[0].policy.naming;
    let named = naming.names("s", "open").unwrap();
    assert_eq!(named.id, "my_prefix_playwright_open_playwright"); // DOM-33, DOM-35
}

#[test]
fn the_documents_variables_are_literal_or_copied() {
    let world = Memory::default().with_env("EXISTING_ENV_VAR_NAME", "v");
    let config = fragment(
        &world,
        STDIO,
        r#"env:
  # Literal value
  SOME_ENV_VAR_NAME: 'some_env_var_value'

  # Copy/rename from host env
  NEW_ENV_VAR_NAME:
    env: EXISTING_ENV_VAR_NAME
"#,
    );
    let set = &config.servers[0].transport.env().unwrap().set;
    assert_eq!(set["SOME_ENV_VAR_NAME"], Value::literal("some_env_var_value")); // DOM-54
    assert_eq!(set["NEW_ENV_VAR_NAME"], Value::from_env("EXISTING_ENV_VAR_NAME")); // DOM-55
}

#[test]
fn the_documents_headers_are_literal_or_copied() {
    let world = Memory::default().with_env("MCP_AUTH_TOKEN", "t");
    let config = fragment(
        &world,
        "transport: streamable_http\n    url: http://h/mcp",
        r#"headers:
  Authorization:
    env: MCP_AUTH_TOKEN
  X-Client-Name: 'dominds'
"#,
    );
    let headers = &config.servers[0].transport.remote().unwrap().headers;
    assert_eq!(headers["Authorization"], Value::from_env("MCP_AUTH_TOKEN")); // DOM-58
    assert_eq!(headers["X-Client-Name"], Value::literal("dominds")); // DOM-58
}

#[test]
fn the_documents_schema_loads() {
    let config = dominds(
        r#"version: 1
servers:
  <serverId>:
    # Concurrency model (IMPORTANT)
    # - Default false: per-dialog client leasing (safer for stateful servers)
    # - True: shared client across dialogs (only for servers that are truly stateless)
    truely-stateless: false

    # Transport config (minimum viable set)
    #
    # 1) stdio
    transport: stdio
    command: npx
    args: ['-y', '@playwright/mcp@latest']

    # Optional environment wiring
    env: {}

    # 2) streamable_http
    # transport: streamable_http
    # url: http://127.0.0.1:3000/mcp
    # headers: {} # optional (supports literal or { env: NAME } values)
    # sessionId: '' # optional

    # Tool exposure controls
    tools:
      whitelist: [] # optional
      blacklist: [] # optional

    # Tool name transforms (optional)
    transform: []
"#,
    );
    assert_eq!(config.problems, []);
    let server = &config.servers[0];
    assert_eq!((server.id.as_str(), server.toolset()), ("<serverId>", "<serverId>")); // DOM-05
    assert_eq!(server.policy.session.scope, SessionScope::PerConversation); // DOM-12
    assert_eq!(server.policy.naming.names("x", "open").unwrap().id, "open"); // DOM-11
}

#[test]
fn the_documents_playwright_server_loads() {
    let config = dominds(
        r#"version: 1
servers:
  playwright:
    truely-stateless: false
    transport: stdio
    command: npx
    args: ['-y', '@playwright/mcp@latest']
    tools:
      whitelist: ['browser_*', 'page_*']
      blacklist: ['*_unsafe']
    transform:
      - prefix: 'playwright_'
"#,
    );
    assert_eq!(config.problems, []);
    let server = config.server("playwright").unwrap();
    assert_eq!(server.toolset(), "playwright"); // DOM-05
    let name = |tool| server.policy.naming.names("playwright", tool).unwrap().id;
    assert_eq!(name("browser_click"), "playwright_browser_click");
    assert_eq!(name("browser_snapshot"), "playwright_browser_snapshot");
}
