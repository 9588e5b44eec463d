//! Tests of `agent.yaml` by requirement; `holodeck_seed_tests.rs` has the contract's own examples.

use std::path::Path;

use crate::model::choice::InheritedEnv;
use crate::model::filter::FilterVerdict;
use crate::model::policy::{ConfigDelivery, OnConfigError, OnMissing, Resolve};
use crate::model::transport::{Transport, TransportKind};
use crate::model::units::Period;
use crate::testing::{compile_text_in, problem_codes};
use crate::{
    Config, Dialect, MemoryLookup, Problem, Reference, ServerSpec, Severity, SourceOutcome, Value,
    Workspace, compile,
};

fn agent_in(lookup: &MemoryLookup, text: &str) -> Config {
    compile_text_in(lookup, Dialect::Holodeck, text)
}

fn agent(text: &str) -> Config {
    agent_in(&MemoryLookup::default(), text)
}

/// A tool `t` with these keys for its transport.
fn tool(keys: &str) -> String {
    format!("tools:\n  - {{ name: t, description: d, type: mcp, server: pkg, {keys} }}\n")
}

fn one(keys: &str) -> ServerSpec {
    one_in(&MemoryLookup::default(), keys)
}

fn one_in(lookup: &MemoryLookup, keys: &str) -> ServerSpec {
    let config = agent_in(lookup, &tool(keys));
    assert!(!config.has_errors(), "{keys}: {:?}", config.problems);
    config.servers[0].clone()
}

/// Compiles a file that must fail and returns its only problem, which names the tool.
fn failure_in(lookup: &MemoryLookup, text: &str) -> Problem {
    let config = agent_in(lookup, text);
    let [problem] = config.problems.as_slice() else { panic!("{text}: {:?}", config.problems) };
    assert!(problem.is_error() && problem.server.is_some(), "{problem:?}");
    assert_eq!(config.sources[0].outcome, SourceOutcome::Failed, "{text}");
    assert_eq!(config.servers.len(), 0, "{text}");
    problem.clone()
}

fn failure(keys: &str) -> String {
    failure_in(&MemoryLookup::default(), &tool(keys)).text
}

fn env_of<'w>(lookup: &'w MemoryLookup) -> impl Fn(&Reference) -> Option<String> + 'w {
    |reference| match reference {
        Reference::Env(name) => lookup.env.get(name).cloned(),
        _ => None,
    }
}

fn resolved(lookup: &MemoryLookup, value: &Value) -> String {
    value.resolve(&env_of(lookup)).unwrap().reveal().to_string()
}

fn args(lookup: &MemoryLookup, server: &ServerSpec) -> Vec<String> {
    let Transport::Stdio(stdio) = &server.transport else { panic!("{:?}", server.transport) };
    stdio.args.iter().map(|arg| resolved(lookup, &arg.0)).collect()
}

#[test]
fn hol_01_tools_of_other_types_are_ignored() {
    let config = agent(
        "name: a\nmodel: { provider: x }\ntools:\n  - { name: t, description: d, type: mcp, server: p, command: uvx }\n  - { name: f, type: function, file: x.py, command: bash }\n",
    );
    assert_eq!(config.problems, []);
    assert_eq!(config.servers.len(), 1);
    assert_eq!(config.servers[0].id, "t");
    for text in ["", "name: a\n", "tools:\n", "tools: []\n"] {
        let config = agent(text);
        assert_eq!((config.problems.len(), config.servers.len()), (0, 0), "{text}");
    }
}

#[test]
fn hol_02_name_is_required_and_unique() {
    let nameless = failure_in(
        &MemoryLookup::default(),
        "tools:\n  - { description: d, type: mcp, server: p, command: uvx }\n",
    );
    assert_eq!(nameless.text, "ValidationError: 'name' is required");
    assert_eq!(nameless.server.as_deref(), Some("tools[0]"));
    let entry = "{ name: files, description: d, type: mcp, server: p, command: uvx }";
    for first in [entry, "{ name: files, type: function }"] {
        let text = format!("tools:\n  - {first}\n  - {entry}\n");
        let twice = failure_in(&MemoryLookup::default(), &text);
        assert!(twice.text.contains("'files'"), "{}", twice.text);
        assert_eq!(twice.line, Some(3));
    }
}

