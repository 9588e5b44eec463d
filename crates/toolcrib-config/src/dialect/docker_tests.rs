//! Tests of the Docker platform's files by requirement.

use crate::model::choice::InheritedEnv;
use crate::model::filter::FilterVerdict;
use crate::model::policy::{OnConfigError, ReconnectPolicy, RetryPolicy, SessionScope};
use crate::model::transport::{ContainerTarget, DockerExec, FramingMode, Transport};
use crate::model::units::Period;
use crate::testing::{compile_text, compile_text_in, problem_codes};
use crate::{Config, Dialect, MemoryLookup, ServerSpec, SourceOutcome, Value};

fn docker(text: &str) -> Config {
    compile_text(Dialect::Docker, text)
}

/// Compiles one server with these keys besides its image.
fn one(keys: &str) -> ServerSpec {
    let mut config = docker(&format!("mcpServers: [{{ image: i, {keys} }}]"));
    assert_eq!(config.problems, [], "{keys}");
    config.servers.remove(0)
}

fn exec(server: &ServerSpec) -> &DockerExec {
    match &server.transport {
        Transport::DockerExec(docker) => docker,
        other => panic!("{other:?}"),
    }
}

/// Retry and reconnect policies with `max` attempts in total, at the first start and after a loss.
fn attempts(max: u32, initial: u64, max_delay: u64, factor: f64) -> (RetryPolicy, ReconnectPolicy) {
    let (initial, max_delay) = (Period::millis(initial), Period::millis(max_delay));
    let jitter = 0.0;
    let retry = RetryPolicy { max: max - 1, initial, max_delay, factor, jitter };
    let reconnect =
        ReconnectPolicy { auto: true, on_demand: true, max, initial, max_delay, factor, jitter };
    (retry, reconnect)
}

fn restarts(server: &ServerSpec) -> (RetryPolicy, ReconnectPolicy) {
    let life = &server.policy.lifecycle;
    (life.retry.clone(), life.reconnect.clone())
}

#[test]
fn dkr_11_and_22_to_28_every_key_takes_effect() {
    // Also covers DKR-22.
    let lookup = MemoryLookup::default().with_env("HOST_REGION", "eu");
    let text = r#"{ "mcpServers": [{
  "namespace": "crm",
  "image": "registry.example.com/crm-mcp:1.4",
  "command": "crm-mcp --stdio \"$MODE\"",
  "env": { "MODE": "${RAW}", "REGION": { "from_env": "HOST_REGION" }, "API_KEY": { "secret": "keyring:crm/key" } },
  "unset": ["DEBUG"],
  "workdir": "/srv",
  "framing": "content_length",
  "requestTimeoutMs": 1500,
  "startupTimeoutMs": 20000,
  "heartbeatIntervalMs": 10000,
  "staleTimeoutMs": 30000,
  "restart": { "maxAttempts": 3, "backoffMs": 700, "backoff": "fixed" },
  "enabledTools": ["get_user", "crm:list_users"]
}] }"#;
    let config = compile_text_in(&lookup, Dialect::Docker, text);
    assert_eq!(config.problems, []);
    let server = &config.servers[0];
    // DKR-11
    let docker = exec(server);
    assert_eq!(server.id, "crm");
    assert!(
        matches!(&docker.target, ContainerTarget::FromImage(image) if image.display_text() == "registry.example.com/crm-mcp:1.4")
    );
    assert_eq!(docker.command.display_text(), "crm-mcp --stdio \"$MODE\"");
    assert_eq!(docker.shell.as_deref(), Some("sh -lc"));
    assert_eq!(docker.env.set["MODE"], Value::literal("${RAW}"));
    assert_eq!(docker.env.set["REGION"], Value::from_env("HOST_REGION")); // EXT-22
    assert_eq!(docker.env.set["API_KEY"].references().len(), 1); // EXT-22
    assert_eq!(docker.env.unset, ["DEBUG"]); // EXT-22
    assert_eq!(docker.env.inherit, InheritedEnv::None);
    assert_eq!(docker.workdir.as_ref().unwrap().display_text(), "/srv");
    assert_eq!(docker.framing, FramingMode::ContentLength);
    let (times, live) = (&server.policy.timeouts, &server.policy.lifecycle.liveness);
    assert_eq!(times.request, Period::millis(1500)); // DKR-22
    assert_eq!((times.startup, times.connect), (Period::secs(20), Period::secs(20))); // DKR-23
    assert_eq!(live.ping_every, Period::secs(10)); // DKR-24
    assert_eq!(live.stale_after, Period::secs(30)); // DKR-25
    assert_eq!(restarts(server), attempts(3, 700, 700, 1.0)); // DKR-27, DKR-28
    // EXT-22: raw and namespaced names
    let tools = &server.policy.expose.tools;
    assert_eq!(tools.verdict("get_user"), FilterVerdict::Offered);
    assert_eq!(tools.verdict("list_users"), FilterVerdict::Offered);
    assert_eq!(tools.verdict("drop_users"), FilterVerdict::NotAllowed);
    // DKR-16
    let named = server.policy.naming.names("crm", "get_user").unwrap();
    assert_eq!((named.id.as_str(), named.model.as_str()), ("crm:get_user", "crm_get_user"));
    let fallback = server.policy.naming.description_fallback("crm", "get_user");
    assert_eq!(fallback, "MCP tool get_user");
}

