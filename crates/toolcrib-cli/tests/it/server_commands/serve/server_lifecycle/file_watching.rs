//! Tests files that appear, disappear and change while the host runs.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, server_binary};

use super::super::ServeProcess;
use super::{body, counting, wait_for};
use crate::TestWorkspace;

fn entry(tool: &str) -> Value {
    let script = Script { tools: vec![tool.to_owned()], ..counting() };
    json!({"transport": "stdio", "command": server_binary().unwrap(), "args": [script.to_json()],
        "tools": {"whitelist": [tool, "count"]}})
}

fn minds(entry: &Value) -> String {
    json!({"version": 1, "servers": {"s": entry}}).to_string()
}

async fn listed(served: &ServeProcess, tool: &str) {
    wait_for(tool, async || served.tools("d").await.contains(&tool.to_owned())).await;
}

/// DOM-98: the folder is created, the file is replaced, becomes a link, the link changes, and the folder changes.
#[tokio::test]
async fn dom_98_created_swapped_and_linked_files_are_noticed() {
    let workspace = TestWorkspace::new();
    let served = ServeProcess::start(&workspace).await;
    served.open_dialog("d").await;
    assert_eq!(served.tools("d").await, [""; 0]);
    let workspace = workspace.with_file(".minds/mcp.yaml", &minds(&entry("created")));
    listed(&served, "created").await;

    let workspace = workspace.with_file("new.yaml", &minds(&entry("swapped")));
    let root = workspace.root();
    fs::rename(root.join("new.yaml"), root.join(".minds/mcp.yaml")).unwrap();
    listed(&served, "swapped").await;

    let workspace = workspace.with_file("conf/one.yaml", &minds(&entry("linked")));
    symlink(root.join("conf/one.yaml"), root.join("link")).unwrap();
    fs::rename(root.join("link"), root.join(".minds/mcp.yaml")).unwrap();
    listed(&served, "linked").await;
    let workspace = workspace.with_file("conf/one.yaml", &minds(&entry("edited")));
    listed(&served, "edited").await;

    let workspace = workspace
        .with_file("first/mcp.yaml", &minds(&entry("folder")))
        .with_file("second/mcp.yaml", &minds(&entry("retargeted")));
    fs::remove_dir_all(root.join(".minds")).unwrap();
    symlink("first", root.join(".minds")).unwrap();
    listed(&served, "folder").await;
    symlink("second", root.join("link")).unwrap();
    fs::rename(root.join("link"), root.join(".minds")).unwrap();
    listed(&served, "retargeted").await;
    let workspace = workspace.with_file("second/mcp.yaml", &minds(&entry("last")));
    listed(&served, "last").await;
    drop(workspace);
}

/// DOM-98: the grants of a member are read again.
#[tokio::test]
async fn dom_98_changed_team_file_is_applied() {
    let team = |toolsets: &str| format!("members:\n  ada:\n    toolsets: [{toolsets}]\n");
    let workspace = TestWorkspace::new()
        .with_file(".minds/mcp.yaml", &minds(&entry("tool")))
        .with_file(".minds/team.yaml", &team(""));
    let served = ServeProcess::start(&workspace).await;
    let report = served.post("/api/v1/dialogs", &json!({"id": "d", "agent": "ada"})).await;
    assert!(report.starts_with("HTTP/1.1 20"), "{}", body(&report));
    assert_eq!(served.tools("d").await, [""; 0]);
    let workspace = workspace.with_file(".minds/team.yaml", &team("s"));
    listed(&served, "tool").await;
    let workspace = workspace.with_file(".minds/team.yaml", &team(""));
    wait_for("the grant is removed", async || served.tools("d").await.is_empty()).await;
    drop(workspace);
}

/// DOM-98: switches between one session per dialog and one shared session.
#[tokio::test]
async fn dom_98_truely_stateless_applies_to_running_server() {
    let stateless = |is_stateless: bool| {
        let mut entry = entry("tool");
        entry["truely-stateless"] = json!(is_stateless);
        minds(&entry)
    };
    let mut workspace = TestWorkspace::new().with_file(".minds/mcp.yaml", &stateless(false));
    let served = ServeProcess::start(&workspace).await;
    let pids = async || {
        (served.call_and_get_pid("a", "count").await, served.call_and_get_pid("b", "count").await)
    };
    for dialog in ["a", "b"] {
        served.open_dialog(dialog).await;
    }
    let (a, b) = pids().await;
    assert_ne!(a, b);
    for is_shared in [true, false] {
        workspace = workspace.with_file(".minds/mcp.yaml", &stateless(is_shared));
        wait_for("the change applies", async || {
            let (a, b) = pids().await;
            (a == b) == is_shared
        })
        .await;
    }
}
