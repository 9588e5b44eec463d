//! The files of Claude, VS Code, Cursor, Codex and Gemini CLI.

use proptest::prelude::*;
use serde_json::json;
use toolcrib_config::Dialect;

use super::{Files, Secrets, Tree, by_id, flag, list, millis, object, one, text, texts, words};

pub(super) fn files(secrets: Secrets) -> Vec<BoxedStrategy<Files>> {
    vec![
        one(Dialect::Claude, ".mcp.json", under("mcpServers", claude(secrets))),
        one(Dialect::Claude, "claude_desktop_config.json", under("mcpServers", claude(secrets))),
        one(Dialect::VsCode, ".vscode/mcp.json", vscode(secrets)),
        one(Dialect::Cursor, ".cursor/mcp.json", under("mcpServers", cursor(secrets))),
        one(Dialect::Codex, ".codex/config.toml", under("mcp_servers", codex(secrets))),
        one(Dialect::Gemini, ".gemini/settings.json", gemini(secrets)),
    ]
}

fn under(key: &'static str, entry: Tree) -> Tree {
    object(vec![(key, by_id(entry))], vec![])
}

type Fields = Vec<(&'static str, Tree)>;

/// An entry with a command or one with an address, and what both may have.
fn entry(stdio: Fields, remote: Fields, common: impl Fn() -> Fields) -> Tree {
    let command = prop_oneof![3 => words(&["npx", "x", "${X}/bin"]), 1 => text()].boxed();
    let url = words(&["https://x/y", "http://x:1/${X}", "https://x/${X:-d}"]);
    prop_oneof![
        object(vec![("command", command)], [common(), stdio].concat()),
        object(vec![("url", url)], [common(), remote].concat()),
    ]
    .boxed()
}

/// Variables, of which `null` takes one away.
fn variables(secrets: Secrets) -> Tree {
    let value = prop_oneof![6 => secrets.text(), 1 => Just(json!(null)), 1 => Just(json!(1.5)), 1 => flag()];
    secrets.map_of(value.boxed())
}

fn client(secrets: Secrets) -> Tree {
    object(
        vec![],
        vec![("clientId", text()), ("clientSecret", secrets.text()), ("scopes", texts())],
    )
}

fn claude(secrets: Secrets) -> Tree {
    let oauth = object(vec![], vec![("clientId", text()), ("scopes", text())]);
    entry(
        vec![("type", words(&["stdio"])), ("args", texts()), ("env", variables(secrets))],
        vec![("type", words(&["http", "sse"])), ("headers", secrets.texts()), ("oauth", oauth)],
        || {
            vec![
                ("timeout", millis()),
                ("alwaysLoad", flag()),
                ("headersHelper", secrets.unknown()),
            ]
        },
    )
}

fn vscode(secrets: Secrets) -> Tree {
    let servers = entry(
        vec![
            ("type", words(&["stdio"])),
            ("args", texts()),
            ("cwd", words(&["docs", "${workspaceFolder}", "${X}"])),
            ("env", variables(secrets)),
            ("envFile", words(&["${workspaceFolder}/.env"])),
        ],
        vec![
            ("type", words(&["http", "sse"])),
            ("headers", secrets.texts()),
            ("oauth", client(secrets)),
        ],
        || vec![("gallery", secrets.unknown())],
    );
    let input = |id: &'static str| {
        object(
            vec![("type", words(&["promptString", "pickString"])), ("id", Just(json!(id)).boxed())],
            vec![("description", text()), ("options", texts())],
        )
    };
    let password = object(
        vec![
            ("type", words(&["promptString"])),
            ("id", words(&["key"])),
            ("password", Just(json!(true)).boxed()),
        ],
        vec![("default", secrets.text())],
    );
    let inputs = list(prop_oneof![input("key"), input("o d"), password].boxed());
    object(vec![("servers", by_id(servers)), ("inputs", inputs)], vec![])
}

fn cursor(secrets: Secrets) -> Tree {
    let auth = object(
        vec![],
        vec![("CLIENT_ID", text()), ("CLIENT_SECRET", secrets.text()), ("scopes", texts())],
    );
    entry(
        vec![("args", texts()), ("env", variables(secrets)), ("envFile", words(&[".env"]))],
        vec![("headers", secrets.texts()), ("auth", auth)],
        || vec![("unknown", secrets.unknown())],
    )
}

fn codex(secrets: Secrets) -> Tree {
    let seconds = || prop_oneof![Just(json!(1.5)), Just(json!(10.0))].boxed();
    entry(
        vec![
            ("args", texts()),
            ("cwd", words(&["docs"])),
            ("env", secrets.texts()),
            (
                "env_vars",
                list(prop_oneof![text(), text().prop_map(|name| json!({ "name": name }))].boxed()),
            ),
        ],
        vec![
            ("http_headers", secrets.texts()),
            ("env_http_headers", super::map(super::name(), words(&["X", "NOPE"]), 0..2)),
            ("bearer_token_env_var", words(&["X"])),
            ("oauth", object(vec![], vec![("client_id", text())])),
        ],
        || {
            vec![
                ("enabled", flag()),
                ("startup_timeout_sec", seconds()),
                ("tool_timeout_sec", seconds()),
                ("enabled_tools", texts()),
                ("disabled_tools", texts()),
                ("tools", secrets.unknown()),
            ]
        },
    )
}

fn gemini(secrets: Secrets) -> Tree {
    let servers = entry(
        vec![("args", texts()), ("cwd", words(&["docs", "$X"])), ("env", variables(secrets))],
        vec![("headers", secrets.texts()), ("oauth", client(secrets))],
        || {
            vec![
                ("timeout", millis()),
                ("description", text()),
                ("includeTools", texts()),
                ("excludeTools", texts()),
                ("trust", secrets.unknown()),
            ]
        },
    );
    object(
        vec![("mcpServers", by_id(servers))],
        vec![("mcp", object(vec![], vec![("allowed", texts()), ("excluded", texts())]))],
    )
}
