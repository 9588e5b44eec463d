//! A store that takes nothing more: what cannot be recorded is said, not left out.

use tokio::net::UnixStream;

use super::*;
use crate::PROGRAM;

/// A shell may keep its files small; the signal that would end whoever writes more is ignored, so that the write fails.
const SMALL_FILES: &str = "trap '' XFSZ; ulimit -f 512; exec \"$0\" \"$@\"";

/// More calls than fit into such files; each record has a long name.
const MOST_CALLS: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_calls_that_cannot_be_written_are_an_error_and_not_an_empty_list() {
    let place = Place::new().file("toolcrib.yaml", "version: 1\nservers: {}\n");
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", SMALL_FILES, PROGRAM, "--root", ".", "serve", "--listen", ":0", "--json"]);
    command.current_dir(place.root()).env_clear().env("HOME", place.home());
    let served = Served::of(start(command, &[PATH])).await;
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
    assert!(written > 0, "the first was written: {refused}");
    assert!(refused.starts_with("HTTP/1.1 507"), "{refused}");
    let told: Value = serde_json::from_str(refused.split("\r\n\r\n").last().unwrap()).unwrap();
    assert_eq!(
        (&told["error"]["kind"], &told["error"]["code"]),
        (&json!("resource"), &json!("store.unwritable"))
    );
    let message = told["error"]["message"].as_str().unwrap();
    let expected = "cannot write records of calls in the store: ";
    assert!(message.starts_with(expected), "{message}");
    assert!(
        message.ends_with("check that the state folder is writable and its disk not full"),
        "{message}"
    );
}

/// The records, as the owner asks for them.
async fn calls(socket: &Path) -> String {
    let mut stream = within(UnixStream::connect(socket)).await.unwrap();
    let head = "GET /api/v1/calls HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    within(stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}
