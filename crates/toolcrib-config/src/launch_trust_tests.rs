//! Tests of the changes that need trust again, and of what is withheld until then.

use super::*;
use crate::testing::{compile_discovered, problem_codes};
use crate::{ChangeAction, MemoryLookup, diff};

const HOME: &str = "/user/toolcrib/toolcrib.yaml";
const FILE: &str = "/ws/toolcrib.yaml";

fn world(servers: &str) -> MemoryLookup {
    MemoryLookup::default()
        .with_file(FILE, format!("version: 1\nservers:\n{servers}\n"))
        .with_file("/ws/.env", "A=1\n")
        .with_file("/ws/other.env", "A=1\n")
}

fn config(servers: &str) -> Config {
    compile_discovered(&world(servers), "/ws")
}

fn hashes(config: &Config) -> Vec<ConfigHash> {
    config.launches().iter().map(|launch| launch.hash).collect()
}

fn trusted(config: &Config) -> TrustedLaunches {
    TrustedLaunches::Only(hashes(config).into_iter().collect())
}

fn withheld(mut config: Config, before: &Config, trusted: &TrustedLaunches) -> Config {
    config.withhold(before, trusted, "toolcrib trust");
    config
}

const STDIO: &str =
    "  s: { command: run, args: [a], cwd: sub, env: { K: v }, env_file: .env, headers: {} }";
const HTTP: &str =
    "  s: { url: 'https://a.example/mcp', headers: { H: v }, auth: { kind: bearer, token: t } }";

#[test]
fn launch_hash_covers_commands_and_destinations() {
    let stdio = "  s: { command: run, args: [a], cwd: sub, env: { K: v }, env_file: .env }";
    for changed in [
        "  s: { command: other, args: [a], cwd: sub, env: { K: v }, env_file: .env }",
        "  s: { command: run, args: [b], cwd: sub, env: { K: v }, env_file: .env }",
        "  s: { command: run, args: [a], cwd: up, env: { K: v }, env_file: .env }",
        "  s: { command: run, args: [a], cwd: sub, env: { K: w }, env_file: .env }",
        "  s: { command: run, args: [a], cwd: sub, env: { K: v }, env_file: other.env }",
        "  s: { command: run, args: [a], cwd: sub, env: { K: v } }",
        "  s: { command: run, args: [a], cwd: sub, env: { K: v }, env_file: .env, transport: { allow_commands: [run] } }",
        "  s: { command: run, args: [a], cwd: sub, env: { K: v }, env_file: .env, init: { config: { a: 1 } } }",
        "  t: { command: run, args: [a], cwd: sub, env: { K: v }, env_file: .env }",
    ] {
        assert_ne!(hashes(&config(stdio)), hashes(&config(changed)), "{changed}");
    }
    let held = compile_discovered(&world(stdio).with_file("/ws/.env", "A=2\n"), "/ws");
    assert_ne!(hashes(&config(stdio)), hashes(&held), "content of the environment file");
    for changed in [
        HTTP.replace("a.example", "b.example"),
        HTTP.replace("H: v", "H: w"),
        HTTP.replace("token: t", "token: u"),
        HTTP.replace("auth:", "auth_per_agent: { a: { kind: bearer, token: x } }, auth:"),
    ] {
        assert_ne!(hashes(&config(HTTP)), hashes(&config(&changed)), "{changed}");
    }
}

#[test]
fn launch_hash_ignores_other_settings() {
    for also in [
        "timeouts: { request: 3s }",
        "enabled: false",
        "description: d",
        "lifecycle: { connect: eager }",
        "expose: { tools: { allow: [a] } }",
        "x-mine: 1",
    ] {
        for entry in [STDIO, HTTP] {
            let changed = entry.replacen("{ ", &format!("{{ {also}, "), 1);
            assert_eq!(hashes(&config(entry)), hashes(&config(&changed)), "{changed}");
        }
    }
    // A comment, the order and another server do not affect the hash.
    let two = format!("{HTTP} # remark\n  t: {{ command: x }}");
    assert_eq!(hashes(&config(HTTP)), hashes(&config(&two))[..1]);
}

#[test]
fn launch_definition_masks_secrets() {
    let [launch] = &config(HTTP).launches()[..] else { panic!() };
    assert_eq!(launch.server.as_deref(), Some("toolcrib.yaml#s"));
    let shown = Json::Object(launch.masked_keys.clone());
    assert_eq!(shown["transport"]["url"], "https://a.example/mcp");
    assert_eq!(shown["transport"]["headers"]["H"], "***");
    assert_eq!(shown["auth"]["token"], "***");
}

