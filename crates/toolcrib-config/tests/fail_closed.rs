//! Generates mistakes in a strict configuration and checks that none widens the rights of an anonymous or
//! restricted principal, at start and on reload.
#![allow(clippy::unwrap_used, reason = "a failed setup fails the test")]

mod mistakes;

use std::path::PathBuf;

use serde_json::{Value, json};
use toolcrib_config::model::host::Pins;
use toolcrib_config::model::security::{GatewayProtection, SecuritySection};
use toolcrib_config::model::transport::Transport;
use toolcrib_config::{Config, MemoryLookup, ServerSpec, Workspace, compile};

/// A configuration with the strictest value of every restricting setting.
fn strict_config() -> Value {
    let hash = "860a5f6de411e2c46b14b8491994ac8f4eb4ca378cf1107fa8254de5179442dd";
    json!({
        "version": 1,
        "gateway": {
            "listen": "127.0.0.1:1",
            "tokens": [{"sha256": hash, "agent": "ci", "owner": false}],
            "oauth": {"issuer": "https://issuer.example", "audience": "a", "agent_claim": "sub"},
            "origins": ["https://app.example"],
            "limits": {"rate": 5, "sessions": 3, "idle": "5m"},
        },
        "host": {
            "permissions": {"spawn": false, "network": false, "docker": false},
            "grants": {"members": {
                "default": {"toolsets": [], "capabilities": []},
                "reviewer": {"toolsets": ["a"], "capabilities": ["cap"]},
            }},
            "pins": "enforce",
            "secrets": {"s": {"kind": "file", "path": "secrets"}},
        },
        "profiles": {"strict": {
            "expose": {"tools": {"deny": ["danger*"]}},
            "client": {"sampling": "off"},
        }},
        "servers": {
            "a": {
                "command": "x", "allow_commands": ["x"], "inherit_env": "none",
                "expose": {
                    "tools": {"allow": ["safe"], "deny": ["danger"], "mode": "deny_wins",
                        "requires": {"safe": ["cap"]}},
                    "prompts": {"as": "off", "deny": ["p"]},
                    "resources": {"as": "off", "allow": ["r"]},
                },
                "client": {"roots": "off", "sampling": "off", "elicitation": "off", "logging": "off"},
                "access": {"grant": "capabilities"},
            },
            "b": {"url": "https://b.example/mcp", "url_policy": "https_or_loopback", "profile": "strict"},
            "c": {"transport": {"kind": "stdio", "command": "x", "allow_commands": ["x"],
                "env": {"inherit": "none"}}},
            "d": {"command": "x", "enabled": false, "scope": "cwd"},
        },
    })
}

/// User-defined names, and keys that restrict no access.
const FREE_KEYS: &[&str] = &[
    "version",
    "servers",
    "profiles",
    "default",
    "reviewer",
    "s",
    "strict",
    "a",
    "b",
    "c",
    "d",
    "safe",
    "command",
    "url",
    "transport",
    "kind",
];

/// Keys with an enumerated value.
const WORDS: &[&str] = &[
    "pins",
    "mode",
    "as",
    "roots",
    "sampling",
    "elicitation",
    "logging",
    "grant",
    "url_policy",
    "inherit_env",
    "inherit",
    "scope",
];

fn compile_text(text: &str) -> Config {
    let lookup = MemoryLookup::default().with_file("/ws/toolcrib.yaml", text);
    compile(&Workspace { root: PathBuf::from("/ws"), home: None, config_file: None }, &lookup)
}

/// Returns invalid values for a key.
fn wrong_values(key: &str, value: &Value) -> Vec<Value> {
    let all =
        [json!(5.5), json!(true), json!("nope!"), json!([]), json!({"nope!": 5}), Value::Null];
    let kind = std::mem::discriminant(value);
    let mut wrong: Vec<Value> =
        all.into_iter().filter(|other| std::mem::discriminant(other) != kind).collect();
    match value {
        Value::String(word) if WORDS.contains(&key) => wrong.push(json!(format!("{word}d"))),
        // A map without a value equals an empty map: its content was removed on purpose.
        Value::Object(_) => wrong.retain(|other| !other.is_null()),
        _ => {}
    }
    wrong
}

