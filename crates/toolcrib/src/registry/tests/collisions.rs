//! Tests of name collisions.

use super::*;

const TWO: &str = "  a: { transport: stdio, command: x }\n  b: { transport: stdio, command: x }\n";

#[test]
fn dom_17_and_18_first_server_keeps_a_name_and_other_tools_stay() {
    let registry = TestRegistry::dominds(TWO).tools("a", &["open"]).tools("b", &["open", "shut"]);
    let (snapshot, problems) = registry.plan();
    let view = snapshot.view(None);
    assert_eq!(names(view), ["open", "shut"]); // DOM-17
    assert_eq!(view.tool("open").unwrap().server().unwrap().id(), "a");
    assert_eq!(problem_lines(&problems), ["warning name.collision b open"]); // DOM-18
    let holder = NameHolder::Server("file.yaml#a".into());
    assert_eq!(view.dropped("open").next().unwrap().reason, DropReason::Taken(holder));
}

#[test]
fn files_come_in_load_order() {
    let one = "version: 1\nservers:\n  z: { transport: stdio, command: x }\n";
    let registry = TestRegistry::dominds(TWO).file("later.yaml", Dialect::Dominds, one);
    let registry = registry.tools("z", &["open"]).tools("b", &["open"]);
    let (snapshot, _) = registry.plan();
    assert_eq!(&*snapshot.view(None).tool("open").unwrap().server().unwrap().key, "file.yaml#b");
    let order: Vec<_> = snapshot.view(None).toolsets().map(|t| t.name.to_string()).collect();
    assert_eq!(order, ["a", "b", "z"]);
}

#[test]
fn ext_09_toolsets_keep_their_order_and_freed_names_are_reused() {
    let registry = TestRegistry::dominds(TWO).tools("a", &["open"]).tools("b", &["open", "shut"]);
    let registry = registry.tools("a", &["other"]);
    let (snapshot, problems) = registry.plan();
    assert_eq!(names(snapshot.view(None)), ["other", "open", "shut"]);
    assert_eq!(problem_lines(&problems), NONE);
    let order: Vec<_> = snapshot.view(None).toolsets().map(|t| t.name.to_string()).collect();
    assert_eq!(order, ["a", "b"]);
}

#[test]
fn dom_90_collision_rejects_only_that_server_with_reject_server() {
    let text = "  a: { command: x, naming: { template: '{tool}' } }\n  b: { command: x, naming: { template: '{tool}', on_collision: reject_server } }\n  c: { command: x, naming: { template: '{tool}' } }\n";
    let registry = TestRegistry::native(text)
        .tools("a", &["open"])
        .tools("b", &["first", "open", "shut"])
        .tools("c", &["first", "shut"]);
    let (snapshot, problems) = registry.plan();
    let view = snapshot.view(None);
    assert_eq!(names(view), ["open", "first", "shut"], "names of the rejected server are free");
    assert_eq!(view.tool("first").unwrap().server().unwrap().id(), "c");
    assert_eq!(problem_lines(&problems), ["error name.collision b open"]);
    let server = view.server("b").unwrap();
    assert_eq!(server.status(), RegistrationStatus::ConfigInvalid); // EXT-08
    assert!(problems[0].is_error()); // EXT-08
    assert_eq!(view.tools_of("b").count(), 0);
    let dropped: Vec<_> = view.dropped("shut").collect();
    assert_eq!((dropped.len(), &dropped[0].reason), (1, &DropReason::Refused));
}

#[test]
fn min_46_collision_with_a_reserved_name_refuses_the_server() {
    let text = "servers: [{ ServerName: github, Transport: stdio, Command: x }]";
    let mut registry =
        TestRegistry::from_file(Dialect::Minion, text).tools("github", &["list", "create"]);
    registry.reserved_tools = vec!["mcp_github_create".to_owned()];
    let (snapshot, problems) = registry.plan();
    assert_eq!(names(snapshot.view(None)), [""; 0]);
    let refusal = snapshot.view(None).server("github").unwrap().refusal.clone().unwrap();
    let text = "failed to register tool mcp_github_create: the name is reserved for the host";
    assert_eq!(refusal.to_string(), text);
    assert_eq!(problems[0].text, text);
}

