//! Many reloads with concurrent readers and callers: every reader sees one complete snapshot.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolcrib::{Dialog, Host, Turn};
use toolcrib_testkit::scripted::Script;
use toolcrib_testkit::time_limit::with_time_limit;

use super::workspace::{
    TestWorkspace, call_count, counting_script, open_dialog, request, server_status,
};

const RELOADS: usize = 200;
const READERS: usize = 8;
const CALLERS: usize = 8;

/// Servers that never change: one shared, one leased per dialog.
const UNCHANGED: [&str; 2] = ["shared", "leased"];

/// Shared by all readers and callers.
#[derive(Default)]
struct ListObserver {
    is_done: AtomicBool,
    lists: AtomicUsize,
    calls: AtomicUsize,
    /// The list of each version with every definition, as first read.
    seen: Mutex<HashMap<u64, Vec<String>>>,
}

impl ListObserver {
    /// Every version has exactly one list.
    fn compare(&self, version: u64, list: Vec<String>) {
        let mut seen = self.seen.lock().unwrap();
        let known = seen.entry(version).or_insert_with(|| list.clone());
        assert_eq!(known, &list, "version {version}");
        self.lists.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn dom_70_78_every_list_matches_one_snapshot_and_unchanged_servers_keep_running() {
    let workspace = TestWorkspace::new();
    write_config(&workspace, 0);
    let host = workspace.start_host().await;
    let observer = Arc::new(ListObserver::default());
    let pid = server_status(&host, "shared").pid;
    let mut tasks = JoinSet::new();
    for number in 0..READERS {
        tasks.spawn(read_lists(open_dialog(&host, "default").await, Arc::clone(&observer), number));
    }
    for number in 0..CALLERS {
        tasks.spawn(make_calls(open_dialog(&host, "default").await, Arc::clone(&observer), number));
    }
    for generation in 1..=RELOADS {
        write_config(&workspace, generation);
        with_time_limit(host.reload()).await.unwrap();
        let list = tools_of(&dialog_list(&host).await, "turning");
        assert!(list[0].starts_with(&format!("turning__a{generation} ")), "{generation}: {list:?}");
    }
    observer.is_done.store(true, Ordering::SeqCst);
    while let Some(ended) = with_time_limit(tasks.join_next()).await {
        ended.unwrap();
    }
    let (lists, calls) =
        (observer.lists.load(Ordering::SeqCst), observer.calls.load(Ordering::SeqCst));
    assert!(lists > RELOADS * 2 && calls > RELOADS, "{lists} lists, {calls} calls");
    // Readers saw many versions while the reloads ran.
    let versions = observer.seen.lock().unwrap().len();
    assert!(versions > RELOADS / 2, "{versions}");
    assert_eq!(server_status(&host, "shared").pid, pid);
    with_time_limit(host.close()).await;
}

/// Two unchanged servers, one that changes in each generation, and one that exists in every second
/// generation.
fn write_config(workspace: &TestWorkspace, generation: usize) {
    let eager = |script: Script, scope: &str| {
        let mut entry = workspace.scripted_entry(script, "log");
        entry["args"] = json!([serde_json::to_string(&without_log(&entry)).unwrap()]);
        entry["lifecycle"] = json!({"connect": "eager"});
        entry["protocol"] = json!("legacy");
        entry["session"] = json!({"scope": scope});
        entry
    };
    let tools = ["a", "b", "c"].map(|name| format!("{name}{generation}")).to_vec();
    let mut turning = eager(Script { tools, ..Script::default() }, "shared");
    turning["expose"] = json!({"tools": {"allow": ["a*", "b*", "c*"]}});
    let mut servers = json!({
        "shared": eager(counting_script(), "shared"),
        "leased": eager(counting_script(), "per_conversation"),
        "turning": turning,
    });
    if generation.is_multiple_of(2) {
        servers["guest"] = eager(Script::default(), "shared");
    }
    workspace.write_servers(&servers);
}

/// Removes the log from an entry's script, because logging this many calls only costs time.
fn without_log(entry: &Value) -> Value {
    let mut script: Value = serde_json::from_str(entry["args"][0].as_str().unwrap()).unwrap();
    script.as_object_mut().unwrap().remove("log");
    script
}

async fn dialog_list(host: &Host) -> Vec<String> {
    definitions(&with_time_limit(open_dialog(host, "default").await.turn()).await)
}

/// Each tool with every byte of its definition.
fn definitions(turn: &Turn) -> Vec<String> {
    turn.tools()
        .iter()
        .map(|tool| format!("{} {}", tool.name(), tool.definition().text()))
        .collect()
}

fn tools_of(list: &[String], server: &str) -> Vec<String> {
    let prefix = format!("{server}__");
    list.iter().filter(|tool| tool.starts_with(&prefix)).cloned().collect()
}

async fn read_lists(dialog: Dialog, observer: Arc<ListObserver>, number: usize) {
    let mut first: Option<Vec<String>> = None;
    while !observer.is_done.load(Ordering::SeqCst) {
        let turn = if number.is_multiple_of(2) {
            dialog.turn_now()
        } else {
            with_time_limit(dialog.turn()).await
        };
        let list = definitions(&turn);
        check_consistency(&turn, &list);
        // Definitions of unchanged servers stay identical byte by byte.
        let same: Vec<_> = UNCHANGED.iter().flat_map(|server| tools_of(&list, server)).collect();
        assert_eq!(same.len(), 8);
        assert_eq!(first.get_or_insert_with(|| same.clone()), &same);
        observer.compare(turn.version(), list);
        tokio::task::yield_now().await;
    }
}

/// Checks that each server has all tools of one generation or none, and that toolsets contain only
/// registered tools.
fn check_consistency(turn: &Turn, list: &[String]) {
    let turning = tools_of(list, "turning");
    let making = |tool: &String| {
        let name = tool.split(' ').next().unwrap().strip_prefix("turning__").unwrap();
        name.get(1..).unwrap().to_owned()
    };
    let makings: Vec<_> = turning.iter().map(making).collect();
    assert!(makings.len() == 3 && makings.iter().all(|it| *it == makings[0]), "{turning:?}");
    let guest = tools_of(list, "guest").len();
    assert!(guest == 0 || guest == 3, "{list:?}");
    let view = turn.snapshot().view(None);
    // DOM-78
    for toolset in view.toolsets() {
        for tool in &toolset.tools {
            assert!(view.tool(tool.name()).is_some_and(|found| Arc::ptr_eq(found, tool)));
        }
    }
}

async fn make_calls(dialog: Dialog, observer: Arc<ListObserver>, number: usize) {
    let mut expected: Option<(u32, u64)> = None;
    while !observer.is_done.load(Ordering::SeqCst) {
        match number % 3 {
            // The shared server answers and stays the same process.
            0 => {
                let (pid, _) = call_count(&dialog, "shared__count").await;
                assert_eq!(expected.get_or_insert((pid, 0)).0, pid);
            }
            // The dialog's own process stays the same, and no call is lost or made twice.
            1 => {
                let answer = call_count(&dialog, "leased__count").await;
                let (pid, count) = expected.unwrap_or((answer.0, 0));
                assert_eq!(answer, (pid, count + 1));
                expected = Some(answer);
            }
            // A tool of the turn's snapshot answers, even if its server was replaced in the
            // meantime.
            _ => {
                let turn = dialog.turn_now();
                let tool = turn.tools().into_iter().find(|it| it.name().starts_with("turning__"));
                let name = tool.unwrap().name().to_owned();
                let called = with_time_limit(turn.call(request(&name, &json!({"x": 1})))).await;
                assert!(called.is_ok(), "{name}: {called:?}");
            }
        }
        observer.calls.fetch_add(1, Ordering::SeqCst);
    }
}
