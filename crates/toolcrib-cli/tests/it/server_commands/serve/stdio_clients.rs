//! Tests `serve --stdio` beside a running host: all clients share it.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{ServeProcess, StdioClient, text};
use crate::server_commands::{demo_server, native_workspace};
use crate::{PROGRAM, TestWorkspace};

/// A workspace with one shared server, whose counters include all clients.
fn shared() -> TestWorkspace {
    let mut entry = demo_server();
    entry["session"] = json!({"scope": "shared"});
    native_workspace(&json!({"demo": entry}))
}

/// Number of calls that the shared server has run.
async fn calls(client: &mut StdioClient) -> u64 {
    let read = client.request("resources/read", json!({"uri": "demo://calls"})).await;
    let text = read["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{read}"));
    serde_json::from_str::<Value>(text).unwrap()["calls"].as_u64().unwrap()
}

#[tokio::test]
async fn two_stdio_clients_share_one_host_and_outlive_it() {
    let workspace = shared();
    let mut first = StdioClient::start(&workspace).await;
    let mut second = StdioClient::start(&workspace).await;
    assert_eq!(text(&first.call("demo__echo", json!({"text": "1"})).await), "1");
    assert_eq!(text(&second.call("demo__echo", json!({"text": "2"})).await), "2");
    assert_eq!((calls(&mut first).await, calls(&mut second).await), (2, 2));
    let lock = fs::read_to_string(super::state(&workspace).join("host.lock")).unwrap();
    let lock: Value = serde_json::from_str(&lock).unwrap();
    assert_eq!((&lock["pid"], &lock["url"]), (&json!(first.pid()), &Value::Null));
    // Neither an ending client nor an ending host affects other clients.
    let mut third = StdioClient::start(&workspace).await;
    assert_eq!(second.stop().await, (Some(0), String::new()));
    assert_eq!(calls(&mut third).await, 2);
    let pid = first.pid();
    assert_eq!(first.stop().await.0, Some(0));
    // The next client becomes the host at once.
    let mut fourth = StdioClient::start(&workspace).await;
    assert_eq!(text(&fourth.call("demo__echo", json!({"text": "4"})).await), "4");
    assert_eq!((calls(&mut fourth).await, calls(&mut third).await), (1, 1));
    let next = fourth.pid();
    let (code, output) = third.stop().await;
    assert_eq!(code, Some(0));
    let report = format!(
        "the host of this workspace has ended (pid {pid}, on standard streams): the client continues with pid {next},"
    );
    assert!(output.contains(&report), "{output}");
}

#[tokio::test]
async fn stdio_client_joins_listening_host() {
    let workspace = shared();
    let served = ServeProcess::start(&workspace).await;
    let mut client = StdioClient::start(&workspace).await;
    assert_eq!(text(&client.call("demo__echo", json!({"text": "x"})).await), "x");
    let listed = client.request("tools/list", json!({})).await;
    assert_eq!(listed["tools"].as_array().unwrap().len(), 7);
    // One megabyte is transferred unchanged.
    let long = "é".repeat(1 << 19);
    assert_eq!(text(&client.call("demo__echo", json!({"text": long})).await), long);
    assert_eq!(served.stop(Signal::TERM).await, Some(0));
    // The client waits for another host, unless its input ends.
    assert_eq!(client.stop().await, (Some(0), String::new()));
}

#[tokio::test]
async fn concurrently_started_clients_agree_on_one_host() {
    let workspace = shared();
    let clients = (0..6).map(|_| StdioClient::start(&workspace));
    let mut clients = futures_util::future::join_all(clients).await;
    for client in &mut clients {
        assert_eq!(text(&client.call("demo__echo", json!({"text": "x"})).await), "x");
    }
    for client in &mut clients {
        assert_eq!(calls(client).await, 6);
    }
}

#[tokio::test]
async fn host_with_other_files_is_not_joined() {
    let workspace = shared();
    let _served = ServeProcess::start(&workspace).await;
    let other = json!({"mcpServers": {"other": {"command": PROGRAM, "args": ["demo-server"]}}});
    let workspace = workspace.with_file("other.json", &other.to_string());
    let args = ["serve", "--stdio", "--config", "other.json", "--dialect", "claude"];
    let ran = workspace.run(&args);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("with other configuration files runs already: pid "), "{ran:?}");
}

#[tokio::test]
async fn pipe_endpoint_is_not_available_over_tcp() {
    let workspace = shared();
    let served = ServeProcess::start(&workspace).await;
    let head = "GET /pipe HTTP/1.1\r\nUpgrade: toolcrib-lines";
    assert!(served.request_head(head).await.starts_with("HTTP/1.1 404"));
}
