//! Files that come, go and change while the host runs.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, program};

use super::super::Served;
use super::{body, counting, eventually};
use crate::Place;

fn entry(tool: &str) -> Value {
    let script = Script { tools: vec![tool.to_owned()], ..counting() };
    json!({"transport": "stdio", "command": program().unwrap(), "args": [script.to_json()],
        "tools": {"whitelist": [tool, "count"]}})
}

fn minds(entry: &Value) -> String {
    json!({"version": 1, "servers": {"s": entry}}).to_string()
}

async fn listed(served: &Served, tool: &str) {
    eventually(tool, async || served.tools("d").await.contains(&tool.to_owned())).await;
}

/// DOM-98: the folder with the file is created, the file is swapped, made a link, linked elsewhere, and the folder too.
#[tokio::test]
async fn dom_98_a_file_or_folder_that_is_created_swapped_or_linked_is_noticed() {
    let place = Place::new();
    let served = Served::start(&place).await;
    served.open_dialog("d").await;
    assert_eq!(served.tools("d").await, [""; 0]);
    let place = place.file(".minds/mcp.yaml", &minds(&entry("created")));
    listed(&served, "created").await;

    let place = place.file("new.yaml", &minds(&entry("swapped")));
    let root = place.root();
    fs::rename(root.join("new.yaml"), root.join(".minds/mcp.yaml")).unwrap();
    listed(&served, "swapped").await;

    let place = place.file("conf/one.yaml", &minds(&entry("linked")));
    symlink(root.join("conf/one.yaml"), root.join("link")).unwrap();
    fs::rename(root.join("link"), root.join(".minds/mcp.yaml")).unwrap();
    listed(&served, "linked").await;
    let place = place.file("conf/one.yaml", &minds(&entry("edited")));
    listed(&served, "edited").await;

    let place = place
        .file("first/mcp.yaml", &minds(&entry("folder")))
        .file("second/mcp.yaml", &minds(&entry("retargeted")));
    fs::remove_dir_all(root.join(".minds")).unwrap();
    symlink("first", root.join(".minds")).unwrap();
    listed(&served, "folder").await;
    symlink("second", root.join("link")).unwrap();
    fs::rename(root.join("link"), root.join(".minds")).unwrap();
    listed(&served, "retargeted").await;
    let place = place.file("second/mcp.yaml", &minds(&entry("last")));
    listed(&served, "last").await;
    drop(place);
}

/// DOM-98: what a member may use is read anew.
#[tokio::test]
async fn dom_98_a_changed_team_file_is_taken_up() {
    let team = |toolsets: &str| format!("members:\n  ada:\n    toolsets: [{toolsets}]\n");
    let place = Place::new()
        .file(".minds/mcp.yaml", &minds(&entry("tool")))
        .file(".minds/team.yaml", &team(""));
    let served = Served::start(&place).await;
    let told = served.post("/api/v1/dialogs", &json!({"id": "d", "agent": "ada"})).await;
    assert!(told.starts_with("HTTP/1.1 20"), "{}", body(&told));
    assert_eq!(served.tools("d").await, [""; 0]);
    let place = place.file(".minds/team.yaml", &team("s"));
    listed(&served, "tool").await;
    let place = place.file(".minds/team.yaml", &team(""));
    eventually("it is taken away", async || served.tools("d").await.is_empty()).await;
    drop(place);
}

/// DOM-98: from one session for each dialog to one for all, and back.
#[tokio::test]
async fn dom_98_truely_stateless_takes_effect_on_a_live_server() {
    let stateless = |is_stateless: bool| {
        let mut entry = entry("tool");
        entry["truely-stateless"] = json!(is_stateless);
        minds(&entry)
    };
    let mut place = Place::new().file(".minds/mcp.yaml", &stateless(false));
    let served = Served::start(&place).await;
    let pids =
        async || (served.answering("a", "count").await, served.answering("b", "count").await);
    for dialog in ["a", "b"] {
        served.open_dialog(dialog).await;
    }
    let (a, b) = pids().await;
    assert_ne!(a, b);
    for is_shared in [true, false] {
        place = place.file(".minds/mcp.yaml", &stateless(is_shared));
        eventually("it takes effect", async || {
            let (a, b) = pids().await;
            (a == b) == is_shared
        })
        .await;
    }
}