/// Returns the files that result from one mistake each, with a description of the mistake.
fn generate_mistakes() -> Vec<(String, String)> {
    let (good, mut found) = (strict_config(), Vec::new());
    for path in mistakes::all_pointers(&good) {
        let (_, key) = mistakes::split_pointer(&path);
        if FREE_KEYS.contains(&key) {
            continue;
        }
        for wrong in wrong_values(key, good.pointer(&path).unwrap()) {
            let mut file = good.clone();
            *file.pointer_mut(&path).unwrap() = wrong.clone();
            found.push((format!("{path}: {wrong}"), file.to_string()));
        }
        let keys = mistakes::misspell_key(&good, &path).into_iter();
        let keys = keys.chain(mistakes::move_key(&good, &path, &["requires"]));
        found.extend(keys.map(|(mistake, file)| (mistake, file.to_string())));
    }
    let text = good.to_string();
    found.extend((0..text.len()).map(|end| (format!("cut at {end}"), text[..end].to_owned())));
    found
}

/// Returns the rights that a configuration grants beyond the strict one.
fn find_widened_rights(good: &Config, config: &Config) -> Vec<String> {
    let mut found = Vec::new();
    let mut check = |is_wider: bool, what: &str| {
        if is_wider {
            found.push(what.to_owned());
        }
    };
    let (protection, invalid) = (config.security.protection, |it| config.security.is_invalid(it));
    check(protection == GatewayProtection::Open, "anonymous callers are admitted");
    let same_tokens =
        config.gateway.tokens == good.gateway.tokens && config.gateway.oauth == good.gateway.oauth;
    check(protection == GatewayProtection::Protected && !same_tokens, "other tokens");
    check(config.host.pins != Pins::Enforce, "pins");
    check(
        !invalid(SecuritySection::Secrets) && config.host.secrets != good.host.secrets,
        "secrets",
    );
    if !invalid(SecuritySection::Grants) {
        let members = &config.host.grants.members;
        check(!members.contains_key("default"), "`default` is unrestricted");
        for (name, member) in members.iter() {
            let good = good.host.grants.members.get(name).cloned().unwrap_or_default();
            check(member.toolsets.iter().any(|it| !good.toolsets.contains(it)), "toolsets");
            let has_more = member.capabilities.iter().any(|it| !good.capabilities.contains(it));
            check(has_more, "capabilities");
        }
    }
    for spec in config.servers.iter().filter(|spec| spec.policy.enabled) {
        let permissions = &config.host.permissions;
        check(permissions.spawn || permissions.network || permissions.docker, "permissions");
        let before = good.servers.iter().find(|it| it.id == spec.id && it.policy.enabled);
        let before = before.unwrap_or_else(|| panic!("`{}` was not enabled", spec.id));
        check(restrictions(spec) != restrictions(before), &format!("server {}", spec.id));
    }
    found
}

/// Describes everything that restricts a server.
fn restrictions(spec: &ServerSpec) -> String {
    let policy = &spec.policy;
    let transport = match &spec.transport {
        Transport::Stdio(it) => {
            let inherited = ["PATH", "HOME", "OTHER"].map(|name| it.env.inherit.allows(name));
            format!("{:?} {inherited:?}", it.allow_commands)
        }
        Transport::StreamableHttp(it) => format!("{:?}", it.remote.url_policy),
        other => format!("{other:?}"),
    };
    format!(
        "{:?} {:?} {:?} {:?} {transport}",
        policy.expose, policy.client, policy.access, policy.scope
    )
}

