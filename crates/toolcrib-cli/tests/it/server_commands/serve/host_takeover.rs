//! Tests clients that survive the end of their host: they join another host, or one of them takes over.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{ServeProcess, StdioClient, send_signal, spawn, state, text};
use crate::server_commands::{
    PATH, demo_server, is_alive, native_workspace, scripted_server, server,
};
use crate::{PROGRAM, TestWorkspace};

/// A workspace with one shared server, and one whose tool `slow` takes a minute.
fn shared() -> TestWorkspace {
    let mut entry = demo_server();
    entry["session"] = json!({"scope": "shared"});
    let slow = Script::default().on("tools/call slow", [Step::Sleep(60_000), Step::Respond]);
    native_workspace(&json!({"demo": entry, "s": scripted_server(&slow)}))
}

/// The pid in the lock file of the host.
fn host(workspace: &TestWorkspace) -> Option<u32> {
    let lock = fs::read_to_string(state(workspace).join("host.lock")).unwrap_or_default();
    let lock: Value = serde_json::from_str(&lock).ok()?;
    lock["pid"].as_u64()?.try_into().ok()
}

fn server_pid(workspace: &TestWorkspace) -> u32 {
    let listed = workspace.json(&["servers"]);
    server(&listed, "demo")["pid"]
        .as_u64()
        .unwrap_or_else(|| panic!("{listed}"))
        .try_into()
        .unwrap()
}

impl StdioClient {
    async fn echo(&mut self, output: &str) {
        assert_eq!(text(&self.call("demo__echo", json!({"text": output})).await), output);
    }

    async fn wait_for_method(&mut self, method: &str) -> Value {
        self.wait_for_message(|message| message["method"] == method).await
    }

    /// After a takeover all lists may have changed.
    async fn wait_for_list_changes(&mut self) {
        for list in ["tools", "prompts", "resources"] {
            self.wait_for_method(&format!("notifications/{list}/list_changed")).await;
        }
    }

    /// A modern request, which needs no handshake.
    async fn send_modern(&mut self, method: &str, mut params: Value) -> i64 {
        params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "it", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": {}});
        self.send(method, params).await
    }
}

/// A host and the way it is ended.
enum FirstHost {
    ServeProcess(ServeProcess, Signal),
    StdioClient(StdioClient, Option<Signal>),
}

impl FirstHost {
    fn pid(&self) -> u32 {
        match self {
            FirstHost::ServeProcess(served, _) => served.pid(),
            FirstHost::StdioClient(client, _) => client.pid(),
        }
    }

    /// Ends the host.
    fn stop(&mut self) {
        match self {
            FirstHost::ServeProcess(served, signal) => send_signal(served.pid(), *signal),
            FirstHost::StdioClient(client, Some(signal)) => send_signal(client.pid(), *signal),
            FirstHost::StdioClient(client, None) => client.stdin = None,
        }
    }
}

#[tokio::test]
async fn client_continues_after_any_end_of_its_host() {
    let (kill, term) = (Signal::KILL, Signal::TERM);
    for (listens, signal) in [
        (true, Some(kill)),
        (true, Some(term)),
        (false, Some(kill)),
        (false, Some(term)),
        (false, None),
    ] {
        let workspace = shared();
        let mut first = match (listens, signal) {
            (true, signal) => {
                FirstHost::ServeProcess(ServeProcess::start(&workspace).await, signal.unwrap())
            }
            (false, signal) => FirstHost::StdioClient(StdioClient::start(&workspace).await, signal),
        };
        let mut client = StdioClient::start(&workspace).await;
        client.echo("before").await;
        let pid = first.pid();
        assert_eq!(host(&workspace), Some(pid));
        first.stop();
        client.wait_for_list_changes().await;
        assert_eq!(host(&workspace), Some(client.pid()), "{listens} {signal:?}");
        let listed = client.request("tools/list", json!({})).await;
        assert_eq!(listed["tools"].as_array().unwrap().len(), 11, "{listed}");
        client.echo("after").await;
        let server = server_pid(&workspace);
        let (code, output) = client.stop().await;
        assert_eq!(code, Some(0));
        let report = format!("the host of this workspace has ended (pid {pid}, ");
        assert!(
            output.contains(&report) && output.contains("this process becomes the host"),
            "{output}"
        );
        assert!(!is_alive(server) && !state(&workspace).join("socket").exists());
    }
}

