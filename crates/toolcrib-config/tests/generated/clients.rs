//! Strategies for the files of Claude, VS Code, Cursor, Codex and Gemini CLI.

use proptest::prelude::*;
use serde_json::json;
use toolcrib_config::Dialect;

use super::{
    GeneratedFiles, JsonStrategy, SecretTexts, by_id, flag, list, millis, object, one_of,
    single_file, text, texts,
};

pub(super) fn files(secrets: SecretTexts) -> Vec<BoxedStrategy<GeneratedFiles>> {
    vec![
        single_file(Dialect::Claude, ".mcp.json", servers_under("mcpServers", claude(secrets))),
        single_file(
            Dialect::Claude,
            "claude_desktop_config.json",
            servers_under("mcpServers", claude(secrets)),
        ),
        single_file(Dialect::VsCode, ".vscode/mcp.json", vscode(secrets)),
        single_file(
            Dialect::Cursor,
            ".cursor/mcp.json",
            servers_under("mcpServers", cursor(secrets)),
        ),
        single_file(
            Dialect::Codex,
            ".codex/config.toml",
            servers_under("mcp_servers", codex(secrets)),
        ),
        single_file(Dialect::Gemini, ".gemini/settings.json", gemini(secrets)),
    ]
}

fn servers_under(key: &'static str, entry: JsonStrategy) -> JsonStrategy {
    object(vec![(key, by_id(entry))], vec![])
}

type Fields = Vec<(&'static str, JsonStrategy)>;

/// An entry with a command or a URL, and the keys of both.
fn entry(stdio: Fields, remote: Fields, common: impl Fn() -> Fields) -> JsonStrategy {
    let command = prop_oneof![3 => one_of(&["npx", "x", "${X}/bin"]), 1 => text()].boxed();
    let url = one_of(&["https://x/y", "http://x:1/${X}", "https://x/${X:-d}"]);
    prop_oneof![
        object(vec![("command", command)], [common(), stdio].concat()),
        object(vec![("url", url)], [common(), remote].concat()),
    ]
    .boxed()
}

/// Variables; `null` unsets one.
fn variables(secrets: SecretTexts) -> JsonStrategy {
    let value = prop_oneof![6 => secrets.text(), 1 => Just(json!(null)), 1 => Just(json!(1.5)), 1 => flag()];
    secrets.map_of(value.boxed())
}

fn client(secrets: SecretTexts) -> JsonStrategy {
    object(
        vec![],
        vec![("clientId", text()), ("clientSecret", secrets.text()), ("scopes", texts())],
    )
}

fn claude(secrets: SecretTexts) -> JsonStrategy {
    let oauth = object(vec![], vec![("clientId", text()), ("scopes", text())]);
    entry(
        vec![("type", one_of(&["stdio"])), ("args", texts()), ("env", variables(secrets))],
        vec![("type", one_of(&["http", "sse"])), ("headers", secrets.texts()), ("oauth", oauth)],
        || {
            vec![
                ("timeout", millis()),
                ("alwaysLoad", flag()),
                ("headersHelper", secrets.unknown()),
            ]
        },
    )
}

fn vscode(secrets: SecretTexts) -> JsonStrategy {
    let servers = entry(
        vec![
            ("type", one_of(&["stdio"])),
            ("args", texts()),
            ("cwd", one_of(&["docs", "${workspaceFolder}", "${X}"])),
            ("env", variables(secrets)),
            ("envFile", one_of(&["${workspaceFolder}/.env"])),
        ],
        vec![
            ("type", one_of(&["http", "sse"])),
            ("headers", secrets.texts()),
            ("oauth", client(secrets)),
        ],
        || vec![("gallery", secrets.unknown())],
    );
    let input = |id: &'static str| {
        object(
            vec![
                ("type", one_of(&["promptString", "pickString"])),
                ("id", Just(json!(id)).boxed()),
            ],
            vec![("description", text()), ("options", texts())],
        )
    };
    let password = object(
        vec![
            ("type", one_of(&["promptString"])),
            ("id", one_of(&["key"])),
            ("password", Just(json!(true)).boxed()),
        ],
        vec![("default", secrets.text())],
    );
    let inputs = list(prop_oneof![input("key"), input("o d"), password].boxed());
    object(vec![("servers", by_id(servers)), ("inputs", inputs)], vec![])
}

fn cursor(secrets: SecretTexts) -> JsonStrategy {
    let auth = object(
        vec![],
        vec![("CLIENT_ID", text()), ("CLIENT_SECRET", secrets.text()), ("scopes", texts())],
    );
    entry(
        vec![("args", texts()), ("env", variables(secrets)), ("envFile", one_of(&[".env"]))],
        vec![("headers", secrets.texts()), ("auth", auth)],
        || vec![("unknown", secrets.unknown())],
    )
}

fn codex(secrets: SecretTexts) -> JsonStrategy {
    let seconds = || prop_oneof![Just(json!(1.5)), Just(json!(10.0))].boxed();
    entry(
        vec![
            ("args", texts()),
            ("cwd", one_of(&["docs"])),
            ("env", secrets.texts()),
            (
                "env_vars",
                list(prop_oneof![text(), text().prop_map(|name| json!({ "name": name }))].boxed()),
            ),
        ],
        vec![
            ("http_headers", secrets.texts()),
            ("env_http_headers", super::map(super::name(), one_of(&["X", "NOPE"]), 0..2)),
            ("bearer_token_env_var", one_of(&["X"])),
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

fn gemini(secrets: SecretTexts) -> JsonStrategy {
    let servers = entry(
        vec![("args", texts()), ("cwd", one_of(&["docs", "$X"])), ("env", variables(secrets))],
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
