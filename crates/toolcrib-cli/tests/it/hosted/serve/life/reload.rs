//! Calls in flight and last-known-good servers across a reload.

use std::time::Duration;

use serde_json::json;
use toolcrib_testkit::scripted::{Script, Step, program};

use super::{Scene, counting, eventually};
use crate::Place;
use crate::hosted::until;

const FILE: &str = ".minds/mcp.yaml";

/// A Dominds workspace with a server whose tool `slow` takes this long.
fn slow(millis: u64) -> (Scene, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let script = Script { log: Some(folder.path().join("log")), ..Script::default() }
        .on("tools/call slow", [Step::Sleep(millis), Step::Answer]);
    (Scene::process("dominds", &script), folder)
}

/// The report of a call during which the server is removed from its file.
async fn called_across_removal(scene: Scene, log: &std::path::Path) -> serde_json::Value {
    let served = scene.serve().await;
    served.open_dialog("d").await;
    let removing = async {
        let has_begun = || std::fs::read_to_string(log).unwrap_or_default().contains("tools/call");
        eventually("the call has begun", async || has_begun()).await;
        let place = scene.place.file(FILE, &json!({"version": 1, "servers": {}}).to_string());
        eventually("it is removed", async || served.tools("d").await.is_empty()).await;
        place
    };
    tokio::join!(served.call("d", "slow"), removing).0
}

/// DOM-96: longer than the 3 s that once were the limit, which a turn had and then its calls had once more.
#[tokio::test]
async fn dom_96_a_call_outlives_the_removal_of_its_server() {
    let (scene, folder) = slow(8000);
    let told = called_across_removal(scene, &folder.path().join("log")).await;
    assert_eq!(told["ok"], true, "{told}");
}

/// DOM-96: a limit counts where it is set.
#[tokio::test]
async fn dom_96_a_call_is_cut_off_by_a_limit_that_is_set() {
    let (mut scene, folder) = slow(60_000);
    let host = json!({"version": 1, "host": {"reload": {"drain_kill": "300ms"}}});
    scene.place = scene.place.file("toolcrib.yaml", &host.to_string());
    let begun = std::time::Instant::now();
    let told = called_across_removal(scene, &folder.path().join("log")).await;
    assert_eq!(told["error"]["kind"], "connection", "{told}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

fn minds(place: Place, entry: &serde_json::Value) -> Place {
    place.file(FILE, &json!({"version": 1, "servers": {"s": entry}}).to_string())
}

/// DOM-99: an entry that cannot be read, and one whose server does not start.
#[tokio::test]
async fn dom_99_the_last_good_server_serves_dialogs_that_begin_after_a_failed_reload() {
    let broken = [
        json!({"transport": "pigeon", "command": "x"}),
        json!({"transport": "stdio", "command": program().unwrap(),
            "args": [Script::default().start([Step::Exit(1)]).to_json()]}),
        json!({"transport": "stdio", "command": "/nowhere/at-all"}),
    ];
    for entry in broken {
        let mut scene = Scene::process("dominds", &counting());
        let served = scene.serve().await;
        served.open_dialog("old").await;
        let old = served.answering("old", "count").await;
        scene.place = minds(scene.place, &entry);
        let problems = async || served.get("problems").await["problems"].clone();
        let is_told = async || problems().await.as_array().is_some_and(|all| !all.is_empty());
        eventually("it is told", is_told).await;
        served.open_dialog("new").await;
        let new = served.answering("new", "count").await;
        assert_ne!(new, old, "{entry}: a lease of its own");
        assert_eq!(served.answering("old", "count").await, old, "{entry}");
        until("both are there", || [old, new].into_iter().all(crate::hosted::is_alive));
    }
}
