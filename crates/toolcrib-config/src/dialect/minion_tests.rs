//! Tests of Minion's files by requirement.

use crate::model::auth::{Auth, OAuthGrant};
use crate::model::choice::InheritedEnv;
use crate::model::host::{MemberGrants, capability_layers};
use crate::model::policy::{
    CallRetry, Grant, OnConfigError, ReconnectPolicy, RetryPolicy, Timeouts,
};
use crate::model::security::SecuritySection;
use crate::model::transport::{Stdio, Transport};
use crate::model::units::Period;
use crate::testing::{compile_text, compile_text_in, problem_codes};
use crate::{
    Config, ConfigFile, Dialect, MemoryLookup, ServerSpec, SourceOutcome, Value, Workspace, compile,
};

fn minion(text: &str) -> Config {
    compile_text(Dialect::Minion, text)
}

fn good(text: &str) -> Config {
    let config = minion(text);
    assert_eq!(config.problems, [], "{text}");
    config
}

/// Compiles one server with these keys besides its name and command.
fn one(keys: &str) -> ServerSpec {
    let text = format!("servers: [{{ ServerName: s, Transport: stdio, Command: x, {keys} }}]");
    good(&text).servers.remove(0)
}

fn http(keys: &str) -> Config {
    minion(&format!("servers: [{{ ServerName: s, Transport: http, URL: 'http://h/mcp', {keys} }}]"))
}

fn stdio(server: &ServerSpec) -> &Stdio {
    match &server.transport {
        Transport::Stdio(stdio) => stdio,
        other => panic!("{other:?}"),
    }
}

#[test]
fn contract_example_compiles() {
    let config = good(
        r#"{
  "servers": [
    { "ServerName": "github", "Transport": "stdio", "Command": "npx",
      "Args": ["-y", "@modelcontextprotocol/server-github"] },
    { "ServerName": "custom", "Transport": "http", "HTTPUrl": "http://mcp.example.com/api" }
  ],
  "agents": [
    { "Name": "GitHub Bot", "Capabilities": ["mcp_github"] },
    { "Name": "Limited Bot", "Capabilities": ["mcp_github_list_issues"] }
  ]
}"#,
    );
    let [github, custom] = config.servers.as_slice() else { panic!("{:?}", config.servers) };
    assert_eq!(stdio(github).command.display_text(), "npx");
    assert_eq!(stdio(github).args.len(), 2);
    let url = &custom.transport.remote().unwrap().url;
    assert_eq!(url.display_text(), "http://mcp.example.com/api"); // MIN-12
    let named = github.policy.naming.names("github", "create_issue").unwrap();
    assert_eq!(named.id, "mcp_github_create_issue"); // MIN-43
    let description = github.policy.naming.description("github", "Opens an issue");
    assert_eq!(description, "[MCP:github] Opens an issue"); // MIN-44
}

/// Returns true if an agent of the file may use a tool, by capability layers and the tool's required
/// capabilities.
fn may(config: &Config, agent: &str, server: &str, tool: &str) -> bool {
    let none = MemberGrants::default();
    let member = config.host.grants.members.get(agent).unwrap_or(&none);
    let holds = |capability: &String| member.capabilities.contains(capability);
    let spec = config.server(server).unwrap();
    assert_eq!(spec.policy.access.grant, Grant::Capabilities);
    let requires = &spec.policy.expose.tools.requires;
    capability_layers(server, tool).iter().any(holds)
        && requires.get(tool).into_iter().flatten().all(holds)
}