#[tokio::test]
async fn in_flight_call_fails_and_is_not_repeated_on_takeover() {
    let workspace = shared();
    let mut served = ServeProcess::start(&workspace).await;
    let mut client = StdioClient::start(&workspace).await;
    client.request("logging/setLevel", json!({"level": "debug"})).await;
    let call = client.send("tools/call", json!({"name": "s__slow", "arguments": {}})).await;
    client.echo("both are under way").await;
    served.child.kill().await.unwrap();
    let answer = client.response_to(call).await;
    let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(message.contains("the host of this workspace has ended"), "{message}");
    // A message sent during the takeover is answered by the next host.
    let read = client.request("resources/read", json!({"uri": "demo://calls"})).await;
    assert_eq!(read["contents"][0]["text"], r#"{"calls":0,"running":0}"#, "{read}");
    client.echo("after").await;
    assert_eq!(client.stop().await.0, Some(0));
}

#[tokio::test]
async fn one_client_takes_over_and_others_join_repeatedly() {
    let workspace = shared();
    let mut served = ServeProcess::start(&workspace).await;
    let starting = (0..3).map(|_| StdioClient::start(&workspace));
    let mut clients = futures_util::future::join_all(starting).await;
    for client in &mut clients {
        client.echo("before").await;
    }
    served.child.kill().await.unwrap();
    while !clients.is_empty() {
        for client in &mut clients {
            client.wait_for_list_changes().await;
            client.echo("still here").await;
        }
        let host = host(&workspace);
        let index = clients.iter().position(|client| Some(client.pid()) == host).unwrap();
        // The remaining clients continue after its end.
        let mut host = clients.remove(index);
        host.echo("as host").await;
        host.child.kill().await.unwrap();
    }
    assert!(workspace.json(&["status"])["version"].is_string());
}

#[tokio::test]
async fn restarted_host_gets_its_clients_back() {
    let workspace = shared();
    let served = ServeProcess::start(&workspace).await;
    let mut client = StdioClient::start(&workspace).await;
    client.echo("before").await;
    assert_eq!(served.stop(Signal::TERM).await, Some(0));
    let served = ServeProcess::start(&workspace).await;
    client.wait_for_list_changes().await;
    client.echo("after").await;
    assert_eq!(host(&workspace), Some(served.pid()));
    let (code, output) = client.stop().await;
    assert_eq!(code, Some(0));
    assert!(
        output.contains(&format!("the client continues with pid {}, http://", served.pid())),
        "{output}"
    );
    assert_eq!(output.lines().count(), 1, "{output}");
}

#[tokio::test]
async fn modern_subscription_survives_takeover() {
    for signal in [Signal::KILL, Signal::TERM] {
        let workspace = shared();
        let served = ServeProcess::start(&workspace).await;
        let mut client = StdioClient::spawn(&workspace);
        let wanted = json!({"notifications": {"toolsListChanged": true}});
        let listen = client.send_modern("subscriptions/listen", wanted).await;
        let acknowledged = "notifications/subscriptions/acknowledged";
        client.wait_for_method(acknowledged).await;
        send_signal(served.pid(), signal);
        let is_of = |message: &Value| {
            assert_ne!(message["id"], listen, "the subscription must stay open: {message}");
            message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == listen
        };
        let changed = "notifications/tools/list_changed";
        client.wait_for_message(|message| is_of(message) && message["method"] == changed).await;
        client
            .wait_for_message(|message| is_of(message) && message["method"] == acknowledged)
            .await;
        let list = client.send_modern("tools/list", json!({})).await;
        let listed = client.response_to(list).await;
        assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(11), "{listed}");
        let workspace = workspace.with_file("toolcrib.yaml", r#"{"version": 1, "servers": {}}"#);
        client.wait_for_message(|message| is_of(message) && message["method"] == changed).await;
        assert_eq!(client.stop().await.0, Some(0));
        drop(workspace);
    }
}

#[tokio::test]
async fn leaving_client_starts_no_host() {
    let workspace = shared();
    let mut served = ServeProcess::start(&workspace).await;
    let mut client = StdioClient::start(&workspace).await;
    served.child.kill().await.unwrap();
    let started_at = Instant::now();
    // A notification needs no host.
    client.write(&json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})).await;
    assert_eq!(client.stop().await, (Some(0), String::new()));
    assert!(started_at.elapsed() < Duration::from_secs(2), "{:?}", started_at.elapsed());
    // The same on SIGTERM.
    let mut served = ServeProcess::start(&workspace).await;
    let mut client = StdioClient::start(&workspace).await;
    served.child.kill().await.unwrap();
    send_signal(client.pid(), Signal::TERM);
    assert_eq!(client.wait_for_exit().await, (Some(0), String::new()));
}

#[tokio::test]
async fn next_host_with_other_files_is_not_joined() {
    let workspace = shared();
    let other = json!({"mcpServers": {"other": {"command": PROGRAM, "args": ["demo-server"]}}});
    let workspace = workspace.with_file("other.json", &other.to_string());
    let mut served = ServeProcess::start(&workspace).await;
    let mut client = StdioClient::start(&workspace).await;
    served.child.kill().await.unwrap();
    let args =
        ["serve", "--listen", ":0", "--json", "--config", "other.json", "--dialect", "claude"];
    let _other = ServeProcess::from_child(spawn(&workspace, &args, &[PATH])).await;
    let (code, output) = client.wait_for_exit().await;
    assert_eq!(code, Some(1));
    assert!(output.contains("with other configuration files runs already: pid "), "{output}");
}
