//! Tests trust beside a running host: it applies at once, and the old server runs until then.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::ServeProcess;
use crate::TestWorkspace;
use crate::server_commands::{demo_server, find, native_workspace, server, wait_until};

fn state(workspace: &TestWorkspace) -> Value {
    server(&workspace.json(&["servers"]), "demo")["state"].clone()
}

fn is_known(workspace: &TestWorkspace) -> bool {
    !workspace.json(&["servers"])["servers"].as_array().unwrap().is_empty()
}

fn pid(workspace: &TestWorkspace) -> Value {
    server(&workspace.json(&["servers"]), "demo")["pid"].clone()
}

async fn problems(served: &ServeProcess) -> Value {
    let answer = served.request_head("GET /api/v1/problems HTTP/1.1").await;
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

fn write(workspace: &TestWorkspace, servers: &Value) {
    let text = json!({"version": 1, "servers": servers}).to_string();
    std::fs::write(workspace.root().join("toolcrib.yaml"), text).unwrap();
}

#[tokio::test]
async fn running_host_applies_trust_at_once() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let served = ServeProcess::start_without_root(&workspace).await;
    wait_until("the host has read its files", || is_known(&workspace));
    assert_eq!(state(&workspace), "disabled");
    let report = problems(&served).await;
    assert_eq!(find(&report["problems"], "code", "trust.required")["server"], "demo");
    workspace.stdout_of(&["trust"]);
    assert_eq!(state(&workspace), "ready");
    assert_eq!(problems(&served).await["problems"], json!([]));
    workspace.stdout_of(&["trust", "--forget"]);
    assert_eq!(state(&workspace), "disabled");
    assert_eq!(served.stop(Signal::TERM).await, Some(0));
}

#[tokio::test]
async fn changed_command_waits_for_trust_and_old_server_keeps_running() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    workspace.stdout_of(&["trust"]);
    let served = ServeProcess::start_without_root(&workspace).await;
    wait_until("the host has read its files", || is_known(&workspace));
    workspace.stdout_of(&["server", "connect", "demo"]);
    let first = pid(&workspace);
    let mut changed = demo_server();
    changed["env"] = json!({"A": "1"});
    write(&workspace, &json!({"demo": changed, "more": demo_server()}));
    wait_until("the change is noticed", || {
        workspace.json(&["servers"])["servers"].as_array().unwrap().len() == 2
    });
    assert_eq!(pid(&workspace), first);
    assert_eq!(workspace.stdout_of(&["call", "demo__echo", "-a", "text=hi"]), "hi\n");
    assert_eq!(server(&workspace.json(&["servers"]), "more")["state"], "disabled");
    let report = problems(&served).await;
    let required = report["problems"].as_array().unwrap();
    let of: Vec<_> = required.iter().map(|it| (&it["code"], &it["server"])).collect();
    let code = json!("trust.required");
    assert_eq!(of, [(&code, &json!("demo")), (&code, &json!("more"))]);
    // Trusting applies all pending changes.
    workspace.stdout_of(&["trust"]);
    assert_ne!(pid(&workspace), first);
    assert_eq!(workspace.stdout_of(&["call", "more__echo", "-a", "text=ho"]), "ho\n");
    assert_eq!(served.stop(Signal::TERM).await, Some(0));
}
