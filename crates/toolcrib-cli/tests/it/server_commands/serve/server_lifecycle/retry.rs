//! Tests that a failed server is retried when its cause may have been fixed.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Step, server_binary};

use super::super::{ServeProcess, send_signal};
use super::{ServerFixture, counting, started, starts, wait_for};
use crate::TestWorkspace;

/// A native entry without automatic retries.
fn without_retries(mut entry: Value) -> Value {
    entry["lifecycle"] = json!({"retry": {"max": 0}, "reconnect": {"auto": false}});
    entry
}

/// A server that starts only if the file exists.
fn server_requiring_file(file: &Path) -> Value {
    let (server, script) = (server_binary().unwrap(), counting().to_json());
    let text =
        format!("test -e '{}' || exit 1; exec '{}' '{script}'", file.display(), server.display());
    without_retries(json!({"command": "/bin/sh", "args": ["-c", text]}))
}

fn file_of(entry: &Value) -> String {
    json!({"version": 1, "servers": {"s": entry}}).to_string()
}

fn touch(workspace: TestWorkspace, file: &str) -> TestWorkspace {
    let text = workspace.read(file);
    workspace.with_file(file, &format!("{text}\n"))
}

/// DOM-95: a change of the file that does not change the server, and a reload without a change.
#[tokio::test]
async fn dom_95_failed_server_is_retried_on_file_change_and_reload() {
    for by_signal in [false, true] {
        let workspace = TestWorkspace::new();
        let needed = workspace.sibling_path("needed");
        let mut workspace =
            workspace.with_file("toolcrib.yaml", &file_of(&server_requiring_file(&needed)));
        let served = ServeProcess::start(&workspace).await;
        served.until_state("failed").await;
        fs::write(&needed, "").unwrap();
        match by_signal {
            true => send_signal(served.pid(), Signal::HUP),
            false => workspace = touch(workspace, "toolcrib.yaml"),
        }
        served.until_state("ready").await;
        drop(workspace);
    }
}

/// DOM-95: the changed server that failed takes over when it starts.
#[tokio::test]
async fn dom_95_failed_replacement_is_retried_on_file_change() {
    let workspace = TestWorkspace::new();
    let (always, needed) = (workspace.root(), workspace.sibling_path("needed"));
    let workspace = workspace.with_file("toolcrib.yaml", &file_of(&server_requiring_file(&always)));
    let served = ServeProcess::start(&workspace).await;
    served.open_dialog("d").await;
    let old = served.call_and_get_pid("d", "s__count").await;
    let workspace = workspace.with_file("toolcrib.yaml", &file_of(&server_requiring_file(&needed)));
    let problem = async || served.get("problems").await.to_string();
    wait_for("the problem is reported", async || problem().await.contains("reload.kept_last_good"))
        .await;
    assert_eq!(served.call_and_get_pid("d", "s__count").await, old);
    fs::write(&needed, "").unwrap();
    let workspace = touch(workspace, "toolcrib.yaml");
    wait_for("the new server took over", async || {
        served.call_and_get_pid("d", "s__count").await != old
    })
    .await;
    let is_solved = async || !problem().await.contains("reload.kept_last_good");
    wait_for("the problem is gone", is_solved).await;
    drop(workspace);
}

/// DOM-95: the program of the entry appears, at its path and in a folder of `PATH`.
#[tokio::test]
async fn dom_95_failed_server_is_retried_when_program_appears() {
    for by_path in [true, false] {
        let fixture = TestWorkspace::new();
        let shim = fixture.shim("later");
        let hidden = fixture.sibling_path("hidden");
        fs::rename(&shim.path, &hidden).unwrap();
        let command = if by_path { json!(shim.path) } else { json!("later") };
        let entry = without_retries(json!({"command": command}));
        let file = json!({"version": 1, "servers": {"s": entry}}).to_string();
        let workspace = fixture.with_file("toolcrib.yaml", &file);
        let path = workspace.shim_path();
        let args = ["serve", "--listen", ":0", "--json"];
        let served =
            ServeProcess::from_child(super::super::spawn(&workspace, &args, &[("PATH", &path)]))
                .await;
        served.until_state("failed").await;
        fs::rename(&hidden, &shim.path).unwrap();
        served.until_state("ready").await;
    }
}

/// DOM-95: the environment file of the entry changes.
#[tokio::test]
async fn dom_95_failed_server_is_retried_when_env_file_changes() {
    let workspace =
        TestWorkspace::new().with_file("server.env", "SCRIPT='{\"start\":[{\"exit\":1}]}'\n");
    let shim = workspace.shim("run");
    let entry = without_retries(json!({"command": shim.path, "env_file": "server.env"}));
    let file = json!({"version": 1, "servers": {"s": entry}}).to_string();
    let workspace = workspace.with_file("toolcrib.yaml", &file);
    let served = ServeProcess::start(&workspace).await;
    served.until_state("failed").await;
    let workspace = workspace.with_file("server.env", "SCRIPT='{}'\n");
    served.until_state("ready").await;
    drop(workspace);
}

/// DOM-95: Dominds has its own retry policy.
#[tokio::test]
async fn dom_95_dominds_retries_failed_server_automatically() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("starts");
    let script = starts(counting(), &count, vec![vec![Step::Exit(1)], vec![]]);
    let fixture = ServerFixture::process("dominds", &script);
    let served = fixture.serve().await;
    served.until_state("ready").await;
    assert!(started(&count) >= 2);
}
