//! Tests of the examples in Dominds' own documentation.

use super::{dominds, one};
use crate::model::filter::FilterVerdict;
use crate::model::policy::{Grant, OnConfigError, SessionScope};
use crate::model::transport::Transport;
use crate::testing::compile_text_in;
use crate::{Config, Dialect, MemoryLookup, Value};

#[test]
fn contract_example_compiles() {
    let config = one(
        "{ transport: stdio, command: npx, tools: { whitelist: ['browser_*'], blacklist: ['*_unsafe'] }, transform: [{ prefix: playwright_ }] }",
    );
    let server = &config.servers[0];
    assert_eq!(config.problems, []);
    let named = server.policy.naming.names("s", "browser_click").unwrap();
    assert_eq!(named.id, "playwright_browser_click");
    assert_eq!(server.policy.expose.tools.verdict("x_unsafe"), FilterVerdict::Denied("*_unsafe"));
    assert_eq!(server.policy.access.grant, Grant::Toolsets);
    assert_eq!(server.policy.availability.on_config_error, OnConfigError::KeepLastGood);
    assert!(matches!(server.transport, Transport::Stdio(_)));
}

/// Compiles a fragment of Dominds' documentation as the body of a server.
fn fragment(lookup: &MemoryLookup, kind: &str, yaml: &str) -> Config {
    let indented: String = yaml.lines().map(|line| format!("    {line}\n")).collect();
    let text = format!("version: 1\nservers:\n  s:\n    {kind}\n{indented}");
    let config = compile_text_in(lookup, Dialect::Dominds, &text);
    assert_eq!(config.problems, [], "{text}");
    config
}

const STDIO: &str = "transport: stdio\n    command: x";

#[test]
fn documented_transforms_apply_in_order() {
    let config = fragment(
        &MemoryLookup::default(),
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
fn documented_variables_are_literal_or_copied() {
    let lookup = MemoryLookup::default().with_env("EXISTING_ENV_VAR_NAME", "v");
    let config = fragment(
        &lookup,
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
fn documented_headers_are_literal_or_copied() {
    let lookup = MemoryLookup::default().with_env("MCP_AUTH_TOKEN", "t");
    let config = fragment(
        &lookup,
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
fn documented_schema_compiles() {
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
fn documented_playwright_server_compiles() {
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
