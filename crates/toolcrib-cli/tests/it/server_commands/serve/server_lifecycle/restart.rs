//! Tests dead server processes.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::Step;

use super::{DIALECTS, ServerFixture, counting, kill, started, starts, wait_for};
use crate::server_commands::is_alive;

/// DOM-94, DIS-51: the call that finds the process dead waits for one new process.
#[tokio::test]
async fn dom_94_dis_51_next_call_restarts_dead_server() {
    for dialect in DIALECTS {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("starts");
        let fixture = ServerFixture::process(dialect, &starts(counting(), &count, vec![vec![]]));
        let served = fixture.serve().await;
        served.open_dialog("d").await;
        let tool = fixture.tool("count");
        let first = served.call_and_get_pid("d", &tool).await;
        // With and without the host noticing the death first, which removes the tools from its lists.
        for sees_death in [false, true] {
            let before = (served.call_and_get_pid("d", &tool).await, started(&count));
            kill(before.0);
            if sees_death && dialect != "native" && dialect != "dominds" {
                wait_for("the host notices the death", async || served.state().await != "ready")
                    .await;
            }
            let after = served.call_and_get_pid("d", &tool).await;
            assert!(after != before.0 && is_alive(after), "{dialect}");
            assert_eq!(served.call_and_get_pid("d", &tool).await, after, "{dialect}");
            assert_eq!(started(&count), before.1 + 1, "{dialect}");
        }
        assert!(!is_alive(first));
    }
}

/// DOM-94, DIS-32: a list without the tools of the dead server starts it; a later list has them.
#[tokio::test]
async fn dom_94_dis_32_list_restarts_dead_server_without_waiting() {
    for dialect in ["dispatch", "holodeck"] {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("starts");
        let turns = vec![vec![], vec![Step::Sleep(1000)]];
        let fixture = ServerFixture::process(dialect, &starts(counting(), &count, turns));
        let served = fixture.serve().await;
        served.open_dialog("d").await;
        let tool = fixture.tool("count");
        assert!(served.tools("d").await.contains(&tool), "{dialect}");
        kill(served.call_and_get_pid("d", &tool).await);
        served.until_state("failed").await;
        assert_eq!(served.tools("d").await, [""; 0], "{dialect}");
        wait_for("the tool is listed again", async || served.tools("d").await.contains(&tool))
            .await;
        assert_eq!(started(&count), 2, "{dialect}");
    }
}

/// DOM-94: only the dialog of the dead process gets a new one, with its next call.
#[tokio::test]
async fn dom_94_next_call_of_dialog_replaces_dead_lease() {
    for dialect in ["dominds", "native"] {
        let fixture = ServerFixture::process(dialect, &counting());
        let (served, tool) = (fixture.serve().await, fixture.tool("count"));
        let mut pids = Vec::new();
        for dialog in ["a", "b"] {
            served.open_dialog(dialog).await;
            pids.push(served.call_and_get_pid(dialog, &tool).await);
        }
        assert_ne!(pids[0], pids[1], "{dialect}");
        // The first lease uses the discovery session, the second one does not.
        for (dialog, other, pid, kept) in [("a", "b", pids[0], pids[1]), ("b", "a", pids[1], 0)] {
            kill(pid);
            let new = served.call_and_get_pid(dialog, &tool).await;
            assert!(new != pid && is_alive(new), "{dialect} {dialog}");
            if kept != 0 {
                assert_eq!(served.call_and_get_pid(other, &tool).await, kept, "{dialect} {dialog}");
            }
        }
    }
}

/// DOM-94: exceptions are a running hold-off and a policy without reconnects (MIN-63).
#[tokio::test]
async fn dom_94_no_restart_within_hold_off_or_without_auto_reconnect() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("starts");
    let turns = vec![vec![], vec![Step::Exit(1)], vec![]];
    let fixture = ServerFixture::process("dispatch", &starts(counting(), &count, turns));
    let (served, tool) = (fixture.serve().await, fixture.tool("count"));
    served.open_dialog("d").await;
    kill(served.call_and_get_pid("d", &tool).await);
    for _ in 0..2 {
        let report = served.call("d", &tool).await;
        assert_eq!(report["error"]["kind"], "connection", "{report}");
        assert_eq!(started(&count), 2);
    }

    let count = folder.path().join("minion");
    let fixture = ServerFixture::process("minion", &starts(counting(), &count, vec![vec![]]));
    let file: Value = serde_json::from_str(&fixture.workspace.read("minion.json")).unwrap();
    let file = json!({"servers": file["servers"], "manager": {"EnableAutoReconnect": false}});
    let fixture = ServerFixture {
        workspace: fixture.workspace.with_file("minion.json", &file.to_string()),
        ..fixture
    };
    let (served, tool) = (fixture.serve().await, fixture.tool("count"));
    served.open_dialog("d").await;
    kill(served.call_and_get_pid("d", &tool).await);
    served.until_state("failed").await;
    let report = served.call("d", &tool).await;
    assert_eq!((&report["error"]["kind"], started(&count)), (&json!("connection"), 1), "{report}");
}

/// DOM-94: through the gateway of one server, and with string arguments.
#[tokio::test]
async fn dom_94_calls_on_every_interface_wait_for_restart() {
    let fixture = ServerFixture::process("dispatch", &counting());
    let served = fixture.serve().await;
    served.open_dialog("d").await;
    let tool = fixture.tool("count");
    kill(served.call_and_get_pid("d", &tool).await);
    served.until_state("failed").await;
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "it", "version": "0"}}});
    let accept = "Accept: application/json, text/event-stream\r\nContent-Type: application/json";
    let post = async |message: &Value, more: &str| {
        let text = message.to_string();
        let head =
            format!("POST /mcp/s HTTP/1.1\r\n{accept}{more}\r\nContent-Length: {}", text.len());
        served.send(&head, &text).await
    };
    let report = post(&hello, "").await;
    let session = report.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("mcp-session-id").then(|| value.trim().to_owned())
    });
    let session = format!("\r\nMcp-Session-Id: {}", session.unwrap_or_else(|| panic!("{report}")));
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "count", "arguments": {}}});
    let report = post(&call, &session).await;
    assert!(report.contains("\\\"pid\\\""), "{report}");

    kill(served.call_and_get_pid("d", &tool).await);
    served.until_state("failed").await;
    let workspace = fixture.workspace;
    let called = tokio::task::spawn_blocking(move || {
        workspace.run_with_env(&["call", "s__echo", "-a", "x=1"], &[crate::server_commands::PATH])
    });
    let called = called.await.unwrap();
    assert_eq!((called.code, called.out.trim()), (0, "{\"x\":1}"), "{called:?}");
}
