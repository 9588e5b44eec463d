//! Tests that a host protected by tokens stays protected until its owner opens it.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use super::tokens::{create_token, status, websocket_output};
use super::{ServeProcess, state};
use crate::server_commands::{demo_server, native_workspace};

/// Waits until a request without a token gets this status.
async fn until_anonymous_gets(served: &ServeProcess, wanted: u16) {
    super::with_time_limit(async {
        while status(served, "/api/v1/servers", None).await != wanted {
            // The host polls the token file.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn anonymous_streams_end_when_host_becomes_protected() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let served = ServeProcess::start(&workspace).await;
    let stream = async |path: &str| served.request_head(&format!("GET {path} HTTP/1.1")).await;
    let protecting = async {
        // Gives the streams time to be accepted.
        tokio::time::sleep(Duration::from_millis(500)).await;
        create_token(&workspace, &[]);
    };
    let (events, messages, socket, ()) = tokio::join!(
        stream("/api/v1/events"),
        stream("/sse"),
        websocket_output(&served, ""),
        protecting
    );
    assert!(events.starts_with("HTTP/1.1 200") && messages.contains("event: endpoint"));
    assert!(socket.starts_with("HTTP/1.1 101"), "{socket}");
    assert_eq!(status(&served, "/api/v1/servers", None).await, 401);
}

#[tokio::test]
async fn anonymous_streams_end_when_configuration_requires_tokens() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let served = ServeProcess::start(&workspace).await;
    let stream = async |path: &str| served.request_head(&format!("GET {path} HTTP/1.1")).await;
    let protecting = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let file =
            json!({"version": 1, "servers": {"demo": demo_server()}, "gateway": {"tokens": []}});
        fs::write(workspace.root().join("toolcrib.yaml"), file.to_string()).unwrap();
        workspace.json(&["reload"]);
    };
    let (events, socket, ()) =
        tokio::join!(stream("/api/v1/events"), websocket_output(&served, ""), protecting);
    assert!(events.starts_with("HTTP/1.1 200"), "{events}");
    assert!(socket.starts_with("HTTP/1.1 101"), "{socket}");
}

#[tokio::test]
async fn revoking_last_token_keeps_host_protected_until_opened() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let served = ServeProcess::start(&workspace).await;
    create_token(&workspace, &["--name", "only"]);
    until_anonymous_gets(&served, 401).await;
    let ran = workspace.run(&["token", "revoke", "only"]);
    assert!(ran.code == 0 && ran.err.contains("`toolcrib token open`"), "{ran:?}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(status(&served, "/api/v1/servers", None).await, 401);
    assert!(workspace.run(&["token", "list"]).err.contains("stays protected"));
    // The next host of the root stays protected too.
    assert_eq!(served.stop(Signal::TERM).await, Some(0));
    let served = ServeProcess::start(&workspace).await;
    assert_eq!(status(&served, "/api/v1/servers", None).await, 401);
    assert_eq!(workspace.json(&["token", "open"]), json!({"open": true}));
    until_anonymous_gets(&served, 200).await;
    create_token(&workspace, &[]);
    until_anonymous_gets(&served, 401).await;
    assert_eq!(served.stop(Signal::TERM).await, Some(0));
}

#[tokio::test]
async fn host_without_state_folder_stays_protected_and_exclusive() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let served = ServeProcess::start(&workspace).await;
    create_token(&workspace, &[]);
    until_anonymous_gets(&served, 401).await;
    fs::remove_dir_all(state(&workspace)).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(status(&served, "/api/v1/servers", None).await, 401);
    let ran = workspace.run(&["serve", "--listen", ":0"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{ran:?}");
    let first = format!("a host of TMP/ws runs already: pid {}, {}", served.pid(), served.url());
    assert!(ran.err.contains(&first), "{ran:?}");
    assert!(ran.err.contains("its state folder was deleted"), "{ran:?}");
    // Commands do not start their own host beside it.
    for args in [&["servers"][..], &["tools", "--json"], &["call", "demo__echo"], &["status"]] {
        let ran = workspace.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{args:?}: {ran:?}");
        assert!(ran.err.contains(&first) && ran.err.contains("its socket is gone"), "{ran:?}");
        assert!(ran.err.contains(&format!("stop it (`kill {}`)", served.pid())), "{ran:?}");
    }
    // After its end the root has a host again.
    assert_eq!(served.stop(Signal::TERM).await, Some(0));
    assert_eq!(workspace.run(&["servers"]).code, 0);
    let served = ServeProcess::start(&workspace).await;
    assert_eq!(served.stop(Signal::TERM).await, Some(0));
}
