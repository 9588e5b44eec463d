//! Which changes ask for trust anew, and what is left out until then.

use super::*;
use crate::testing::{codes, discovered};
use crate::{Action, Memory, diff};

const HOME: &str = "/user/toolcrib/toolcrib.yaml";
const FILE: &str = "/ws/toolcrib.yaml";

fn world(servers: &str) -> Memory {
    Memory::default()
        .with_file(FILE, format!("version: 1\nservers:\n{servers}\n"))
        .with_file("/ws/.env", "A=1\n")
        .with_file("/ws/other.env", "A=1\n")
}

fn config(servers: &str) -> Config {
    discovered(&world(servers), "/ws")
}

fn hashes(config: &Config) -> Vec<Hash> {
    config.launches().iter().map(|launch| launch.hash).collect()
}

fn trusted(config: &Config) -> Trusted {
    Trusted::These(hashes(config).into_iter().collect())
}

fn withheld(mut config: Config, before: &Config, trusted: &Trusted) -> Config {
    config.withhold(before, trusted, "toolcrib trust");
    config
}

const STDIO: &str =
    "  s: { command: run, args: [a], cwd: sub, env: { K: v }, env_file: .env, headers: {} }";
const HTTP: &str =
    "  s: { url: 'https://a.example/mcp', headers: { H: v }, auth: { kind: bearer, token: t } }";

