//! A thousand dialogs over shared and stateful servers: nothing bleeds, nothing leaks, nothing is lost.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use toolcrib::Host;
use toolcrib_testkit::scripted::{Script, Step, program};
use toolcrib_testkit::time_limit::within;

use super::stage::{Stage, counted, dialog, text, until};

const DIALOGS: usize = 1000;

/// Each makes so many calls: to two stateful servers, and to shared ones.
const STATEFUL_CALLS: usize = 10;
const SHARED_CALLS: usize = 80;

const STATEFUL: usize = 5;
const SHARED: usize = 20;

/// At a time: more than there may be sessions of the stateful servers, so that some wait for one.
const AT_A_TIME: usize = 180;

/// What is measured after this many is what it costs.
const WARM_UP: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_dialogs_leave_nothing_behind() {
    let stage = Stage::new();
    stage.servers(&servers());
    let host = stage.host().await;
    until("all are up", || host.status().ready == STATEFUL + SHARED).await;
    run(&host, 0..WARM_UP).await;
    settle(&host).await;
    let warm = Load::now();
    run(&host, WARM_UP..DIALOGS).await;
    settle(&host).await;
    let now = Load::now();
    assert!(now.handles <= warm.handles, "{warm:?} {now:?}");
    assert!(now.children <= warm.children, "{warm:?} {now:?}");
    // What allocators keep differs by a few megabytes from time to time; 16 kB lost with each dialog would show.
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
    within(host.close()).await;
    until("no process is left", || Load::now().children == 0).await;
}

fn servers() -> Value {
    let program = program().unwrap();
    let entry = |script: &Script, session: Value| json!({"command": program, "args": [script.to_json()], "session": session, "protocol": "legacy"});
    let counting = Script::default().on("tools/call count", [Step::Count]);
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

async fn run(host: &Host, numbers: std::ops::Range<usize>) {
    let places = Arc::new(Semaphore::new(AT_A_TIME));
    let mut all = JoinSet::new();
    for number in numbers {
        let place = within(Arc::clone(&places).acquire_owned()).await.unwrap();
        let host = host.clone();
        all.spawn(async move {
            converse(&host, number).await;
            drop(place);
        });
        while let Some(ended) = all.try_join_next() {
            ended.unwrap();
        }
    }
    while let Some(ended) = within(all.join_next()).await {
        ended.unwrap();
    }
}

/// One dialog, from its beginning to its end.
async fn converse(host: &Host, number: usize) {
    let dialog = dialog(host, "default").await;
    for own in [number % STATEFUL, (number + 1) % STATEFUL] {
        let tool = format!("own{own}__count");
        let mut process = None;
        for count in 1..=STATEFUL_CALLS {
            // Its own from the first call on, and nobody else's in between.
            let (pid, counted) = counted(&dialog, &tool).await;
            assert_eq!(usize::try_from(counted).unwrap(), count, "dialog {number}, {tool}");
            assert_eq!(*process.get_or_insert(pid), pid, "dialog {number}, {tool}");
        }
        // Whoever wants a second lease gives the first one back: else all could wait for each other.
        assert!(dialog.release(&format!("own{own}")));
    }
    for call in 0..SHARED_CALLS {
        let tool = format!("all{}__echo", (number + call) % SHARED);
        let said = json!({"dialog": number, "call": call});
        let heard: Value = serde_json::from_str(&text(&dialog, &tool, &said).await).unwrap();
        assert_eq!(heard, said);
    }
    within(dialog.end()).await;
}

/// What is ending has ended.
async fn settle(host: &Host) {
    until("all leases have ended", || {
        let sessions: usize = host.servers().iter().map(|server| server.sessions).sum();
        // A stateful server that nobody has runs no process but, at most, that in which its lists were read.
        host.status().leases == 0
            && sessions <= STATEFUL + SHARED
            && Load::now().children <= sessions
    })
    .await;
}

/// What this process holds.
#[derive(Debug)]
struct Load {
    handles: usize,
    children: usize,
    kilobytes: usize,
}

impl Load {
    fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let resident = resident.trim().trim_end_matches(" kB").parse().unwrap();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let children = processes.filter(|process| is_ours(&process.path())).count();
        let handles = std::fs::read_dir("/proc/self/fd").unwrap().count();
        Load { handles, children, kilobytes: resident }
    }
}

/// Whether this process is the parent. The name in front may hold anything, but ends with the last bracket.
fn is_ours(process: &Path) -> bool {
    let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
    let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
    parent == Some(std::process::id().to_string().as_str())
}
