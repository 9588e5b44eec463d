//! Names that two want: who keeps one, and what becomes of the other.

use super::*;

const TWO: &str = "  a: { transport: stdio, command: x }\n  b: { transport: stdio, command: x }\n";

#[test]
fn dom_17_and_18_the_first_keeps_a_name_and_the_other_tools_of_the_second_stay() {
    let crib = Crib::dominds(TWO).tools("a", &["open"]).tools("b", &["open", "shut"]);
    let (snapshot, problems) = crib.plan();
    let view = snapshot.view(None);
    assert_eq!(names(view), ["open", "shut"]); // DOM-17
    assert_eq!(view.tool("open").unwrap().server().unwrap().id(), "a");
    assert_eq!(told(&problems), ["warning name.collision b open"]); // DOM-18
    let holder = Holder::Server("file.yaml#a".into());
    assert_eq!(view.dropped("open").next().unwrap().reason, Reason::Taken(holder));
}

#[test]
fn files_come_in_load_order() {
    let one = "version: 1\nservers:\n  z: { transport: stdio, command: x }\n";
    let crib = Crib::dominds(TWO).file("later.yaml", Dialect::Dominds, one);
    let crib = crib.tools("z", &["open"]).tools("b", &["open"]);
    let (snapshot, _) = crib.plan();
    assert_eq!(&*snapshot.view(None).tool("open").unwrap().server().unwrap().key, "file.yaml#b");
    let order: Vec<_> = snapshot.view(None).toolsets().map(|t| t.name.to_string()).collect();
    assert_eq!(order, ["a", "b", "z"]);
}

#[test]
fn ext_09_toolsets_keep_their_order_and_a_freed_name_is_taken_up() {
    let crib = Crib::dominds(TWO).tools("a", &["open"]).tools("b", &["open", "shut"]);
    let crib = crib.tools("a", &["other"]);
    let (snapshot, problems) = crib.plan();
    assert_eq!(names(snapshot.view(None)), ["other", "open", "shut"]);
    assert_eq!(told(&problems), NONE);
    let order: Vec<_> = snapshot.view(None).toolsets().map(|t| t.name.to_string()).collect();
    assert_eq!(order, ["a", "b"]);
}

#[test]
fn dom_90_where_policy_says_so_a_collision_rejects_that_server_and_no_other() {
    let text = "  a: { command: x, naming: { template: '{tool}' } }\n  b: { command: x, naming: { template: '{tool}', on_collision: reject_server } }\n  c: { command: x, naming: { template: '{tool}' } }\n";
    let crib = Crib::native(text)
        .tools("a", &["open"])
        .tools("b", &["first", "open", "shut"])
        .tools("c", &["first", "shut"]);
    let (snapshot, problems) = crib.plan();
    let view = snapshot.view(None);
    assert_eq!(names(view), ["open", "first", "shut"], "what the rejected one had is free");
    assert_eq!(view.tool("first").unwrap().server().unwrap().id(), "c");
    assert_eq!(told(&problems), ["error name.collision b open"]);
    let server = view.server("b").unwrap();
    assert_eq!(server.status(), Status::ConfigInvalid); // EXT-08
    assert!(problems[0].is_error()); // EXT-08
    assert_eq!(view.tools_of("b").count(), 0);
    let dropped: Vec<_> = view.dropped("shut").collect();
    assert_eq!((dropped.len(), &dropped[0].reason), (1, &Reason::Refused));
}

#[test]
fn min_46_a_collision_is_an_error_to_the_caller_and_nothing_of_the_server_stays() {
    let text = "servers: [{ ServerName: github, Transport: stdio, Command: x }]";
    let mut crib = Crib::of(Dialect::Minion, text).tools("github", &["list", "create"]);
    crib.reserved_tools = vec!["mcp_github_create".to_owned()];
    let (snapshot, problems) = crib.plan();
    assert_eq!(names(snapshot.view(None)), [""; 0]);
    let refusal = snapshot.view(None).server("github").unwrap().refusal.clone().unwrap();
    let text = "failed to register tool mcp_github_create: it is reserved for the host";
    assert_eq!(refusal.to_string(), text);
    assert_eq!(problems[0].text, text);
}