#[test]
fn hol_03_04_and_30_missing_required_field_is_named() {
    let whole = [
        ("name", "name: t"),
        ("description", "description: d"),
        ("type", "type: mcp"),
        ("server", "server: p"),
        ("transport", "transport: http"),
        ("url", "url: 'https://h'"),
    ];
    for (dropped, _) in whole {
        let rest: Vec<&str> =
            whole.iter().filter(|(key, _)| *key != dropped).map(|(_, text)| *text).collect();
        let text = format!("tools:\n  - {{ {} }}\n", rest.join(", "));
        let problem = failure_in(&MemoryLookup::default(), &text);
        assert!(problem.text.contains(&format!("'{dropped}'")), "{dropped}: {}", problem.text); // HOL-30
    }
    let undescribed = "tools:\n  - { name: t, type: mcp, server: p, command: uvx }\n";
    let problem = failure_in(&MemoryLookup::default(), undescribed);
    assert_eq!(problem.text, "ValidationError: 'description' is required"); // HOL-03
    assert_eq!(problem.server.as_deref(), Some("t"));
}

#[test]
fn hol_05_four_transports_with_stdio_as_default() {
    assert_eq!(one("command: uvx").transport.kind(), TransportKind::Stdio);
    let text = failure("transport: grpc, url: 'https://h'");
    assert_eq!(
        text,
        "MCPConfigError: Invalid transport 'grpc'. Supported transports: stdio, sse, websocket, http"
    );
    for (word, url, kind) in [
        ("sse", "https://h", TransportKind::Sse),
        ("websocket", "wss://h", TransportKind::WebSocket),
        ("http", "https://h", TransportKind::StreamableHttp),
    ] {
        let server = one(&format!("transport: {word}, url: '{url}'"));
        assert_eq!(server.transport.kind(), kind);
    }
}

#[test]
fn hol_06_keys_of_the_other_transport_group_are_errors() {
    let cases = [
        ("transport: sse, url: 'https://h', command: npx", "command"),
        ("transport: http, url: 'https://h', args: [a]", "args"),
        ("transport: http, url: 'https://h', env: { A: b }", "env"),
        ("transport: websocket, url: 'wss://h', envFile: .env", "envFile"),
        ("transport: http, url: 'https://h', encoding: utf-8", "encoding"),
        ("command: npx, url: 'https://h'", "url"),
        ("transport: stdio, command: npx, headers: { A: b }", "headers"),
        ("command: npx, timeout: 3", "timeout"),
        ("command: npx, sse_read_timeout: 3", "sse_read_timeout"),
        ("command: npx, terminate_on_close: true", "terminate_on_close"),
    ];
    for (keys, field) in cases {
        let text = failure(keys);
        assert!(
            text.starts_with(&format!("MCPConfigError: '{field}' is not allowed for ")),
            "{text}"
        );
    }
}

#[test]
fn hol_07_and_24_arguments_are_passed_verbatim() {
    let lookup = MemoryLookup::default().with_env("DATA", "/d");
    let server = one_in(
        &lookup,
        r#"command: npx, args: ["-y", "a;b", "$(id)", "$HOME", "${DATA:-x}", "$${DATA}", "--dir=${DATA}", "${", "${a b}"]"#,
    );
    let expected = ["-y", "a;b", "$(id)", "$HOME", "${DATA:-x}", "$/d", "--dir=/d", "${", "${a b}"];
    assert_eq!(args(&lookup, &server), expected); // HOL-07, HOL-24
    assert!(failure("command: npx, args: [1]").contains("args"));
    assert!(failure("command: npx, args: x").contains("args"));
}

#[test]
fn hol_08_and_31_variables_expand_anywhere_in_a_text() {
    let lookup = MemoryLookup::default().with_env("A", "1").with_env("B", "2");
    let server = one_in(&lookup, "command: npx, env: { X: 'a ${A} b ${B}${A}', Y: plain }");
    let set = &server.transport.env().unwrap().set;
    assert_eq!(resolved(&lookup, &set["X"]), "a 1 b 21");
    assert_eq!(set["Y"], Value::literal("plain"));
    let server = one_in(&lookup, "transport: http, url: 'https://h/${A}', headers: { H: 'x${B}' }");
    let remote = server.transport.remote().unwrap();
    assert_eq!(resolved(&lookup, &remote.headers["H"]), "x2"); // HOL-12, HOL-31
    assert_eq!(resolved(&lookup, &remote.url.0), "https://h/1");
}

