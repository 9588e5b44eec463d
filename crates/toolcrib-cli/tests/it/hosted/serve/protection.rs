//! A host that is protected by tokens stays so until its owner opens it.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use super::tokens::{made, status, talked};
use super::{Served, state};
use crate::hosted::{demo, native};

/// Waits until a request without a token gets this status.
async fn until_anonymous_gets(served: &Served, wanted: u16) {
    super::within(async {
        while status(served, "/api/v1/servers", None).await != wanted {
            // The host looks at the file of tokens only so often, and nothing tells when.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn anonymous_streams_end_when_the_host_becomes_protected() {
    let place = native(&json!({"demo": demo()}));
    let served = Served::start(&place).await;
    let stream = async |path: &str| served.ask(&format!("GET {path} HTTP/1.1")).await;
    let protecting = async {
        // The streams must have been let in, and nothing tells of that but time.
        tokio::time::sleep(Duration::from_millis(500)).await;
        made(&place, &[]);
    };
    let (events, messages, socket, ()) =
        tokio::join!(stream("/api/v1/events"), stream("/sse"), talked(&served, ""), protecting);
    assert!(events.starts_with("HTTP/1.1 200") && messages.contains("event: endpoint"));
    assert!(socket.starts_with("HTTP/1.1 101"), "{socket}");
    assert_eq!(status(&served, "/api/v1/servers", None).await, 401);
}

#[tokio::test]
async fn anonymous_streams_end_when_the_configuration_asks_for_tokens() {
    let place = native(&json!({"demo": demo()}));
    let served = Served::start(&place).await;
    let stream = async |path: &str| served.ask(&format!("GET {path} HTTP/1.1")).await;
    let protecting = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let file = json!({"version": 1, "servers": {"demo": demo()}, "gateway": {"tokens": []}});
        fs::write(place.root().join("toolcrib.yaml"), file.to_string()).unwrap();
        place.json(&["reload"]);
    };
    let (events, socket, ()) =
        tokio::join!(stream("/api/v1/events"), talked(&served, ""), protecting);
    assert!(events.starts_with("HTTP/1.1 200"), "{events}");
    assert!(socket.starts_with("HTTP/1.1 101"), "{socket}");
}

#[tokio::test]
async fn revoking_the_last_token_leaves_the_host_protected_until_it_is_opened() {
    let place = native(&json!({"demo": demo()}));
    let served = Served::start(&place).await;
    made(&place, &["--name", "only"]);
    until_anonymous_gets(&served, 401).await;
    let ran = place.run(&["token", "revoke", "only"]);
    assert!(ran.code == 0 && ran.err.contains("`toolcrib token open`"), "{ran:?}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(status(&served, "/api/v1/servers", None).await, 401);
    assert!(place.run(&["token", "list"]).err.contains("stays protected"));
    // So does the next host of the root.
    assert_eq!(served.end(Signal::TERM).await, Some(0));
    let served = Served::start(&place).await;
    assert_eq!(status(&served, "/api/v1/servers", None).await, 401);
    assert_eq!(place.json(&["token", "open"]), json!({"open": true}));
    until_anonymous_gets(&served, 200).await;
    made(&place, &[]);
    until_anonymous_gets(&served, 401).await;
    assert_eq!(served.end(Signal::TERM).await, Some(0));
}

#[tokio::test]
async fn a_host_without_its_state_folder_stays_protected_and_alone() {
    let place = native(&json!({"demo": demo()}));
    let served = Served::start(&place).await;
    made(&place, &[]);
    until_anonymous_gets(&served, 401).await;
    fs::remove_dir_all(state(&place)).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(status(&served, "/api/v1/servers", None).await, 401);
    let ran = place.run(&["serve", "--listen", ":0"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{ran:?}");
    let first = format!("a host of TMP/ws runs already: pid {}, {}", served.pid(), served.url());
    assert!(ran.err.contains(&first), "{ran:?}");
    assert!(ran.err.contains("its state folder was deleted"), "{ran:?}");
    // Commands start no host of their own beside it.
    for args in [&["servers"][..], &["tools", "--json"], &["call", "demo__echo"], &["status"]] {
        let ran = place.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{args:?}: {ran:?}");
        assert!(ran.err.contains(&first) && ran.err.contains("its socket is gone"), "{ran:?}");
        assert!(ran.err.contains(&format!("end it (`kill {}`)", served.pid())), "{ran:?}");
    }
    // When it has ended, the root has a host again.
    assert_eq!(served.end(Signal::TERM).await, Some(0));
    assert_eq!(place.run(&["servers"]).code, 0);
    let served = Served::start(&place).await;
    assert_eq!(served.end(Signal::TERM).await, Some(0));
}
