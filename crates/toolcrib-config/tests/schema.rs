//! Checks that the schema in `schema/` is up to date and accepts valid files.
#![allow(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use toolcrib_config::{Config, ConfigFile, Dialect, MemoryLookup, Workspace, compile, schema};

const MAX_BYTES: usize = 100_000;

#[test]
#[expect(clippy::disallowed_methods, reason = "the test also updates the file")]
fn committed_schema_is_up_to_date() {
    let path = repository_root().join("schema/toolcrib.schema.json");
    let present = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    assert!(present.len() < MAX_BYTES, "{} bytes", present.len());
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &present).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let how =
        "run `UPDATE_SCHEMA=1 cargo test -p toolcrib-config --test schema` and commit the file";
    assert!(committed == present, "{} is not up to date: {how}", path.display());
}

#[test]
fn quickstart_matches_the_schema() {
    let path = repository_root().join("examples/quickstart/toolcrib.yaml");
    assert_valid(&std::fs::read_to_string(path).unwrap());
}

#[test]
fn full_example_matches_the_schema() {
    assert_valid(FULL_EXAMPLE);
}

#[test]
fn misspelt_keys_violate_the_schema() {
    let slips = [
        ("reserved_tools:", "reserved_tool:"),
        ("playwright:\n    profile:", "playwright:\n    profil:"),
        ("inherit: all", "inherits: all"),
        ("connect: eager", "connect: eagerly"),
        ("version: 1", "version: one"),
    ];
    for (right, slip) in slips {
        assert!(FULL_EXAMPLE.contains(right), "{right}");
        let wrong = FULL_EXAMPLE.replacen(right, slip, 1);
        assert!(!schema_errors(&wrong).is_empty(), "{slip}");
    }
}

/// Asserts that the schema accepts a file and that it compiles without errors.
fn assert_valid(yaml: &str) {
    assert_eq!(schema_errors(yaml), [""; 0]);
    let config = compile_text(yaml);
    let errors: Vec<_> = config.problems.iter().filter(|p| p.is_error()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert!(!config.servers.is_empty());
}

fn compile_text(yaml: &str) -> Config {
    let lookup = MemoryLookup::default()
        .with_env("HOST_B", "b")
        .with_env("HOST_C", "c")
        .with_file("/ws/.env", "A=1\n")
        .with_file("/ws/docs/playwright.md", "")
        .with_file("/ws/.minds/mcp.yaml", "version: 1\n")
        .with_file("/ws/.dispatch/mcp.json", "{}")
        .with_file("/ws/agent.yaml", "tools: []\n")
        .with_file("/ws/toolcrib.yaml", yaml);
    let config_file = ConfigFile { path: "toolcrib.yaml".into(), dialect: Some(Dialect::Native) };
    compile(&Workspace { root: "/ws".into(), home: None, config_file: Some(config_file) }, &lookup)
}

#[expect(clippy::unwrap_used, reason = "a test helper")]
fn schema_errors(yaml: &str) -> Vec<String> {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let file: Json = yaml_to_json(yaml);
    validator.iter_errors(&file).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

/// Converts YAML to JSON. The text is compiled inside an unknown key, whose value is kept unchanged.
fn yaml_to_json(yaml: &str) -> Json {
    let indented: String = yaml.lines().map(|line| format!("      {line}\n")).collect();
    let text = format!("version: 1\nservers:\n  a:\n    command: x\n    x-file:\n{indented}");
    compile_text(&text).servers[0].extras["x-file"].clone()
}

fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file with every group of settings.
const FULL_EXAMPLE: &str = r#"
version: 1
include:
  - { path: .minds/mcp.yaml,    dialect: dominds }
  - { path: .dispatch/mcp.json, dialect: dispatch, scope: cwd }
  - { path: agent.yaml,         dialect: holodeck }
host:
  reserved_tools: [read_file, shell_cmd]
  reserved_toolsets: [ws_read, ws_mod, os]
  max_servers: 0
  permissions: { spawn: true, network: true, docker: true }
  reload: { mode: watch, poll: 1500ms, debounce: 200ms, drain_kill: 30s }
  secrets:
    vault: { kind: vault, url: "https://vault.example.com", token: { from_env: VAULT_TOKEN } }
  pins: warn
  credentials: auto
  grants:
    members: { alice: { toolsets: [ws_read, playwright], capabilities: [mcp_github] } }
gateway:
  listen: 127.0.0.1:7420
  tokens: []
  oauth: { issuer: https://issuer.example, audience: toolcrib }
  limits: { body: 64MiB, sessions: 1000, rate: 0, idle: 30m }
profiles:
  strict: { base: dominds, naming: { validity: reject } }
servers:
  playwright:
    profile: dominds
    enabled: true
    description: ""
    package: ""
    toolset: playwright
    transport:
      kind: stdio
      command: npx
      args: ["-y", "@playwright/mcp@latest"]
      cwd: .
      encoding: utf-8
      framing: auto
      allow_commands: any
      env:
        inherit: all
        file: .env
        unset: []
        set:
          A: literal
          B: { from_env: HOST_B, prefix: "" }
          C: { template: "x-${HOST_C}" }
          D: { secret: "vault:kv/app/key" }
    protocol: auto
    replace: beside
    reload: watch
    limits: { message: 64MiB, tools: 10000, pages: 100, depth: 128, stderr: 64KiB }
    manual: { file: docs/playwright.md }
    auth: { kind: none }
    auth_per_agent: {}
    secrets: { resolve: start, on_missing: fail_server }
    init: { config: {}, config_delivery: env, client_capabilities: [], require_server: [] }
    timeouts: { connect: 30s, startup: 30s, request: 60s, request_max: 10m, sse_read: 300s }
    session: { scope: per_conversation, discovery: ephemeral, max_in_flight: 0, max_instances: 0, queue: 64, idle: 10m, reminder: true }
    lifecycle:
      connect: eager
      retry:     { max: 3, initial: 1s, max_delay: 30s, factor: 2.0, jitter: 0 }
      reconnect: { auto: true, on_demand: true, max: 3, initial: 1s, max_delay: 30s, factor: 2.0 }
      liveness:  { ping_every: 0s, stale_after: 0s }
      hold_off: 0s
    discovery: { tools: true, prompts: true, resources: true, ttl: 0s, on_list_changed: refresh, require_tools: false, invalid_schemas: offer }
    expose:
      tools:     { allow: ["browser_*"], deny: ["*_unsafe"], mode: dominds }
      prompts:   { as: snippet }
      resources: { as: tools, mime: [], max_bytes: 64000 }
    naming:
      template: "{tool}"
      transforms: [ { prefix: playwright_ }, { prefix: { remove: a_, add: b_ } }, { suffix: _x } ]
      validity: reject
      on_collision: skip_tool
      versions: {}
      description: "{description}"
      description_fallback: "MCP tool {tool}"
    calls: { retry: never, validate_input: false, validate_output: true, cache: { ttl: 0s } }
    results: { format: text, error_style: result, error_message: first_text, max_bytes: 0 }
    availability: { on_unavailable: unregister, grace: 0s, on_config_error: keep_last_good }
    client: { roots: cwd, sampling: off, elicitation: off, logging: info }
    x-original: {}
"#;