#[test]
fn min_45_no_tools_is_an_error_where_policy_says_so() {
    let text = "servers: [{ ServerName: github, Transport: stdio, Command: x }]";
    let crib = Crib::of(Dialect::Minion, text);
    assert_eq!(told(&crib.plan().1), NONE, "nothing is known yet");
    let (snapshot, problems) = crib.tools("github", &[]).plan();
    assert_eq!(told(&problems), ["error server.no_tools github -"]);
    assert_eq!(problems[0].text, "no tools found on server: github");
    assert!(snapshot.view(None).server("github").unwrap().refusal.is_some());
}

#[test]
fn min_47_no_name_is_taken_apart() {
    let text = "servers: [{ ServerName: git, Transport: stdio, Command: x }, { ServerName: git_hub, Transport: stdio, Command: x }]";
    let crib = Crib::of(Dialect::Minion, text).tools("git", &["log"]).tools("git_hub", &["log"]);
    assert_eq!(listed(&crib), ["mcp_git_log", "mcp_git_hub_log"]);
    let gone = crib.presence("git", Presence::Disabled);
    assert_eq!(listed(&gone), ["mcp_git_hub_log"]);
    // MIN-68: the tools of a server
    let (snapshot, _) = gone.plan();
    let of = |server| snapshot.view(None).tools_of(server).count();
    assert_eq!((of("git"), of("git_hub"), of("file.yaml#git_hub")), (0, 1, 1));
}

#[test]
fn dom_20_no_server_takes_a_toolset_over() {
    let text = "  os: { transport: stdio, command: x }\n  ws: { transport: stdio, command: x }\n  ok: { transport: stdio, command: x }\n";
    let mut crib =
        Crib::dominds(text).tools("os", &["run"]).tools("ws", &["see"]).tools("ok", &["go"]);
    crib.native = vec![NativeToolset::new("os")];
    crib.reserved_toolsets = vec!["ws".to_owned()];
    let (snapshot, problems) = crib.plan();
    let view = snapshot.view(None);
    assert_eq!(names(view), ["go"]);
    assert!(view.toolset("os").unwrap().server.is_none(), "the native one is intact");
    assert_eq!(told(&problems), ["error toolset.collision os -", "error toolset.collision ws -"]);
    assert_eq!(problems[0].text, "failed to register toolset os: the native toolset `os` has it");
    assert_eq!((problems[0].source.as_deref(), problems[0].line), (Some("file.yaml"), Some(3)));
}

#[test]
fn two_servers_of_one_toolset_are_one_too_many() {
    let text = "  a: { command: x, toolset: t }\n  b: { command: x, toolset: t }\n";
    let crib = Crib::native(text).tools("a", &["go"]).tools("b", &["run"]);
    assert_eq!(listed(&crib), ["a__go"]);
    assert_eq!(told(&crib.plan().1), ["error toolset.collision b -"]);
    let off = crib.presence("a", Presence::Disabled);
    assert_eq!(listed(&off), ["b__run"], "one that is switched off stands in nobody's way");
    assert_eq!(told(&off.plan().1), NONE);
}

#[test]
fn one_server_can_collide_with_itself() {
    let text = "tools:\n  - { name: t, description: d, type: mcp, server: pkg, command: npx }\n";
    let crib = Crib::of(Dialect::Holodeck, text).tools("t", &["get.file", "get file"]);
    let (snapshot, problems) = crib.plan();
    assert_eq!(snapshot.view(None).tool("t_get-file").unwrap().original_name(), "get.file");
    assert_eq!(told(&problems), ["warning name.collision t get file"]);
}
