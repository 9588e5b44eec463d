//! A thousand dialogs with shared and stateful servers: state stays separate, and no process,
//! handle or memory leaks.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use toolcrib::Host;
use toolcrib_testkit::scripted::{Script, Step, server_binary};
use toolcrib_testkit::time_limit::with_time_limit;

use super::workspace::{TestWorkspace, call_count, call_text, open_dialog, wait_until};

const DIALOGS: usize = 1000;

/// Calls of each dialog, to each of two stateful servers and to shared servers.
const STATEFUL_CALLS: usize = 10;
const SHARED_CALLS: usize = 80;

const STATEFUL: usize = 5;
const SHARED: usize = 20;

/// Concurrent dialogs. More than the stateful servers have sessions, so that some dialogs wait.
const CONCURRENCY: usize = 180;

/// Number of dialogs before the resource usage is first measured.
const WARM_UP_DIALOGS: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn thousand_dialogs_leak_no_resources() {
    let workspace = TestWorkspace::new();
    workspace.write_servers(&server_config());
    let host = workspace.start_host().await;
    wait_until("all servers are ready", || host.status().ready == STATEFUL + SHARED).await;
    run_dialogs(&host, 0..WARM_UP_DIALOGS).await;
    wait_until_leases_end(&host).await;
    let warm = ResourceUsage::measure();
    run_dialogs(&host, WARM_UP_DIALOGS..DIALOGS).await;
    wait_until_leases_end(&host).await;
    let now = ResourceUsage::measure();
    assert!(now.handles <= warm.handles, "{warm:?} {now:?}");
    assert!(now.children <= warm.children, "{warm:?} {now:?}");
    // Allocators keep a varying amount of a few megabytes. A leak of 16 kB per dialog would exceed
    // the limit.
    assert!(now.kilobytes < warm.kilobytes + 12 * 1024, "{warm:?} {now:?}");
    let status = host.status();
    assert_eq!((status.dialogs, status.leases, status.draining), (0, 0, 0), "{status:?}");
    let (mut total, mut succeeded) = (0, 0);
    for server in host.servers() {
        assert_eq!(server.restarts, 0, "{}", server.spec.id);
        total += server.calls.total;
        succeeded += server.calls.succeeded;
    }
    let expected = u64::try_from(DIALOGS * (2 * STATEFUL_CALLS + SHARED_CALLS)).unwrap();
    assert_eq!((total, succeeded), (expected, expected));
    with_time_limit(host.close()).await;
    wait_until("no process is left", || ResourceUsage::measure().children == 0).await;
}

fn server_config() -> Value {
    let program = server_binary().unwrap();
    let entry = |script: &Script, session: Value| json!({"command": program, "args": [script.to_json()], "session": session, "protocol": "legacy"});
    let counting = Script::default().on("tools/call count", [Step::CountCalls]);
    let mut all = serde_json::Map::new();
    for number in 0..STATEFUL {
        let session =
            json!({"scope": "per_conversation", "max_instances": 32, "queue": 1000, "idle": "0s"});
        all.insert(format!("own{number}"), entry(&counting, session));
    }
    for number in 0..SHARED {
        all.insert(format!("all{number}"), entry(&Script::default(), json!({"scope": "shared"})));
    }
    Value::Object(all)
}

async fn run_dialogs(host: &Host, numbers: std::ops::Range<usize>) {
    let places = Arc::new(Semaphore::new(CONCURRENCY));
    let mut all = JoinSet::new();
    for number in numbers {
        let place = with_time_limit(Arc::clone(&places).acquire_owned()).await.unwrap();
        let host = host.clone();
        all.spawn(async move {
            run_dialog(&host, number).await;
            drop(place);
        });
        while let Some(ended) = all.try_join_next() {
            ended.unwrap();
        }
    }
    while let Some(ended) = with_time_limit(all.join_next()).await {
        ended.unwrap();
    }
}

/// Runs one dialog from opening to closing.
async fn run_dialog(host: &Host, number: usize) {
    let dialog = open_dialog(host, "default").await;
    for own in [number % STATEFUL, (number + 1) % STATEFUL] {
        let tool = format!("own{own}__count");
        let mut process = None;
        for count in 1..=STATEFUL_CALLS {
            // The process stays the same, and no other dialog uses it in between.
            let (pid, counted) = call_count(&dialog, &tool).await;
            assert_eq!(usize::try_from(counted).unwrap(), count, "dialog {number}, {tool}");
            assert_eq!(*process.get_or_insert(pid), pid, "dialog {number}, {tool}");
        }
        // The first lease is released before the second one is acquired. Otherwise the dialogs
        // could deadlock.
        assert!(dialog.release_lease(&format!("own{own}")));
    }
    for call in 0..SHARED_CALLS {
        let tool = format!("all{}__echo", (number + call) % SHARED);
        let said = json!({"dialog": number, "call": call});
        let heard: Value = serde_json::from_str(&call_text(&dialog, &tool, &said).await).unwrap();
        assert_eq!(heard, said);
    }
    with_time_limit(dialog.close()).await;
}

/// Waits until all leases have ended.
async fn wait_until_leases_end(host: &Host) {
    wait_until("all leases have ended", || {
        let sessions: usize = host.servers().iter().map(|server| server.sessions).sum();
        // An unused stateful server runs at most the process of its main session.
        host.status().leases == 0
            && sessions <= STATEFUL + SHARED
            && ResourceUsage::measure().children <= sessions
    })
    .await;
}

/// The resources of this process.
#[derive(Debug)]
struct ResourceUsage {
    handles: usize,
    children: usize,
    kilobytes: usize,
}

impl ResourceUsage {
    fn measure() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let resident = resident.trim().trim_end_matches(" kB").parse().unwrap();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let children = processes.filter(|process| is_child(&process.path())).count();
        let handles = std::fs::read_dir("/proc/self/fd").unwrap().count();
        ResourceUsage { handles, children, kilobytes: resident }
    }
}

/// Whether this process is the parent. The process name may contain anything, but ends at the last
/// bracket.
fn is_child(process: &Path) -> bool {
    let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
    let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
    parent == Some(std::process::id().to_string().as_str())
}
