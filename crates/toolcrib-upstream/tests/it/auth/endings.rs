//! How tokens stay fresh and end: expiry, rotation, revocation, an issuer that is away, a logout.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;
use toolcrib_upstream::conn::peer::{CallOptions, Patience};
use toolcrib_upstream::conn::{FailureKind, Want};
use toolcrib_wire::{ObjectWriter, method};

use super::Stage;
use crate::scene::within;

/// The issuer's clock is a real one: what expires is waited for.
async fn expire(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test]
async fn min_18_a_token_is_renewed_before_its_end_and_what_renews_it_changes_each_time() {
    let mut stage = Stage::new(&["--ttl", "2"]).await;
    stage.log_in().await;
    let mut seen = vec![stage.refresh_token().await];
    for round in 1..=3 {
        expire(2).await;
        assert_eq!(stage.call("whoami").await.unwrap(), "whoami as ada");
        assert!(stage.count("refreshes").await >= round);
        let now = stage.refresh_token().await;
        assert!(!seen.contains(&now), "the issuer rotates them");
        seen.push(now);
    }
    stage.close().await;
}

#[tokio::test]
async fn a_token_that_is_refused_early_is_renewed_once_and_the_call_is_made() {
    let mut stage = Stage::new(&["--ttl", "3600"]).await;
    stage.log_in().await;
    assert_eq!(stage.call("whoami").await.unwrap(), "whoami as ada");
    // The server takes none any more that is older than this; the host thinks that it has an hour.
    expire(11).await;
    stage.provider.order("ttl 5").await.unwrap();
    assert_eq!(stage.call("whoami").await.unwrap(), "whoami as ada");
    assert_eq!(stage.count("refreshes").await, 1);
    stage.close().await;
}

#[tokio::test]
async fn a_login_that_the_issuer_has_ended_is_over_and_says_so() {
    let mut stage = Stage::new(&["--ttl", "2"]).await;
    stage.log_in().await;
    assert_eq!(stage.call("whoami").await.unwrap(), "whoami as ada");
    let token = stage.refresh_token().await;
    stage.provider.order(&format!("revoke {token}")).await.unwrap();
    expire(2).await;
    let failure = stage.call("whoami").await.unwrap_err();
    assert_eq!((failure.kind, failure.code), (FailureKind::Authentication, "auth.login_required"));
    assert_eq!(stage.refresh_token().await, "", "the issuer said that it is worthless");
    let asked = stage.count("tokens").await;
    assert!(stage.call("whoami").await.is_err());
    assert_eq!(stage.count("tokens").await, asked, "nobody is bothered again");
    stage.log_in().await;
    assert_eq!(stage.call("whoami").await.unwrap(), "whoami as ada");
    stage.close().await;
}

#[tokio::test]
async fn an_issuer_that_is_away_costs_no_login() {
    let mut stage = Stage::new(&["--ttl", "2"]).await;
    stage.log_in().await;
    assert_eq!(stage.call("whoami").await.unwrap(), "whoami as ada");
    let before = stage.refresh_token().await;
    stage.provider.order("down").await.unwrap();
    expire(2).await;
    let failure = stage.call("whoami").await.unwrap_err();
    assert_eq!(
        (failure.kind, failure.code),
        (FailureKind::Connection, "auth.issuer_unreachable"),
        "{failure}"
    );
    assert_eq!(stage.refresh_token().await, before);
    stage.provider.order("up").await.unwrap();
    assert_eq!(stage.call("whoami").await.unwrap(), "whoami as ada");
    stage.close().await;
}

#[tokio::test]
async fn the_time_that_a_token_takes_is_not_the_calls() {
    let mut stage = Stage::new(&["--ttl", "2"]).await;
    stage.log_in().await;
    assert_eq!(stage.call("whoami").await.unwrap(), "whoami as ada");
    expire(2).await;
    stage.provider.order("hold").await.unwrap();
    let ticket = within(stage.conn.ready(Want::Call)).await.unwrap();
    let patience = Patience { request: Some(Duration::from_secs(1)), max: None };
    let options = CallOptions { patience, ..CallOptions::default() };
    let params = ObjectWriter::new().string("name", "whoami").finish();
    let call = ticket.session.call(method::TOOLS_CALL, params, options, None);
    let free = async {
        // Longer than the call may take.
        expire(3).await;
        stage.provider.order("free").await.unwrap();
    };
    let (called, ()) = tokio::join!(within(call), free);
    assert!(called.is_ok(), "{called:?}");
    drop(ticket);
    stage.close().await;
}

#[tokio::test]
async fn the_time_that_a_token_takes_is_not_that_of_a_start_either() {
    let limits = json!({"timeouts": {"startup": "2s"}, "auth": {"kind": "oauth"}});
    let mut stage = Stage::with(&["--ttl", "2"], limits).await;
    stage.log_in().await;
    expire(2).await;
    stage.provider.order("hold").await.unwrap();
    let free = async {
        // Longer than the start may take.
        expire(4).await;
        stage.provider.order("free").await.unwrap();
    };
    stage.conn.tell(toolcrib_upstream::conn::Event::Connect).await;
    let (ticket, ()) = tokio::join!(within(stage.conn.first_try(Want::Call)), free);
    assert!(ticket.is_ok(), "{ticket:?}");
    drop(ticket);
    stage.close().await;
}

#[tokio::test]
async fn a_logout_gives_the_tokens_back() {
    let mut stage = Stage::new(&[]).await;
    stage.log_in().await;
    assert_eq!(stage.call("whoami").await.unwrap(), "whoami as ada");
    let done = stage.accounts().logout(&stage.server).await.unwrap();
    assert!(done.was_known && matches!(done.revoked, Some(Ok(()))), "{done:?}");
    assert_eq!(stage.count("revocations").await, 2);
    let failure = stage.call("whoami").await.unwrap_err();
    assert_eq!(failure.code, "auth.login_required");
    let again = stage.accounts().logout(&stage.server).await.unwrap();
    assert!(!again.was_known && again.revoked.is_none(), "{again:?}");
    stage.close().await;
}