#[test]
fn min_45_server_without_tools_is_refused_with_require_tools() {
    let text = "servers: [{ ServerName: github, Transport: stdio, Command: x }]";
    let registry = TestRegistry::from_file(Dialect::Minion, text);
    assert_eq!(problem_lines(&registry.plan().1), NONE, "the lists are not known yet");
    let (snapshot, problems) = registry.tools("github", &[]).plan();
    assert_eq!(problem_lines(&problems), ["error server.no_tools github -"]);
    assert_eq!(problems[0].text, "no tools found on server: github");
    assert!(snapshot.view(None).server("github").unwrap().refusal.is_some());
}

#[test]
fn min_47_server_names_with_common_prefix_stay_separate() {
    let text = "servers: [{ ServerName: git, Transport: stdio, Command: x }, { ServerName: git_hub, Transport: stdio, Command: x }]";
    let registry = TestRegistry::from_file(Dialect::Minion, text)
        .tools("git", &["log"])
        .tools("git_hub", &["log"]);
    assert_eq!(listed(&registry), ["mcp_git_log", "mcp_git_hub_log"]);
    let gone = registry.presence("git", Presence::Disabled);
    assert_eq!(listed(&gone), ["mcp_git_hub_log"]);
    // MIN-68: the tools of a server
    let (snapshot, _) = gone.plan();
    let of = |server| snapshot.view(None).tools_of(server).count();
    assert_eq!((of("git"), of("git_hub"), of("file.yaml#git_hub")), (0, 1, 1));
}

#[test]
fn dom_20_server_cannot_take_an_existing_toolset_name() {
    let text = "  os: { transport: stdio, command: x }\n  ws: { transport: stdio, command: x }\n  ok: { transport: stdio, command: x }\n";
    let mut registry = TestRegistry::dominds(text)
        .tools("os", &["run"])
        .tools("ws", &["see"])
        .tools("ok", &["go"]);
    registry.native = vec![NativeToolset::new("os")];
    registry.reserved_toolsets = vec!["ws".to_owned()];
    let (snapshot, problems) = registry.plan();
    let view = snapshot.view(None);
    assert_eq!(names(view), ["go"]);
    assert!(view.toolset("os").unwrap().server.is_none(), "the native toolset is unchanged");
    assert_eq!(
        problem_lines(&problems),
        ["error toolset.collision os -", "error toolset.collision ws -"]
    );
    assert_eq!(
        problems[0].text,
        "failed to register toolset os: the name is taken by the native toolset `os`"
    );
    assert_eq!((problems[0].source.as_deref(), problems[0].line), (Some("file.yaml"), Some(3)));
}

#[test]
fn two_servers_cannot_share_a_toolset_name() {
    let text = "  a: { command: x, toolset: t }\n  b: { command: x, toolset: t }\n";
    let registry = TestRegistry::native(text).tools("a", &["go"]).tools("b", &["run"]);
    assert_eq!(listed(&registry), ["a__go"]);
    assert_eq!(problem_lines(&registry.plan().1), ["error toolset.collision b -"]);
    let off = registry.presence("a", Presence::Disabled);
    assert_eq!(listed(&off), ["b__run"], "a disabled server does not block its toolset name");
    assert_eq!(problem_lines(&off.plan().1), NONE);
}

#[test]
fn tools_of_one_server_can_collide() {
    let text = "tools:\n  - { name: t, description: d, type: mcp, server: pkg, command: npx }\n";
    let registry =
        TestRegistry::from_file(Dialect::Holodeck, text).tools("t", &["get.file", "get file"]);
    let (snapshot, problems) = registry.plan();
    assert_eq!(snapshot.view(None).tool("t_get-file").unwrap().original_name(), "get.file");
    assert_eq!(problem_lines(&problems), ["warning name.collision t get file"]);
}
