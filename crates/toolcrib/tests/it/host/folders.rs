//! Dialogs in different folders, and their switches.

use serde_json::{Value, json};
use toolcrib::{Dialog, DialogRequest, ErrorKind};
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_testkit::time_limit::with_time_limit;
use toolcrib_upstream::conn::ServerState;

use super::workspace::{
    TestWorkspace, call_count, call_text, call_tool, counting_script, error_kind, has_problem,
    is_alive, open_dialog, open_dialog_in, problem_codes, request, tool_names, wait_until,
};

#[tokio::test]
async fn dis_02_10_each_folder_has_its_own_servers() {
    let workspace = TestWorkspace::new();
    let script = |tool: &str| Script { tools: vec![tool.to_owned()], ..counting_script() };
    let one = workspace
        .write_dispatch("one", &json!({"fs": workspace.scripted_entry(script("left"), "one-log")}));
    let two = workspace.write_dispatch(
        "two",
        &json!({"fs": workspace.scripted_entry(script("right"), "two-log")}),
    );
    let host = workspace.start_host().await;
    let (in_one, in_two) = (open_dialog_in(&host, &one).await, open_dialog_in(&host, &two).await);
    // DIS-02: the same id in two folders means two servers with disjoint lists.
    let (left, right) = (tool_names(&in_one).await, tool_names(&in_two).await);
    assert!(left.contains(&"fs__left".to_owned()) && !left.contains(&"fs__right".to_owned()));
    assert!(right.contains(&"fs__right".to_owned()) && !right.contains(&"fs__left".to_owned()));
    assert_eq!(tool_names(&open_dialog(&host, "default").await).await, [""; 0]);
    let (left, right) =
        (call_count(&in_one, "fs__count").await.0, call_count(&in_two, "fs__count").await.0);
    assert_ne!(left, right);
    // DIS-10: each server runs in its dialog's folder.
    for (dialog, folder) in [(&in_one, &one), (&in_two, &two)] {
        let env: Value =
            serde_json::from_str(&call_text(dialog, "fs__env", &json!({})).await).unwrap();
        assert_eq!(env["cwd"], json!(folder));
    }
    // Disabling one server does not affect the other one.
    let keys: Vec<_> = host.servers().into_iter().map(|server| server.key).collect();
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1]);
    with_time_limit(host.disable_server(&keys[0], "a person")).await.unwrap();
    let states: Vec<_> = host.servers().into_iter().map(|server| server.state).collect();
    assert_eq!(states, [ServerState::Disabled, ServerState::Ready]);
    assert_eq!(call_count(&in_two, "fs__count").await, (right, 2));
    // A folder without dialogs has no servers.
    with_time_limit(in_two.close()).await;
    wait_until("its server has ended", || !is_alive(right)).await;
    wait_until("the server is removed", || host.servers().len() == 1).await;
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn folder_problems_end_with_its_last_dialog() {
    let workspace = TestWorkspace::new();
    let one = workspace.write_dispatch("one", &json!({"bad": {"command": 7}}));
    let host = workspace.start_host().await;
    let (first, second) = (open_dialog_in(&host, &one).await, open_dialog_in(&host, &one).await);
    let errors = || host.problems().into_iter().filter(|it| it.is_error()).collect::<Vec<_>>();
    assert_eq!(errors().len(), 1, "{:?}", errors());
    assert!(
        errors()[0]
            .source
            .as_deref()
            .is_some_and(|source| source.starts_with(one.to_str().unwrap()))
    );
    with_time_limit(host.reload()).await.unwrap();
    assert_eq!(errors().len(), 1, "{:?}", errors());
    with_time_limit(first.close()).await;
    assert_eq!(errors().len(), 1);
    with_time_limit(second.close()).await;
    wait_until("no problem is left", || host.problems().is_empty()).await;
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn dis_11_17_server_starts_once_at_the_first_turn() {
    let workspace = TestWorkspace::new();
    let slow = counting_script().start([Step::Sleep(200)]);
    let folder =
        workspace.write_dispatch("one", &json!({"fs": workspace.scripted_entry(slow, "fs")}));
    let host = workspace.start_host().await;
    let one = open_dialog_in(&host, &folder).await;
    // DIS-11: nothing starts before the first list.
    assert_eq!(host.servers()[0].state, ServerState::Idle);
    assert_eq!(workspace.log("fs").len(), 0);
    // DIS-17: ten concurrent calls start one process, which serves later turns, too.
    let nothing = json!({});
    let calls = (0..10).map(|_| call_tool(&one, "fs__count", &nothing));
    let done = futures_util::future::join_all(calls).await;
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    let pid = call_count(&one, "fs__count").await;
    assert_eq!(pid.1, 11);
    drop(with_time_limit(one.turn()).await);
    assert_eq!(call_count(&one, "fs__count").await, (pid.0, 12));
    assert_eq!(workspace.count_messages("fs", "initialize"), 1);
    // A new host starts the server again; the stored catalog does not replace it.
    with_time_limit(host.close()).await;
    let host = workspace.start_host().await;
    let one = open_dialog_in(&host, &folder).await;
    assert_eq!(workspace.count_messages("fs", "initialize"), 1);
    assert_eq!(tool_names(&one).await.len(), 4);
    assert_eq!(workspace.count_messages("fs", "initialize"), 2);
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn dis_32_35_unavailable_server_is_hidden_and_blocks_no_dialog() {
    let workspace = TestWorkspace::new();
    let turns = vec![vec![], vec![Step::Exit(1)]];
    let dying = counting_script()
        .on("tools/call die", [Step::Exit(1)])
        .start([Step::Sequence { count: workspace.log_path("starts"), turns }]);
    let folder = workspace.write_dispatch(
        "one",
        &json!({
            "dying": workspace.scripted_entry(dying, "dying"),
            "dead": {"command": "/nowhere/at/all"},
            "good": workspace.scripted_entry(counting_script(), "good"),
        }),
    );
    let host = workspace.start_host().await;
    let one = open_dialog_in(&host, &folder).await;
    // DIS-35: a server that cannot start costs the turn only its own tools.
    let seen = tool_names(&one).await;
    let of = |seen: &[String], id: &str| seen.iter().filter(|name| name.starts_with(id)).count();
    assert_eq!((of(&seen, "dying__"), of(&seen, "dead__"), of(&seen, "good__")), (5, 0, 4));
    assert_eq!(error_kind(call_tool(&one, "dying__die", &json!({})).await), ErrorKind::Connection);
    // DIS-32: the next turn lacks this server's tools and has all others.
    wait_until("the server is away", || {
        host.servers().iter().any(|it| it.spec.id == "dying" && it.state == ServerState::Failed)
    })
    .await;
    let seen = tool_names(&one).await;
    assert_eq!((of(&seen, "dying__"), of(&seen, "good__")), (0, 4));
    assert!(call_count(&one, "good__count").await.1 == 1);
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn lost_server_restarts_on_demand() {
    let workspace = TestWorkspace::new();
    let script = counting_script().on("tools/call die", [Step::Exit(1)]);
    let folder =
        workspace.write_dispatch("one", &json!({"fs": workspace.scripted_entry(script, "fs")}));
    let host = workspace.start_host().await;
    let one = open_dialog_in(&host, &folder).await;
    let pid = call_count(&one, "fs__count").await.0;
    assert_eq!(error_kind(call_tool(&one, "fs__die", &json!({})).await), ErrorKind::Connection);
    wait_until("the server is away", || host.servers()[0].state == ServerState::Failed).await;
    // DOM-94: a list restarts the server without waiting; a call waits.
    assert_eq!(tool_names(&one).await.len(), 0);
    assert_ne!(call_count(&one, "fs__count").await.0, pid);
    assert_eq!(tool_names(&one).await.len(), 5);
    with_time_limit(host.close()).await;
}

async fn dialog_with_id(host: &toolcrib::Host, id: &str) -> Dialog {
    let request = DialogRequest { id: Some(id.to_owned()), ..DialogRequest::default() };
    with_time_limit(host.open_dialog(request)).await.unwrap()
}

fn switches_of(dialog: &Dialog) -> Vec<(String, bool)> {
    dialog.switches().into_iter().map(|(server, on)| (server.id().to_owned(), on)).collect()
}

#[tokio::test]
async fn dis_33_34_dialog_switches_are_private_and_persistent() {
    let workspace = TestWorkspace::new();
    let entry = |name: &str| {
        let mut entry = workspace.scripted_entry(Script::default(), name);
        entry["session"] = json!({"scope": "shared"});
        entry
    };
    workspace.write_servers(&json!({"freecad": entry("freecad"), "other": entry("other")}));
    let host = workspace.start_host().await;
    let (one, two) = (dialog_with_id(&host, "one").await, dialog_with_id(&host, "two").await);
    wait_until("both servers are ready", || host.status().ready == 2).await;
    // DIS-34: get, toggle, get.
    assert_eq!(switches_of(&one), [("freecad".to_owned(), true), ("other".to_owned(), true)]);
    let turn = with_time_limit(one.turn()).await;
    with_time_limit(one.set_switch("freecad", false)).await.unwrap();
    assert_eq!(switches_of(&one), [("freecad".to_owned(), false), ("other".to_owned(), true)]);
    // A running turn keeps its tools; the next turn lacks them.
    assert_eq!(turn.tools().len(), 6);
    with_time_limit(turn.call(request("freecad__echo", &json!({})))).await.unwrap();
    drop(turn);
    assert_eq!(tool_names(&one).await.len(), 3);
    assert_eq!(
        error_kind(call_tool(&one, "freecad__echo", &json!({})).await),
        ErrorKind::UnknownTool
    );
    // DIS-33: the switch affects only this dialog.
    assert_eq!((tool_names(&two).await.len(), switches_of(&two)[0].1), (6, true));
    assert!(with_time_limit(one.set_switch("nobody", false)).await.is_err());
    with_time_limit(host.close()).await;
    // DIS-34: a new host keeps the switch until the dialog is closed.
    let host = workspace.start_host().await;
    wait_until("both servers are ready", || host.status().ready == 2).await;
    let one = dialog_with_id(&host, "one").await;
    assert_eq!((switches_of(&one)[0].1, tool_names(&one).await.len()), (false, 3));
    with_time_limit(one.set_switch("freecad", true)).await.unwrap();
    assert_eq!(tool_names(&one).await.len(), 6);
    with_time_limit(one.set_switch("freecad", false)).await.unwrap();
    with_time_limit(one.close()).await;
    assert!(switches_of(&dialog_with_id(&host, "one").await)[0].1);
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn dis_45_spawn_and_network_are_separate_permissions() {
    let web = toolcrib_testkit::http::HttpServer::start(|_| {
        toolcrib_testkit::http::ScriptedResponse::status(500)
    });
    let web = web.await.unwrap();
    for (spawn, network) in [(false, true), (true, false)] {
        let workspace = TestWorkspace::new();
        workspace.write_native(&json!({
            "version": 1,
            "host": {"permissions": {"spawn": spawn, "network": network}},
            "servers": {
                "here": workspace.scripted_entry(Script::default(), "here"),
                "there": {"url": web.url("/mcp"), "lifecycle": {"retry": {"max": 0}}},
            },
        }));
        let seen = web.requests().len();
        let host = workspace.start_host().await;
        let states: Vec<_> = host.servers().into_iter().map(|server| server.state).collect();
        assert_eq!(states[0] == ServerState::Ready, spawn, "{:?}", problem_codes(&host));
        assert_eq!(workspace.log("here").is_empty(), !spawn);
        assert_eq!(web.requests().len() > seen, network);
        let refused = if spawn { "there" } else { "here" };
        let reported = host.problems().into_iter().find(|it| it.server.as_deref() == Some(refused));
        assert!(reported.unwrap().code.ends_with(".forbidden"), "{:?}", host.problems());
        with_time_limit(host.close()).await;
    }
}

#[tokio::test]
async fn missing_folder_is_refused() {
    let workspace = TestWorkspace::new();
    let host = workspace.start_host().await;
    let request = DialogRequest { cwd: Some("/nowhere/at/all".into()), ..DialogRequest::default() };
    assert!(with_time_limit(host.open_dialog(request)).await.is_err());
    // Another path of the root is the root.
    let named = workspace.root().join("../root");
    assert_eq!(open_dialog_in(&host, &named).await.cwd(), workspace.root());
    assert!(!has_problem(&host, "x", ""));
    with_time_limit(host.close()).await;
}