#[test]
fn min_49_to_52_capabilities_grant_all_servers_one_server_or_one_tool() {
    let config = good(
        "
servers:
  - { ServerName: github, Transport: stdio, Command: x, RequiredCapabilities: { delete: [admin, audit] } }
  - { ServerName: git, Transport: stdio, Command: x }
agents:
  - { Name: all, Capabilities: [mcp_integration] }
  - { Name: server, Capabilities: [mcp_github] }
  - { Name: tool, Capabilities: [mcp_github_list_issues] }
  - { Name: half, Capabilities: [mcp_github, admin] }
  - { Name: admin, Capabilities: [mcp_github, admin, audit] }
  - { Name: nothing }
",
    );
    let may = |agent, server, tool| may(&config, agent, server, tool);
    assert!(may("all", "github", "list_issues") && may("all", "git", "log")); // MIN-49
    assert!(may("server", "github", "list_issues") && !may("server", "git", "log")); // MIN-50
    assert!(may("tool", "github", "list_issues") && !may("tool", "github", "create_issue")); // MIN-51
    assert!(!may("nothing", "github", "list_issues")); // MIN-52
    assert!(!may("stranger", "git", "log")); // MIN-52
    assert!(!may("all", "github", "delete") && !may("half", "github", "delete")); // MIN-52
    assert!(may("admin", "github", "delete")); // MIN-52
}

const EVERY_FIELD: &str = r#"{
  "Manager": {
    "MaxServers": 4, "DefaultTimeout": 5000000000, "EnableAutoReconnect": false,
    "MaxReconnectRetries": 7, "ReconnectBackoff": "250ms", "Logger": {},
    "RetryPolicy": { "MaxRetries": 2, "InitialBackoff": "500ms", "MaxBackoff": "4s", "BackoffMultiplier": 3 }
  },
  "Servers": [
    { "ServerName": "local", "Description": "Files", "Transport": "stdio", "Command": "srv", "Args": ["-v"],
      "Env": { "A": "${HOME}" }, "WorkingDir": "sub", "URL": "", "AuthType": "none", "AuthConfig": null,
      "Capabilities": ["tools", "logging"], "ConnectTimeout": "7s", "RequestTimeout": "1m30s",
      "RequiredCapabilities": { "rm": ["admin"] }, "RetryPolicy": { "MaxRetries": 9 } },
    { "ServerName": "far", "Transport": "http", "URL": "https://h/mcp", "AuthType": "bearer",
      "AuthConfig": { "Token": "t" }, "ConnectTimeout": 0, "Args": [], "Command": "" }
  ],
  "Agents": [{ "Name": "a", "Capabilities": ["mcp_far"] }]
}"#;

fn with_folder(text: &str) -> Config {
    let lookup = MemoryLookup::default().with_file("/ws/sub/x", "");
    let config = compile_text_in(&lookup, Dialect::Minion, text);
    assert_eq!(config.problems, []);
    config
}

#[test]
fn min_05_and_09_every_field_takes_effect() {
    let config = with_folder(EVERY_FIELD);
    let [local, far] = config.servers.as_slice() else { panic!("{:?}", config.servers) };
    // MIN-05
    assert_eq!(config.host.max_servers, 4);
    let ReconnectPolicy { auto, on_demand, max, initial, .. } = local.policy.lifecycle.reconnect;
    assert_eq!((auto, on_demand, max, initial), (false, false, 7, Period::millis(250)));
    let retry = |max| RetryPolicy {
        max,
        initial: Period::millis(500),
        max_delay: Period::secs(4),
        factor: 3.0,
        jitter: 0.0,
    };
    assert_eq!(local.policy.lifecycle.retry, retry(9));
    assert_eq!(far.policy.lifecycle.retry, retry(2));
    // MIN-09
    let process = stdio(local);
    assert_eq!(local.policy.description, "Files");
    assert_eq!((process.command.display_text(), process.args.len()), ("srv".into(), 1));
    assert_eq!(process.cwd.as_ref().unwrap().display_text(), "/ws/sub"); // MIN-14
    assert_eq!(process.env.set["A"], Value::literal("${HOME}"));
    assert_eq!(process.env.inherit, InheritedEnv::All); // MIN-13
    assert_eq!(local.policy.auth, Auth::None); // MIN-15
    assert_eq!(local.policy.init.require_server, ["tools", "logging"]); // MIN-19
    assert_eq!(local.policy.expose.tools.requires["rm"], ["admin"]);
    assert_eq!(far.transport.remote().unwrap().url.display_text(), "https://h/mcp");
    assert_eq!(config.host.grants.members["a"].capabilities, ["mcp_far"]);
}

