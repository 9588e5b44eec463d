//! The leases of a dialog.

use futures_util::future::join_all;
use toolcrib_testkit::scripted::{Script, Step};

use super::super::Served;
use super::{Scene, counting, eventually};

impl Served {
    async fn release(&self, dialog: &str) {
        let path = format!("DELETE /api/v1/dialogs/{dialog}/leases/s HTTP/1.1");
        let told = self.ask(&path).await;
        assert!(told.starts_with("HTTP/1.1 20"), "{told}");
    }
}

/// DOM-97: one process for twenty first calls at once; another one after a release.
#[tokio::test]
async fn dom_97_first_calls_share_one_lease_and_a_call_after_a_release_gets_another() {
    let scene = Scene::process("dominds", &counting());
    let served = scene.serve().await;
    // The second dialog does not get the connection in which the lists were read.
    for dialog in ["one", "two"] {
        served.open_dialog(dialog).await;
        let pids = join_all((0..20).map(|_| served.answering(dialog, "count"))).await;
        assert!(pids.iter().all(|pid| *pid == pids[0]), "{dialog}: {pids:?}");
        served.release(dialog).await;
        let next = served.answering(dialog, "count").await;
        assert_ne!(next, pids[0], "{dialog}");
    }
}

/// DOM-97: a call in flight during a release completes.
#[tokio::test]
async fn dom_97_a_release_lets_the_call_in_flight_complete() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let script = Script { log: Some(log.clone()), ..counting() }
        .on("tools/call slow", [Step::Sleep(700), Step::Answer]);
    let scene = Scene::process("dominds", &script);
    let served = scene.serve().await;
    served.open_dialog("d").await;
    let before = served.answering("d", "count").await;
    let releasing = async {
        let calls = || std::fs::read_to_string(&log).unwrap_or_default();
        eventually("it has begun", async || calls().matches("tools/call").count() == 2).await;
        served.release("d").await;
        // It does not wait for the old one.
        served.answering("d", "count").await
    };
    let (told, after) = tokio::join!(served.call("d", "slow"), releasing);
    assert_eq!(told["ok"], true, "{told}");
    assert_ne!(after, before);
}
