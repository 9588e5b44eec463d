//! Tests of servers that are unavailable, disabled or limited to one folder.

use toolcrib_config::Severity;

use super::*;

fn away(policy: &str) -> TestRegistry {
    let text = format!(
        "  a: {{ command: x, naming: {{ template: '{{tool}}' }}, availability: {{ on_unavailable: {policy} }} }}\n  b: {{ command: x, naming: {{ template: '{{tool}}' }} }}\n"
    );
    let registry = TestRegistry::native(&text).tools("a", &["go"]).tools("b", &["go", "run"]);
    registry.presence("a", Presence::Away)
}

#[test]
fn only_unregister_frees_the_names_of_an_unavailable_server() {
    for (policy, tools, holder, available) in [
        ("unregister", &["go", "run"][..], "b", true),
        ("hide", &["run"], "a", false),       // DIS-32
        ("keep", &["go", "run"], "a", false), // MIN-48
    ] {
        let (snapshot, problems) = away(policy).plan();
        let view = snapshot.view(None);
        assert_eq!(names(view), tools, "{policy}");
        let go = view.tool("go").unwrap();
        assert_eq!((go.server().unwrap().id(), go.is_available()), (holder, available), "{policy}");
        assert!(view.toolset("a").is_some(), "{policy}");
        // EXT-08: an outage is only information
        assert_eq!(
            (problems[0].code.as_str(), problems[0].severity),
            ("server.away", Severity::Info)
        );
        assert_eq!(view.server("a").unwrap().status().as_str(), "temporarily_unavailable");
        assert_eq!(view.server("b").unwrap().status().as_str(), "loaded");
    }
}

#[test]
fn dis_35_server_without_lists_does_not_delay_others() {
    let text = "  a: { command: x }\n  b: { command: x }\n";
    let registry = TestRegistry::native(text).tools("b", &["go"]);
    let (snapshot, problems) = registry.plan();
    assert_eq!(names(snapshot.view(None)), ["b__go"]);
    assert_eq!(problem_lines(&problems), NONE);
    let status = snapshot.view(None).server("a").unwrap().status();
    assert_eq!(status, RegistrationStatus::TemporarilyUnavailable);
}

#[test]
fn ext_01_disabled_server_is_a_toolset_without_tools() {
    let text = "  a: { transport: stdio, command: x, enabled: false }\n  b: { transport: stdio, command: x }\n";
    let registry = TestRegistry::dominds(text).tools("a", &["go"]).tools("b", &["go"]);
    let (snapshot, problems) = registry.plan();
    let view = snapshot.view(None);
    assert_eq!(view.toolset("a").unwrap().tools.len(), 0);
    assert_eq!(view.tool("go").unwrap().server().unwrap().id(), "b");
    assert_eq!(view.dropped("go").next().unwrap().reason, DropReason::Disabled);
    assert_eq!(view.server("a").unwrap().status().as_str(), "disabled"); // EXT-08
    assert_eq!(problem_lines(&problems), NONE);
}

#[test]
fn dis_02_two_folders_may_use_the_same_ids_and_names() {
    let text = r#"{"servers":{"git":{"command":"x"}}}"#;
    let registry = TestRegistry::native("  all: { command: x }\n")
        .tools("all", &["go"])
        .file("one/.dispatch/mcp.json", Dialect::Dispatch, text)
        .tools("git", &["log"])
        .cwd("git", "/ws/one")
        .file("two/.dispatch/mcp.json", Dialect::Dispatch, text)
        .tools("git", &["log", "diff"])
        .cwd("git", "/ws/two");
    let (snapshot, problems) = registry.plan();
    let in_folder = |path: &str| snapshot.view(Some(Path::new(path)));
    assert_eq!(names(in_folder("/ws/one")), ["all__go", "git__log"]);
    assert_eq!(names(in_folder("/ws/two")), ["all__go", "git__log", "git__diff"]);
    assert_eq!(names(in_folder("/elsewhere")), ["all__go"]);
    assert_eq!(names(snapshot.view(None)), ["all__go"]);
    let key = |path| in_folder(path).tool("git__log").unwrap().server().unwrap().key.clone();
    assert_ne!(key("/ws/one"), key("/ws/two"));
    assert_eq!(problem_lines(&problems), NONE);
    assert_eq!(snapshot.servers().count(), 3);
    assert_eq!(snapshot.version(), 7);
}

#[test]
fn folder_servers_cannot_take_global_names() {
    let text = "  here: { command: x, naming: { template: '{tool}' } }\n  all: { command: x, naming: { template: '{tool}' } }\n";
    let registry = TestRegistry::native(text)
        .tools("here", &["go", "x_y"])
        .tools("all", &["go", "x:y"])
        .cwd("here", "/ws");
    let (snapshot, problems) = registry.plan();
    let view = snapshot.view(Some(Path::new("/ws")));
    assert_eq!(names(view), ["go", "x:y"]);
    assert_eq!(view.tool("x_y").unwrap().original_name(), "x:y");
    assert_eq!(
        problem_lines(&problems),
        ["warning name.collision here go", "warning name.collision here x_y"]
    );
}
