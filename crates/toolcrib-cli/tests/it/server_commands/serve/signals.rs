//! Tests signals to a host.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use toolcrib_testkit::scripted::{Script, Step};

use super::{ServeProcess, StdioClient, send_signal, text, with_time_limit};
use crate::TestWorkspace;
use crate::server_commands::{Shim, is_alive, native_workspace, wait_until};

/// A workspace with a tool `slow` of this duration and a drain limit of two seconds, and the shim that records the
/// start.
fn workspace_with_drain_limit(millis: u64) -> (TestWorkspace, Shim) {
    let (workspace, shim) = slow_workspace(millis);
    let file = std::fs::read_to_string(workspace.root().join("toolcrib.yaml")).unwrap();
    let mut file: Value = serde_json::from_str(&file).unwrap();
    file["host"] = json!({"reload": {"drain_kill": "2s"}});
    (workspace.with_file("toolcrib.yaml", &file.to_string()), shim)
}

/// The same workspace with the default drain limit.
fn slow_workspace(millis: u64) -> (TestWorkspace, Shim) {
    let workspace = native_workspace(&json!({}));
    let (shim, log) = (workspace.shim("slow"), workspace.sibling_path("messages"));
    let script = Script { log: Some(log), ..Script::default() }
        .on("tools/call slow", [Step::Sleep(millis), Step::Respond]);
    let entry =
        json!({"command": shim.path, "env": {"SCRIPT": script.to_json().replace('$', "$$")}});
    let file = json!({"version": 1, "servers": {"s": entry}});
    (workspace.with_file("toolcrib.yaml", &file.to_string()), shim)
}

fn has_begun(workspace: &TestWorkspace) -> bool {
    let log = std::fs::read_to_string(workspace.sibling_path("messages")).unwrap_or_default();
    log.contains("tools/call")
}

#[tokio::test]
async fn in_flight_call_is_answered_before_shutdown() {
    for of_the_host in [true, false] {
        let (workspace, shim) = slow_workspace(1000);
        let served = match of_the_host {
            true => None,
            false => Some(ServeProcess::start(&workspace).await),
        };
        let mut client = StdioClient::start(&workspace).await;
        let call = client.send("tools/call", json!({"name": "s__slow", "arguments": {}})).await;
        wait_until("the call has started", || has_begun(&workspace));
        let socket = super::state(&workspace).join("socket");
        assert!(socket.exists());
        send_signal(served.as_ref().map_or(client.pid(), ServeProcess::pid), Signal::TERM);
        let answer = client.response_to(call).await;
        assert!(answer.get("result").is_some(), "{of_the_host}: {answer}");
        if !of_the_host {
            client.stdin = None;
        }
        assert_eq!(client.wait_for_exit().await.0, Some(0));
        if let Some(mut served) = served {
            assert_eq!(with_time_limit(served.child.wait()).await.unwrap().code(), Some(0));
        }
        assert!(!socket.exists() && !is_alive(shim.start_record().unwrap().0));
    }
}

#[tokio::test]
async fn requests_before_end_of_stdin_are_answered() {
    for of_the_host in [true, false] {
        let (workspace, _shim) = slow_workspace(500);
        let _served = match of_the_host {
            true => None,
            false => Some(ServeProcess::start(&workspace).await),
        };
        let mut client = StdioClient::start(&workspace).await;
        let list = client.send("tools/list", json!({})).await;
        let call = client.send("tools/call", json!({"name": "s__slow", "arguments": {}})).await;
        client.stdin = None;
        let (listed, called) = (client.response_to(list).await, client.response_to(call).await);
        assert!(listed["result"]["tools"].is_array(), "{listed}");
        assert!(called.get("result").is_some(), "{called}");
        assert_eq!(client.wait_for_exit().await.0, Some(0));
    }
}

#[tokio::test]
async fn signal_does_not_wait_for_call_of_gone_client() {
    let (workspace, shim) = slow_workspace(60_000);
    let mut client = StdioClient::start(&workspace).await;
    client.send("tools/call", json!({"name": "s__slow", "arguments": {}})).await;
    wait_until("the call has started", || has_begun(&workspace));
    client.stdin = None;
    // Gives the process time to notice the end of its input.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let started_at = Instant::now();
    send_signal(client.pid(), Signal::TERM);
    // Clients wait this long for the exit: two seconds in the Python SDK, and two more for a busy machine.
    assert_eq!(client.wait_for_exit().await.0, Some(0));
    assert!(started_at.elapsed() < Duration::from_secs(4), "{:?}", started_at.elapsed());
    assert!(!is_alive(shim.start_record().unwrap().0));
}

