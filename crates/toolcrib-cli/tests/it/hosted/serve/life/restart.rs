//! A server process that died.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::Step;

use super::{DIALECTS, Scene, counting, eventually, kill, started, starts};
use crate::hosted::is_alive;

/// DOM-94, DIS-51: one new process, and the call that finds the old one dead waits for it.
#[tokio::test]
async fn dom_94_dis_51_a_dead_server_is_started_again_by_the_next_call() {
    for dialect in DIALECTS {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("starts");
        let scene = Scene::process(dialect, &starts(counting(), &count, vec![vec![]]));
        let served = scene.serve().await;
        served.open_dialog("d").await;
        let tool = scene.tool("count");
        let first = served.answering("d", &tool).await;
        // Both at once, and when the host has seen the death and told its lists without the tools.
        for sees_death in [false, true] {
            let before = (served.answering("d", &tool).await, started(&count));
            kill(before.0);
            if sees_death && dialect != "native" && dialect != "dominds" {
                eventually("the death is seen", async || served.state().await != "ready").await;
            }
            let after = served.answering("d", &tool).await;
            assert!(after != before.0 && is_alive(after), "{dialect}");
            assert_eq!(served.answering("d", &tool).await, after, "{dialect}");
            assert_eq!(started(&count), before.1 + 1, "{dialect}");
        }
        assert!(!is_alive(first));
    }
}

/// DOM-94, DIS-32: the list lacks the tools of the dead server and starts it; a later list has them.
#[tokio::test]
async fn dom_94_dis_32_a_list_starts_a_dead_server_and_does_not_wait_for_it() {
    for dialect in ["dispatch", "holodeck"] {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("starts");
        let turns = vec![vec![], vec![Step::Sleep(1000)]];
        let scene = Scene::process(dialect, &starts(counting(), &count, turns));
        let served = scene.serve().await;
        served.open_dialog("d").await;
        let tool = scene.tool("count");
        assert!(served.tools("d").await.contains(&tool), "{dialect}");
        kill(served.answering("d", &tool).await);
        served.until_state("failed").await;
        assert_eq!(served.tools("d").await, [""; 0], "{dialect}");
        eventually("it is listed again", async || served.tools("d").await.contains(&tool)).await;
        assert_eq!(started(&count), 2, "{dialect}");
    }
}

/// DOM-94: only the dialog whose process died gets another one, with its very next call.
#[tokio::test]
async fn dom_94_a_dead_lease_is_replaced_by_the_next_call_of_its_dialog() {
    for dialect in ["dominds", "native"] {
        let scene = Scene::process(dialect, &counting());
        let (served, tool) = (scene.serve().await, scene.tool("count"));
        let mut pids = Vec::new();
        for dialog in ["a", "b"] {
            served.open_dialog(dialog).await;
            pids.push(served.answering(dialog, &tool).await);
        }
        assert_ne!(pids[0], pids[1], "{dialect}");
        // The first lease is the connection in which the lists were read, the second one is not.
        for (dialog, other, pid, kept) in [("a", "b", pids[0], pids[1]), ("b", "a", pids[1], 0)] {
            kill(pid);
            let new = served.answering(dialog, &tool).await;
            assert!(new != pid && is_alive(new), "{dialect} {dialog}");
            if kept != 0 {
                assert_eq!(served.answering(other, &tool).await, kept, "{dialect} {dialog}");
            }
        }
    }
}

/// DOM-94's exceptions: a hold-off that has not passed, and a policy without reconnects (MIN-63).
#[tokio::test]
async fn dom_94_nothing_is_started_within_the_hold_off_or_without_auto_reconnect() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("starts");
    let turns = vec![vec![], vec![Step::Exit(1)], vec![]];
    let scene = Scene::process("dispatch", &starts(counting(), &count, turns));
    let (served, tool) = (scene.serve().await, scene.tool("count"));
    served.open_dialog("d").await;
    kill(served.answering("d", &tool).await);
    for _ in 0..2 {
        let told = served.call("d", &tool).await;
        assert_eq!(told["error"]["kind"], "connection", "{told}");
        assert_eq!(started(&count), 2);
    }

    let count = folder.path().join("minion");
    let scene = Scene::process("minion", &starts(counting(), &count, vec![vec![]]));
    let file: Value = serde_json::from_str(&scene.place.read("minion.json")).unwrap();
    let file = json!({"servers": file["servers"], "manager": {"EnableAutoReconnect": false}});
    let scene = Scene { place: scene.place.file("minion.json", &file.to_string()), ..scene };
    let (served, tool) = (scene.serve().await, scene.tool("count"));
    served.open_dialog("d").await;
    kill(served.answering("d", &tool).await);
    served.until_state("failed").await;
    let told = served.call("d", &tool).await;
    assert_eq!((&told["error"]["kind"], started(&count)), (&json!("connection"), 1), "{told}");
}

/// DOM-94: through the gateway of one server, and with arguments that are words.
#[tokio::test]
async fn dom_94_every_way_to_call_waits_for_the_restart() {
    let scene = Scene::process("dispatch", &counting());
    let served = scene.serve().await;
    served.open_dialog("d").await;
    let tool = scene.tool("count");
    kill(served.answering("d", &tool).await);
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
    let told = post(&hello, "").await;
    let session = told.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("mcp-session-id").then(|| value.trim().to_owned())
    });
    let session = format!("\r\nMcp-Session-Id: {}", session.unwrap_or_else(|| panic!("{told}")));
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "count", "arguments": {}}});
    let told = post(&call, &session).await;
    assert!(told.contains("\\\"pid\\\""), "{told}");

    kill(served.answering("d", &tool).await);
    served.until_state("failed").await;
    let place = scene.place;
    let called = tokio::task::spawn_blocking(move || {
        place.run_with(&["call", "s__echo", "-a", "x=1"], &[crate::hosted::PATH])
    });
    let called = called.await.unwrap();
    assert_eq!((called.code, called.out.trim()), (0, "{\"x\":1}"), "{called:?}");
}
