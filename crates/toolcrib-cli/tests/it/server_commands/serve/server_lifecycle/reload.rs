//! Tests calls in flight and last valid servers across a reload.

use std::time::Duration;

use serde_json::json;
use toolcrib_testkit::scripted::{Script, Step, server_binary};

use super::{ServerFixture, counting, wait_for};
use crate::TestWorkspace;
use crate::server_commands::wait_until;

const FILE: &str = ".minds/mcp.yaml";

/// A Dominds workspace with a tool `slow` of this duration.
fn slow_fixture(millis: u64) -> (ServerFixture, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let script = Script { log: Some(folder.path().join("log")), ..Script::default() }
        .on("tools/call slow", [Step::Sleep(millis), Step::Respond]);
    (ServerFixture::process("dominds", &script), folder)
}

/// The report of a call during which the server is removed from its file.
async fn called_across_removal(fixture: ServerFixture, log: &std::path::Path) -> serde_json::Value {
    let served = fixture.serve().await;
    served.open_dialog("d").await;
    let removing = async {
        let has_begun = || std::fs::read_to_string(log).unwrap_or_default().contains("tools/call");
        wait_for("the call has started", async || has_begun()).await;
        let workspace =
            fixture.workspace.with_file(FILE, &json!({"version": 1, "servers": {}}).to_string());
        wait_for("the server is removed", async || served.tools("d").await.is_empty()).await;
        workspace
    };
    tokio::join!(served.call("d", "slow"), removing).0
}

/// DOM-96: longer than two 3 s drain periods, which an earlier version applied.
#[tokio::test]
async fn dom_96_call_completes_after_removal_of_its_server() {
    let (fixture, folder) = slow_fixture(8000);
    let report = called_across_removal(fixture, &folder.path().join("log")).await;
    assert_eq!(report["ok"], true, "{report}");
}

/// DOM-96: a configured limit applies.
#[tokio::test]
async fn dom_96_configured_drain_limit_ends_call() {
    let (mut fixture, folder) = slow_fixture(60_000);
    let host = json!({"version": 1, "host": {"reload": {"drain_kill": "300ms"}}});
    fixture.workspace = fixture.workspace.with_file("toolcrib.yaml", &host.to_string());
    let started_at = std::time::Instant::now();
    let report = called_across_removal(fixture, &folder.path().join("log")).await;
    assert_eq!(report["error"]["kind"], "connection", "{report}");
    assert!(started_at.elapsed() < Duration::from_secs(20), "{:?}", started_at.elapsed());
}

fn minds(workspace: TestWorkspace, entry: &serde_json::Value) -> TestWorkspace {
    workspace.with_file(FILE, &json!({"version": 1, "servers": {"s": entry}}).to_string())
}

/// DOM-99: an unreadable entry, and one whose server does not start.
#[tokio::test]
async fn dom_99_last_valid_server_serves_new_dialogs_after_failed_reload() {
    let broken = [
        json!({"transport": "pigeon", "command": "x"}),
        json!({"transport": "stdio", "command": server_binary().unwrap(),
            "args": [Script::default().start([Step::Exit(1)]).to_json()]}),
        json!({"transport": "stdio", "command": "/nowhere/at-all"}),
    ];
    for entry in broken {
        let mut fixture = ServerFixture::process("dominds", &counting());
        let served = fixture.serve().await;
        served.open_dialog("old").await;
        let old = served.call_and_get_pid("old", "count").await;
        fixture.workspace = minds(fixture.workspace, &entry);
        let problems = async || served.get("problems").await["problems"].clone();
        let is_told = async || problems().await.as_array().is_some_and(|all| !all.is_empty());
        wait_for("the problem is reported", is_told).await;
        served.open_dialog("new").await;
        let new = served.call_and_get_pid("new", "count").await;
        assert_ne!(new, old, "{entry}: a lease of its own");
        assert_eq!(served.call_and_get_pid("old", "count").await, old, "{entry}");
        wait_until("both processes are alive", || {
            [old, new].into_iter().all(crate::server_commands::is_alive)
        });
    }
}
