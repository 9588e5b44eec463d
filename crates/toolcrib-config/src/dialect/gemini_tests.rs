//! Gemini CLI's `settings.json`.

use crate::model::auth::Auth;
use crate::model::filter::Verdict;
use crate::model::transport::{Transport, TransportKind};
use crate::model::units::Period;
use crate::testing::{codes, compiled_at};
use crate::{Config, Memory, Value};

fn gemini(text: &str) -> Config {
    let world =
        Memory::default().with_env("HOME", "/h").with_env("A", "a").with_file("/ws/srv/x", "");
    compiled_at(&world, ".gemini/settings.json", text)
}

#[test]
fn settings_read_as_gemini_reads_them() {
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
    assert_eq!(stdio.cwd.as_ref().unwrap().shown(), "/ws/srv");
    assert_eq!(stdio.env.set["API_KEY"], Value::native("${A}").unwrap());
    assert_eq!(local.policy.timeouts.request, Period::secs(30));
    assert_eq!(local.policy.description, "Local things");
    let tools = &local.policy.expose.tools;
    assert_eq!(tools.verdict("safe"), Verdict::Offered);
    assert_eq!(tools.verdict("both"), Verdict::Denied("both"));
    assert_eq!(tools.verdict("else"), Verdict::NotAllowed);
    assert_eq!(http.transport.kind(), TransportKind::StreamableHttp);
    assert!(matches!(http.policy.auth, Auth::OAuth(_)));
    assert_eq!(sse.transport.kind(), TransportKind::Sse);
    assert_eq!(typed.transport.kind(), TransportKind::StreamableHttp);
    assert_eq!(typed.policy.auth, Auth::None);
    let enabled = [local, http, sse, typed, other].map(|server| server.policy.enabled);
    assert_eq!(enabled, [true, true, false, true, false]);
}

#[test]
fn an_unset_variable_is_empty_in_values_and_stays_elsewhere() {
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
        assert_eq!(stdio.args[0].0, Value::native(elsewhere).unwrap(), "{text}");
        assert_eq!(stdio.env.set["K"], Value::native(value).unwrap(), "{text}");
    }
}

#[test]
fn an_empty_list_of_the_allowed_allows_all() {
    let config =
        gemini(r#"{ "mcp": { "allowed": [] }, "mcpServers": { "s": { "command": "x" } } }"#);
    assert!(config.servers[0].policy.enabled);
}

#[test]
fn the_address_of_streamable_http_goes_first() {
    let config = gemini(
        r#"{ "mcpServers": { "s": { "httpUrl": "http://a/", "url": "http://b/", "command": "x" } } }"#,
    );
    let remote = config.servers[0].transport.remote().unwrap();
    assert_eq!(remote.url.shown(), "http://a/");
    assert_eq!(codes(&config), ["key.shadowed", "transport.stray_key"]);
}

#[test]
fn a_bad_server_leaves_its_neighbour_alone() {
    let config = gemini(
        r#"{ "mcpServers": { "bad": { "command": "x", "timeout": "soon" }, "good": { "command": "x", "includeTools": [] } } }"#,
    );
    assert_eq!(codes(&config), ["value.invalid"]);
    assert_eq!(config.servers[0].id, "good");
    let tools = &config.servers[0].policy.expose.tools;
    assert_eq!(tools.verdict("any"), Verdict::NotAllowed);
}
