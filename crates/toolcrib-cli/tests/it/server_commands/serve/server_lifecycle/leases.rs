//! Tests the leases of a dialog.

use futures_util::future::join_all;
use toolcrib_testkit::scripted::{Script, Step};

use super::super::ServeProcess;
use super::{ServerFixture, counting, wait_for};

impl ServeProcess {
    async fn release(&self, dialog: &str) {
        let path = format!("DELETE /api/v1/dialogs/{dialog}/leases/s HTTP/1.1");
        let report = self.request_head(&path).await;
        assert!(report.starts_with("HTTP/1.1 20"), "{report}");
    }
}

/// DOM-97: twenty concurrent first calls use one process; a call after a release uses another.
#[tokio::test]
async fn dom_97_first_calls_share_one_lease_and_release_starts_new_lease() {
    let fixture = ServerFixture::process("dominds", &counting());
    let served = fixture.serve().await;
    // The second dialog does not get the discovery session.
    for dialog in ["one", "two"] {
        served.open_dialog(dialog).await;
        let pids = join_all((0..20).map(|_| served.call_and_get_pid(dialog, "count"))).await;
        assert!(pids.iter().all(|pid| *pid == pids[0]), "{dialog}: {pids:?}");
        served.release(dialog).await;
        let next = served.call_and_get_pid(dialog, "count").await;
        assert_ne!(next, pids[0], "{dialog}");
    }
}

/// DOM-97: a call in flight during a release completes.
#[tokio::test]
async fn dom_97_release_lets_in_flight_call_complete() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let script = Script { log: Some(log.clone()), ..counting() }
        .on("tools/call slow", [Step::Sleep(700), Step::Respond]);
    let fixture = ServerFixture::process("dominds", &script);
    let served = fixture.serve().await;
    served.open_dialog("d").await;
    let before = served.call_and_get_pid("d", "count").await;
    let releasing = async {
        let calls = || std::fs::read_to_string(&log).unwrap_or_default();
        wait_for("the call has started", async || calls().matches("tools/call").count() == 2).await;
        served.release("d").await;
        // The call does not wait for the old session.
        served.call_and_get_pid("d", "count").await
    };
    let (report, after) = tokio::join!(served.call("d", "slow"), releasing);
    assert_eq!(report["ok"], true, "{report}");
    assert_ne!(after, before);
}