#[test]
fn hol_09_and_36_env_file_is_relative_to_the_agent_file() {
    let lookup =
        MemoryLookup::default().with_file("/ws/conf/.env", "A=1\n").with_file("/abs/.env", "A=2\n");
    for (key, path, value) in [
        ("envFile: conf/.env", "/ws/conf/.env", "1"),
        ("envFile: /abs/.env", "/abs/.env", "2"),
        ("env_file: conf/.env", "/ws/conf/.env", "1"), // EXT-15
    ] {
        let server = one_in(&lookup, &format!("command: npx, {key}"));
        let file = server.transport.env().unwrap().file.clone().unwrap();
        assert_eq!(file.path, Path::new(path), "{key}"); // HOL-09
        assert_eq!(file.values[0].1.reveal(), value, "{key}");
    }
    let text = failure("command: npx, envFile: gone.env");
    assert!(text.contains("/ws/gone.env"), "{text}"); // HOL-36
    let both = agent_in(&lookup, &tool("command: npx, envFile: conf/.env, env_file: /abs/.env"));
    assert_eq!(problem_codes(&both), ["key.duplicate"]);
}

#[test]
fn hol_10_encoding_must_be_known() {
    let encoding = |keys: &str| match one(keys).transport {
        Transport::Stdio(stdio) => stdio.encoding,
        other => panic!("{other:?}"),
    };
    assert_eq!(encoding("command: npx"), "utf-8");
    assert_eq!(encoding("command: npx, encoding: latin-1"), "latin1");
    assert_eq!(encoding("command: npx, encoding: UTF_8"), "utf-8");
    assert_eq!(encoding("command: npx, encoding: shift_jis"), "shift_jis");
    assert!(failure("command: npx, encoding: klingon").contains("klingon"));
}

#[test]
fn hol_12_headers_on_a_websocket_give_a_warning() {
    let keys = "transport: websocket, url: 'wss://h', headers: { A: b }";
    let config = agent(&tool(keys));
    let [problem] = config.problems.as_slice() else { panic!("{:?}", config.problems) };
    assert_eq!(problem.severity, Severity::Warning);
    assert!(problem.text.contains("'headers'"));
}

#[test]
fn hol_13_14_and_19_timeouts_are_positive_seconds() {
    let server = one(
        "transport: sse, url: 'https://h', timeout: 2.5, sse_read_timeout: 0.25, request_timeout: 7",
    );
    let timeouts = &server.policy.timeouts;
    assert_eq!(timeouts.connect, Period::millis(2500)); // HOL-13
    assert_eq!(timeouts.sse_read, Period::millis(250)); // HOL-14
    assert_eq!(timeouts.request, Period::secs(7)); // HOL-19
    assert_eq!(timeouts.request_max, Period::secs(7), "progress does not extend the limit");
    let timeouts = &one("command: npx").policy.timeouts;
    assert_eq!(timeouts.request, Period::secs(60)); // HOL-19
    for value in ["0", "-1", "1.5", "'60'", "true"] {
        let text = failure(&format!("command: npx, request_timeout: {value}"));
        assert!(
            text.contains("request_timeout`: expected a whole number of seconds greater than 0"),
            "{text}"
        );
    }
    for key in ["timeout", "sse_read_timeout"] {
        for value in ["0", "-0.5", ".nan", "1e30"] {
            let text = failure(&format!("transport: sse, url: 'https://h', {key}: {value}"));
            assert!(text.contains(key), "{text}");
        }
    }
}

#[test]
fn hol_15_terminate_on_close_defaults_to_true() {
    for (keys, expected) in [("", true), (", terminate_on_close: false", false)] {
        let server = one(&format!("transport: http, url: 'https://h'{keys}"));
        let Transport::StreamableHttp(http) = &server.transport else { panic!() };
        assert_eq!(http.terminate_on_close, expected);
    }
}

#[test]
fn hol_16_config_is_passed_on_verbatim() {
    let lookup = MemoryLookup::default().with_env("A", "v");
    let server = one_in(
        &lookup,
        "command: npx, config: { n: 3, f: 1.5, b: true, z: null, deep: { list: ['x${A}', 2] } }",
    );
    let config = server.policy.init.config.resolve(&env_of(&lookup)).unwrap();
    let expected = serde_json::json!({ "n": 3, "f": 1.5, "b": true, "z": null, "deep": { "list": ["xv", 2] } });
    assert_eq!(config, expected);
    assert_eq!(server.policy.init.config_delivery, ConfigDelivery::Both); // EXT-16
    assert!(failure("command: npx, config: [1]").contains("config"));
}

