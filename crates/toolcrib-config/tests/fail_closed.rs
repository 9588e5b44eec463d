//! Generated mistakes in a good configuration: none of them widens the rights of an anonymous or restricted principal,
//! neither at a start nor on a reload.
#![allow(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod mistakes;

use std::path::PathBuf;

use serde_json::{Value, json};
use toolcrib_config::model::host::Pins;
use toolcrib_config::model::security::{Protection, Section};
use toolcrib_config::model::transport::Transport;
use toolcrib_config::{Config, Memory, ServerSpec, Workspace, compile};

/// Every setting that restricts somebody, at its strictest.
fn good() -> Value {
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

/// Keys that are names of the person's own, or that restrict nobody.
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

/// Keys whose value is one of a few words.
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

fn config(text: &str) -> Config {
    let world = Memory::default().with_file("/ws/toolcrib.yaml", text);
    compile(&Workspace { root: PathBuf::from("/ws"), home: None, named: None }, &world)
}

/// Values that cannot stand where this one does.
fn wrong_values(key: &str, value: &Value) -> Vec<Value> {
    let all =
        [json!(5.5), json!(true), json!("nope!"), json!([]), json!({"nope!": 5}), Value::Null];
    let kind = std::mem::discriminant(value);
    let mut wrong: Vec<Value> =
        all.into_iter().filter(|other| std::mem::discriminant(other) != kind).collect();
    match value {
        Value::String(word) if WORDS.contains(&key) => wrong.push(json!(format!("{word}d"))),
        // A map without a value is an empty one: somebody removed what was in it.
        Value::Object(_) => wrong.retain(|other| !other.is_null()),
        _ => {}
    }
    wrong
}

/// The files that one mistake makes of the good one, each with what the mistake is.
fn all_mistakes() -> Vec<(String, String)> {
    let (good, mut found) = (good(), Vec::new());
    for path in mistakes::paths(&good) {
        let (_, key) = mistakes::split(&path);
        if FREE_KEYS.contains(&key) {
            continue;
        }
        for wrong in wrong_values(key, good.pointer(&path).unwrap()) {
            let mut file = good.clone();
            *file.pointer_mut(&path).unwrap() = wrong.clone();
            found.push((format!("{path}: {wrong}"), file.to_string()));
        }
        let keys = mistakes::misspelt(&good, &path).into_iter();
        let keys = keys.chain(mistakes::moved(&good, &path, &["requires"]));
        found.extend(keys.map(|(mistake, file)| (mistake, file.to_string())));
    }
    let text = good.to_string();
    found.extend((0..text.len()).map(|end| (format!("cut at {end}"), text[..end].to_owned())));
    found
}

/// The rights that a configuration gives beyond the good one.
fn widened(good: &Config, config: &Config) -> Vec<String> {
    let mut found = Vec::new();
    let mut check = |is_wider: bool, what: &str| {
        if is_wider {
            found.push(what.to_owned());
        }
    };
    let (protection, invalid) = (config.security.protection, |it| config.security.is_invalid(it));
    check(protection == Protection::Open, "anonymous callers come in");
    let same_tokens =
        config.gateway.tokens == good.gateway.tokens && config.gateway.oauth == good.gateway.oauth;
    check(protection == Protection::Protected && !same_tokens, "other tokens");
    check(config.host.pins != Pins::Enforce, "pins");
    check(!invalid(Section::Secrets) && config.host.secrets != good.host.secrets, "secrets");
    if !invalid(Section::Grants) {
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
        check(limits(spec) != limits(before), &format!("server {}", spec.id));
    }
    found
}

/// Everything that restricts a server.
fn limits(spec: &ServerSpec) -> String {
    let policy = &spec.policy;
    let transport = match &spec.transport {
        Transport::Stdio(it) => {
            let inherited = ["PATH", "HOME", "OTHER"].map(|name| it.env.inherit.admits(name));
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
fn no_single_mistake_widens_what_anybody_may_do() {
    let good = config(&good().to_string());
    assert_eq!(good.problems, [], "the good one is good");
    assert_eq!(widened(&good, &good), Vec::<String>::new());
    let mistakes = all_mistakes();
    assert!(mistakes.len() > 2000, "{}", mistakes.len());
    let mut wider = Vec::new();
    for (mistake, text) in mistakes {
        let mut config = config(&text);
        let at_start = widened(&good, &config);
        config.keep_host_of(&good);
        let on_reload = widened(&good, &config);
        let is_kept = config.security.protection == Protection::Protected;
        if !at_start.is_empty() || !on_reload.is_empty() || !is_kept {
            wider.push(format!(
                "{mistake}: at start {at_start:?}, on reload {on_reload:?} {is_kept}"
            ));
        }
    }
    assert!(wider.is_empty(), "{} mistakes:\n{}", wider.len(), wider.join("\n"));
}

/// The test can fail: what somebody removes on purpose does widen.
#[test]
fn a_removed_section_is_noticed() {
    let base = config(&good().to_string());
    for (path, key) in
        [("", "gateway"), ("/host", "grants"), ("/host", "pins"), ("/servers/a", "expose")]
    {
        let mut file = good();
        file.pointer_mut(path).unwrap().as_object_mut().unwrap().remove(key).unwrap();
        assert!(!widened(&base, &config(&file.to_string())).is_empty(), "{path}/{key}");
    }
}

/// Sections without a value, empty ones, and sections at the wrong level are mistakes: the section is closed.
#[test]
fn an_empty_or_misplaced_section_is_closed() {
    for (text, section) in [
        ("gateway: {oauth: }", Section::Gateway),
        ("gateway: {oauth: {}}", Section::Gateway),
        ("gateway:", Section::Gateway),
        ("host: {gateway: {tokens: []}}", Section::Gateway),
        ("tokens: []", Section::Gateway),
        ("oauth: {issuer: https://issuer.example}", Section::Gateway),
        ("gateway: {oauth: {issuer: https://issuer.example}}", Section::Gateway),
        ("gateway: {tokens: [{sha256: ab, agent: ci}]}", Section::Gateway),
        ("gateway: {origins: ['*']}", Section::Gateway),
        ("servers: {gateway: {tokens: []}}", Section::Gateway),
        ("profiles: {host: {grants: {members: {}}}}", Section::Grants),
        ("host: {members: {default: {}}}", Section::Grants),
        ("host: {spawn: false}", Section::Spawn),
        ("host: {reload: {pins: enforce}}", Section::Pins),
        ("host: {secrets: {pins: enforce}}", Section::Pins),
        ("grants: {members: {}}", Section::Grants),
        ("pins: enforce", Section::Pins),
        ("host: {permissions: }", Section::Spawn),
        ("host: {grants: }", Section::Grants),
        ("host: {grants: {members: }}", Section::Grants),
        ("host: {secrets: }", Section::Secrets),
    ] {
        let config = config(&format!("version: 1\n{text}\n"));
        assert!(config.security.is_invalid(section), "{text}: {:?}", config.security);
        assert!(!config.problems.is_empty(), "{text}");
    }
}

/// An empty filter of a server is a mistake: the server does not start.
#[test]
fn a_server_with_an_empty_filter_does_not_start() {
    for filter in
        ["expose: ", "expose: {tools: }", "expose: {tools: {allow: }}", "client: ", "access: "]
    {
        let text =
            format!("version: 1\nservers: {{a: {{command: x, {filter}}}, b: {{command: y}}}}\n");
        let config = config(&text);
        let started: Vec<&str> = config.servers.iter().map(|spec| &*spec.id).collect();
        assert_eq!(started, ["b"], "{filter}: {:?}", config.problems);
    }
}
