//! Many reloads under many readers and callers: whoever looks sees one published state, whole.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolcrib::{Dialog, Host, Turn};
use toolcrib_testkit::scripted::Script;
use toolcrib_testkit::time_limit::within;

use super::stage::{Stage, counted, counting, dialog, request, server};

const RELOADS: usize = 200;
const READERS: usize = 8;
const CALLERS: usize = 8;

/// The servers that never change, of both sorts.
const UNTOUCHED: [&str; 2] = ["shared", "leased"];

/// What everybody shares.
#[derive(Default)]
struct Watch {
    is_over: AtomicBool,
    lists: AtomicUsize,
    calls: AtomicUsize,
    /// The list of each version, with every definition, as whoever saw it first did.
    seen: Mutex<HashMap<u64, Vec<String>>>,
}

impl Watch {
    /// One version, one list, whoever looks.
    fn compare(&self, version: u64, list: Vec<String>) {
        let mut seen = self.seen.lock().unwrap();
        let known = seen.entry(version).or_insert_with(|| list.clone());
        assert_eq!(known, &list, "version {version}");
        self.lists.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn dom_70_78_every_list_is_a_published_one_and_no_untouched_server_notices() {
    let stage = Stage::new();
    write(&stage, 0);
    let host = stage.host().await;
    let watch = Arc::new(Watch::default());
    let pid = server(&host, "shared").pid;
    let mut crowd = JoinSet::new();
    for number in 0..READERS {
        crowd.spawn(read(dialog(&host, "default").await, Arc::clone(&watch), number));
    }
    for number in 0..CALLERS {
        crowd.spawn(make_calls(dialog(&host, "default").await, Arc::clone(&watch), number));
    }
    for generation in 1..=RELOADS {
        write(&stage, generation);
        within(host.reload()).await.unwrap();
        let list = offered(&dialog_list(&host).await, "turning");
        assert!(list[0].starts_with(&format!("turning__a{generation} ")), "{generation}: {list:?}");
    }
    watch.is_over.store(true, Ordering::SeqCst);
    while let Some(ended) = within(crowd.join_next()).await {
        ended.unwrap();
    }
    let (lists, calls) = (watch.lists.load(Ordering::SeqCst), watch.calls.load(Ordering::SeqCst));
    assert!(lists > RELOADS * 2 && calls > RELOADS, "{lists} lists, {calls} calls");
    // Reloads were really seen while they went on.
    let versions = watch.seen.lock().unwrap().len();
    assert!(versions > RELOADS / 2, "{versions}");
    assert_eq!(server(&host, "shared").pid, pid);
    within(host.close()).await;
}

/// Two servers as ever, one that is another each time, and one that comes and goes.
fn write(stage: &Stage, generation: usize) {
    let eager = |script: Script, scope: &str| {
        let mut entry = stage.scripted(script, "log");
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
        "shared": eager(counting(), "shared"),
        "leased": eager(counting(), "per_conversation"),
        "turning": turning,
    });
    if generation.is_multiple_of(2) {
        servers["guest"] = eager(Script::default(), "shared");
    }
    stage.servers(&servers);
}

/// The script of an entry; a log of so many calls would only cost time.
fn without_log(entry: &Value) -> Value {
    let mut script: Value = serde_json::from_str(entry["args"][0].as_str().unwrap()).unwrap();
    script.as_object_mut().unwrap().remove("log");
    script
}

async fn dialog_list(host: &Host) -> Vec<String> {
    definitions(&within(dialog(host, "default").await.turn()).await)
}

/// Each tool with every byte of its definition.
fn definitions(turn: &Turn) -> Vec<String> {
    turn.tools()
        .iter()
        .map(|tool| format!("{} {}", tool.name(), tool.definition().text()))
        .collect()
}

fn offered(list: &[String], server: &str) -> Vec<String> {
    let prefix = format!("{server}__");
    list.iter().filter(|tool| tool.starts_with(&prefix)).cloned().collect()
}

async fn read(dialog: Dialog, watch: Arc<Watch>, number: usize) {
    let mut first: Option<Vec<String>> = None;
    while !watch.is_over.load(Ordering::SeqCst) {
        let turn =
            if number.is_multiple_of(2) { dialog.turn_now() } else { within(dialog.turn()).await };
        let list = definitions(&turn);
        check_whole(&turn, &list);
        // No unchanged definition changes a byte.
        let same: Vec<_> = UNTOUCHED.iter().flat_map(|server| offered(&list, server)).collect();
        assert_eq!(same.len(), 8);
        assert_eq!(first.get_or_insert_with(|| same.clone()), &same);
        watch.compare(turn.version(), list);
        tokio::task::yield_now().await;
    }
}

/// A server is there with all its tools of one making, or not at all; and no toolset has a tool that is not there.
fn check_whole(turn: &Turn, list: &[String]) {
    let turning = offered(list, "turning");
    let making = |tool: &String| {
        let name = tool.split(' ').next().unwrap().strip_prefix("turning__").unwrap();
        name.get(1..).unwrap().to_owned()
    };
    let makings: Vec<_> = turning.iter().map(making).collect();
    assert!(makings.len() == 3 && makings.iter().all(|it| *it == makings[0]), "{turning:?}");
    let guest = offered(list, "guest").len();
    assert!(guest == 0 || guest == 3, "{list:?}");
    let view = turn.snapshot().view(None);
    // DOM-78
    for toolset in view.toolsets() {
        for tool in &toolset.tools {
            assert!(view.tool(tool.name()).is_some_and(|found| Arc::ptr_eq(found, tool)));
        }
    }
}

async fn make_calls(dialog: Dialog, watch: Arc<Watch>, number: usize) {
    let mut expected: Option<(u32, u64)> = None;
    while !watch.is_over.load(Ordering::SeqCst) {
        match number % 3 {
            // Everybody's: it answers, and is the same process from beginning to end.
            0 => {
                let (pid, _) = counted(&dialog, "shared__count").await;
                assert_eq!(expected.get_or_insert((pid, 0)).0, pid);
            }
            // The dialog's own: the same process, and no call is lost or made twice.
            1 => {
                let answer = counted(&dialog, "leased__count").await;
                let (pid, count) = expected.unwrap_or((answer.0, 0));
                assert_eq!(answer, (pid, count + 1));
                expected = Some(answer);
            }
            // What a turn has seen answers, also if another has taken its place meanwhile.
            _ => {
                let turn = dialog.turn_now();
                let tool = turn.tools().into_iter().find(|it| it.name().starts_with("turning__"));
                let name = tool.unwrap().name().to_owned();
                let called = within(turn.call(request(&name, &json!({"x": 1})))).await;
                assert!(called.is_ok(), "{name}: {called:?}");
            }
        }
        watch.calls.fetch_add(1, Ordering::SeqCst);
    }
}
