//! Tests of Cursor's `mcp.json`.

use crate::model::auth::{Auth, OAuthGrant};
use crate::model::transport::{Transport, TransportKind};
use crate::testing::{compile_text_at, problem_codes};
use crate::{MemoryLookup, Value};

fn lookup() -> MemoryLookup {
    MemoryLookup::default().with_env("HOME", "/h").with_env("A", "a").with_file("/ws/.env", "B=b\n")
}

#[test]
fn cursor_project_file_compiles() {
    let config = compile_text_at(
        &lookup(),
        ".cursor/mcp.json",
        r#"{ "mcpServers": {
            "local": { "type": "stdio", "command": "python", "args": ["${workspaceFolder}/tools/server.py"],
                       "env": { "API_KEY": "${env:A}" }, "envFile": ".env" },
            "remote": { "url": "https://api.example.com/mcp", "headers": { "Authorization": "Bearer ${env:A}" } },
            "signed": { "url": "https://api.example.com/mcp",
                        "auth": { "CLIENT_ID": "${env:A}", "CLIENT_SECRET": "s", "scopes": ["read", "write"] } }
        } }"#,
    );
    assert_eq!(config.problems, []);
    let [local, remote, signed] = config.servers.as_slice() else {
        panic!("{:?}", config.rejected)
    };
    let Transport::Stdio(stdio) = &local.transport else { panic!("{:?}", local.transport) };
    assert_eq!(stdio.args[0].display_text(), "/ws/tools/server.py");
    assert_eq!(stdio.env.set["API_KEY"], Value::parse_native("${A}").unwrap());
    assert_eq!(stdio.env.file.as_ref().unwrap().path.to_str(), Some("/ws/.env"));
    assert_eq!(remote.transport.kind(), TransportKind::StreamableHttp);
    let Auth::OAuth(oauth) = &signed.policy.auth else { panic!("{:?}", signed.policy.auth) };
    assert_eq!(oauth.client_id, Some(Value::parse_native("${A}").unwrap()));
    assert_eq!(oauth.client_secret, Some(Value::literal("s")));
    assert_eq!(oauth.scopes, ["read", "write"]);
    assert_eq!(oauth.grant, OAuthGrant::Code);
}

#[test]
fn cursor_variables_are_expanded() {
    let cases = [
        ("${env:A}", "${A}"),
        ("${userHome}/x", "/h/x"),
        ("${workspaceFolderBasename}${/}y", "ws/y"),
        ("${A}", "$${A}"),
        ("${input:key}", "$${input:key}"),
        ("${file}", "$${file}"),
    ];
    for path in [".cursor/mcp.json", "/h/.cursor/mcp.json"] {
        for (text, native) in cases {
            let file = format!(r#"{{ "mcpServers": {{ "s": {{ "command": "{text}" }} }} }}"#);
            let config = compile_text_at(&lookup(), path, &file);
            assert_eq!(config.problems, [], "{text}");
            let Transport::Stdio(stdio) = &config.servers[0].transport else { panic!("{text}") };
            assert_eq!(stdio.command.0, Value::parse_native(native).unwrap(), "{text}");
        }
    }
}

#[test]
fn invalid_server_keeps_other_servers() {
    let config = compile_text_at(
        &lookup(),
        ".cursor/mcp.json",
        r#"{ "mcpServers": { "bad": { "url": "localhost" }, "good": { "command": "x", "env": { "K": "${env:GONE}" } } } }"#,
    );
    assert_eq!(problem_codes(&config), ["url.invalid", "env.missing"]);
    assert_eq!(config.servers.len(), 1);
}