#[test]
fn what_decides_what_runs_or_where_traffic_goes_asks_anew() {
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
    let held = discovered(&world(stdio).with_file("/ws/.env", "A=2\n"), "/ws");
    assert_ne!(hashes(&config(stdio)), hashes(&held), "what an environment file holds");
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
fn nothing_else_does() {
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
    // A comment, the order, another server's going.
    let two = format!("{HTTP} # remark\n  t: {{ command: x }}");
    assert_eq!(hashes(&config(HTTP)), hashes(&config(&two))[..1]);
}

#[test]
fn what_is_shown_is_all_that_counts_and_no_secret() {
    let [launch] = &config(HTTP).launches()[..] else { panic!() };
    assert_eq!(launch.server.as_deref(), Some("toolcrib.yaml#s"));
    let shown = Json::Object(launch.shown.clone());
    assert_eq!(shown["transport"]["url"], "https://a.example/mcp");
    assert_eq!(shown["transport"]["headers"]["H"], "***");
    assert_eq!(shown["auth"]["token"], "***");
}

#[test]
fn a_persons_own_files_need_no_trust_and_are_not_changed_by_what_is_found() {
    let own = "version: 1\nprofiles: { p: { transport: { env: { set: { A: mine } } } } }\nservers: { mine: { command: x, profile: p } }\nhost: { pins: enforce, permissions: { docker: false } }\n";
    let found = "version: 1\nprofiles: { p: { transport: { env: { set: { A: theirs } } } } }\nservers: { theirs: { command: x } }\nhost: { pins: off, secrets: { s: { kind: command, command: [evil] } } }\ngateway: { tokens: [{ sha256: 860a5f6de411e2c46b14b8491994ac8f4eb4ca378cf1107fa8254de5179442dd, agent: a, owner: true }] }\n";
    let world = Memory::default().with_file(HOME, own).with_file(FILE, found);
    let alone = discovered(&Memory::default().with_file(HOME, own), "/ws");
    assert!(alone.launches().is_empty());
    let both = discovered(&world, "/ws");
    let hash = |config: &Config| config.server("mine").map(|spec| spec.hash);
    assert_eq!(hash(&both), hash(&alone), "a found profile is not theirs");
    let parts: Vec<_> = both.launches().into_iter().map(|launch| launch.server).collect();
    assert_eq!(parts, [None, Some("toolcrib.yaml#theirs".to_string())]);
    let left = withheld(both.clone(), &Config::default(), &Trusted::Nothing);
    assert_eq!((&left.host, &left.gateway), (&alone.host, &alone.gateway));
    assert!(left.server("theirs").is_some_and(|spec| spec.is_withheld() && !spec.policy.enabled));
    assert!(left.server("mine").is_some_and(|spec| spec.policy.enabled));
    assert_eq!(codes(&left), ["trust.required"; 2]);
    let all = withheld(both.clone(), &Config::default(), &trusted(&both));
    assert!(all.same_as(&both) && all.problems.is_empty());
}

#[test]
fn whatever_is_named_needs_no_trust() {
    let named = crate::testing::compiled(
        crate::Dialect::Native,
        "version: 1\nservers: { s: { command: x } }\nhost: { pins: off }\n",
    );
    assert!(named.launches().is_empty());
    let found = config(STDIO);
    let all = withheld(found.clone(), &Config::default(), &Trusted::Everything);
    assert!(all.servers.iter().all(|spec| spec.policy.enabled));
}

#[test]
fn a_withheld_server_cannot_be_enabled_by_anybody() {
    let left = withheld(config(HTTP), &Config::default(), &Trusted::Nothing);
    let [spec] = &left.servers[..] else { panic!() };
    assert!(!spec.overridden(true, "somebody").policy.enabled);
}

#[test]
fn only_the_change_waits_and_what_ran_goes_on() {
    let old = "  a: { command: x }\n  b: { command: x }\n  c: { command: x }";
    let new =
        "  a: { command: y }\n  b: { command: x, timeouts: { request: 3s } }\n  d: { command: x }";
    let before = withheld(config(old), &Config::default(), &trusted(&config(old)));
    let now = withheld(config(new), &before, &trusted(&config(old)));
    let actions: Vec<_> = diff(&before, &now).steps.into_iter().map(|step| step.action).collect();
    let (kept, changed) = (Action::Keep, Action::Replace);
    assert_eq!(actions, [kept, changed, Action::Start, Action::Stop]);
    assert!(now.server("d").is_some_and(ServerSpec::is_withheld));
    let told: Vec<_> = now.problems.iter().map(|problem| problem.server.as_deref()).collect();
    assert_eq!(told, [Some("a"), Some("d")]);
    // Trusted, both are started; forgotten, all of them end.
    let then = withheld(config(new), &now, &trusted(&config(new)));
    let actions: Vec<_> = diff(&now, &then).steps.into_iter().map(|step| step.action).collect();
    assert_eq!(actions, [changed, kept, changed]);
    let gone = withheld(config(new), &then, &Trusted::Nothing);
    let actions: Vec<_> = diff(&then, &gone).steps.into_iter().map(|step| step.action).collect();
    assert_eq!(actions, [changed; 3]);
    assert!(gone.servers.iter().all(|spec| !spec.policy.enabled));
}

#[test]
fn a_hash_is_read_as_it_is_written() {
    let [hash] = hashes(&config(HTTP))[..] else { panic!() };
    assert_eq!(Hash::read(&hash.to_string()), Some(hash));
    for text in ["", "zz", &"é".repeat(32), &"0".repeat(63), &"+0".repeat(32)] {
        assert_eq!(Hash::read(text), None, "{text}");
    }
}

#[test]
fn what_is_found_and_not_trusted_takes_nobodys_place() {
    let own = "version: 1\nservers: { s: { command: mine }, t: { command: mine } }\nhost: { pins: enforce }\n";
    let found =
        "version: 1\nservers: { s: { command: theirs } }\nhost: { reserved_toolsets: [t] }\n";
    let world = Memory::default().with_file(HOME, own).with_file(FILE, found);
    let both = discovered(&world, "/ws");
    let ids = |config: &Config| {
        let of = |spec: &ServerSpec| (spec.id.clone(), spec.source.to_string());
        config.servers.iter().map(of).collect::<Vec<_>>()
    };
    let pair = |id: &str, file: &str| (id.to_string(), file.to_string());
    assert_eq!(ids(&both), [pair("t", HOME), pair("s", "toolcrib.yaml")]);
    let left = withheld(both.clone(), &Config::default(), &Trusted::Nothing);
    assert_eq!(ids(&left), [pair("t", HOME), pair("s", HOME)]);
    assert!(left.servers.iter().all(|spec| spec.policy.enabled));
    assert_eq!(left.host.reserved_toolsets, [] as [String; 0]);
    assert_eq!(codes(&left), ["trust.required"; 2], "nothing else is wrong");
    let told = left.problems.iter().find(|problem| problem.server.is_some()).unwrap();
    assert!(told.text.contains(&format!("the one of `{HOME}` is used")), "{told:?}");
    // Trusted, it takes the place; changed then, the one that was trusted goes on.
    let all = withheld(both.clone(), &Config::default(), &trusted(&both));
    assert_eq!(ids(&all), ids(&both));
    let changed = world.with_file(FILE, found.replace("theirs", "other"));
    let later = withheld(discovered(&changed, "/ws"), &all, &trusted(&both));
    assert_eq!(later.server("s").map(|spec| spec.hash), all.server("s").map(|spec| spec.hash));
}

#[test]
fn a_name_that_a_withheld_server_has_as_well_means_the_other() {
    let own = "version: 1\nservers: { s: { command: mine } }\n";
    let found = r#"{"servers": {"s": {"command": "theirs"}}}"#;
    let world = Memory::default().with_file(HOME, own).with_file("/ws/.dispatch/mcp.json", found);
    let both = discovered(&world, "/ws");
    assert!(both.server("s").is_none(), "it is not said which");
    let left = withheld(both, &Config::default(), &Trusted::Nothing);
    assert_eq!(left.server("s").map(|spec| &*spec.source), Some(HOME));
}

#[test]
fn a_found_file_that_cannot_be_read_opens_nothing_that_the_persons_own_closes() {
    let own = "version: 1\nhost: { pins: enforce, permissions: { docker: false } }\n";
    let world = Memory::default().with_file(HOME, own).with_file(FILE, "version: [\n");
    let mut config = discovered(&world, "/ws");
    config.keep_host_of(&Config::default());
    let left = withheld(config, &Config::default(), &Trusted::Nothing);
    let mut closed = discovered(&Memory::default().with_file(HOME, own), "/ws").host;
    closed.permissions.network = false;
    assert_eq!(left.host, closed);
    assert_eq!(left.security.protection, Protection::Invalid);
}

#[test]
fn a_gateway_that_only_an_untrusted_file_protects_lets_nobody_in() {
    let text = "version: 1\ngateway: { tokens: [{ sha256: 860a5f6de411e2c46b14b8491994ac8f4eb4ca378cf1107fa8254de5179442dd, agent: ci }] }\n";
    let found = discovered(&Memory::default().with_file(FILE, text), "/ws");
    assert_eq!(found.security.protection, Protection::Protected);
    let changed = discovered(
        &Memory::default().with_file(FILE, text.replace("agent: ci", "agent: me")),
        "/ws",
    );
    for known in [Trusted::Nothing, trusted(&found)] {
        let left = withheld(changed.clone(), &Config::default(), &known);
        assert_eq!(left.security.protection, Protection::Invalid);
        assert_eq!(left.gateway.tokens, None);
    }
    // On a reload the trusted one stays.
    let left = withheld(changed, &found, &trusted(&found));
    assert_eq!((left.security.protection, left.gateway), (Protection::Protected, found.gateway));
}
