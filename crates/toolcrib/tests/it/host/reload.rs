//! What changes in files while the host runs, and what does not.

use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};
use toolcrib::Event;
use toolcrib::config::Action;
use toolcrib::shape::ErrorKind;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_testkit::time_limit::within;

use super::stage::{
    Stage, call, counted, counting, dialog, has_problem, hear, is_alive, kind, names, own, request,
    text, until, wrongs,
};

fn prefixed(names: &[String], prefix: &str) -> usize {
    names.iter().filter(|name| name.starts_with(prefix)).count()
}

#[tokio::test]
async fn dom_66_74_75_servers_come_and_go_with_the_file() {
    let stage = Stage::new();
    let (a, b) = (stage.minded(counting(), "a"), stage.minded(counting(), "b"));
    stage.minds(&json!({"a": a}));
    let host = stage.host().await;
    let one = dialog(&host, "default").await;
    let kept = counted(&one, "a_count").await.0;
    // DOM-66: nobody is told; the file is enough. DOM-74: the new one is there, the old one untouched.
    let mut listening = host.listen();
    stage.minds(&json!({"a": a, "b": b}));
    hear(&mut listening, |event| matches!(event, Event::Reloaded(_)).then_some(())).await;
    assert_eq!(prefixed(&names(&one).await, "b_"), 4);
    let added = counted(&one, "b_count").await.0;
    assert_eq!(counted(&one, "a_count").await, (kept, 2));
    // DOM-75: gone from lists and calls, and then its process.
    stage.minds(&json!({"b": b}));
    let reload = hear(&mut listening, |event| match event {
        Event::Reloaded(reload) => Some(reload.clone()),
        _ => None,
    })
    .await;
    let steps: Vec<_> = reload.steps.iter().map(|step| (&*step.server, step.action)).collect();
    assert_eq!(steps, [(".minds/mcp.yaml#b", Action::Keep), (".minds/mcp.yaml#a", Action::Stop)]);
    assert_eq!(prefixed(&names(&one).await, "a_"), 0);
    assert_eq!(kind(call(&one, "a_count", &json!({})).await), ErrorKind::UnknownTool);
    until("its process has ended", || !is_alive(kept)).await;
    assert_eq!(counted(&one, "b_count").await, (added, 2));
    // DOM-69: no file, no servers, and no problem either.
    std::fs::remove_file(stage.root().join(".minds/mcp.yaml")).unwrap();
    hear(&mut listening, |event| matches!(event, Event::Reloaded(_)).then_some(())).await;
    assert_eq!(prefixed(&names(&one).await, "b_"), 0);
    until("no process is left", || !is_alive(added)).await;
    assert!(wrongs(&host).is_empty() && host.servers().is_empty());
    within(host.close()).await;
}