#[test]
fn min_07_and_20_server_without_timeouts_uses_the_manager_default() {
    let config = with_folder(EVERY_FIELD);
    let limits = |connect, request| Timeouts {
        connect,
        startup: connect,
        request,
        request_max: request,
        sse_read: Timeouts::default().sse_read,
    };
    // MIN-20: the connect timeout covers the handshake and tool discovery; the call timeout is a total limit.
    let own = limits(Period::secs(7), Period::secs(90));
    assert_eq!(config.servers[0].policy.timeouts, own);
    // MIN-07; Go writes zero for an unset value.
    let managers = limits(Period::secs(5), Period::secs(5));
    assert_eq!(config.servers[1].policy.timeouts, managers);
}

/// Converts every Go name in the text to snake case.
fn snake(text: &str) -> String {
    let mut out = String::new();
    let text = text.replace("\"URL\"", "\"Url\"");
    let mut after_quote = false;
    let mut in_word = false;
    for c in text.chars() {
        if c.is_ascii_uppercase() && after_quote {
            in_word = true;
            out.push(c.to_ascii_lowercase());
        } else if c.is_ascii_uppercase() && in_word {
            out.extend(['_', c.to_ascii_lowercase()]);
        } else {
            in_word &= c.is_ascii_alphabetic();
            out.push(c);
        }
        after_quote = c == '"';
    }
    out
}

#[test]
fn snake_case_keys_compile_to_the_same_servers() {
    let text = EVERY_FIELD.replace("\"Files\"", "\"files\"").replace("\"A\"", "\"a\"");
    let snake = snake(&text);
    assert!(snake.contains("enable_auto_reconnect") && snake.contains("required_capabilities"));
    let (go, snake) = (with_folder(&text), with_folder(&snake));
    let hashes = |config: &Config| config.servers.iter().map(|s| s.hash).collect::<Vec<_>>();
    assert_eq!(hashes(&go), hashes(&snake));
    assert_eq!(go.host, snake.host);
}

#[test]
fn min_10_unsupported_transport_fails_the_file_with_minions_message() {
    let config = minion(
        "servers:\n  - { ServerName: a, Transport: stdio, Command: x }\n  - { ServerName: b, Transport: sse, URL: 'http://h' }\n",
    );
    let [problem] = config.problems.as_slice() else { panic!("{:?}", config.problems) };
    assert_eq!(problem.text, "unsupported transport: sse");
    assert_eq!((problem.server.as_deref(), problem.line), (Some("b"), Some(3)));
    assert_eq!(config.servers.len(), 0);
    assert_eq!(config.sources[0].outcome, SourceOutcome::Failed);
    let mut gone: Vec<_> = config.rejected.iter().map(|r| r.id.as_str()).collect();
    gone.sort_unstable();
    assert_eq!(gone, ["a", "b"]);
}

#[test]
fn min_11_missing_field_fails_the_file() {
    for (entry, code) in [
        ("{ ServerName: s, Transport: stdio }", "command.missing"),
        ("{ ServerName: s, Transport: stdio, Command: '' }", "command.missing"),
        ("{ ServerName: s, Transport: http }", "url.missing"),
        ("{ ServerName: s, Transport: http, URL: '' }", "url.missing"),
        ("{ ServerName: s, Command: x }", "transport.unsupported"),
        ("{ Transport: stdio, Command: x }", "name.missing"),
        ("{ ServerName: '', Transport: stdio, Command: x }", "name.missing"),
        ("{ ServerName: 's', Transport: 7, Command: x }", "value.invalid"),
        ("{ ServerName: 's', URL: 'http://a', HTTPUrl: 'http://b' }", "value.invalid"),
        ("7", "value.invalid"),
    ] {
        let config = minion(&format!("servers:\n  - {entry}\n"));
        assert_eq!(problem_codes(&config), [code], "{entry}");
        assert_eq!(config.sources[0].outcome, SourceOutcome::Failed, "{entry}");
    }
}

