//! Tests of VS Code's `mcp.json`.

use crate::model::auth::Auth;
use crate::model::host::InputSpec;
use crate::model::transport::{Transport, TransportKind};
use crate::testing::{compile_text_at, problem_codes};
use crate::{Config, MemoryLookup, Value};

fn lookup() -> MemoryLookup {
    MemoryLookup::default().with_env("HOME", "/h").with_env("A", "a")
}

fn vscode(text: &str) -> Config {
    compile_text_at(&lookup(), ".vscode/mcp.json", text)
}

#[test]
fn vscode_workspace_file_compiles() {
    let lookup = lookup().with_file("/ws/.env", "TOKEN=t\n").with_file("/ws/srv/x", "");
    let config = compile_text_at(
        &lookup,
        ".vscode/mcp.json",
        r#"{
            // Comments and trailing commas are allowed.
            "inputs": [
                { "type": "promptString", "id": "perplexity-key", "description": "Perplexity API Key", "password": true },
                { "type": "pickString", "id": "region", "description": "Region", "default": "eu",
                  "options": ["eu", { "label": "United States", "value": "us" }] },
            ],
            "servers": {
                "perplexity": { "type": "stdio", "command": "npx", "args": ["-y", "server", "${workspaceFolder}"],
                    "cwd": "${workspaceFolder}/srv", "envFile": "${workspaceFolder}/.env",
                    "env": { "KEY": "${input:perplexity-key}", "N": 3, "GONE": null },
                    "dev": { "watch": "src/**" }, "gallery": true },
                "docs": { "type": "http", "url": "https://mcp.example.com/${input:region}", "headers": { "X": "${env:A}" },
                    "oauth": { "clientId": "c" } },
                "old": { "type": "sse", "url": "http://localhost:3000/sse" },
            },
        }"#,
    );
    assert_eq!(config.problems, []);
    let [perplexity, docs, old] = config.servers.as_slice() else {
        panic!("{:?}", config.rejected)
    };
    let Transport::Stdio(stdio) = &perplexity.transport else {
        panic!("{:?}", perplexity.transport)
    };
    assert_eq!(stdio.args[2].display_text(), "/ws");
    assert_eq!(stdio.cwd.as_ref().unwrap().display_text(), "/ws/srv");
    assert_eq!(stdio.env.file.as_ref().unwrap().path.to_str(), Some("/ws/.env"));
    assert_eq!(stdio.env.set["KEY"], Value::parse_native("${input:perplexity-key}").unwrap());
    assert_eq!(stdio.env.set["N"], Value::literal("3"));
    assert_eq!(stdio.env.unset, ["GONE"]);
    assert_eq!(perplexity.extras.keys().collect::<Vec<_>>(), ["dev", "gallery"]);
    let remote = docs.transport.remote().unwrap();
    assert_eq!(remote.headers["X"], Value::parse_native("${A:-}").unwrap());
    assert!(matches!(docs.policy.auth, Auth::OAuth(_)));
    assert_eq!(old.transport.kind(), TransportKind::Sse);
    let key = InputSpec {
        description: "Perplexity API Key".into(),
        password: true,
        ..InputSpec::default()
    };
    let region = InputSpec {
        description: "Region".into(),
        default: Some("eu".into()),
        options: vec!["eu".into(), "us".into()],
        ..InputSpec::default()
    };
    assert_eq!(config.inputs["perplexity-key"], key);
    assert_eq!(config.inputs["region"], region);
}

fn command(config: &Config) -> &Value {
    match &config.servers[0].transport {
        Transport::Stdio(stdio) => &stdio.command.0,
        other => panic!("{other:?}"),
    }
}

#[test]
fn vscode_variables_are_expanded() {
    let cases = [
        ("${workspaceFolder}/x", "/ws/x"),
        ("${workspaceFolder:ws}", "/ws"),
        ("${workspaceFolderBasename}", "ws"),
        ("${userHome}${/}x${pathSeparator}y", "/h/x/y"),
        ("${cwd}", "/ws"),
        ("${env:A}-${env:GONE}", "${A:-}-${GONE:-}"),
        ("${A}", "$${A}"),
        ("$A", "$$A"),
        ("${unknownThing}", "$${unknownThing}"),
        ("${env:A", "$${env:A"),
    ];
    for (text, native) in cases {
        let config = vscode(&format!(r#"{{ "servers": {{ "s": {{ "command": "{text}" }} }} }}"#));
        assert_eq!(config.problems, [], "{text}");
        assert_eq!(command(&config), &Value::parse_native(native).unwrap(), "{text}");
    }
}

#[test]
fn editor_only_variables_reject_only_their_server() {
    for text in [
        "${command:pick}",
        "${config:python.path}",
        "${file}",
        "${input:missing}",
        "${workspaceFolder:other}",
    ] {
        let config = vscode(&format!(
            r#"{{ "servers": {{ "bad": {{ "command": "x", "args": ["{text}"] }}, "good": {{ "command": "y" }} }} }}"#
        ));
        assert_eq!(problem_codes(&config), ["value.unsupported"], "{text}");
        let ids: Vec<_> = config.servers.iter().map(|s| s.id.as_str()).collect();
        assert_eq!(ids, ["good"], "{text}");
    }
}

#[test]
fn unsupported_inputs_are_reported() {
    for input in [
        r#"{ "type": "command", "id": "x", "command": "ext.pick", "args": {} }"#,
        r#"{ "type": "promptString", "description": "no id" }"#,
        r#"{ "type": "wish", "id": "x" }"#,
    ] {
        let config = vscode(&format!(
            r#"{{ "inputs": [{input}], "servers": {{ "s": {{ "command": "x" }} }} }}"#
        ));
        assert_eq!(problem_codes(&config), ["input.unsupported"], "{input}");
        assert_eq!((config.inputs.len(), config.servers.len()), (0, 1), "{input}");
    }
}

#[test]
fn sandbox_setting_is_reported_as_unsupported() {
    let config = vscode(
        r#"{ "servers": { "s": { "command": "x", "sandboxEnabled": true } }, "mcpServers": {} }"#,
    );
    assert_eq!(problem_codes(&config), ["key.unknown", "key.unsupported"]);
}

#[test]
fn workspace_folder_of_the_user_file_is_the_root() {
    let path = "/h/.config/Code/User/mcp.json";
    let text = r#"{ "servers": { "s": { "command": "${workspaceFolder}/x" } } }"#;
    let config = compile_text_at(&lookup(), path, text);
    assert_eq!(command(&config), &Value::literal("/ws/x"));
}

#[test]
fn env_file_path_must_not_depend_on_inputs() {
    let config = vscode(
        r#"{ "inputs": [{ "type": "promptString", "id": "i" }],
             "servers": { "s": { "command": "x", "envFile": "${input:i}/.env" } } }"#,
    );
    assert_eq!(problem_codes(&config), ["env_file.unreadable"]);
    assert_eq!(config.servers.len(), 0);
}
