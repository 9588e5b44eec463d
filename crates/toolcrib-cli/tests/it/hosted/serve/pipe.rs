//! `serve --stdio` beside a host that runs: every client has the same one.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Client, Served, text};
use crate::hosted::{demo, native};
use crate::{PROGRAM, Place};

/// A workspace whose one server everybody shares, so that its counts tell of everybody.
fn shared() -> Place {
    let mut entry = demo();
    entry["session"] = json!({"scope": "shared"});
    native(&json!({"demo": entry}))
}

/// How many tools the shared server has run.
async fn calls(client: &mut Client) -> u64 {
    let read = client.ask("resources/read", json!({"uri": "demo://calls"})).await;
    let text = read["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{read}"));
    serde_json::from_str::<Value>(text).unwrap()["calls"].as_u64().unwrap()
}

#[tokio::test]
async fn two_clients_of_one_root_share_one_host_and_outlive_it() {
    let place = shared();
    let mut first = Client::start(&place).await;
    let mut second = Client::start(&place).await;
    assert_eq!(text(&first.call("demo__echo", json!({"text": "1"})).await), "1");
    assert_eq!(text(&second.call("demo__echo", json!({"text": "2"})).await), "2");
    assert_eq!((calls(&mut first).await, calls(&mut second).await), (2, 2));
    let lock = fs::read_to_string(super::state(&place).join("host.lock")).unwrap();
    let lock: Value = serde_json::from_str(&lock).unwrap();
    assert_eq!((&lock["pid"], &lock["url"]), (&json!(first.pid()), &Value::Null));
    // A client that goes takes nobody with it, and neither does the host.
    let mut third = Client::start(&place).await;
    assert_eq!(second.end().await, (Some(0), String::new()));
    assert_eq!(calls(&mut third).await, 2);
    let pid = first.pid();
    assert_eq!(first.end().await.0, Some(0));
    // Whoever comes next is the host at once.
    let mut fourth = Client::start(&place).await;
    assert_eq!(text(&fourth.call("demo__echo", json!({"text": "4"})).await), "4");
    assert_eq!((calls(&mut fourth).await, calls(&mut third).await), (1, 1));
    let next = fourth.pid();
    let (code, said) = third.end().await;
    assert_eq!(code, Some(0));
    let told = format!(
        "the host of this root has ended (pid {pid}, on standard streams): its clients go on with pid {next},"
    );
    assert!(said.contains(&told), "{said}");
}

#[tokio::test]
async fn a_client_joins_the_host_that_listens() {
    let place = shared();
    let served = Served::start(&place).await;
    let mut client = Client::start(&place).await;
    assert_eq!(text(&client.call("demo__echo", json!({"text": "x"})).await), "x");
    let listed = client.ask("tools/list", json!({})).await;
    assert_eq!(listed["tools"].as_array().unwrap().len(), 7);
    // A megabyte goes there and back whole.
    let long = "é".repeat(1 << 19);
    assert_eq!(text(&client.call("demo__echo", json!({"text": long})).await), long);
    assert_eq!(served.end(Signal::TERM).await, Some(0));
    // It waits for another one, but not if nobody wants one.
    assert_eq!(client.end().await, (Some(0), String::new()));
}

#[tokio::test]
async fn many_that_start_at_once_agree_on_one_host() {
    let place = shared();
    let clients = (0..6).map(|_| Client::start(&place));
    let mut clients = futures_util::future::join_all(clients).await;
    for client in &mut clients {
        assert_eq!(text(&client.call("demo__echo", json!({"text": "x"})).await), "x");
    }
    for client in &mut clients {
        assert_eq!(calls(client).await, 6);
    }
}

#[tokio::test]
async fn a_host_that_reads_other_files_is_not_joined() {
    let place = shared();
    let _served = Served::start(&place).await;
    let other = json!({"mcpServers": {"other": {"command": PROGRAM, "args": ["demo-server"]}}});
    let place = place.file("other.json", &other.to_string());
    let args = ["serve", "--stdio", "--config", "other.json", "--dialect", "claude"];
    let ran = place.run(&args);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("runs already and reads other files: pid "), "{ran:?}");
}

#[tokio::test]
async fn nobody_becomes_a_pipe_from_elsewhere() {
    let place = shared();
    let served = Served::start(&place).await;
    let head = "GET /pipe HTTP/1.1\r\nUpgrade: toolcrib-lines";
    assert!(served.ask(head).await.starts_with("HTTP/1.1 404"));
}
