//! Tests limits on wrong tokens and connections per address.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::with_time_limit;
use super::{ServeProcess, demo_server, new_token};
use crate::TestWorkspace;

#[tokio::test]
async fn wrong_tokens_from_address_do_not_lock_out_valid_token() {
    let file = json!({"version": 1, "servers": {"demo": demo_server()},
        "gateway": {"limits": {"wrong_tokens": 3}}});
    let workspace = TestWorkspace::new().with_file("toolcrib.yaml", &file.to_string());
    let served = ServeProcess::start(&workspace).await;
    let (known, fresh) =
        (new_token(&workspace, &["--name", "a"]), new_token(&workspace, &["--name", "b"]));
    let status = async |token: &str| {
        let bearer = format!("Bearer {token}");
        served.request("GET /api/v1/status", &[("Authorization", &bearer)], "").await.status
    };
    assert_eq!(status(&known).await, 200);
    let mut wrong = Vec::new();
    for _ in 0..5 {
        wrong.push(status("toolcrib_guess").await);
    }
    assert_eq!(wrong, [401, 401, 401, 429, 429]);
    assert_eq!((status(&known).await, status(&fresh).await), (200, 200));
    assert_eq!(workspace.tools().len(), 7, "the owner's socket is not affected");
}

#[tokio::test]
async fn unauthenticated_connections_are_evicted_at_connection_limit() {
    const MOST: usize = 4;
    let file = json!({"version": 1, "servers": {"demo": demo_server()},
        "gateway": {"limits": {"connections": MOST}}});
    let workspace = TestWorkspace::new().with_file("toolcrib.yaml", &file.to_string());
    let served = ServeProcess::start(&workspace).await;
    let token = new_token(&workspace, &[]);
    let head = format!("GET /api/v1/events HTTP/1.1\r\nAuthorization: Bearer {token}");
    // Streams of an authenticated client stay; idle and malformed connections are evicted.
    let mut admitted = served.open(&head).await;
    let mut first = [0; 12];
    with_time_limit(admitted.read_exact(&mut first)).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    let mut idle = Vec::new();
    for number in 0..3 * MOST {
        let mut stream = served.connect().await;
        if number % 2 == 0 {
            with_time_limit(stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: loc")).await.unwrap();
        }
        idle.push(stream);
    }
    for _ in 0..3 {
        let bearer = format!("Bearer {token}");
        let status = served.request("GET /api/v1/status", &[("Authorization", &bearer)], "").await;
        assert_eq!(status.status, 200);
    }
    assert_eq!(workspace.tools().len(), 7, "the owner's socket is not affected");
    let mut nothing = Vec::new();
    // A connection closed with unread bytes is reset.
    let _ = with_time_limit(idle[0].read_to_end(&mut nothing)).await;
    let ended =
        tokio::time::timeout(Duration::from_millis(200), admitted.read_to_end(&mut nothing));
    assert!(ended.await.is_err(), "the stream continues");
}
