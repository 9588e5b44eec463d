//! Checks for every format with restricting keys that a misspelt or misplaced one never widens what is
//! offered.
#![allow(clippy::unwrap_used, reason = "a failed setup fails the test")]

mod mistakes;

use std::path::PathBuf;

use serde_json::{Value, json};
use toolcrib_config::model::security::SecuritySection;
use toolcrib_config::{Config, ConfigFile, Dialect, MemoryLookup, Severity, Workspace, compile};

/// A valid file of one format and its restricting keys.
struct FormatCase {
    dialect: Dialect,
    path: &'static str,
    good: Value,
    keys: &'static [&'static str],
}

fn cases() -> Vec<FormatCase> {
    let case = |dialect, path, good, keys| FormatCase { dialect, path, good, keys };
    vec![
        case(
            Dialect::Dominds,
            ".minds/mcp.yaml",
            json!({"version": 1, "servers": {
                "white": {"transport": "stdio", "command": "x",
                    "tools": {"whitelist": ["safe"]},
                    "prompts": {"whitelist": ["p"]},
                    "resources": {"whitelist": ["r"], "mimeTypes": ["text/plain"], "maxBytes": 5}},
                "black": {"transport": "stdio", "command": "x",
                    "tools": {"blacklist": ["danger"]},
                    "prompts": {"blacklist": ["p"]},
                    "resources": {"blacklist": ["r"]}},
                "off": {"transport": "stdio", "command": "x", "enabled": false,
                    "tools": {"whitelist": ["safe"]}},
            }}),
            &[
                "tools",
                "prompts",
                "resources",
                "whitelist",
                "blacklist",
                "mimeTypes",
                "maxBytes",
                "enabled",
            ],
        ),
        case(
            Dialect::Dispatch,
            ".dispatch/mcp.json",
            json!({"servers": {"a": {"command": "x"}, "off": {"command": "x", "disabled": true}}}),
            &["disabled"],
        ),
        case(
            Dialect::Opencode,
            "opencode.json",
            json!({"mcp": {
                "a": {"type": "local", "command": ["x"], "enabled": false},
                "b": {"command": "x", "disabled": true},
            }}),
            &["enabled", "disabled"],
        ),
        case(
            Dialect::Holodeck,
            "agent.yaml",
            json!({"tools": [{"name": "t", "description": "d", "type": "mcp", "server": "p",
                "command": "npx", "load_tools": false, "load_prompts": false,
                "config": {"allowed_tools": ["safe"], "other": 1}}]}),
            &["allowed_tools", "config", "load_tools", "load_prompts"],
        ),
        case(
            Dialect::Minion,
            "minion.yaml",
            json!({"Manager": {"MaxServers": 5},
                "Servers": [{"ServerName": "s", "Transport": "stdio", "Command": "x",
                    "RequiredCapabilities": {"rm": ["admin"]}}],
                "Agents": [{"Name": "default", "Capabilities": []}]}),
            &["RequiredCapabilities", "Agents"],
        ),
        case(
            Dialect::Docker,
            "docker.json",
            json!({"mcpServers": [{"namespace": "n", "image": "i", "enabledTools": ["safe"],
                "restart": {"maxAttempts": 3}}]}),
            &["enabledTools"],
        ),
        case(
            Dialect::Codex,
            ".codex/config.toml",
            json!({"mcp_servers": {
                "a": {"command": "x", "enabled_tools": ["safe"], "oauth": {"client_id": "c"}},
                "b": {"command": "x", "disabled_tools": ["danger"]},
                "off": {"command": "x", "enabled": false},
            }}),
            &["enabled_tools", "disabled_tools", "enabled"],
        ),
        case(
            Dialect::Gemini,
            ".gemini/settings.json",
            json!({
                "mcpServers": {
                    "a": {"command": "x", "includeTools": ["safe"]},
                    "b": {"command": "x", "excludeTools": ["danger"]},
                    "c": {"command": "x"},
                    "d": {"command": "x"},
                },
                "mcp": {"allowed": ["a", "b", "c"], "excluded": ["c"]},
            }),
            &["includeTools", "excludeTools", "mcp", "allowed", "excluded"],
        ),
    ]
}

fn compile_files(dialect: Dialect, path: &str, files: &[(&str, &str)]) -> Config {
    let mut lookup = MemoryLookup::default();
    for (path, text) in files {
        lookup = lookup.with_file(format!("/ws/{path}"), *text);
    }
    let config_file = ConfigFile { path: PathBuf::from("/ws").join(path), dialect: Some(dialect) };
    compile(
        &Workspace { root: PathBuf::from("/ws"), home: None, config_file: Some(config_file) },
        &lookup,
    )
}

fn to_file_text(dialect: Dialect, file: &Value) -> String {
    match (dialect, file) {
        (Dialect::Codex, Value::Object(map)) => {
            map.iter().map(|(key, value)| format!("{key:?} = {}\n", to_toml(value))).collect()
        }
        _ => file.to_string(),
    }
}

