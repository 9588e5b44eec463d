//! Tests commands beside a running host: they are its clients, and their effects persist.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{ServeProcess, send_signal, spawn, with_time_limit};
use crate::server_commands::{
    PATH, demo_server, is_alive, names, native_workspace, scripted_server, server, wait_until,
};
use crate::{PROGRAM, TestWorkspace};

/// A server that counts per legacy session.
fn counting() -> Value {
    let mut entry = demo_server();
    entry["protocol"] = json!("legacy");
    entry["session"] = json!({"scope": "per_conversation"});
    entry
}

fn pid(workspace: &TestWorkspace, id: &str) -> Value {
    server(&workspace.json(&["servers"]), id)["pid"].clone()
}

#[tokio::test]
async fn every_command_uses_running_host() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let served = ServeProcess::start(&workspace).await;
    assert_eq!(names(&workspace.json(&["tools"])).len(), 7);
    let first = pid(&workspace, "demo");
    assert!(
        is_alive(u32::try_from(first.as_u64().unwrap()).unwrap()),
        "the server outlives the command"
    );
    assert_eq!(workspace.stdout_of(&["call", "demo__echo", "-a", "text=hi"]), "hi\n");
    assert_eq!(workspace.stdout_of(&["read", "demo://square/12"]), "144\n");
    assert!(
        workspace.stdout_of(&["prompt", "demo__introduce", "-a", "name=Ada"]).starts_with("user: ")
    );
    assert_eq!(workspace.json(&["why", "demo__add"])["usable"], true);
    assert_eq!(workspace.json(&["resources"])["resources"][0]["uri"], "demo://calls");
    assert_eq!(workspace.json(&["prompts"])["prompts"][0]["name"], "demo__introduce");
    assert_eq!(pid(&workspace, "demo"), first, "one host, one server");
    // The counters include the calls of all clients.
    assert_eq!(workspace.json(&["call", "demo__fail"])["is_error"], true);
    let listed = workspace.json(&["servers"]);
    let calls = &server(&listed, "demo")["calls"];
    assert_eq!(*calls, json!({"total": 2, "succeeded": 1, "failed": 1}));
    let output = workspace.stdout_of(&["status"]);
    assert!(output.contains(&format!("pid {}, {}", served.pid(), served.url())), "{output}");
    assert_eq!(workspace.run(&["call", "demo__none"]).code, 1);
    assert_eq!(served.stop(Signal::TERM).await, Some(0));
    // Without a running host each command starts its own.
    assert!(workspace.stdout_of(&["status"]).contains("a host of its own"));
}

#[tokio::test]
async fn tool_counts_name_host_tools_separately() {
    let workspace = native_workspace(&json!({"demo": counting()}));
    let _served = ServeProcess::start(&workspace).await;
    let counted = || {
        let (tools, status) = (workspace.run(&["tools"]), workspace.stdout_of(&["status"]));
        let status = status.lines().nth(1).unwrap().to_owned();
        (tools.err.lines().last().unwrap().to_owned(), status)
    };
    let status = "1 server, 1 ready; 7 tools of servers; 0 problems".to_owned();
    assert_eq!(counted(), ("7 tools".to_owned(), status.clone()));
    // A client with its own session is also offered the host tool that releases it.
    workspace.stdout_of(&["call", "demo__counter"]);
    assert_eq!(counted(), ("8 tools, 1 of them the host's own".to_owned(), status));
    assert_eq!(workspace.json(&["status"])["tools"], 7);
}

#[tokio::test]
async fn server_operations_persist_in_running_host() {
    let workspace = native_workspace(
        &json!({"demo": demo_server(), "gone": {"command": "no-such-program-here"}}),
    );
    let _served = ServeProcess::start(&workspace).await;
    assert_eq!(workspace.stdout_of(&["server", "connect", "demo"]), "demo ready\n");
    let first = pid(&workspace, "demo");
    assert_eq!(workspace.stdout_of(&["server", "restart", "demo"]), "demo ready\n");
    assert_ne!(pid(&workspace, "demo"), first);
    assert_eq!(workspace.stdout_of(&["server", "disconnect", "demo"]), "demo stopped\n");
    assert_eq!(server(&workspace.json(&["servers"]), "demo")["state"], "stopped");
    assert_eq!(workspace.stdout_of(&["server", "connect", "demo"]), "demo ready\n");
    assert_eq!(workspace.run_with_env(&["server", "connect", "gone"], &[PATH]).code, 3);
    let ran = workspace.run(&["server", "restart", "dmo"]);
    assert_eq!(ran.err, "error: there is no server `dmo`; there are demo, gone\n");
    // The file changes, and a command reloads it.
    let workspace =
        workspace.with_file("toolcrib.yaml", &json!({"version": 1, "servers": {}}).to_string());
    assert_eq!(workspace.json(&["reload"])["ok"], true);
    assert_eq!(workspace.json(&["servers"])["servers"], json!([]));
}