#[test]
fn user_files_need_no_trust_and_ignore_discovered_files() {
    let own = "version: 1\nprofiles: { p: { transport: { env: { set: { A: mine } } } } }\nservers: { mine: { command: x, profile: p } }\nhost: { pins: enforce, permissions: { docker: false } }\n";
    let found = "version: 1\nprofiles: { p: { transport: { env: { set: { A: theirs } } } } }\nservers: { theirs: { command: x } }\nhost: { pins: off, secrets: { s: { kind: command, command: [evil] } } }\ngateway: { tokens: [{ sha256: 860a5f6de411e2c46b14b8491994ac8f4eb4ca378cf1107fa8254de5179442dd, agent: a, owner: true }] }\n";
    let world = MemoryLookup::default().with_file(HOME, own).with_file(FILE, found);
    let alone = compile_discovered(&MemoryLookup::default().with_file(HOME, own), "/ws");
    assert!(alone.launches().is_empty());
    let both = compile_discovered(&world, "/ws");
    let hash = |config: &Config| config.server("mine").map(|spec| spec.hash);
    assert_eq!(hash(&both), hash(&alone), "discovered profiles do not affect user files");
    let parts: Vec<_> = both.launches().into_iter().map(|launch| launch.server).collect();
    assert_eq!(parts, [None, Some("toolcrib.yaml#theirs".to_string())]);
    let left = withheld(both.clone(), &Config::default(), &TrustedLaunches::None);
    assert_eq!((&left.host, &left.gateway), (&alone.host, &alone.gateway));
    assert!(left.server("theirs").is_some_and(|spec| spec.is_withheld() && !spec.policy.enabled));
    assert!(left.server("mine").is_some_and(|spec| spec.policy.enabled));
    assert_eq!(problem_codes(&left), ["trust.required"; 2]);
    let all = withheld(both.clone(), &Config::default(), &trusted(&both));
    assert!(all.is_equivalent(&both) && all.problems.is_empty());
}

#[test]
fn explicitly_named_files_need_no_trust() {
    let named = crate::testing::compile_text(
        crate::Dialect::Native,
        "version: 1\nservers: { s: { command: x } }\nhost: { pins: off }\n",
    );
    assert!(named.launches().is_empty());
    let found = config(STDIO);
    let all = withheld(found.clone(), &Config::default(), &TrustedLaunches::All);
    assert!(all.servers.iter().all(|spec| spec.policy.enabled));
}

#[test]
fn withheld_server_cannot_be_enabled_by_override() {
    let left = withheld(config(HTTP), &Config::default(), &TrustedLaunches::None);
    let [spec] = &left.servers[..] else { panic!() };
    assert!(!spec.with_override(true, "somebody").policy.enabled);
}

#[test]
fn untrusted_change_keeps_the_trusted_definition() {
    let old = "  a: { command: x }\n  b: { command: x }\n  c: { command: x }";
    let new =
        "  a: { command: y }\n  b: { command: x, timeouts: { request: 3s } }\n  d: { command: x }";
    let before = withheld(config(old), &Config::default(), &trusted(&config(old)));
    let now = withheld(config(new), &before, &trusted(&config(old)));
    let actions: Vec<_> =
        diff(&before, &now).changes.into_iter().map(|change| change.action).collect();
    let (kept, changed) = (ChangeAction::Keep, ChangeAction::Replace);
    assert_eq!(actions, [kept, changed, ChangeAction::Start, ChangeAction::Stop]);
    assert!(now.server("d").is_some_and(ServerSpec::is_withheld));
    let reported: Vec<_> = now.problems.iter().map(|problem| problem.server.as_deref()).collect();
    assert_eq!(reported, [Some("a"), Some("d")]);
    // With trust both start; without any trust all stop.
    let then = withheld(config(new), &now, &trusted(&config(new)));
    let actions: Vec<_> =
        diff(&now, &then).changes.into_iter().map(|change| change.action).collect();
    assert_eq!(actions, [changed, kept, changed]);
    let gone = withheld(config(new), &then, &TrustedLaunches::None);
    let actions: Vec<_> =
        diff(&then, &gone).changes.into_iter().map(|change| change.action).collect();
    assert_eq!(actions, [changed; 3]);
    assert!(gone.servers.iter().all(|spec| !spec.policy.enabled));
}

#[test]
fn config_hash_round_trips() {
    let [hash] = hashes(&config(HTTP))[..] else { panic!() };
    assert_eq!(ConfigHash::parse(&hash.to_string()), Some(hash));
    for text in ["", "zz", &"é".repeat(32), &"0".repeat(63), &"+0".repeat(32)] {
        assert_eq!(ConfigHash::parse(text), None, "{text}");
    }
}

