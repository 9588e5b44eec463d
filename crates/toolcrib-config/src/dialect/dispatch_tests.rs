//! Tests of `.dispatch/mcp.json` and its fallback by requirement.

use std::time::Duration;

use crate::model::choice::InheritedEnv;
use crate::model::policy::ServerScope;
use crate::model::transport::Transport;
use crate::testing::{compile_text, problem_codes};
use crate::{
    Config, Dialect, MemoryLookup, ServerSpec, Severity, SourceOutcome, Value, Workspace, compile,
};

const SEED: &str = r#"{
  "servers": {
    "freecad": {
      "command": "uvx",
      "args": ["freecad-mcp"],
      "env": { "FREECAD_RPC_HOST": "localhost" }
    },
    "chrome-devtools": {
      "command": "npx",
      "args": ["chrome-devtools-mcp@latest"]
    },
    "remote-freecad": {
      "transport": "http",
      "url": "http://192.168.1.100:9876/mcp"
    }
  }
}
"#;

const SEED_FALLBACK: &str = r#"{
  "mcp": {
    "freecad": { "command": "uvx", "args": ["freecad-mcp"] }
  }
}
"#;

fn one(entry: &str) -> Config {
    compile_text(Dialect::Dispatch, &format!(r#"{{ "servers": {{ "s": {entry} }} }}"#))
}

/// Compiles a working directory with discovery.
fn found(lookup: &MemoryLookup, root: &str) -> Config {
    let workspace = Workspace { root: root.into(), home: None, config_file: None };
    compile(&workspace, lookup)
}

fn ids(config: &Config) -> Vec<&str> {
    config.servers.iter().map(|s| s.id.as_str()).collect()
}

fn argv(server: &ServerSpec) -> Vec<String> {
    let Transport::Stdio(stdio) = &server.transport else { panic!("{:?}", server.transport) };
    std::iter::once(&stdio.command)
        .chain(&stdio.args)
        .map(|word| word.0.as_literal().unwrap().to_string())
        .collect()
}

#[test]
fn contract_examples_compile() {
    let config = found(&MemoryLookup::default().with_file("/p/.dispatch/mcp.json", SEED), "/p");
    assert_eq!(config.problems, []);
    assert_eq!(ids(&config), ["freecad", "chrome-devtools", "remote-freecad"]);
    assert_eq!(argv(&config.servers[0]), ["uvx", "freecad-mcp"]);
    let env = config.servers[0].transport.env().unwrap();
    assert_eq!(env.set["FREECAD_RPC_HOST"], Value::literal("localhost"));
    assert_eq!(argv(&config.servers[1]), ["npx", "chrome-devtools-mcp@latest"]);
    let Transport::StreamableHttp(http) = &config.servers[2].transport else { panic!() };
    assert_eq!(http.remote.url.display_text(), "http://192.168.1.100:9876/mcp");

    let config = found(&MemoryLookup::default().with_file("/p/opencode.json", SEED_FALLBACK), "/p");
    assert_eq!(config.problems, []);
    assert_eq!(argv(&config.servers[0]), ["uvx", "freecad-mcp"]);
}

#[test]
fn dis_02_each_working_directory_has_its_own_servers() {
    let lookup = MemoryLookup::default()
        .with_file(
            "/cad/.dispatch/mcp.json",
            r#"{ "servers": { "freecad": { "command": "a" }, "both": { "command": "a" } } }"#,
        )
        .with_file(
            "/web/.dispatch/mcp.json",
            r#"{ "servers": { "chrome": { "command": "b" }, "both": { "command": "b" } } }"#,
        );
    let (cad, web) = (found(&lookup, "/cad"), found(&lookup, "/web"));
    assert_eq!(ids(&cad), ["freecad", "both"]);
    assert_eq!(ids(&web), ["chrome", "both"]);
    assert_eq!(argv(&cad.servers[1]), ["a"]);
    assert_eq!(argv(&web.servers[1]), ["b"]);
    assert_eq!(cad.servers[1].policy.scope, ServerScope::Cwd);
}

#[test]
fn dis_03_to_05_first_file_wins_and_fallback_is_reported() {
    let fallback = MemoryLookup::default().with_file("/p/opencode.json", SEED_FALLBACK);
    let config = found(&fallback, "/p");
    assert_eq!(ids(&config), ["freecad"]); // DIS-04
    assert_eq!(&*config.servers[0].source, "opencode.json");
    assert_eq!(config.problems, []);

    let empty = fallback.clone().with_file("/p/.dispatch/mcp.json", r#"{ "servers": {} }"#);
    assert_eq!(ids(&found(&empty, "/p")), ["freecad"]); // DIS-04: a file without servers

    let both = fallback
        .with_file("/p/.dispatch/mcp.json", r#"{ "servers": { "own": { "command": "x" } } }"#);
    let config = found(&both, "/p");
    assert_eq!(ids(&config), ["own"]); // DIS-03, DIS-05
    let [problem] = config.problems.as_slice() else { panic!("{:?}", config.problems) };
    assert_eq!((problem.severity, problem.code.as_str()), (Severity::Warning, "file.shadowed"));
    assert!(problem.text.contains("opencode.json"), "{}", problem.text); // DIS-05
}

#[test]
fn dis_05_fallback_without_servers_is_not_reported() {
    let lookup = MemoryLookup::default()
        .with_file("/p/.dispatch/mcp.json", SEED)
        .with_file("/p/opencode.json", r#"{ "mcp": {}, "model": "m" }"#);
    assert_eq!(found(&lookup, "/p").problems, []);
}

#[test]
fn dis_06_empty_folder_has_no_servers() {
    let config = found(&MemoryLookup::default().with_file("/p/readme.md", ""), "/p");
    assert_eq!((config.servers.len(), config.problems.len()), (0, 0));
    assert_eq!(config.rejected, []);
}

#[test]
fn dis_07_and_08_command_means_stdio_and_url_means_streamable_http() {
    let config =
        one(r#"{ "command": "x", "args": ["a b", "${HOME}"], "env": { "A": "${HOME}" } }"#);
    assert_eq!(config.problems, []);
    assert_eq!(argv(&config.servers[0]), ["x", "a b", "${HOME}"]); // DIS-07
    let env = config.servers[0].transport.env().unwrap();
    assert_eq!(env.set["A"], Value::literal("${HOME}"), "texts are literal");
    assert_eq!(env.inherit, InheritedEnv::All);

    for entry in [
        r#"{ "transport": "http", "url": "http://h/mcp", "headers": { "X-Key": "k" } }"#,
        r#"{ "url": "http://h/mcp", "headers": { "X-Key": "k" } }"#,
    ] {
        let config = one(entry);
        assert_eq!(config.problems, [], "{entry}");
        let Transport::StreamableHttp(http) = &config.servers[0].transport else {
            panic!("{entry}")
        };
        assert_eq!(http.remote.headers["X-Key"], Value::literal("k")); // DIS-08
    }
}

#[test]
fn dis_09_disabled_server_stays_visible() {
    let config = one(r#"{ "command": "x", "disabled": true }"#);
    assert_eq!(config.problems, []);
    assert!(!config.servers[0].policy.enabled);
    assert!(one(r#"{ "command": "x", "disabled": false }"#).servers[0].policy.enabled);
}

#[test]
fn invalid_server_keeps_other_servers() {
    let bad = [
        (r#"{ "transport": "sse", "url": "http://h" }"#, "transport.unsupported"),
        (r#"{ "url": "ws://h" }"#, "url.scheme"),
        (r#"{ "transport": "http", "command": "x" }"#, "url.missing"),
        (r#"{ "command": "x", "url": "http://h" }"#, "transport.ambiguous"),
        (r#"{ "command": "x", "env": { "A": 1 } }"#, "value.invalid"),
        (r#"{}"#, "transport.missing"),
        (r#"7"#, "server.invalid"),
    ];
    for (entry, code) in bad {
        let text = format!(r#"{{ "servers": {{ "s": {entry}, "good": {{ "command": "x" }} }} }}"#);
        let config = compile_text(Dialect::Dispatch, &text);
        assert_eq!(ids(&config), ["good"], "{entry}");
        assert!(problem_codes(&config).contains(&code), "{entry}: {:?}", config.problems);
        assert_eq!(config.problems[0].server.as_deref(), Some("s"), "{entry}");
        let [rejected] = config.rejected.as_slice() else { panic!("{entry}") };
        assert!(!rejected.keep_last_good, "{entry}");
    }
}

#[test]
fn file_with_wrong_structure_fails() {
    for text in ["[]", r#"{ "servers": [] }"#, "{"] {
        let config = compile_text(Dialect::Dispatch, text);
        assert_eq!(config.sources[0].outcome, SourceOutcome::Failed, "{text}");
        assert!(config.has_errors(), "{text}");
    }
}

#[test]
fn dis_19_to_21_names_and_descriptions() {
    let config = compile_text(Dialect::Dispatch, SEED);
    let naming = &config.servers[0].policy.naming;
    let names = |server: &str, tool: &str| naming.names(server, tool).unwrap();
    assert_eq!(names("freecad", "create_object").id, "freecad__create_object"); // DIS-19
    let chrome = names("chrome-devtools", "take_screenshot");
    assert_eq!(chrome.id, "chrome-devtools__take_screenshot"); // DIS-20
    assert_eq!(chrome.model, chrome.id);
    assert_eq!(
        naming.description("chrome-devtools", "Take a screenshot of the current page"),
        "[chrome-devtools] Take a screenshot of the current page"
    ); // DIS-21
}

#[test]
fn dis_19_separator_is_configurable() {
    let config = compile_text(
        Dialect::Native,
        "version: 1\nservers:\n  chrome-devtools: { profile: dispatch, command: x, naming: { template: '{server}_{tool}' } }\n",
    );
    let naming = &config.servers[0].policy.naming;
    let named = |server, tool| naming.names(server, tool).unwrap().id;
    assert_eq!(named("freecad", "create_object"), "freecad_create_object");
    assert_eq!(named("chrome-devtools", "take_screenshot"), "chrome-devtools_take_screenshot"); // DIS-20
}

#[test]
fn ext_11_handshake_timeout_and_hold_off_are_30_seconds() {
    let config = compile_text(Dialect::Dispatch, SEED);
    for server in &config.servers {
        let timeouts = &server.policy.timeouts;
        assert_eq!(timeouts.connect.0, Duration::from_secs(30), "{}", server.id);
        assert_eq!(timeouts.startup.0, Duration::from_secs(30), "{}", server.id);
        let hold_off = server.policy.lifecycle.hold_off;
        assert_eq!(hold_off.0, Duration::from_secs(30), "{}", server.id);
    }
}