#[test]
fn hol_17_and_18_load_flags_control_discovery() {
    let both = one("command: npx").policy.discovery;
    assert!(both.tools && both.prompts);
    let none = one("command: npx, load_tools: false, load_prompts: false").policy.discovery;
    assert!(!none.tools); // HOL-17
    assert!(!none.prompts); // HOL-18
}

#[test]
fn hol_21_and_22_only_three_exact_commands_are_allowed() {
    for command in ["npx", "uvx", "docker"] {
        one(&format!("command: {command}"));
    }
    for command in ["NPX", "bash", "/usr/bin/npx", "npx ", "", "${CMD}", "node"] {
        let lookup = MemoryLookup::default().with_env("CMD", "npx");
        let problem = failure_in(&lookup, &tool(&format!("command: '{command}'")));
        // HOL-22
        assert_eq!(
            problem.text,
            format!(
                "MCPConfigError: Invalid command '{command}'. Supported commands: npx, uvx, docker"
            )
        );
    }
}

#[test]
fn hol_11_20_and_39_messages_match_the_contract() {
    let cases = [
        (
            "command: bash",
            "MCPConfigError: Invalid command 'bash'. Supported commands: npx, uvx, docker",
        ),
        // HOL-20
        ("transport: stdio", "MCPConfigError: 'command' is required for stdio transport"),
        // HOL-11
        ("transport: sse", "MCPConfigError: 'url' is required for sse transport"),
        ("transport: websocket", "MCPConfigError: 'url' is required for websocket transport"),
        ("transport: http", "MCPConfigError: 'url' is required for http transport"),
        (
            "command: npx, env: { A: '${VAR_NAME}' }",
            "ConfigError: Environment variable 'VAR_NAME' not found",
        ),
        (
            "transport: sse, url: 'http://example.com'",
            "MCPConfigError: 'url' must use https:// (or http:// for localhost)",
        ),
    ];
    for (keys, expected) in cases {
        assert_eq!(failure(keys), expected, "{keys}"); // HOL-39
    }
    for server in ["''", "'  '"] {
        let text = format!(
            "tools:\n  - {{ name: t, description: d, type: mcp, server: {server}, command: npx }}\n"
        );
        let problem = failure_in(&MemoryLookup::default(), &text);
        assert_eq!(problem.text, "ValidationError: 'server' must be a non-empty identifier"); // HOL-04
    }
}

#[test]
fn hol_25_and_26_url_scheme_and_host_are_checked() {
    let secure = "MCPConfigError: 'url' must use https:// (or http:// for localhost)";
    for word in ["sse", "http"] {
        for url in [
            "http://example.com",
            "http://localhost.evil.com",
            "http://localhost@evil.com",
            "ftp://x",
            "ws://localhost",
            "no address",
        ] {
            assert_eq!(failure(&format!("transport: {word}, url: '{url}'")), secure, "{url}");
        }
        for url in ["https://example.com", "http://localhost:1", "http://127.0.0.1", "http://[::1]"]
        {
            one(&format!("transport: {word}, url: '{url}'"));
        }
    }
    let lookup = MemoryLookup::default().with_env("BASE", "http://example.com");
    let problem = failure_in(&lookup, &tool("transport: http, url: '${BASE}/mcp'"));
    assert_eq!(problem.text, secure, "the expanded URL is checked");
    assert_eq!(
        failure("transport: websocket, url: 'https://h'"),
        "MCPConfigError: 'url' must use wss:// (or ws://)"
    ); // HOL-26
    for url in ["wss://h", "ws://h"] {
        one(&format!("transport: websocket, url: '{url}'"));
    }
}

#[test]
fn hol_32_and_33_unset_variables_fail_the_load() {
    let gone = "ConfigError: Environment variable 'GONE' not found"; // HOL-33
    for keys in [
        "command: npx, env: { A: '${GONE}' }",
        "command: npx, args: ['${GONE}']",
        "command: npx, args: ['./${GONE}']",
        "command: npx, config: { deep: ['${GONE}'] }",
        "transport: http, url: 'https://${GONE}'",
        "transport: http, url: 'https://h', headers: { A: 'Bearer ${GONE}' }",
    ] {
        assert_eq!(failure(keys), gone, "{keys}"); // HOL-32
    }
    let secrets = one("command: npx").policy.secrets;
    assert_eq!(secrets.resolve, Resolve::Load);
    assert_eq!(secrets.on_missing, OnMissing::FailLoad);
    let file = MemoryLookup::default().with_file("/ws/.env", "GONE=here\n");
    one_in(&file, "command: npx, envFile: .env, env: { A: '${GONE}' }");
}

