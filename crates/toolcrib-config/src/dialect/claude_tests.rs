//! Tests of Claude Code and Claude Desktop files.

use crate::model::auth::Auth;
use crate::model::transport::{Transport, TransportKind};
use crate::model::units::Period;
use crate::testing::{compile_text_at, problem_codes};
use crate::{Config, MemoryLookup, Value};

fn ids(config: &Config) -> Vec<&str> {
    config.servers.iter().map(|s| s.id.as_str()).collect()
}

#[test]
fn claude_code_project_file_compiles() {
    let lookup = MemoryLookup::default().with_env("API_KEY", "k");
    let config = compile_text_at(
        &lookup,
        ".mcp.json",
        r#"{ "mcpServers": {
            "files": { "command": "npx", "args": ["-y", "server-filesystem", "."], "env": { "DEBUG": "${DEBUG:-false}" } },
            "api": { "type": "http", "url": "${API_BASE_URL:-https://api.example.com}/mcp", "timeout": 90000,
                     "headers": { "Authorization": "Bearer ${API_KEY}" }, "alwaysLoad": true },
            "old": { "type": "sse", "url": "https://mcp.example.com/sse", "oauth": { "clientId": "c", "scopes": "read write" } },
            "live": { "type": "ws", "url": "wss://mcp.example.com/ws" }
        } }"#,
    );
    assert_eq!(config.problems, []);
    let kinds: Vec<_> = config.servers.iter().map(|s| s.transport.kind()).collect();
    assert_eq!(
        kinds,
        [
            TransportKind::Stdio,
            TransportKind::StreamableHttp,
            TransportKind::Sse,
            TransportKind::WebSocket
        ]
    );
    let [files, api, old, _] = config.servers.as_slice() else { panic!("{:?}", ids(&config)) };
    let native = |text: &str| Value::parse_native(text).unwrap();
    assert_eq!(files.transport.env().unwrap().set["DEBUG"], native("${DEBUG:-false}"));
    let remote = api.transport.remote().unwrap();
    assert_eq!(remote.url.0, native("${API_BASE_URL:-https://api.example.com}/mcp"));
    assert_eq!(remote.headers["Authorization"], native("Bearer ${API_KEY}"));
    let limits = &api.policy.timeouts;
    assert_eq!((limits.request, limits.request_max), (Period::secs(90), Period::secs(90)));
    assert_eq!(api.extras["alwaysLoad"], true);
    let Auth::OAuth(oauth) = &old.policy.auth else { panic!("{:?}", old.policy.auth) };
    assert_eq!(oauth.client_id, Some(Value::literal("c")));
    assert_eq!(oauth.scopes, ["read", "write"]);
}

#[test]
fn claude_code_expands_two_variable_forms_and_desktop_none() {
    let cases = [
        ("${A}", "${A}"),
        ("x${A}y${B:-b}", "x${A}y${B:-b}"),
        ("${A:-}", "${A:-}"),
        ("$A", "$$A"),
        ("$$", "$$$$"),
        ("${env:A}", "$${env:A}"),
        ("${_R%/}", "$${_R%/}"),
        ("${A", "$${A"),
        ("${A:-${B}}", "${A:-${B}}"),
    ];
    let lookup = MemoryLookup::default().with_env("A", "a");
    for (text, native) in cases {
        let file = format!(r#"{{ "mcpServers": {{ "s": {{ "command": "{text}" }} }} }}"#);
        let command = |path: &str| {
            let config = compile_text_at(&lookup, path, &file);
            assert_eq!(config.problems, [], "{text}");
            match &config.servers[0].transport {
                Transport::Stdio(stdio) => stdio.command.0.clone(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(command(".mcp.json"), Value::parse_native(native).unwrap(), "{text}");
        assert_eq!(command("claude_desktop_config.json"), Value::literal(text));
    }
}

#[test]
fn invalid_server_keeps_other_servers() {
    let bad = [
        ("7", "server.invalid"),
        (r#"{ "command": 7 }"#, "value.invalid"),
        (r#"{ "type": "pipe", "url": "http://x/" }"#, "transport.unsupported"),
        (r#"{ "type": "http" }"#, "url.missing"),
        (r#"{}"#, "transport.missing"),
        (r#"{ "command": "a", "command": "b" }"#, "key.duplicate"),
    ];
    for (entry, code) in bad {
        let text =
            format!(r#"{{ "mcpServers": {{ "bad": {entry}, "good": {{ "command": "x" }} }} }}"#);
        let config = compile_text_at(&MemoryLookup::default(), ".mcp.json", &text);
        assert_eq!(problem_codes(&config), [code], "{entry}");
        assert_eq!(config.problems[0].server.as_deref(), Some("bad"), "{entry}");
        assert_eq!(ids(&config), ["good"], "{entry}");
    }
}

#[test]
fn unset_variables_are_reported_and_unsupported_keys_kept_in_extras() {
    let config = compile_text_at(
        &MemoryLookup::default(),
        ".mcp.json",
        r#"{ "mcpServers": { "s": { "type": "http", "url": "http://x/", "headers": { "K": "${GONE}" },
             "headersHelper": "token.sh", "header": {} } } }"#,
    );
    let mut reported = problem_codes(&config);
    reported.sort_unstable();
    assert_eq!(reported, ["env.missing", "key.unknown", "key.unsupported"]);
    assert_eq!(config.servers[0].extras["headersHelper"], "token.sh");
    assert!(config.servers[0].extras.contains_key("header"));
}

#[test]
fn user_file_gives_user_servers_and_servers_of_the_root_project() {
    let config = compile_text_at(
        &MemoryLookup::default().with_env("HOME", "/h"),
        "/h/.claude.json",
        r#"{ "numStartups": 12, "tips": { "a": 1, "a": 2 },
            "mcpServers": { "mine": { "command": "x" }, "both": { "command": "user" } },
            "projects": {
                "/ws": { "allowedTools": [], "mcpServers": { "both": { "command": "local" }, "here": { "command": "y" } } },
                "/other": { "mcpServers": { "there": { "command": "z" }, "bad": 7 } }
            } }"#,
    );
    assert_eq!(ids(&config), ["both", "here", "mine"]);
    assert_eq!(problem_codes(&config), ["server.shadowed"]);
    let Transport::Stdio(both) = &config.servers[0].transport else {
        panic!("{:?}", config.servers[0])
    };
    assert_eq!(both.command.display_text(), "local");
}

#[test]
fn invalid_server_list_is_reported() {
    for (text, expected) in [
        ("{}", &[][..]),
        (r#"{ "mcpServers": null }"#, &[]),
        (r#"{ "mcpServers": [] }"#, &["servers.invalid"]),
    ] {
        let config = compile_text_at(&MemoryLookup::default(), ".mcp.json", text);
        assert_eq!(
            (problem_codes(&config).as_slice(), config.servers.len()),
            (expected, 0),
            "{text}"
        );
    }
}
