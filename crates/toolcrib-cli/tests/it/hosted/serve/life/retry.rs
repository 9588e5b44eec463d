//! "Edit config and retry": a server that did not start is tried again when somebody may have mended it.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Step, program};

use super::super::{Served, tell};
use super::{Scene, counting, eventually, started, starts};
use crate::Place;

/// A native entry that is never tried again by itself.
fn without_retries(mut entry: Value) -> Value {
    entry["lifecycle"] = json!({"retry": {"max": 0}, "reconnect": {"auto": false}});
    entry
}

/// A server that does not start as long as a file is missing.
fn needing(file: &Path) -> Value {
    let (server, script) = (program().unwrap(), counting().to_json());
    let text =
        format!("test -e '{}' || exit 1; exec '{}' '{script}'", file.display(), server.display());
    without_retries(json!({"command": "/bin/sh", "args": ["-c", text]}))
}

fn file_of(entry: &Value) -> String {
    json!({"version": 1, "servers": {"s": entry}}).to_string()
}

fn touch(place: Place, file: &str) -> Place {
    let text = place.read(file);
    place.file(file, &format!("{text}\n"))
}

/// DOM-95: a change of its file that does not change the server, and a reload without any change.
#[tokio::test]
async fn dom_95_a_failed_server_is_tried_again_when_its_file_is_touched_and_on_reload() {
    for by_signal in [false, true] {
        let place = Place::new();
        let needed = place.beside("needed");
        let mut place = place.file("toolcrib.yaml", &file_of(&needing(&needed)));
        let served = Served::start(&place).await;
        served.until_state("failed").await;
        fs::write(&needed, "").unwrap();
        match by_signal {
            true => tell(served.pid(), Signal::HUP),
            false => place = touch(place, "toolcrib.yaml"),
        }
        served.until_state("ready").await;
        drop(place);
    }
}

/// DOM-95: the changed server that did not start takes over when it does.
#[tokio::test]
async fn dom_95_a_failed_replacement_is_tried_again_when_its_file_is_touched() {
    let place = Place::new();
    let (always, needed) = (place.root(), place.beside("needed"));
    let place = place.file("toolcrib.yaml", &file_of(&needing(&always)));
    let served = Served::start(&place).await;
    served.open_dialog("d").await;
    let old = served.answering("d", "s__count").await;
    let place = place.file("toolcrib.yaml", &file_of(&needing(&needed)));
    let problem = async || served.get("problems").await.to_string();
    eventually("it is told", async || problem().await.contains("reload.kept_last_good")).await;
    assert_eq!(served.answering("d", "s__count").await, old);
    fs::write(&needed, "").unwrap();
    let place = touch(place, "toolcrib.yaml");
    eventually("it took over", async || served.answering("d", "s__count").await != old).await;
    let is_solved = async || !problem().await.contains("reload.kept_last_good");
    eventually("the problem is gone", is_solved).await;
    drop(place);
}

/// DOM-95: the program that an entry names appears, by its path and in a folder of the `PATH`.
#[tokio::test]
async fn dom_95_a_failed_server_is_tried_again_when_its_program_appears() {
    for by_path in [true, false] {
        let scene = Place::new();
        let shim = scene.shim("later");
        let hidden = scene.beside("hidden");
        fs::rename(&shim.path, &hidden).unwrap();
        let command = if by_path { json!(shim.path) } else { json!("later") };
        let entry = without_retries(json!({"command": command}));
        let file = json!({"version": 1, "servers": {"s": entry}}).to_string();
        let place = scene.file("toolcrib.yaml", &file);
        let path = place.shims();
        let args = ["serve", "--listen", ":0", "--json"];
        let served = Served::of(super::super::spawn(&place, &args, &[("PATH", &path)])).await;
        served.until_state("failed").await;
        fs::rename(&hidden, &shim.path).unwrap();
        served.until_state("ready").await;
    }
}

/// DOM-95: the environment file of an entry.
#[tokio::test]
async fn dom_95_a_failed_server_is_tried_again_when_its_environment_file_changes() {
    let place = Place::new().file("server.env", "SCRIPT='{\"start\":[{\"exit\":1}]}'\n");
    let shim = place.shim("run");
    let entry = without_retries(json!({"command": shim.path, "env_file": "server.env"}));
    let file = json!({"version": 1, "servers": {"s": entry}}).to_string();
    let place = place.file("toolcrib.yaml", &file);
    let served = Served::start(&place).await;
    served.until_state("failed").await;
    let place = place.file("server.env", "SCRIPT='{}'\n");
    served.until_state("ready").await;
    drop(place);
}

/// DOM-95: Dominds has a retry policy of its own.
#[tokio::test]
async fn dom_95_dominds_tries_a_failed_server_again_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("starts");
    let script = starts(counting(), &count, vec![vec![Step::Exit(1)], vec![]]);
    let scene = Scene::process("dominds", &script);
    let served = scene.serve().await;
    served.until_state("ready").await;
    assert!(started(&count) >= 2);
}