#[test]
fn single_mistakes_never_widen_rights() {
    let good = compile_text(&strict_config().to_string());
    assert_eq!(good.problems, [], "the strict configuration has no problems");
    assert_eq!(find_widened_rights(&good, &good), Vec::<String>::new());
    let mistakes = generate_mistakes();
    assert!(mistakes.len() > 2000, "{}", mistakes.len());
    let mut wider = Vec::new();
    for (mistake, text) in mistakes {
        let mut config = compile_text(&text);
        let at_start = find_widened_rights(&good, &config);
        config.keep_global_settings(&good);
        let on_reload = find_widened_rights(&good, &config);
        let is_kept = config.security.protection == GatewayProtection::Protected;
        if !at_start.is_empty() || !on_reload.is_empty() || !is_kept {
            wider.push(format!(
                "{mistake}: at start {at_start:?}, on reload {on_reload:?} {is_kept}"
            ));
        }
    }
    assert!(wider.is_empty(), "{} mistakes:\n{}", wider.len(), wider.join("\n"));
}

/// Control: a section that is removed on purpose does widen rights.
#[test]
fn removed_section_widens_rights() {
    let base = compile_text(&strict_config().to_string());
    for (path, key) in
        [("", "gateway"), ("/host", "grants"), ("/host", "pins"), ("/servers/a", "expose")]
    {
        let mut file = strict_config();
        file.pointer_mut(path).unwrap().as_object_mut().unwrap().remove(key).unwrap();
        assert!(
            !find_widened_rights(&base, &compile_text(&file.to_string())).is_empty(),
            "{path}/{key}"
        );
    }
}

/// Sections without a value, empty sections and sections at the wrong level are mistakes that invalidate the
/// section.
#[test]
fn empty_or_misplaced_security_section_is_invalid() {
    for (text, section) in [
        ("gateway: {oauth: }", SecuritySection::Gateway),
        ("gateway: {oauth: {}}", SecuritySection::Gateway),
        ("gateway:", SecuritySection::Gateway),
        ("host: {gateway: {tokens: []}}", SecuritySection::Gateway),
        ("tokens: []", SecuritySection::Gateway),
        ("oauth: {issuer: https://issuer.example}", SecuritySection::Gateway),
        ("gateway: {oauth: {issuer: https://issuer.example}}", SecuritySection::Gateway),
        ("gateway: {tokens: [{sha256: ab, agent: ci}]}", SecuritySection::Gateway),
        ("gateway: {origins: ['*']}", SecuritySection::Gateway),
        ("servers: {gateway: {tokens: []}}", SecuritySection::Gateway),
        ("profiles: {host: {grants: {members: {}}}}", SecuritySection::Grants),
        ("host: {members: {default: {}}}", SecuritySection::Grants),
        ("host: {spawn: false}", SecuritySection::Spawn),
        ("host: {reload: {pins: enforce}}", SecuritySection::Pins),
        ("host: {secrets: {pins: enforce}}", SecuritySection::Pins),
        ("grants: {members: {}}", SecuritySection::Grants),
        ("pins: enforce", SecuritySection::Pins),
        ("host: {permissions: }", SecuritySection::Spawn),
        ("host: {grants: }", SecuritySection::Grants),
        ("host: {grants: {members: }}", SecuritySection::Grants),
        ("host: {secrets: }", SecuritySection::Secrets),
    ] {
        let config = compile_text(&format!("version: 1\n{text}\n"));
        assert!(config.security.is_invalid(section), "{text}: {:?}", config.security);
        assert!(!config.problems.is_empty(), "{text}");
    }
}

/// An empty filter is a mistake that rejects its server.
#[test]
fn server_with_an_empty_filter_is_rejected() {
    for filter in
        ["expose: ", "expose: {tools: }", "expose: {tools: {allow: }}", "client: ", "access: "]
    {
        let text =
            format!("version: 1\nservers: {{a: {{command: x, {filter}}}, b: {{command: y}}}}\n");
        let config = compile_text(&text);
        let started: Vec<&str> = config.servers.iter().map(|spec| &*spec.id).collect();
        assert_eq!(started, ["b"], "{filter}: {:?}", config.problems);
    }
}