fn to_toml(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| format!("{key:?} = {}", to_toml(value));
            format!("{{ {} }}", map.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Returns the servers with wider access than in the valid file, and `grants` if grants changed.
fn find_widened_rights(good: &Config, config: &Config) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for spec in config.servers.iter().filter(|spec| spec.policy.enabled) {
        let is_same = good.servers.iter().any(|it| {
            it.id == spec.id
                && it.policy.enabled
                && it.policy.expose == spec.policy.expose
                && it.policy.discovery == spec.policy.discovery
        });
        if !is_same {
            found.push(spec.id.clone());
        }
    }
    let members = |config: &Config| config.host.grants.members.clone();
    if !config.security.is_invalid(SecuritySection::Grants) && members(config) != members(good) {
        found.push("grants".to_owned());
    }
    found
}

#[test]
fn misspelt_or_misplaced_keys_never_widen_rights() {
    let (mut wider, mut count) = (Vec::new(), 0);
    for FormatCase { dialect, path, good, keys } in cases() {
        let compiled =
            |file: &Value| compile_files(dialect, path, &[(path, &to_file_text(dialect, file))]);
        let base = compiled(&good);
        assert_eq!(base.problems, [], "{dialect}: the valid file has no problems");
        assert!(!base.servers.is_empty(), "{dialect}");
        for path in mistakes::all_pointers(&good) {
            if !keys.contains(&mistakes::split_pointer(&path).1) {
                continue;
            }
            let mistakes = mistakes::misspell_key(&good, &path).into_iter();
            for (mistake, file) in
                mistakes.chain(mistakes::move_key(&good, &path, MAPS_WITH_FREE_KEYS))
            {
                count += 1;
                let config = compiled(&file);
                let is_reported = config.problems.iter().any(|it| it.severity == Severity::Error);
                let found = find_widened_rights(&base, &config);
                if !found.is_empty() || !is_reported {
                    wider.push(format!("{dialect} {mistake}: {found:?}, reported: {is_reported}"));
                }
            }
        }
    }
    assert!(count > 500, "{count}");
    assert!(wider.is_empty(), "{} mistakes:\n{}", wider.len(), wider.join("\n"));
}

/// Maps with user-defined keys.
const MAPS_WITH_FREE_KEYS: &[&str] = &["RequiredCapabilities", "config"];

#[test]
fn misspelt_or_misplaced_team_members_give_no_grants() {
    let mcp = r#"{"version": 1, "servers": {"s": {"transport": "stdio", "command": "x"}}}"#;
    let files = |team: &Value| {
        let files = [(".minds/mcp.yaml", mcp), (".minds/team.yaml", &team.to_string())];
        compile_files(Dialect::Dominds, ".minds/mcp.yaml", &files)
    };
    let good = json!({
        "member_defaults": {"toolsets": ["x"]},
        "default_responder": "alice",
        "members": {"default": {"toolsets": []}, "alice": {"toolsets": ["s"]}},
    });
    let base = files(&good);
    assert_eq!(base.problems, []);
    for path in ["/members", "/members/default"] {
        let misspelt = match path {
            "/members" => mistakes::misspell_key(&good, path),
            _ => Vec::new(),
        };
        for (mistake, team) in
            misspelt.into_iter().chain(mistakes::move_key(&good, path, &["alice"]))
        {
            let mut config = files(&team);
            assert!(config.security.is_invalid(SecuritySection::Grants), "{mistake}");
            assert!(config.problems.iter().any(|it| it.code == "key.unknown"), "{mistake}");
            config.keep_global_settings(&base);
            assert_eq!(config.host.grants, base.host.grants, "{mistake}");
        }
    }
    assert!(files(&json!({"members": null})).security.is_invalid(SecuritySection::Grants));
}

#[test]
fn filters_of_other_clients_reject_the_entry() {
    for (keys, is_used) in [
        (json!({"disabled": true}), false),
        (json!({"disabled": false}), true),
        (json!({"enabled": false}), false),
        (json!({"includeTools": ["a"]}), false),
        (json!({"disabled_tools": ["a"]}), false),
        (json!({"tools": ["*"]}), true),
        (json!({"tools": ["a"]}), false),
        (json!({"alwaysAllow": ["a"], "color": "red"}), true),
    ] {
        for (dialect, path, list) in [
            (Dialect::Claude, ".mcp.json", "mcpServers"),
            (Dialect::Cursor, ".cursor/mcp.json", "mcpServers"),
            (Dialect::VsCode, ".vscode/mcp.json", "servers"),
        ] {
            let mut entry = json!({"command": "x"});
            entry.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
            let file = json!({list: {"s": entry, "other": {"command": "x"}}}).to_string();
            let config = compile_files(dialect, path, &[(path, &file)]);
            assert_eq!(config.servers.len(), 1 + usize::from(is_used), "{dialect} {keys}");
            assert_eq!(config.has_errors(), !is_used, "{dialect} {keys}: {:?}", config.problems);
        }
    }
}

#[test]
fn problem_suggests_the_intended_key() {
    for (keys, meant) in [
        (r#""tools": {"whitelst": ["a"]}"#, "whitelist"),
        (r#""tolls": {"whitelist": ["a"]}"#, "tools"),
        (r#""whitelist": ["a"]"#, "tools.whitelist"),
    ] {
        let file = format!(
            r#"{{"version": 1, "servers": {{"s": {{"transport": "stdio", "command": "x", {keys}}}}}}}"#
        );
        let path = ".minds/mcp.yaml";
        let config = compile_files(Dialect::Dominds, path, &[(path, &file)]);
        let [problem] = config.problems.as_slice() else { panic!("{:?}", config.problems) };
        assert_eq!(problem.fix.as_deref(), Some(format!("did you mean `{meant}`?").as_str()));
        assert!(problem.text.contains("is not used"), "{}", problem.text);
    }
}