#[test]
fn ext_21_docker_defaults() {
    let server = one("");
    assert_eq!(server.id, "mcp");
    let docker = exec(&server);
    assert_eq!(docker.command.display_text(), "mcp start --stdio");
    assert_eq!((docker.shell.as_deref(), docker.args.len()), (Some("sh -lc"), 0));
    let times = &server.policy.timeouts;
    assert_eq!((times.startup, times.request), (Period::secs(15), Period::secs(30)));
    assert_eq!(restarts(&server), attempts(5, 2000, 2000, 1.0));
    assert_eq!(server.policy.session.scope, SessionScope::PerCall);
    assert_eq!(server.policy.availability.on_config_error, OnConfigError::FailLoad);
}

#[test]
fn dkr_25_zero_stale_timeout_disables_the_check() {
    let server = one("staleTimeoutMs: 0");
    assert_eq!(server.policy.lifecycle.liveness.stale_after, Period::ZERO);
}

#[test]
fn dkr_28_and_29_backoff_is_fixed_or_exponential() {
    for (keys, expected) in [
        ("backoffMs: 45000", attempts(5, 45_000, 45_000, 1.0)), // DKR-28
        ("maxAttempts: 2", attempts(2, 2000, 2000, 1.0)),       // DKR-27
        ("backoff: exponential", attempts(5, 2000, 300_000, 2.0)), // DKR-29
        ("backoff: exponential, backoffMs: 500", attempts(5, 500, 300_000, 2.0)), // DKR-29
        ("backoff: exponential, backoffMs: 600000", attempts(5, 600_000, 600_000, 2.0)),
    ] {
        assert_eq!(restarts(&one(&format!("restart: {{ {keys} }}"))), expected, "{keys}");
    }
}

#[test]
fn dkr_27_max_attempts_includes_the_first_start() {
    for (attempts, retries) in [(3, 2), (1, 0), (0, 0)] {
        let (retry, reconnect) = restarts(&one(&format!("restart: {{ maxAttempts: {attempts} }}")));
        assert_eq!((retry.max, reconnect.max), (retries, attempts));
    }
}

#[test]
fn request_timeout_also_sets_request_max() {
    let times = one("requestTimeoutMs: 1200000").policy.timeouts;
    assert_eq!((times.request, times.request_max), (Period::secs(1200), Period::secs(1200)));
}

#[test]
fn command_list_runs_without_a_shell() {
    let server = one("command: [mcp-server, '--name', 'a b']");
    let docker = exec(&server);
    assert_eq!((docker.command.display_text(), &docker.shell), ("mcp-server".into(), &None));
    let args: Vec<_> = docker.args.iter().map(|arg| arg.display_text()).collect();
    assert_eq!(args, ["--name", "a b"]);
}

#[test]
fn empty_enabled_tools_offers_no_tools() {
    let none = one("enabledTools: []");
    assert_eq!(none.policy.expose.tools.verdict("x"), FilterVerdict::NotAllowed);
    let some = one("allow: [x]");
    assert_eq!(some.policy.expose.tools.verdict("x"), FilterVerdict::Offered);
    assert_eq!(some.policy.expose.tools.verdict("y"), FilterVerdict::NotAllowed);
}

#[test]
fn existing_container_is_a_valid_target() {
    let config = docker("mcpServers: [{ namespace: pg, container: pg-tools }]");
    assert_eq!(config.problems, []);
    let target = &exec(&config.servers[0]).target;
    assert!(matches!(target, ContainerTarget::Existing(name) if name.display_text() == "pg-tools"));
}

#[test]
fn one_invalid_server_fails_the_whole_file() {
    for (servers, expected) in [
        ("[{ namespace: a }]", "docker.target"),
        ("[{ image: i, container: c }]", "docker.target"),
        ("[{ image: i, command: '' }]", "command.missing"),
        ("[{ image: i, command: [] }]", "command.missing"),
        ("[{ image: i, staleTimeoutMs: -1 }]", "value.invalid"),
        ("[{ image: i, restart: { backoff: linear } }]", "value.invalid"),
        ("[{ image: i, env: { A: { vault: x } } }]", "value.invalid"),
        ("[{ image: i }, { image: j }]", "name.duplicate"),
        ("{ a: { image: i } }", "value.invalid"),
        ("[7]", "value.invalid"),
    ] {
        let config = docker(&format!("mcpServers: {servers}\n"));
        assert_eq!(problem_codes(&config), [expected], "{servers}");
        assert_eq!(config.sources[0].outcome, SourceOutcome::Failed, "{servers}");
        assert_eq!(config.servers.len(), 0, "{servers}");
    }
}

#[test]
fn unknown_key_is_reported_and_kept_in_extras() {
    let config = docker("mcpServers: [{ image: i, requestTimeoutMS: 5 }]");
    assert_eq!(problem_codes(&config), ["key.unknown"]);
    let fix = config.problems[0].fix.as_deref();
    assert_eq!(fix, Some("did you mean `requestTimeoutMs`?"));
    assert_eq!(config.servers[0].extras["requestTimeoutMS"], 5);
}