#[test]
fn min_12_url_has_two_key_names() {
    for key in ["URL", "url", "HTTPUrl", "http_url"] {
        let config = good(&format!(
            "servers: [{{ ServerName: s, Transport: http, {key}: 'http://h/mcp' }}]"
        ));
        let url = &config.servers[0].transport.remote().unwrap().url;
        assert_eq!(url.display_text(), "http://h/mcp", "{key}");
    }
}

#[test]
fn min_13_and_14_child_inherits_host_environment_and_folder_by_default() {
    let server = one("WorkingDir: '', Env: { A: 1, S: { secret: 'keyring:kv/x' } }");
    let process = stdio(&server);
    assert_eq!(process.env.inherit, InheritedEnv::All); // MIN-13
    assert_eq!(process.env.set["A"], Value::literal("1")); // MIN-13
    assert_eq!(process.cwd, None); // MIN-14
    assert_eq!(process.env.set["S"].references().len(), 1);
}

#[test]
fn min_15_to_18_auth_types_compile() {
    let auth = |keys: &str| {
        let config = http(keys);
        assert_eq!(config.problems, [], "{keys}");
        config.servers[0].policy.auth.clone()
    };
    let bearer = |text| Auth::Bearer { token: Value::literal(text) };
    assert_eq!(auth("AuthType: none"), Auth::None); // MIN-15
    assert_eq!(auth("AuthType: ''"), Auth::None); // MIN-15
    assert_eq!(auth("AuthType: bearer, AuthConfig: { Token: $t }"), bearer("$t")); // MIN-16
    assert_eq!(auth("auth_type: bearer, auth_config: { token: t }"), bearer("t")); // MIN-16
    let key = |header: &str| Auth::ApiKey { key: Value::literal("k"), header: header.to_string() };
    assert_eq!(auth("AuthType: apikey, AuthConfig: { Key: k }"), key("X-API-Key")); // MIN-17
    assert_eq!(auth("AuthType: apikey, AuthConfig: { key: k, Header: X-K }"), key("X-K")); // MIN-17
    // MIN-18
    assert_eq!(auth("AuthType: oauth, AuthConfig: { Token: t }"), bearer("t"));
    let client = "AuthType: oauth, AuthConfig: { ClientID: c, client_secret: { secret: 'keyring:s' }, Scopes: [r], Issuer: 'https://i', Grant: client_credentials }";
    let Auth::OAuth(oauth) = auth(client) else { panic!() };
    assert_eq!(oauth.client_id, Some(Value::literal("c")));
    assert_eq!(oauth.client_secret.unwrap().references().len(), 1);
    assert_eq!((oauth.scopes, oauth.issuer), (vec!["r".into()], Some("https://i".into())));
    assert_eq!(oauth.grant, OAuthGrant::ClientCredentials);
}

#[test]
fn min_16_and_17_missing_credentials_are_errors() {
    for (keys, code) in [
        ("AuthType: bearer", "auth.missing"), // MIN-16
        ("AuthType: bearer, AuthConfig: { Token: '' }", "auth.missing"), // MIN-16
        ("AuthType: apikey, AuthConfig: { Header: X }", "auth.missing"), // MIN-17
        ("AuthType: basic", "auth.unsupported"),
    ] {
        let config = http(keys);
        assert_eq!(problem_codes(&config), [code], "{keys}");
        assert_eq!(config.sources[0].outcome, SourceOutcome::Failed, "{keys}");
    }
}

#[test]
fn keys_of_other_auth_types_give_a_warning() {
    for keys in [
        "AuthConfig: { Token: t }",
        "AuthType: bearer, AuthConfig: { Token: t, Key: k }",
        "AuthType: oauth, AuthConfig: { ClientID: c, Token: t }",
    ] {
        let config = http(keys);
        assert_eq!(problem_codes(&config), ["auth.stray_key"], "{keys}");
        assert_eq!(config.servers.len(), 1, "{keys}");
    }
}