#[tokio::test]
async fn problems_are_logged_while_serving() {
    let workspace = native_workspace(
        &json!({"docs": {"url": "http://127.0.0.1:9/mcp", "headers": {"A": "${NOPE_X}"}}}),
    );
    let mut served = ServeProcess::start(&workspace).await;
    let mut lines = BufReader::new(served.child.stderr.take().unwrap()).lines();
    let started_at = Instant::now();
    loop {
        let line = with_time_limit(lines.next_line()).await.unwrap().unwrap();
        if line.starts_with("error: toolcrib.yaml:1:") && line.contains("NOPE_X") {
            break;
        }
        assert!(started_at.elapsed() < crate::server_commands::TIME_LIMIT, "{line}");
    }
    let workspace = workspace.with_file("toolcrib.yaml", "version: [");
    let started_at = Instant::now();
    loop {
        let line = with_time_limit(lines.next_line()).await.unwrap().unwrap();
        if line.starts_with("error: toolcrib.yaml") && !line.contains("NOPE_X") {
            break;
        }
        assert!(started_at.elapsed() < crate::server_commands::TIME_LIMIT, "{line}");
    }
    drop(workspace);
}

#[tokio::test]
async fn in_flight_http_call_is_answered_before_shutdown() {
    // Longer than idle connections live during a shutdown.
    let (workspace, shim) = slow_workspace(5500);
    let served = ServeProcess::start(&workspace).await;
    let dialog = served.post("/api/v1/dialogs", &json!({"id": "d"})).await;
    assert!(dialog.starts_with("HTTP/1.1 201"), "{dialog}");
    let call = json!({"tool": "s__slow"});
    let ending = async {
        while !has_begun(&workspace) {
            // Other processes cannot wake this task.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        send_signal(served.pid(), Signal::TERM);
    };
    let (answer, ()) = tokio::join!(served.post("/api/v1/dialogs/d/calls", &call), ending);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"ok\":true"), "{answer}");
    let mut served = served;
    assert_eq!(with_time_limit(served.child.wait()).await.unwrap().code(), Some(0));
    assert!(!is_alive(shim.start_record().unwrap().0));
}

#[tokio::test]
async fn drain_limit_ends_slow_call_and_second_signal_skips_drain() {
    for signals in [1, 2] {
        let (workspace, shim) =
            if signals == 1 { workspace_with_drain_limit(60_000) } else { slow_workspace(60_000) };
        let served = ServeProcess::start(&workspace).await;
        let mut client = StdioClient::start(&workspace).await;
        let call = client.send("tools/call", json!({"name": "s__slow", "arguments": {}})).await;
        wait_until("the call has started", || has_begun(&workspace));
        let (started_at, pid, socket) = (Instant::now(), served.pid(), served.socket());
        let ended = served.stop(Signal::TERM);
        if signals == 2 {
            let again = async {
                // Gives the process time to handle the first signal.
                tokio::time::sleep(Duration::from_millis(200)).await;
                send_signal(pid, Signal::INT);
            };
            assert_eq!(tokio::join!(ended, again).0, Some(0));
            assert!(
                started_at.elapsed() < Duration::from_secs(4),
                "the second signal waited for the call"
            );
        } else {
            assert_eq!(ended.await, Some(0));
            assert!(
                started_at.elapsed() >= Duration::from_secs(2),
                "the call was ended before the drain limit"
            );
        }
        assert!(client.response_to(call).await["error"].is_object(), "{signals}");
        assert_eq!(client.stop().await.0, Some(0));
        let server = shim.start_record().unwrap().0;
        wait_until("the server is gone", || !is_alive(server));
        assert!(!socket.exists());
    }
}

#[tokio::test]
async fn sighup_reloads_configuration() {
    let workspace = native_workspace(&json!({}));
    // File watching is off, so that only the signal triggers the reload.
    let file = |servers| {
        json!({"version": 1, "host": {"reload": {"mode": "manual"}}, "servers": servers})
            .to_string()
    };
    let workspace = workspace.with_file("toolcrib.yaml", &file(json!({})));
    let served = ServeProcess::start(&workspace).await;
    let mut client = StdioClient::start(&workspace).await;
    assert_eq!(client.request("tools/list", json!({})).await["tools"], json!([]));
    let workspace = workspace
        .with_file("toolcrib.yaml", &file(json!({"demo": crate::server_commands::demo_server()})));
    send_signal(served.pid(), Signal::HUP);
    let started_at = Instant::now();
    while client.request("tools/list", json!({})).await["tools"] == json!([]) {
        assert!(started_at.elapsed() < crate::server_commands::TIME_LIMIT, "the file was not read");
        // Other processes cannot wake this task.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(text(&client.call("demo__echo", json!({"text": "new"})).await), "new");
    drop(workspace);
}
