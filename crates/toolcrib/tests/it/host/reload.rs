//! File changes while the host runs.

use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};
use toolcrib::config::ChangeAction;
use toolcrib::{ErrorKind, HostEvent};
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_testkit::time_limit::with_time_limit;

use super::workspace::{
    TestWorkspace, call_count, call_text, call_tool, counting_script, error_kind, has_problem,
    is_alive, native_toolset, open_dialog, problem_codes, request, tool_names, wait_for_event,
    wait_until,
};

fn count_with_prefix(names: &[String], prefix: &str) -> usize {
    names.iter().filter(|name| name.starts_with(prefix)).count()
}

#[tokio::test]
async fn dom_66_74_75_servers_follow_the_file() {
    let workspace = TestWorkspace::new();
    let (a, b) = (
        workspace.minds_entry(counting_script(), "a"),
        workspace.minds_entry(counting_script(), "b"),
    );
    workspace.write_minds(&json!({"a": a}));
    let host = workspace.start_host().await;
    let one = open_dialog(&host, "default").await;
    let kept = call_count(&one, "a_count").await.0;
    // DOM-66: the file change alone triggers the reload. DOM-74: the new server is added, the old
    // one stays untouched.
    let mut events = host.subscribe();
    workspace.write_minds(&json!({"a": a, "b": b}));
    wait_for_event(&mut events, |event| matches!(event, HostEvent::Reloaded(_)).then_some(()))
        .await;
    assert_eq!(count_with_prefix(&tool_names(&one).await, "b_"), 4);
    let added = call_count(&one, "b_count").await.0;
    assert_eq!(call_count(&one, "a_count").await, (kept, 2));
    // DOM-75: the removed server leaves lists and calls first, and then its process ends.
    workspace.write_minds(&json!({"b": b}));
    let reload = wait_for_event(&mut events, |event| match event {
        HostEvent::Reloaded(reload) => Some(reload.clone()),
        _ => None,
    })
    .await;
    let steps: Vec<_> = reload.steps.iter().map(|step| (&*step.server, step.action)).collect();
    assert_eq!(
        steps,
        [(".minds/mcp.yaml#b", ChangeAction::Keep), (".minds/mcp.yaml#a", ChangeAction::Stop)]
    );
    assert_eq!(count_with_prefix(&tool_names(&one).await, "a_"), 0);
    assert_eq!(error_kind(call_tool(&one, "a_count", &json!({})).await), ErrorKind::UnknownTool);
    wait_until("its process has ended", || !is_alive(kept)).await;
    assert_eq!(call_count(&one, "b_count").await, (added, 2));
    // DOM-69: without a file there are no servers and no problems.
    std::fs::remove_file(workspace.root().join(".minds/mcp.yaml")).unwrap();
    wait_for_event(&mut events, |event| matches!(event, HostEvent::Reloaded(_)).then_some(()))
        .await;
    assert_eq!(count_with_prefix(&tool_names(&one).await, "b_"), 0);
    wait_until("no process is left", || !is_alive(added)).await;
    assert!(problem_codes(&host).is_empty() && host.servers().is_empty());
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn dom_68_many_writes_are_one_reload() {
    let workspace = TestWorkspace::new();
    let entry = workspace.minds_entry(Script::default(), "a");
    workspace.write_minds(&json!({"a": entry}));
    let host = workspace.start_host().await;
    let mut events = host.subscribe();
    let version = host.snapshot_version();
    for number in 0..20 {
        let mut changed = entry.clone();
        changed["env"] = json!({"N": number.to_string()});
        workspace.write_minds(&json!({"a": changed}));
        // Like an editor or a tool that writes in pieces.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    wait_for_event(&mut events, |event| matches!(event, HostEvent::Reloaded(_)).then_some(()))
        .await;
    // Longer than the polling interval: no second reload may follow.
    tokio::time::sleep(Duration::from_millis(2000)).await;
    let mut more = 0;
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(1), events.next()).await
    {
        more += usize::from(matches!(*event, HostEvent::Reloaded(_)));
    }
    assert_eq!(more, 0);
    assert!(host.snapshot_version() > version);
    let env = call_text(&open_dialog(&host, "default").await, "a_env", &json!({})).await;
    assert_eq!(serde_json::from_str::<Value>(&env).unwrap()["env"]["N"], "19");
    // The first start and exactly one restart.
    assert_eq!(workspace.count_messages("a", "initialize"), 2);
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn dom_71_79_80_turn_keeps_its_snapshot_and_calls_in_flight_finish() {
    let workspace = TestWorkspace::new();
    let script = counting_script().on("tools/call slow", [Step::Sleep(700), Step::Respond]);
    let (a, b) =
        (workspace.minds_entry(script, "a"), workspace.minds_entry(Script::default(), "b"));
    workspace.write_minds(&json!({"a": a, "b": b}));
    let host = workspace.start_host().await;
    let one = open_dialog(&host, "default").await;
    let turn = with_time_limit(one.turn()).await;
    let (version, pid) = (turn.version(), call_count(&one, "a_count").await.0);
    let slow = one.start_call(request("a_slow", &json!({"x": 1}))).unwrap();
    wait_until("the call is running", || workspace.count_messages("a", "tools/call") == 2).await;
    workspace.write_minds(&json!({"b": b}));
    with_time_limit(host.reload()).await.unwrap();
    // DOM-80: outside of the turn the tool is unknown immediately, although the process still
    // drains.
    assert!(is_alive(pid));
    assert_eq!(error_kind(call_tool(&one, "a_count", &json!({})).await), ErrorKind::UnknownTool);
    // DOM-79: the call in flight succeeds.
    let done = with_time_limit(one.wait_for_call(slow)).await.unwrap();
    assert!(done.outcome.unwrap().raw().text().contains('x'));
    // DOM-71: the turn is unchanged.
    assert_eq!(turn.version(), version);
    assert!(turn.tools().iter().any(|tool| tool.name() == "a_count"));
    with_time_limit(turn.call(request("a_count", &json!({})))).await.unwrap();
    drop(turn);
    wait_until("its process has ended", || !is_alive(pid)).await;
    assert_eq!(count_with_prefix(&tool_names(&one).await, "a_"), 0);
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn dom_81_undrained_server_is_killed_after_drain_kill() {
    let workspace = TestWorkspace::new();
    let script = Script { ignore_end: true, ignore_sigterm: true, ..counting_script() }
        .on("tools/call never", []);
    let mut entry = workspace.scripted_entry(script, "a");
    entry["lifecycle"] = json!({"drain_kill": "300ms"});
    workspace.write_servers(&json!({"a": entry}));
    let host = workspace.start_host().await;
    let one = open_dialog(&host, "default").await;
    let pid = call_count(&one, "a__count").await.0;
    let never = one.start_call(request("a__never", &json!({}))).unwrap();
    wait_until("the call is running", || workspace.count_messages("a", "tools/call") == 2).await;
    workspace.write_servers(&json!({}));
    let started_at = std::time::Instant::now();
    with_time_limit(host.reload()).await.unwrap();
    let ended = with_time_limit(one.wait_for_call(never)).await.unwrap();
    assert_eq!(ended.outcome.unwrap_err().kind(), ErrorKind::Connection);
    wait_until("the process was killed", || !is_alive(pid)).await;
    assert!(started_at.elapsed() < Duration::from_secs(15));
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn dom_72_native_tools_survive_every_reload() {
    let workspace = TestWorkspace::new();
    let host =
        with_time_limit(workspace.builder().open_toolset(native_toolset()).start()).await.unwrap();
    let one = open_dialog(&host, "default").await;
    // MIN-01: the native tool works without servers, and equally with some.
    assert_eq!(tool_names(&one).await, ["revenue"]);
    assert_eq!(call_text(&one, "revenue", &json!({})).await, "42");
    for round in 0..50 {
        let taken = workspace.minds_entry(Script::default(), "a");
        let mut rival = workspace
            .scripted_entry(Script { tools: vec!["revenue".into()], ..Script::default() }, "r");
        rival["transport"] = json!("stdio");
        rival["tools"] = json!({"whitelist": ["revenue"]});
        match round % 3 {
            0 if round < 6 => workspace.write_minds(&json!({"a": taken, "rival": rival})),
            1 => workspace.write(".minds/mcp.yaml", "version: 9"),
            _ => workspace.write_minds(&json!({})),
        }
        with_time_limit(host.reload()).await.unwrap();
        assert_eq!(tool_names(&one).await[0], "revenue");
        assert_eq!(call_text(&one, "revenue", &json!({})).await, "42");
        if round % 3 == 0 && round < 6 {
            assert!(has_problem(&host, "name.collision", "rival"), "{:?}", problem_codes(&host));
        }
    }
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn dom_73_only_definition_changes_replace_a_server() {
    let workspace = TestWorkspace::new();
    let a = workspace.minds_entry(counting_script(), "a");
    workspace.write_minds(&json!({"a": a}));
    let host = workspace.start_host().await;
    let one = open_dialog(&host, "default").await;
    let pid = call_count(&one, "a_count").await.0;
    // Other locations, order and notation define the same server.
    let args = &a["args"][0];
    let text = format!(
        "# moved\nversion: 1\nservers:\n  a:\n    transform: [{{prefix: a_}}]\n    args: [{args}]\n    command: {}\n    transport: stdio\n",
        a["command"]
    );
    workspace.write(".minds/mcp.yaml", &text);
    let reload = with_time_limit(host.reload()).await.unwrap();
    assert!(reload.is_empty(), "{reload:?}");
    assert_eq!(call_count(&one, "a_count").await, (pid, 2));
    // An additional argument defines another server.
    let mut changed = a.clone();
    changed["args"].as_array_mut().unwrap().push(json!("--more"));
    workspace.write_minds(&json!({"a": changed}));
    let reload = with_time_limit(host.reload()).await.unwrap();
    assert_eq!(reload.steps[0].action, ChangeAction::Replace);
    let new = call_count(&one, "a_count").await;
    assert!(new.0 != pid && new.1 == 1);
    wait_until("the old process has ended", || !is_alive(pid)).await;
    // The old definition is restored, and no process of the other one is left.
    workspace.write_minds(&json!({"a": a}));
    with_time_limit(host.reload()).await.unwrap();
    wait_until("the other process has ended", || !is_alive(new.0)).await;
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn dom_82_84_89_invalid_file_changes_nothing() {
    let workspace = TestWorkspace::new();
    let a = workspace.minds_entry(counting_script(), "a");
    let good = json!({"version": 1, "servers": {"a": a}}).to_string();
    let entry = a.to_string();
    let bad = [
        ("yaml", "version: 1\nservers: {".to_owned()),
        ("version", good.replace("\"version\":1", "\"version\":2")),
        ("twice", format!("version: 1\nservers:\n  a: {entry}\n  a: {entry}\n")),
    ];
    workspace.write(".minds/mcp.yaml", &good);
    let host = workspace.start_host().await;
    let one = open_dialog(&host, "default").await;
    let (pid, mut count) = (call_count(&one, "a_count").await.0, 1);
    let (before, mut version) = (tool_names(&one).await, host.snapshot_version());
    for (what, text) in bad {
        workspace.write(".minds/mcp.yaml", &text);
        let reload = with_time_limit(host.reload()).await.unwrap();
        assert!(reload.problems.iter().any(|it| it.is_error()), "{what}");
        let wrong: Vec<_> = host.problems().into_iter().filter(|it| it.is_error()).collect();
        assert_eq!(wrong.len(), 1, "{what}: {wrong:?}");
        assert!(wrong[0].source.as_deref() == Some(".minds/mcp.yaml") && wrong[0].line.is_some());
        assert_eq!(tool_names(&one).await, before, "{what}");
        count += 1;
        assert_eq!(call_count(&one, "a_count").await, (pid, count), "{what}");
        // DOM-84: a failed reload publishes no snapshot.
        assert_eq!(host.snapshot_version(), version, "{what}");
        workspace.write(".minds/mcp.yaml", &good);
        with_time_limit(host.reload()).await.unwrap();
        assert!(problem_codes(&host).is_empty(), "{what}: {:?}", problem_codes(&host));
        assert!(host.snapshot_version() > version, "{what}");
        version = host.snapshot_version();
    }
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn manual_reload_server_ignores_file_changes() {
    let workspace = TestWorkspace::new();
    let write = |ids: &[&str], number: u32| {
        let entry = |id: &&str| {
            let mut entry = workspace.scripted_entry(counting_script(), id);
            entry["env"] = json!({"N": number.to_string()});
            entry["reload"] = json!(if *id == "watched" { "watch" } else { "manual" });
            ((*id).to_owned(), entry)
        };
        workspace.write_servers(&ids.iter().map(entry).collect());
    };
    write(&["a", "watched", "b"], 1);
    let host = workspace.start_host().await;
    let one = open_dialog(&host, "default").await;
    let pids = async |ids: &[&str]| {
        let mut pids = Vec::new();
        for id in ids {
            pids.push(call_count(&one, &format!("{id}__count")).await.0);
        }
        pids
    };
    let before = pids(&["a", "watched", "b"]).await;
    let mut events = host.subscribe();
    // One changed, one removed, one new server: none of it counts before a requested reload.
    write(&["a", "watched", "c"], 2);
    wait_for_event(&mut events, |event| matches!(event, HostEvent::Reloaded(_)).then_some(()))
        .await;
    let after = pids(&["a", "watched", "b"]).await;
    assert_eq!((after[0], after[2]), (before[0], before[2]));
    assert_ne!(after[1], before[1]);
    assert_eq!(count_with_prefix(&tool_names(&one).await, "c__"), 0);
    with_time_limit(host.reload()).await.unwrap();
    let now = pids(&["a", "watched", "c"]).await;
    assert!(now[0] != after[0] && now[1] == after[1]);
    assert_eq!(count_with_prefix(&tool_names(&one).await, "b__"), 0);
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn sighup_reloads_the_changed_file() {
    let workspace = TestWorkspace::new();
    let file = |servers: Value| json!({"version": 1, "host": {"reload": {"mode": "manual"}}, "servers": servers});
    workspace.write_native(&file(json!({})));
    let host = with_time_limit(workspace.builder().reload_on_hangup().start()).await.unwrap();
    with_time_limit(host.wait_until_ready()).await;
    let one = open_dialog(&host, "default").await;
    let mut events = host.subscribe();
    workspace.write_native(&file(json!({"a": workspace.scripted_entry(Script::default(), "a")})));
    // In manual mode a file change alone triggers nothing. The pause is longer than the debounce
    // time.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(tool_names(&one).await, [""; 0]);
    // Each test runs in its own process, so the signal reaches no other test.
    kill_process(getpid(), Signal::HUP).unwrap();
    wait_for_event(&mut events, |event| matches!(event, HostEvent::Reloaded(_)).then_some(()))
        .await;
    assert_eq!(tool_names(&one).await.len(), 3);
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn explanation_names_lines_of_the_newest_file() {
    let workspace = TestWorkspace::new();
    let mut entry = workspace.scripted_entry(Script::default(), "log");
    entry["expose"] = json!({"tools": {"deny": ["echo"]}});
    let file = json!({"version": 1, "servers": {"s": entry}}).to_string();
    workspace.write("toolcrib.yaml", &file);
    let host = workspace.start_host().await;
    let one = open_dialog(&host, "default").await;
    let origin = async || {
        let why = with_time_limit(one.turn()).await.explain_tool("s__echo");
        let [exposure, ..] = why.gates.expect("it is known").0;
        format!("{:?}", exposure.origin.expect("it is a rule of the file"))
    };
    let before = origin().await;
    assert!(before.contains("line: 1"), "{before}");
    workspace.write("toolcrib.yaml", &format!("\n\n{file}"));
    let reload = with_time_limit(host.reload()).await.unwrap();
    assert!(reload.steps.iter().all(|step| step.action == ChangeAction::Keep), "{reload:?}");
    let now = origin().await;
    assert!(now.contains("line: 3"), "{now}");
    with_time_limit(host.close()).await;
}