#[test]
fn hol_34_empty_variable_counts_as_set() {
    let lookup = MemoryLookup::default().with_env("EMPTY", "");
    let server = one_in(&lookup, "command: npx, env: { A: '${EMPTY}' }");
    let value = &server.transport.env().unwrap().set["A"];
    assert_eq!(resolved(&lookup, value), "");
}

#[test]
fn hol_35_env_overrides_env_file_and_env_file_overrides_host() {
    let lookup = MemoryLookup::default().with_file("/ws/.env", "PATH=file\nHOME=file\n");
    let server = one_in(&lookup, "command: npx, envFile: .env, env: { PATH: own }");
    let env = server.transport.env().unwrap();
    assert_eq!(env.inherit, InheritedEnv::Minimal);
    let host =
        ["PATH", "HOME", "USER", "SECRET"].map(|name| (name.to_string(), "host".to_string()));
    let variables = env.variables(host, &|_| None).unwrap();
    let variables: Vec<_> =
        variables.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
    assert_eq!(variables, [("HOME", "file"), ("PATH", "own"), ("USER", "host")]);
}

#[test]
fn hol_38_invalid_tool_fails_the_file_and_is_named_with_its_location() {
    let config = agent(
        "tools:\n  - { name: good, description: d, type: mcp, server: p, command: uvx }\n  - name: bad\n    description: d\n    type: mcp\n    server: p\n    command: bash\n",
    );
    assert_eq!(config.servers.len(), 0);
    assert_eq!(config.sources[0].outcome, SourceOutcome::Failed);
    let [problem] = config.problems.as_slice() else { panic!("{:?}", config.problems) };
    assert_eq!(problem.server.as_deref(), Some("bad"));
    assert_eq!((problem.line, problem.id.ends_with("tools[1].command")), (Some(7), true));
    let rejected: Vec<_> =
        config.rejected.iter().map(|r| (r.id.as_str(), r.keep_last_good)).collect();
    assert_eq!(rejected, [("bad", false), ("good", false)]);
    let policy = one("command: npx").policy.availability.on_config_error;
    assert_eq!(policy, OnConfigError::FailLoad);
    for text in ["tools: 7\n", "tools: { a: b }\n", "tools: [x]\n", "tools: [\n"] {
        let config = agent(text);
        assert_eq!(config.sources[0].outcome, SourceOutcome::Failed, "{text}");
        assert!(config.has_errors(), "{text}");
    }
}

#[test]
fn hol_40_to_44_legacy_form_runs_the_npm_package() {
    let legacy = |server: &str| {
        agent(&format!("tools:\n  - {{ name: t, type: mcp, server: '{server}' }}\n"))
    };
    for server in ["@scope/name", "mcp-server", "pkg@1.2.3", "@s/n@latest"] {
        let config = legacy(server);
        assert_eq!(problem_codes(&config), ["holodeck.legacy"], "{server}"); // HOL-42
        assert_eq!(config.problems[0].severity, Severity::Warning);
        assert!(config.problems[0].fix.as_ref().unwrap().contains("`command: npx`"));
        assert_eq!(config.servers[0].transport.kind(), TransportKind::Stdio); // HOL-40, HOL-43
        assert_eq!(args(&MemoryLookup::default(), &config.servers[0]), ["-y", server]); // HOL-41
    }
    for server in [
        "./local.py",
        "local.py",
        "server.js",
        "/abs/x",
        "../x",
        "org/image",
        "https://h/x",
        "Name",
        "@scope",
        "a b",
        ".x",
    ] {
        let config = legacy(server);
        let texts: Vec<_> = config.problems.iter().map(|p| p.text.as_str()).collect();
        assert_eq!(
            texts,
            ["MCPConfigError: 'command' is required for stdio transport"],
            "{server}"
        ); // HOL-44
        assert_eq!(config.servers.len(), 0);
    }
    let with_args = agent("tools:\n  - { name: t, type: mcp, server: p, args: [a] }\n");
    assert_eq!(args(&MemoryLookup::default(), &with_args.servers[0]), ["-y", "p", "a"]);
}