#[tokio::test]
async fn commands_share_server_sessions_of_running_host() {
    let workspace = native_workspace(&json!({"demo": counting()}));
    let count = |args: &[&str]| {
        let report = workspace.json(&[&["call", "demo__counter"], args].concat());
        report["structured"]["value"].as_i64().unwrap_or_else(|| panic!("{report}"))
    };
    // A temporary host keeps no sessions.
    assert_eq!((count(&[]), count(&[])), (1, 1));
    let _served = ServeProcess::start(&workspace).await;
    assert_eq!((count(&[]), count(&[]), count(&[])), (1, 2, 3));
    assert_eq!((count(&["--dialog", "d"]), count(&["--dialog", "d"])), (1, 2));
    assert_eq!(count(&[]), 4);
}

#[tokio::test]
async fn verbose_output_names_used_host() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let ran = workspace.run_with_env(&["tools", "-v"], &[PATH]);
    assert!(ran.err.contains("no host is running"), "{ran:?}");
    let served = ServeProcess::start(&workspace).await;
    let ran = workspace.run_with_env(&["tools", "-v"], &[PATH]);
    let expected = format!("using the running host host=pid {}, {}", served.pid(), served.url());
    assert!(ran.err.contains(&expected), "{ran:?}");
    // Other files mean another configuration, which the running host does not have.
    let other = json!({"mcpServers": {"other": {"command": PROGRAM, "args": ["demo-server"]}}});
    let workspace = workspace.with_file("other.json", &other.to_string());
    let args = ["tools", "--config", "other.json", "--dialect", "claude"];
    assert_eq!(names(&workspace.json(&args))[0], "other__echo");
}

#[tokio::test]
async fn interrupted_command_cancels_call_and_host_continues() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let script = Script { log: Some(log.clone()), ..Script::default() }
        .on("tools/call slow", [Step::Sleep(60_000), Step::Respond]);
    let workspace = native_workspace(&json!({"s": scripted_server(&script)}));
    let _served = ServeProcess::start(&workspace).await;
    let has = |method: &str| fs::read_to_string(&log).unwrap_or_default().contains(method);
    let mut child = spawn(&workspace, &["call", "s__slow"], &[PATH]);
    wait_until("the call has started", || has("tools/call"));
    send_signal(child.id().unwrap(), Signal::INT);
    assert_eq!(with_time_limit(child.wait()).await.unwrap().code(), Some(130));
    wait_until("the call is cancelled", || has("notifications/cancelled"));
    assert_eq!(workspace.stdout_of(&["call", "s__echo", "-a", "x=1"]), "{\"x\":1}\n");
}

/// DIS-55: a disabled server can be enabled in a running host. The file stays unchanged.
#[tokio::test]
async fn dis_55_disabled_server_is_enabled_at_run_time() {
    let mut entry = scripted_server(&Script::default());
    entry["disabled"] = json!(true);
    let file = json!({"servers": {"freecad": entry}}).to_string();
    let workspace = TestWorkspace::new().with_file(".dispatch/mcp.json", &file);
    let _served = ServeProcess::start(&workspace).await;
    assert_eq!(server(&workspace.json(&["servers"]), "freecad")["state"], "disabled");
    assert_eq!(workspace.run(&["call", "freecad__echo"]).code, 1);
    workspace.stdout_of(&["server", "enable", "freecad"]);
    assert_eq!(workspace.tools(), ["freecad__echo", "freecad__fail", "freecad__env"]);
    assert_eq!(workspace.stdout_of(&["call", "freecad__echo", "-a", "x=1"]), "{\"x\":1}\n");
    workspace.stdout_of(&["server", "disable", "freecad"]);
    assert_eq!(workspace.tools(), [] as [&str; 0]);
    assert_eq!(workspace.read(".dispatch/mcp.json"), file);
}
