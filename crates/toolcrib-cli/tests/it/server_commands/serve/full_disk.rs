//! Tests a full disk: unwritable records are reported.

use tokio::net::UnixStream;

use super::*;
use crate::PROGRAM;

/// The shell limits the file size. SIGXFSZ is ignored, so that the write fails instead of killing the process.
const SMALL_FILES: &str = "trap '' XFSZ; ulimit -f 512; exec \"$0\" \"$@\"";

/// More calls than fit into the file. Each record has a long name.
const MOST_CALLS: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unwritable_call_records_are_reported_as_error() {
    let workspace = TestWorkspace::new().with_file("toolcrib.yaml", "version: 1\nservers: {}\n");
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", SMALL_FILES, PROGRAM, "--root", ".", "serve", "--listen", ":0", "--json"]);
    command.current_dir(workspace.root()).env_clear().env("HOME", workspace.home());
    let served = ServeProcess::from_child(start(command, &[PATH])).await;
    let made = served.post("/api/v1/dialogs", &json!({})).await;
    let made: Value = serde_json::from_str(made.split("\r\n\r\n").last().unwrap()).unwrap();
    let path = format!("/api/v1/dialogs/{}/calls", made["id"].as_str().unwrap());
    let call = json!({"tool": "x".repeat(20_000), "arguments": {}});
    let mut written = 0;
    let refused = loop {
        served.post(&path, &call).await;
        let answer = calls(&served.socket()).await;
        if !answer.starts_with("HTTP/1.1 200") {
            break answer;
        }
        written += 1;
        assert!(written < MOST_CALLS, "the disk is not full: {}", &answer[..200]);
    };
    assert!(written > 0, "the first record was written: {refused}");
    assert!(refused.starts_with("HTTP/1.1 507"), "{refused}");
    let report: Value = serde_json::from_str(refused.split("\r\n\r\n").last().unwrap()).unwrap();
    assert_eq!(
        (&report["error"]["kind"], &report["error"]["code"]),
        (&json!("resource"), &json!("store.unwritable"))
    );
    let message = report["error"]["message"].as_str().unwrap();
    let expected = "cannot write call records in the store: ";
    assert!(message.starts_with(expected), "{message}");
    assert!(
        message.ends_with("check that the state folder is writable and its disk not full"),
        "{message}"
    );
}

/// The call records, requested by the owner.
async fn calls(socket: &Path) -> String {
    let mut stream = with_time_limit(UnixStream::connect(socket)).await.unwrap();
    let head = "GET /api/v1/calls HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    with_time_limit(stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}