#[test]
fn untrusted_server_does_not_shadow_user_server() {
    let own = "version: 1\nservers: { s: { command: mine }, t: { command: mine } }\nhost: { pins: enforce }\n";
    let found =
        "version: 1\nservers: { s: { command: theirs } }\nhost: { reserved_toolsets: [t] }\n";
    let world = MemoryLookup::default().with_file(HOME, own).with_file(FILE, found);
    let both = compile_discovered(&world, "/ws");
    let ids = |config: &Config| {
        let of = |spec: &ServerSpec| (spec.id.clone(), spec.source.to_string());
        config.servers.iter().map(of).collect::<Vec<_>>()
    };
    let pair = |id: &str, file: &str| (id.to_string(), file.to_string());
    assert_eq!(ids(&both), [pair("t", HOME), pair("s", "toolcrib.yaml")]);
    let left = withheld(both.clone(), &Config::default(), &TrustedLaunches::None);
    assert_eq!(ids(&left), [pair("t", HOME), pair("s", HOME)]);
    assert!(left.servers.iter().all(|spec| spec.policy.enabled));
    assert_eq!(left.host.reserved_toolsets, [] as [String; 0]);
    assert_eq!(problem_codes(&left), ["trust.required"; 2], "other problems");
    let reported = left.problems.iter().find(|problem| problem.server.is_some()).unwrap();
    assert!(reported.text.contains(&format!("the one of `{HOME}` is used")), "{reported:?}");
    // A trusted server shadows the user's own. After an untrusted change the trusted definition continues.
    let all = withheld(both.clone(), &Config::default(), &trusted(&both));
    assert_eq!(ids(&all), ids(&both));
    let changed = world.with_file(FILE, found.replace("theirs", "other"));
    let later = withheld(compile_discovered(&changed, "/ws"), &all, &trusted(&both));
    assert_eq!(later.server("s").map(|spec| spec.hash), all.server("s").map(|spec| spec.hash));
}

#[test]
fn server_lookup_prefers_servers_that_are_not_withheld() {
    let own = "version: 1\nservers: { s: { command: mine } }\n";
    let found = r#"{"servers": {"s": {"command": "theirs"}}}"#;
    let world =
        MemoryLookup::default().with_file(HOME, own).with_file("/ws/.dispatch/mcp.json", found);
    let both = compile_discovered(&world, "/ws");
    assert!(both.server("s").is_none(), "the id is ambiguous");
    let left = withheld(both, &Config::default(), &TrustedLaunches::None);
    assert_eq!(left.server("s").map(|spec| &*spec.source), Some(HOME));
}

#[test]
fn unreadable_discovered_file_keeps_user_restrictions() {
    let own = "version: 1\nhost: { pins: enforce, permissions: { docker: false } }\n";
    let world = MemoryLookup::default().with_file(HOME, own).with_file(FILE, "version: [\n");
    let mut config = compile_discovered(&world, "/ws");
    config.keep_global_settings(&Config::default());
    let left = withheld(config, &Config::default(), &TrustedLaunches::None);
    let mut closed = compile_discovered(&MemoryLookup::default().with_file(HOME, own), "/ws").host;
    closed.permissions.network = false;
    assert_eq!(left.host, closed);
    assert_eq!(left.security.protection, GatewayProtection::Invalid);
}

#[test]
fn gateway_protected_only_by_untrusted_file_admits_no_one() {
    let text = "version: 1\ngateway: { tokens: [{ sha256: 860a5f6de411e2c46b14b8491994ac8f4eb4ca378cf1107fa8254de5179442dd, agent: ci }] }\n";
    let found = compile_discovered(&MemoryLookup::default().with_file(FILE, text), "/ws");
    assert_eq!(found.security.protection, GatewayProtection::Protected);
    let changed = compile_discovered(
        &MemoryLookup::default().with_file(FILE, text.replace("agent: ci", "agent: me")),
        "/ws",
    );
    for known in [TrustedLaunches::None, trusted(&found)] {
        let left = withheld(changed.clone(), &Config::default(), &known);
        assert_eq!(left.security.protection, GatewayProtection::Invalid);
        assert_eq!(left.gateway.tokens, None);
    }
    // A reload keeps the trusted settings.
    let left = withheld(changed, &found, &trusted(&found));
    assert_eq!(
        (left.security.protection, left.gateway),
        (GatewayProtection::Protected, found.gateway)
    );
}
