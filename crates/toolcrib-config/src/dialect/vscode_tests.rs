//! VS Code's `mcp.json`.

use crate::model::auth::Auth;
use crate::model::host::Input;
use crate::model::transport::{Transport, TransportKind};
use crate::testing::{codes, compiled_at};
use crate::{Config, Memory, Value};

fn world() -> Memory {
    Memory::default().with_env("HOME", "/h").with_env("A", "a")
}

fn vscode(text: &str) -> Config {
    compiled_at(&world(), ".vscode/mcp.json", text)
}

#[test]
fn a_workspace_file_reads_as_vs_code_reads_it() {
    let world = world().with_file("/ws/.env", "TOKEN=t\n").with_file("/ws/srv/x", "");
    let config = compiled_at(
        &world,
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
    assert_eq!(stdio.args[2].shown(), "/ws");
    assert_eq!(stdio.cwd.as_ref().unwrap().shown(), "/ws/srv");
    assert_eq!(stdio.env.file.as_ref().unwrap().path.to_str(), Some("/ws/.env"));
    assert_eq!(stdio.env.set["KEY"], Value::native("${input:perplexity-key}").unwrap());
    assert_eq!(stdio.env.set["N"], Value::literal("3"));
    assert_eq!(stdio.env.unset, ["GONE"]);
    assert_eq!(perplexity.extras.keys().collect::<Vec<_>>(), ["dev", "gallery"]);
    let remote = docs.transport.remote().unwrap();
    assert_eq!(remote.headers["X"], Value::native("${A:-}").unwrap());
    assert!(matches!(docs.policy.auth, Auth::OAuth(_)));
    assert_eq!(old.transport.kind(), TransportKind::Sse);
    let key =
        Input { description: "Perplexity API Key".into(), password: true, ..Input::default() };
    let region = Input {
        description: "Region".into(),
        default: Some("eu".into()),
        options: vec!["eu".into(), "us".into()],
        ..Input::default()
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
fn variables_are_those_of_the_editor() {
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
        assert_eq!(command(&config), &Value::native(native).unwrap(), "{text}");
    }
}

#[test]
fn what_only_the_editor_knows_rejects_its_server_alone() {
    for text in [
        "${command:pick}",
        "${config:python.path}",
        "${file}",
        "${input:nobody}",
        "${workspaceFolder:other}",
    ] {
        let config = vscode(&format!(
            r#"{{ "servers": {{ "bad": {{ "command": "x", "args": ["{text}"] }}, "good": {{ "command": "y" }} }} }}"#
        ));
        assert_eq!(codes(&config), ["value.unsupported"], "{text}");
        let ids: Vec<_> = config.servers.iter().map(|s| s.id.as_str()).collect();
        assert_eq!(ids, ["good"], "{text}");
    }
}

#[test]
fn an_input_that_cannot_be_asked_is_told() {
    for input in [
        r#"{ "type": "command", "id": "x", "command": "ext.pick", "args": {} }"#,
        r#"{ "type": "promptString", "description": "no id" }"#,
        r#"{ "type": "wish", "id": "x" }"#,
    ] {
        let config = vscode(&format!(
            r#"{{ "inputs": [{input}], "servers": {{ "s": {{ "command": "x" }} }} }}"#
        ));
        assert_eq!(codes(&config), ["input.unsupported"], "{input}");
        assert_eq!((config.inputs.len(), config.servers.len()), (0, 1), "{input}");
    }
}

#[test]
fn a_sandbox_that_is_not_there_is_told() {
    let config = vscode(
        r#"{ "servers": { "s": { "command": "x", "sandboxEnabled": true } }, "mcpServers": {} }"#,
    );
    assert_eq!(codes(&config), ["key.unknown", "key.unsupported"]);
}

#[test]
fn the_persons_own_file_is_read_as_from_the_root() {
    let path = "/h/.config/Code/User/mcp.json";
    let text = r#"{ "servers": { "s": { "command": "${workspaceFolder}/x" } } }"#;
    let config = compiled_at(&world(), path, text);
    assert_eq!(command(&config), &Value::literal("/ws/x"));
}

#[test]
fn an_environment_file_must_be_known_when_it_is_read() {
    let config = vscode(
        r#"{ "inputs": [{ "type": "promptString", "id": "i" }],
             "servers": { "s": { "command": "x", "envFile": "${input:i}/.env" } } }"#,
    );
    assert_eq!(codes(&config), ["env_file.unreadable"]);
    assert_eq!(config.servers.len(), 0);
}
