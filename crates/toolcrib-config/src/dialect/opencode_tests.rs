//! Tests of `opencode.json` with opencode's and Dispatch's keys.

use crate::model::transport::Transport;
use crate::testing::{compile_text, problem_codes};
use crate::value::Reference;
use crate::{Config, Dialect, Severity, Value};

fn one(entry: &str) -> Config {
    compile_text(Dialect::Opencode, &format!(r#"{{ "mcp": {{ "s": {entry} }} }}"#))
}

fn argv(config: &Config) -> Vec<String> {
    assert_eq!(config.problems, []);
    let Transport::Stdio(stdio) = &config.servers[0].transport else {
        panic!("{:?}", config.servers[0].transport)
    };
    let words = std::iter::once(&stdio.command).chain(&stdio.args);
    words.map(|word| word.display_text()).collect()
}

fn resolved(value: &Value, env: &[(&str, &str)]) -> String {
    let find = |reference: &Reference| match reference {
        Reference::Env(name) => {
            env.iter().find(|(known, _)| known == name).map(|(_, value)| value.to_string())
        }
        _ => None,
    };
    value.resolve(&find).unwrap().reveal().to_string()
}

#[test]
fn opencode_entries_with_comments_compile() {
    let config = compile_text(
        Dialect::Opencode,
        r#"{
  "$schema": "https://opencode.ai/config.json",
  "model": "provider/model", // ignored
  "mcp": {
    /* a local one */
    "everything": {
      "type": "local",
      "command": ["npx", "-y", "@modelcontextprotocol/server-everything"],
      "enabled": true,
      "environment": { "MY_ENV_VAR": "my_env_var_value" },
    },
    "remote": {
      "type": "remote",
      "url": "https://my-mcp-server.com",
      "enabled": false,
      "headers": { "Authorization": "Bearer {env:MY_API_KEY}" }
    }
  }
}"#,
    );
    let server = config.server("everything").unwrap();
    assert_eq!(argv(&config), ["npx", "-y", "@modelcontextprotocol/server-everything"]);
    let env = server.transport.env().unwrap();
    assert_eq!(env.set["MY_ENV_VAR"], Value::literal("my_env_var_value"));
    assert!(server.policy.enabled);
    let remote = config.server("remote").unwrap();
    assert!(!remote.policy.enabled);
    let Transport::StreamableHttp(http) = &remote.transport else { panic!() };
    let header = &http.remote.headers["Authorization"];
    assert_eq!(resolved(header, &[("MY_API_KEY", "k")]), "Bearer k");
    assert_eq!(resolved(header, &[]), "Bearer ", "an unset variable is empty, as in opencode");
}

#[test]
fn dispatch_entries_are_literal() {
    let config = one(r#"{ "command": "uvx", "args": ["a"], "env": { "A": "{env:HOME}" } }"#);
    assert_eq!(argv(&config), ["uvx", "a"]);
    let env = config.servers[0].transport.env().unwrap();
    assert_eq!(env.set["A"], Value::literal("{env:HOME}"));
}

#[test]
fn keys_of_both_formats_may_be_mixed() {
    let mixed = [
        r#"{ "type": "local", "command": "npx", "args": ["-y", "p"], "env": { "A": "1" } }"#,
        r#"{ "command": ["npx", "-y"], "args": ["p"], "environment": { "A": "1" } }"#,
        r#"{ "command": ["npx", "-y", "p"], "environment": { "A": "1" }, "env": { "A": "2" } }"#,
    ];
    for entry in mixed {
        let config = one(entry);
        assert_eq!(argv(&config), ["npx", "-y", "p"], "{entry}");
        let env = config.servers[0].transport.env().unwrap();
        assert_eq!(env.set["A"], Value::literal("1"), "{entry}");
    }
}

#[test]
fn enabled_or_disabled_key_disables_a_server() {
    let cases = [
        (r#""enabled": false"#, false),
        (r#""disabled": true"#, false),
        (r#""disabled": true, "enabled": true"#, false),
        (r#""disabled": false, "enabled": false"#, false),
        (r#""disabled": false"#, true),
        (r#""enabled": true"#, true),
    ];
    for (words, enabled) in cases {
        let config = one(&format!(r#"{{ "command": "x", {words} }}"#));
        assert_eq!(config.servers[0].policy.enabled, enabled, "{words}");
    }
}

#[test]
fn invalid_entries_are_reported() {
    let cases = [
        (r#"{ "type": "stdio", "command": ["x"] }"#, "transport.unsupported"),
        (r#"{ "type": "local", "command": [] }"#, "command.missing"),
        (r#"{ "type": "remote" }"#, "url.missing"),
        (r#"{ "type": 1, "command": ["x"] }"#, "value.invalid"),
    ];
    for (entry, code) in cases {
        let config = one(entry);
        assert_eq!(problem_codes(&config), [code], "{entry}");
        assert_eq!(config.servers.len(), 0, "{entry}");
    }
    let switch = one(r#"{ "enabled": false }"#);
    assert_eq!((switch.servers.len(), switch.rejected.len()), (0, 0));
    assert_eq!(switch.problems[0].severity, Severity::Info);
    assert!(compile_text(Dialect::Opencode, r#"{ "mcp": [] }"#).has_errors());
    assert_eq!(compile_text(Dialect::Opencode, r#"{ "model": "m" }"#).problems, []);
}
