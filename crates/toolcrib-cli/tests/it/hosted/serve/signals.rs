//! What signals do to a host.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use toolcrib_testkit::scripted::{Script, Step};

use super::{Client, Served, tell, text, within};
use crate::Place;
use crate::hosted::{Shim, is_alive, native, until};

/// A workspace with a server whose tool `slow` takes this long, and how to see that it began. Calls have two seconds
/// where the host ends.
fn hasty(millis: u64) -> (Place, Shim) {
    let (place, shim) = slow(millis);
    let file = std::fs::read_to_string(place.root().join("toolcrib.yaml")).unwrap();
    let mut file: Value = serde_json::from_str(&file).unwrap();
    file["host"] = json!({"reload": {"drain_kill": "2s"}});
    (place.file("toolcrib.yaml", &file.to_string()), shim)
}

/// The same where calls have the time that they have usually.
fn slow(millis: u64) -> (Place, Shim) {
    let place = native(&json!({}));
    let (shim, log) = (place.shim("slow"), place.beside("messages"));
    let script = Script { log: Some(log), ..Script::default() }
        .on("tools/call slow", [Step::Sleep(millis), Step::Answer]);
    let entry =
        json!({"command": shim.path, "env": {"SCRIPT": script.to_json().replace('$', "$$")}});
    let file = json!({"version": 1, "servers": {"s": entry}});
    (place.file("toolcrib.yaml", &file.to_string()), shim)
}

fn has_begun(place: &Place) -> bool {
    let log = std::fs::read_to_string(place.beside("messages")).unwrap_or_default();
    log.contains("tools/call")
}

#[tokio::test]
async fn a_call_that_is_under_way_is_answered_before_the_end() {
    for of_the_host in [true, false] {
        let (place, shim) = slow(1000);
        let served = match of_the_host {
            true => None,
            false => Some(Served::start(&place).await),
        };
        let mut client = Client::start(&place).await;
        let call = client.send("tools/call", json!({"name": "s__slow", "arguments": {}})).await;
        until("the call has begun", || has_begun(&place));
        let socket = super::state(&place).join("socket");
        assert!(socket.exists());
        tell(served.as_ref().map_or(client.pid(), Served::pid), Signal::TERM);
        let answer = client.answer(call).await;
        assert!(answer.get("result").is_some(), "{of_the_host}: {answer}");
        if !of_the_host {
            client.stdin = None;
        }
        assert_eq!(client.ended().await.0, Some(0));
        if let Some(mut served) = served {
            assert_eq!(within(served.child.wait()).await.unwrap().code(), Some(0));
        }
        assert!(!socket.exists() && !is_alive(shim.started().unwrap().0));
    }
}

#[tokio::test]
async fn what_was_asked_before_the_input_ended_is_answered() {
    for of_the_host in [true, false] {
        let (place, _shim) = slow(500);
        let _served = match of_the_host {
            true => None,
            false => Some(Served::start(&place).await),
        };
        let mut client = Client::start(&place).await;
        let list = client.send("tools/list", json!({})).await;
        let call = client.send("tools/call", json!({"name": "s__slow", "arguments": {}})).await;
        client.stdin = None;
        let (listed, called) = (client.answer(list).await, client.answer(call).await);
        assert!(listed["result"]["tools"].is_array(), "{listed}");
        assert!(called.get("result").is_some(), "{called}");
        assert_eq!(client.ended().await.0, Some(0));
    }
}

#[tokio::test]
async fn a_client_that_goes_with_a_call_under_way_is_not_waited_for_when_a_signal_comes() {
    let (place, shim) = slow(60_000);
    let mut client = Client::start(&place).await;
    client.send("tools/call", json!({"name": "s__slow", "arguments": {}})).await;
    until("the call has begun", || has_begun(&place));
    client.stdin = None;
    // Its end must have been seen, and nothing tells of that but time.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begun = Instant::now();
    tell(client.pid(), Signal::TERM);
    // As long as clients wait for it: the Python SDK's two seconds, and two more on a busy machine.
    assert_eq!(client.ended().await.0, Some(0));
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert!(!is_alive(shim.started().unwrap().0));
}