#[test]
fn ext_15_and_17_holodeck_only_keys_are_kept_in_extras() {
    let config = agent(&tool(
        "command: npx, registry_name: io.x/y, is_retrieval: true, defer_loading: false, tpyo: 1",
    ));
    assert_eq!(problem_codes(&config), ["key.unknown"]);
    let extras = &config.servers[0].extras;
    assert_eq!(extras["registry_name"], "io.x/y"); // EXT-17
    assert_eq!(extras["is_retrieval"], true);
    assert_eq!(extras["defer_loading"], false);
    assert_eq!(extras["tpyo"], 1);
    let odd = agent(
        "tools:\n  - { name: my-tool, description: d, type: mcp, server: p, command: npx }\n",
    );
    assert_eq!(problem_codes(&odd), ["name.unusual"]); // EXT-15
    assert_eq!(odd.servers.len(), 1);
}

#[test]
fn ext_16_relative_arguments_become_absolute_and_allowed_tools_filter() {
    let lookup = MemoryLookup::default().with_env("D", "d");
    let server = one_in(
        &lookup,
        "command: npx, args: [./src/a.js, ../b, './${D}/c', x/./y, '.'], config: { allowed_tools: [read, list_*] }",
    );
    assert_eq!(args(&lookup, &server), ["/ws/src/a.js", "/b", "/ws/./d/c", "x/./y", "."]);
    let tools = &server.policy.expose.tools;
    assert_eq!(tools.verdict("read"), FilterVerdict::Offered);
    assert_eq!(tools.verdict("write"), FilterVerdict::NotAllowed);
    let config = server.policy.init.config.resolve(&|_| None).unwrap();
    assert_eq!(config["allowed_tools"][0], "read", "the server receives `allowed_tools` too");
    for odd in ["[1]", "read"] {
        let config = agent(&tool(&format!("command: npx, config: {{ allowed_tools: {odd} }}")));
        assert_eq!(problem_codes(&config), ["config.allowed_tools"], "{odd}");
        assert_eq!(config.servers.len(), 0, "{odd}");
    }
}

#[test]
fn ext_17_agent_servers_override_user_servers() {
    let own = "providers: {}\nmcp_servers:\n  - { name: both, description: d, type: mcp, command: uvx, args: [own] }\n  - { name: more, description: d, transport: stdio, command: npx, args: ['./x', '${workspaceFolder}'] }\n";
    let lookup = MemoryLookup::default()
        .with_env("HOME", "/h")
        .with_file("/h/.holodeck/config.yaml", own)
        .with_file(
            "/ws/agent.yaml",
            "tools:\n  - { name: both, description: d, type: mcp, server: p, command: uvx, args: [agent] }\n",
        );
    let workspace = |root: &str| Workspace { root: root.into(), home: None, config_file: None };
    let config = compile(&workspace("/ws"), &lookup);
    assert_eq!(config.problems, []);
    let ids: Vec<_> = config.servers.iter().map(|s| s.id.as_str()).collect();
    assert_eq!(ids, ["both", "more"]);
    assert_eq!(args(&lookup, &config.servers[0]), ["agent"]);
    assert_eq!(args(&lookup, &config.servers[1]), ["/ws/x", "/ws"]);
    assert!(config.depends.iter().any(|path| path.ends_with(".holodeck/config.yaml")));
    assert_eq!(
        compile(&workspace("/other"), &lookup).servers.len(),
        0,
        "user servers load only beside an agent file"
    );
}

#[test]
fn user_server_needs_a_command_or_a_package() {
    let config = agent("mcp_servers:\n  - { name: t, description: d }\n");
    let texts: Vec<_> = config.problems.iter().map(|p| p.text.as_str()).collect();
    assert_eq!(texts, ["MCPConfigError: 'command' is required for stdio transport"]);
    assert_eq!(config.sources[0].outcome, SourceOutcome::Failed);
}

#[test]
fn ext_18_tool_names_are_normalised() {
    let naming = one("command: npx").policy.naming;
    let named = naming.names("files", "get.file v2").unwrap();
    assert_eq!(named.id, "files_get-file-v2");
    assert_eq!(named.model, named.id);
}
