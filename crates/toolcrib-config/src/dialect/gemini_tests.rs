//! Tests of Gemini CLI's `settings.json`.

use crate::model::auth::Auth;
use crate::model::filter::FilterVerdict;
use crate::model::transport::{Transport, TransportKind};
use crate::model::units::Period;
use crate::testing::{compile_text_at, problem_codes};
use crate::{Config, MemoryLookup, Value};

fn gemini(text: &str) -> Config {
    let lookup = MemoryLookup::default()
        .with_env("HOME", "/h")
        .with_env("A", "a")
        .with_file("/ws/srv/x", "");
    compile_text_at(&lookup, ".gemini/settings.json", text)
}

#[test]
fn gemini_settings_compile() {
    let config = gemini(
        r#"{ "theme": "dark", "ui": { "a": 1, "a": 2 },
            "mcp": { "serverCommand": "x", "allowed": ["local", "http", "sse", "typed"], "excluded": ["sse"] },
            "mcpServers": {
                "local": { "command": "./server", "args": ["--arg1", "value1"], "env": { "API_KEY": "$A" }, "cwd": "./srv",
                           "timeout": 30000, "trust": false, "description": "Local things",
                           "includeTools": ["safe", "both"], "excludeTools": ["both"] },
                "http": { "httpUrl": "https://api.example.com/mcp", "headers": { "Authorization": "Bearer ${A}" },
                          "oauth": { "enabled": true, "clientId": "c", "clientSecret": "s", "scopes": ["r"] } },
                "sse": { "url": "http://localhost:8080/sse" },
                "typed": { "url": "http://localhost:8080/mcp", "type": "http", "oauth": { "enabled": false } },
                "other": { "command": "x" }
            } }"#,
    );
    assert_eq!(config.problems, []);
    let [local, http, sse, typed, other] = config.servers.as_slice() else {
        panic!("{:?}", config.rejected)
    };
    let Transport::Stdio(stdio) = &local.transport else { panic!("{:?}", local.transport) };
    assert_eq!(stdio.cwd.as_ref().unwrap().display_text(), "/ws/srv");
    assert_eq!(stdio.env.set["API_KEY"], Value::parse_native("${A}").unwrap());
    assert_eq!(local.policy.timeouts.request, Period::secs(30));
    assert_eq!(local.policy.description, "Local things");
    let tools = &local.policy.expose.tools;
    assert_eq!(tools.verdict("safe"), FilterVerdict::Offered);
    assert_eq!(tools.verdict("both"), FilterVerdict::Denied("both"));
    assert_eq!(tools.verdict("else"), FilterVerdict::NotAllowed);
    assert_eq!(http.transport.kind(), TransportKind::StreamableHttp);
    assert!(matches!(http.policy.auth, Auth::OAuth(_)));
    assert_eq!(sse.transport.kind(), TransportKind::Sse);
    assert_eq!(typed.transport.kind(), TransportKind::StreamableHttp);
    assert_eq!(typed.policy.auth, Auth::None);
    let enabled = [local, http, sse, typed, other].map(|server| server.policy.enabled);
    assert_eq!(enabled, [true, true, false, true, false]);
}

#[test]
fn unset_variable_is_empty_in_env_and_literal_elsewhere() {
    let cases = [
        ("$A", "${A}", "${A}"),
        ("${A}", "${A}", "${A}"),
        ("x$A-$A", "x${A}-${A}", "x${A}-${A}"),
        ("${GONE:-d}", "${GONE:-d}", "${GONE:-d}"),
        ("$GONE", "$$GONE", "${GONE:-}"),
        ("${GONE}", "$${GONE}", "${GONE:-}"),
        ("costs $5", "costs $$5", "costs $$5"),
        ("${env:A}", "$${env:A}", "$${env:A}"),
        ("$", "$$", "$$"),
        ("${A", "$${A", "$${A"),
    ];
    for (text, elsewhere, value) in cases {
        let config = gemini(&format!(
            r#"{{ "mcpServers": {{ "s": {{ "command": "x", "args": ["{text}"], "env": {{ "K": "{text}" }} }} }} }}"#
        ));
        assert_eq!(config.problems, [], "{text}");
        let Transport::Stdio(stdio) = &config.servers[0].transport else { panic!("{text}") };
        assert_eq!(stdio.args[0].0, Value::parse_native(elsewhere).unwrap(), "{text}");
        assert_eq!(stdio.env.set["K"], Value::parse_native(value).unwrap(), "{text}");
    }
}

#[test]
fn empty_allowed_list_enables_all_servers() {
    let config =
        gemini(r#"{ "mcp": { "allowed": [] }, "mcpServers": { "s": { "command": "x" } } }"#);
    assert!(config.servers[0].policy.enabled);
}

#[test]
fn http_url_overrides_url_and_command() {
    let config = gemini(
        r#"{ "mcpServers": { "s": { "httpUrl": "http://a/", "url": "http://b/", "command": "x" } } }"#,
    );
    let remote = config.servers[0].transport.remote().unwrap();
    assert_eq!(remote.url.display_text(), "http://a/");
    assert_eq!(problem_codes(&config), ["key.shadowed", "transport.stray_key"]);
}

#[test]
fn invalid_server_keeps_other_servers() {
    let config = gemini(
        r#"{ "mcpServers": { "bad": { "command": "x", "timeout": "soon" }, "good": { "command": "x", "includeTools": [] } } }"#,
    );
    assert_eq!(problem_codes(&config), ["value.invalid"]);
    assert_eq!(config.servers[0].id, "good");
    let tools = &config.servers[0].policy.expose.tools;
    assert_eq!(tools.verdict("any"), FilterVerdict::NotAllowed);
}