#[tokio::test]
async fn what_is_wrong_is_told_while_it_serves() {
    let place =
        native(&json!({"docs": {"url": "http://127.0.0.1:9/mcp", "headers": {"A": "${NOPE_X}"}}}));
    let mut served = Served::start(&place).await;
    let mut lines = BufReader::new(served.child.stderr.take().unwrap()).lines();
    let begun = Instant::now();
    loop {
        let line = within(lines.next_line()).await.unwrap().unwrap();
        if line.starts_with("error: toolcrib.yaml:1:") && line.contains("NOPE_X") {
            break;
        }
        assert!(begun.elapsed() < crate::hosted::PATIENCE, "{line}");
    }
    let place = place.file("toolcrib.yaml", "version: [");
    let begun = Instant::now();
    loop {
        let line = within(lines.next_line()).await.unwrap().unwrap();
        if line.starts_with("error: toolcrib.yaml") && !line.contains("NOPE_X") {
            break;
        }
        assert!(begun.elapsed() < crate::hosted::PATIENCE, "{line}");
    }
    drop(place);
}

#[tokio::test]
async fn a_call_over_http_is_answered_before_the_end() {
    // Longer than connections have when no call is under way.
    let (place, shim) = slow(5500);
    let served = Served::start(&place).await;
    let dialog = served.post("/api/v1/dialogs", &json!({"id": "d"})).await;
    assert!(dialog.starts_with("HTTP/1.1 201"), "{dialog}");
    let call = json!({"tool": "s__slow"});
    let ending = async {
        while !has_begun(&place) {
            // What is waited for happens in other processes.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tell(served.pid(), Signal::TERM);
    };
    let (answer, ()) = tokio::join!(served.post("/api/v1/dialogs/d/calls", &call), ending);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"ok\":true"), "{answer}");
    let mut served = served;
    assert_eq!(within(served.child.wait()).await.unwrap().code(), Some(0));
    assert!(!is_alive(shim.started().unwrap().0));
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_cut_off_and_a_second_signal_does_not_wait() {
    for signals in [1, 2] {
        let (place, shim) = if signals == 1 { hasty(60_000) } else { slow(60_000) };
        let served = Served::start(&place).await;
        let mut client = Client::start(&place).await;
        let call = client.send("tools/call", json!({"name": "s__slow", "arguments": {}})).await;
        until("the call has begun", || has_begun(&place));
        let (begun, pid, socket) = (Instant::now(), served.pid(), served.socket());
        let ended = served.end(Signal::TERM);
        if signals == 2 {
            let again = async {
                // The first one must have been taken, and nothing tells of that but time.
                tokio::time::sleep(Duration::from_millis(200)).await;
                tell(pid, Signal::INT);
            };
            assert_eq!(tokio::join!(ended, again).0, Some(0));
            assert!(begun.elapsed() < Duration::from_secs(4), "it waited for the call");
        } else {
            assert_eq!(ended.await, Some(0));
            assert!(begun.elapsed() >= Duration::from_secs(2), "the call had no time");
        }
        assert!(client.answer(call).await["error"].is_object(), "{signals}");
        assert_eq!(client.end().await.0, Some(0));
        let server = shim.started().unwrap().0;
        until("the server is gone", || !is_alive(server));
        assert!(!socket.exists());
    }
}

#[tokio::test]
async fn a_hangup_reads_the_files_anew() {
    let place = native(&json!({}));
    // Nobody watches the files, so that only the signal can be it.
    let file = |servers| {
        json!({"version": 1, "host": {"reload": {"mode": "manual"}}, "servers": servers})
            .to_string()
    };
    let place = place.file("toolcrib.yaml", &file(json!({})));
    let served = Served::start(&place).await;
    let mut client = Client::start(&place).await;
    assert_eq!(client.ask("tools/list", json!({})).await["tools"], json!([]));
    let place = place.file("toolcrib.yaml", &file(json!({"demo": crate::hosted::demo()})));
    tell(served.pid(), Signal::HUP);
    let begun = Instant::now();
    while client.ask("tools/list", json!({})).await["tools"] == json!([]) {
        assert!(begun.elapsed() < crate::hosted::PATIENCE, "the file was not read");
        // What is waited for happens in another process.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(text(&client.call("demo__echo", json!({"text": "new"})).await), "new");
    drop(place);
}