#[test]
fn min_61_and_ext_19_minion_defaults() {
    let config = good("servers: [{ ServerName: s, Transport: stdio, Command: x }]");
    assert_eq!(config.host.max_servers, 10); // EXT-19
    let policy = &config.servers[0].policy;
    let Timeouts { connect, request, .. } = policy.timeouts;
    assert_eq!((connect, request), (Period::secs(30), Period::secs(60))); // EXT-19
    let retry = RetryPolicy {
        max: 3,
        initial: Period::secs(1),
        max_delay: Period::secs(30),
        factor: 2.0,
        jitter: 0.0,
    };
    assert_eq!(policy.lifecycle.retry, retry); // MIN-61
    let ReconnectPolicy { auto, max, initial, jitter, .. } = policy.lifecycle.reconnect;
    // EXT-19 gives 2 s with jitter here; MIN-61's exact waits of 1, 2 and 4 s take precedence.
    assert_eq!((auto, max, initial, jitter), (true, 3, Period::secs(1), 0.0));
    assert_eq!(policy.calls.retry, CallRetry::OnConnectionLoss);
    assert_eq!(policy.availability.on_config_error, OnConfigError::FailLoad);
}

fn included(native: &str, minion: &str) -> u32 {
    let native = format!(
        "version: 1\ninclude: [{{ path: minion.yaml, dialect: minion }}]\nservers: {{ n: {{ command: x }} }}\n{native}"
    );
    let lookup = MemoryLookup::default()
        .with_file("/ws/toolcrib.yaml", native)
        .with_file("/ws/minion.yaml", minion);
    let workspace = Workspace { root: "/ws".into(), home: None, config_file: None::<ConfigFile> };
    let config = compile(&workspace, &lookup);
    assert_eq!(config.problems, []);
    config.host.max_servers
}

#[test]
fn default_server_limit_does_not_apply_beside_other_files() {
    assert_eq!(included("", "servers: []"), 0);
    assert_eq!(included("", "manager: { MaxServers: 3 }"), 3);
    assert_eq!(included("host: { max_servers: 20 }", "manager: { MaxServers: 3 }"), 20);
}

#[test]
fn initial_backoff_above_the_default_maximum_is_kept() {
    let config = good(
        "manager: { ReconnectBackoff: 1m, RetryPolicy: { InitialBackoff: 2m } }\nservers: [{ ServerName: s, Transport: stdio, Command: x }]",
    );
    let life = &config.servers[0].policy.lifecycle;
    assert_eq!(life.reconnect.max_delay, Period::secs(60));
    assert_eq!(life.retry.max_delay, Period::secs(120));
}

#[test]
fn mistake_outside_the_servers_fails_the_file() {
    let server = "servers: [{ ServerName: s, Transport: stdio, Command: x }]";
    for (text, code) in [
        ("manager: { DefaultTimeout: soon }", "value.invalid"),
        ("manager: { MaxServers: -1 }", "value.invalid"),
        ("agents: [{ Capabilities: [mcp_s] }]", "agent.name"),
        ("agents: [{ Name: a }, { Name: a, Capabilities: [mcp_s] }]", "agent.name"),
    ] {
        let config = minion(&format!("{text}\n{server}\n"));
        // Agents of an invalid list have no grants; servers of other files may depend on the grants.
        let has_agents = text.starts_with("agents");
        let closed = has_agents.then_some("security.closed");
        let expected: Vec<&str> = [Some(code), closed].into_iter().flatten().collect();
        assert_eq!(problem_codes(&config), expected, "{text}");
        assert_eq!(config.security.is_invalid(SecuritySection::Grants), has_agents, "{text}");
        assert_eq!(config.sources[0].outcome, SourceOutcome::Failed, "{text}");
        assert_eq!((config.servers.len(), config.rejected.len()), (0, 1), "{text}");
        assert!(config.host.grants.members.is_empty(), "{text}");
    }
}

#[test]
fn duplicate_server_name_fails_the_file() {
    let config = minion(
        "servers:\n  - { ServerName: s, Transport: stdio, Command: x }\n  - { server_name: s, Transport: stdio, Command: y }\n",
    );
    assert_eq!(problem_codes(&config), ["name.duplicate"]);
    assert_eq!(config.problems[0].line, Some(3));
    assert_eq!(config.servers.len(), 0);
}
