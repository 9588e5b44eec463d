//! Tokens and connections that one address may try.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::within;
use super::{Served, demo, new_token};
use crate::Place;

#[tokio::test]
async fn wrong_tokens_from_an_address_do_not_lock_out_a_valid_one() {
    let file = json!({"version": 1, "servers": {"demo": demo()},
        "gateway": {"limits": {"wrong_tokens": 3}}});
    let place = Place::new().file("toolcrib.yaml", &file.to_string());
    let served = Served::start(&place).await;
    let (known, fresh) = (new_token(&place, &["--name", "a"]), new_token(&place, &["--name", "b"]));
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
    assert_eq!(place.tools().len(), 7, "the owner's socket is not affected");
}

#[tokio::test]
async fn connections_without_an_admitted_request_make_room_for_others() {
    const MOST: usize = 4;
    let file = json!({"version": 1, "servers": {"demo": demo()},
        "gateway": {"limits": {"connections": MOST}}});
    let place = Place::new().file("toolcrib.yaml", &file.to_string());
    let served = Served::start(&place).await;
    let token = new_token(&place, &[]);
    let head = format!("GET /api/v1/events HTTP/1.1\r\nAuthorization: Bearer {token}");
    // Streams of somebody who was let in stay; connections that say nothing, or nothing right, do not.
    let mut admitted = served.open(&head).await;
    let mut first = [0; 12];
    within(admitted.read_exact(&mut first)).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    let mut idle = Vec::new();
    for number in 0..3 * MOST {
        let mut stream = served.connect().await;
        if number % 2 == 0 {
            within(stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: loc")).await.unwrap();
        }
        idle.push(stream);
    }
    for _ in 0..3 {
        let bearer = format!("Bearer {token}");
        let status = served.request("GET /api/v1/status", &[("Authorization", &bearer)], "").await;
        assert_eq!(status.status, 200);
    }
    assert_eq!(place.tools().len(), 7, "the owner's socket is not affected");
    let mut nothing = Vec::new();
    // A connection that is closed with something unread is reset.
    let _ = within(idle[0].read_to_end(&mut nothing)).await;
    let ended =
        tokio::time::timeout(Duration::from_millis(200), admitted.read_to_end(&mut nothing));
    assert!(ended.await.is_err(), "the stream goes on");
}