#[tokio::test]
async fn dom_68_many_writes_are_one_reload() {
    let stage = Stage::new();
    let entry = stage.minded(Script::default(), "a");
    stage.minds(&json!({"a": entry}));
    let host = stage.host().await;
    let mut listening = host.listen();
    let version = host.version();
    for number in 0..20 {
        let mut changed = entry.clone();
        changed["env"] = json!({"N": number.to_string()});
        stage.minds(&json!({"a": changed}));
        // As an editor or a tool that writes in pieces does.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    hear(&mut listening, |event| matches!(event, Event::Reloaded(_)).then_some(())).await;
    // Longer than the files are looked at besides being watched: nothing may follow.
    tokio::time::sleep(Duration::from_millis(2000)).await;
    let mut more = 0;
    while let Ok(Some(event)) =
        tokio::time::timeout(Duration::from_millis(1), listening.next()).await
    {
        more += usize::from(matches!(*event, Event::Reloaded(_)));
    }
    assert_eq!(more, 0);
    assert!(host.version() > version);
    let env = text(&dialog(&host, "default").await, "a_env", &json!({})).await;
    assert_eq!(serde_json::from_str::<Value>(&env).unwrap()["env"]["N"], "19");
    // The first start and one more.
    assert_eq!(stage.count("a", "initialize"), 2);
    within(host.close()).await;
}

#[tokio::test]
async fn dom_71_79_80_a_turn_keeps_what_it_saw_and_a_call_ends_in_peace() {
    let stage = Stage::new();
    let script = counting().on("tools/call slow", [Step::Sleep(700), Step::Answer]);
    let (a, b) = (stage.minded(script, "a"), stage.minded(Script::default(), "b"));
    stage.minds(&json!({"a": a, "b": b}));
    let host = stage.host().await;
    let one = dialog(&host, "default").await;
    let turn = within(one.turn()).await;
    let (version, pid) = (turn.version(), counted(&one, "a_count").await.0);
    let slow = one.start(request("a_slow", &json!({"x": 1}))).unwrap();
    until("the call is under way", || stage.count("a", "tools/call") == 2).await;
    stage.minds(&json!({"b": b}));
    within(host.reload()).await.unwrap();
    // DOM-80: outside of the turn it is unknown at once, although the process still drains.
    assert!(is_alive(pid));
    assert_eq!(kind(call(&one, "a_count", &json!({})).await), ErrorKind::UnknownTool);
    // DOM-79: what was in flight succeeds.
    let done = within(one.wait(slow)).await.unwrap();
    assert!(done.outcome.unwrap().raw().text().contains('x'));
    // DOM-71: within the turn nothing has changed.
    assert_eq!(turn.version(), version);
    assert!(turn.tools().iter().any(|tool| tool.name() == "a_count"));
    within(turn.call(request("a_count", &json!({})))).await.unwrap();
    drop(turn);
    until("its process has ended", || !is_alive(pid)).await;
    assert_eq!(prefixed(&names(&one).await, "a_"), 0);
    within(host.close()).await;
}

#[tokio::test]
async fn dom_81_what_does_not_drain_is_killed_after_its_limit() {
    let stage = Stage::new();
    let script =
        Script { ignore_end: true, ignore_sigterm: true, ..counting() }.on("tools/call never", []);
    let mut entry = stage.scripted(script, "a");
    entry["lifecycle"] = json!({"drain_kill": "300ms"});
    stage.servers(&json!({"a": entry}));
    let host = stage.host().await;
    let one = dialog(&host, "default").await;
    let pid = counted(&one, "a__count").await.0;
    let never = one.start(request("a__never", &json!({}))).unwrap();
    until("the call is under way", || stage.count("a", "tools/call") == 2).await;
    stage.servers(&json!({}));
    let begun = std::time::Instant::now();
    within(host.reload()).await.unwrap();
    let ended = within(one.wait(never)).await.unwrap();
    assert_eq!(ended.outcome.unwrap_err().kind(), ErrorKind::Connection);
    until("it was killed", || !is_alive(pid)).await;
    assert!(begun.elapsed() < Duration::from_secs(15));
    within(host.close()).await;
}

#[tokio::test]
async fn dom_72_what_is_the_programs_own_stays_whatever_the_files_say() {
    let stage = Stage::new();
    let host = within(stage.builder().open_toolset(own()).start()).await.unwrap();
    let one = dialog(&host, "default").await;
    // MIN-01: without any server it works, and it works the same with some.
    assert_eq!(names(&one).await, ["revenue"]);
    assert_eq!(text(&one, "revenue", &json!({})).await, "42");
    for round in 0..50 {
        let taken = stage.minded(Script::default(), "a");
        let mut rival =
            stage.scripted(Script { tools: vec!["revenue".into()], ..Script::default() }, "r");
        rival["transport"] = json!("stdio");
        rival["tools"] = json!({"whitelist": ["revenue"]});
        match round % 3 {
            0 if round < 6 => stage.minds(&json!({"a": taken, "rival": rival})),
            1 => stage.write(".minds/mcp.yaml", "version: 9"),
            _ => stage.minds(&json!({})),
        }
        within(host.reload()).await.unwrap();
        assert_eq!(names(&one).await[0], "revenue");
        assert_eq!(text(&one, "revenue", &json!({})).await, "42");
        if round % 3 == 0 && round < 6 {
            assert!(has_problem(&host, "name.collision", "rival"), "{:?}", wrongs(&host));
        }
    }
    within(host.close()).await;
}

#[tokio::test]
async fn dom_73_only_what_a_server_is_made_of_replaces_it() {
    let stage = Stage::new();
    let a = stage.minded(counting(), "a");
    stage.minds(&json!({"a": a}));
    let host = stage.host().await;
    let one = dialog(&host, "default").await;
    let pid = counted(&one, "a_count").await.0;
    // Other places, other order, other notation: the same server.
    let args = &a["args"][0];
    let text = format!(
        "# moved\nversion: 1\nservers:\n  a:\n    transform: [{{prefix: a_}}]\n    args: [{args}]\n    command: {}\n    transport: stdio\n",
        a["command"]
    );
    stage.write(".minds/mcp.yaml", &text);
    let reload = within(host.reload()).await.unwrap();
    assert!(reload.is_empty(), "{reload:?}");
    assert_eq!(counted(&one, "a_count").await, (pid, 2));
    // One argument more: another server.
    let mut changed = a.clone();
    changed["args"].as_array_mut().unwrap().push(json!("--more"));
    stage.minds(&json!({"a": changed}));
    let reload = within(host.reload()).await.unwrap();
    assert_eq!(reload.steps[0].action, Action::Replace);
    let new = counted(&one, "a_count").await;
    assert!(new.0 != pid && new.1 == 1);
    until("the old one has ended", || !is_alive(pid)).await;
    // Back again, and nothing is left of what was in between.
    stage.minds(&json!({"a": a}));
    within(host.reload()).await.unwrap();
    until("the other one has ended too", || !is_alive(new.0)).await;
    within(host.close()).await;
}

#[tokio::test]
async fn dom_82_84_89_a_file_that_is_wrong_changes_nothing() {
    let stage = Stage::new();
    let a = stage.minded(counting(), "a");
    let good = json!({"version": 1, "servers": {"a": a}}).to_string();
    let entry = a.to_string();
    let bad = [
        ("yaml", "version: 1\nservers: {".to_owned()),
        ("version", good.replace("\"version\":1", "\"version\":2")),
        ("twice", format!("version: 1\nservers:\n  a: {entry}\n  a: {entry}\n")),
    ];
    stage.write(".minds/mcp.yaml", &good);
    let host = stage.host().await;
    let one = dialog(&host, "default").await;
    let (pid, mut count) = (counted(&one, "a_count").await.0, 1);
    let (before, mut version) = (names(&one).await, host.version());
    for (what, text) in bad {
        stage.write(".minds/mcp.yaml", &text);
        let reload = within(host.reload()).await.unwrap();
        assert!(reload.problems.iter().any(|it| it.is_error()), "{what}");
        let wrong: Vec<_> = host.problems().into_iter().filter(|it| it.is_error()).collect();
        assert_eq!(wrong.len(), 1, "{what}: {wrong:?}");
        assert!(wrong[0].source.as_deref() == Some(".minds/mcp.yaml") && wrong[0].line.is_some());
        assert_eq!(names(&one).await, before, "{what}");
        count += 1;
        assert_eq!(counted(&one, "a_count").await, (pid, count), "{what}");
        // DOM-84: what failed is not a new state.
        assert_eq!(host.version(), version, "{what}");
        stage.write(".minds/mcp.yaml", &good);
        within(host.reload()).await.unwrap();
        assert!(wrongs(&host).is_empty(), "{what}: {:?}", wrongs(&host));
        assert!(host.version() > version, "{what}");
        version = host.version();
    }
    within(host.close()).await;
}

#[tokio::test]
async fn a_server_that_is_taken_up_by_hand_waits_for_that() {
    let stage = Stage::new();
    let write = |ids: &[&str], number: u32| {
        let entry = |id: &&str| {
            let mut entry = stage.scripted(counting(), id);
            entry["env"] = json!({"N": number.to_string()});
            entry["reload"] = json!(if *id == "watched" { "watch" } else { "manual" });
            ((*id).to_owned(), entry)
        };
        stage.servers(&ids.iter().map(entry).collect());
    };
    write(&["a", "watched", "b"], 1);
    let host = stage.host().await;
    let one = dialog(&host, "default").await;
    let pids = async |ids: &[&str]| {
        let mut pids = Vec::new();
        for id in ids {
            pids.push(counted(&one, &format!("{id}__count")).await.0);
        }
        pids
    };
    let before = pids(&["a", "watched", "b"]).await;
    let mut listening = host.listen();
    // One changed, one gone, one new: none of it counts before somebody says so.
    write(&["a", "watched", "c"], 2);
    hear(&mut listening, |event| matches!(event, Event::Reloaded(_)).then_some(())).await;
    let after = pids(&["a", "watched", "b"]).await;
    assert_eq!((after[0], after[2]), (before[0], before[2]));
    assert_ne!(after[1], before[1]);
    assert_eq!(prefixed(&names(&one).await, "c__"), 0);
    within(host.reload()).await.unwrap();
    let now = pids(&["a", "watched", "c"]).await;
    assert!(now[0] != after[0] && now[1] == after[1]);
    assert_eq!(prefixed(&names(&one).await, "b__"), 0);
    within(host.close()).await;
}

#[tokio::test]
async fn a_changed_file_is_taken_up_on_a_hangup() {
    let stage = Stage::new();
    let file = |servers: Value| json!({"version": 1, "host": {"reload": {"mode": "manual"}}, "servers": servers});
    stage.native(&file(json!({})));
    let host = within(stage.builder().reload_on_hangup().start()).await.unwrap();
    within(host.ready()).await;
    let one = dialog(&host, "default").await;
    let mut listening = host.listen();
    stage.native(&file(json!({"a": stage.scripted(Script::default(), "a")})));
    // Nobody looks unless told: this is longer than the usual pause.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(names(&one).await, [""; 0]);
    // Each test is a process of its own, so nobody else hears it.
    kill_process(getpid(), Signal::HUP).unwrap();
    hear(&mut listening, |event| matches!(event, Event::Reloaded(_)).then_some(())).await;
    assert_eq!(names(&one).await.len(), 3);
    within(host.close()).await;
}

#[tokio::test]
async fn why_names_the_lines_of_the_newest_file_for_a_server_that_is_kept() {
    let stage = Stage::new();
    let mut entry = stage.scripted(Script::default(), "log");
    entry["expose"] = json!({"tools": {"deny": ["echo"]}});
    let file = json!({"version": 1, "servers": {"s": entry}}).to_string();
    stage.write("toolcrib.yaml", &file);
    let host = stage.host().await;
    let one = dialog(&host, "default").await;
    let place = async || {
        let why = within(one.turn()).await.why("s__echo");
        let [exposure, ..] = why.gates.expect("it is known").0;
        format!("{:?}", exposure.origin.expect("it is a rule of the file"))
    };
    let before = place().await;
    assert!(before.contains("line: 1"), "{before}");
    stage.write("toolcrib.yaml", &format!("\n\n{file}"));
    let reload = within(host.reload()).await.unwrap();
    assert!(reload.steps.iter().all(|step| step.action == Action::Keep), "{reload:?}");
    let now = place().await;
    assert!(now.contains("line: 3"), "{now}");
    within(host.close()).await;
}
