//! Tests of token expiry, rotation, revocation, unreachable issuers, and logout.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;
use toolcrib_upstream::conn::peer::{CallOptions, CallTimeouts};
use toolcrib_upstream::conn::{Demand, FailureKind};
use toolcrib_wire::{ObjectWriter, method};

use super::LoginFixture;
use crate::test_host::with_time_limit;

/// Waits in real time, because the issuer uses a real clock.
async fn wait_for_expiry(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test]
async fn min_18_token_is_renewed_before_expiry_and_refresh_tokens_rotate() {
    let mut fixture = LoginFixture::new(&["--ttl", "2"]).await;
    fixture.log_in().await;
    let mut seen = vec![fixture.refresh_token().await];
    for round in 1..=3 {
        wait_for_expiry(2).await;
        assert_eq!(fixture.call("whoami").await.unwrap(), "whoami as ada");
        assert!(fixture.count("refreshes").await >= round);
        let now = fixture.refresh_token().await;
        assert!(!seen.contains(&now), "refresh tokens rotate");
        seen.push(now);
    }
    fixture.close().await;
}

#[tokio::test]
async fn token_rejected_early_is_renewed_once_and_the_call_retried() {
    let mut fixture = LoginFixture::new(&["--ttl", "3600"]).await;
    fixture.log_in().await;
    assert_eq!(fixture.call("whoami").await.unwrap(), "whoami as ada");
    // The server rejects tokens older than this, while the host expects an hour.
    wait_for_expiry(11).await;
    fixture.provider.send_command("ttl 5").await.unwrap();
    assert_eq!(fixture.call("whoami").await.unwrap(), "whoami as ada");
    assert_eq!(fixture.count("refreshes").await, 1);
    fixture.close().await;
}

#[tokio::test]
async fn revoked_login_requires_a_new_login() {
    let mut fixture = LoginFixture::new(&["--ttl", "2"]).await;
    fixture.log_in().await;
    assert_eq!(fixture.call("whoami").await.unwrap(), "whoami as ada");
    let token = fixture.refresh_token().await;
    fixture.provider.send_command(&format!("revoke {token}")).await.unwrap();
    wait_for_expiry(2).await;
    let failure = fixture.call("whoami").await.unwrap_err();
    assert_eq!((failure.kind, failure.code), (FailureKind::Authentication, "auth.login_required"));
    assert_eq!(fixture.refresh_token().await, "", "the refresh token is deleted");
    let requests = fixture.count("tokens").await;
    assert!(fixture.call("whoami").await.is_err());
    assert_eq!(fixture.count("tokens").await, requests, "no further token request");
    fixture.log_in().await;
    assert_eq!(fixture.call("whoami").await.unwrap(), "whoami as ada");
    fixture.close().await;
}

#[tokio::test]
async fn unreachable_issuer_keeps_the_login() {
    let mut fixture = LoginFixture::new(&["--ttl", "2"]).await;
    fixture.log_in().await;
    assert_eq!(fixture.call("whoami").await.unwrap(), "whoami as ada");
    let before = fixture.refresh_token().await;
    fixture.provider.send_command("down").await.unwrap();
    wait_for_expiry(2).await;
    let failure = fixture.call("whoami").await.unwrap_err();
    assert_eq!(
        (failure.kind, failure.code),
        (FailureKind::Connection, "auth.issuer_unreachable"),
        "{failure}"
    );
    assert_eq!(fixture.refresh_token().await, before);
    fixture.provider.send_command("up").await.unwrap();
    assert_eq!(fixture.call("whoami").await.unwrap(), "whoami as ada");
    fixture.close().await;
}

#[tokio::test]
async fn token_renewal_does_not_count_toward_the_call_timeout() {
    let mut fixture = LoginFixture::new(&["--ttl", "2"]).await;
    fixture.log_in().await;
    assert_eq!(fixture.call("whoami").await.unwrap(), "whoami as ada");
    wait_for_expiry(2).await;
    fixture.provider.send_command("hold").await.unwrap();
    let permit = with_time_limit(fixture.conn.acquire_session(Demand::Call)).await.unwrap();
    let timeouts = CallTimeouts { request: Some(Duration::from_secs(1)), max: None };
    let options = CallOptions { timeouts, ..CallOptions::default() };
    let params = ObjectWriter::new().string("name", "whoami").finish();
    let call = permit.session.call(method::TOOLS_CALL, params, options, None);
    let free = async {
        // Longer than the call's timeout.
        wait_for_expiry(3).await;
        fixture.provider.send_command("free").await.unwrap();
    };
    let (called, ()) = tokio::join!(with_time_limit(call), free);
    assert!(called.is_ok(), "{called:?}");
    drop(permit);
    fixture.close().await;
}

#[tokio::test]
async fn token_renewal_does_not_count_toward_the_startup_timeout() {
    let limits = json!({"timeouts": {"startup": "2s"}, "auth": {"kind": "oauth"}});
    let mut fixture = LoginFixture::with(&["--ttl", "2"], limits).await;
    fixture.log_in().await;
    wait_for_expiry(2).await;
    fixture.provider.send_command("hold").await.unwrap();
    let free = async {
        // Longer than the startup timeout.
        wait_for_expiry(4).await;
        fixture.provider.send_command("free").await.unwrap();
    };
    fixture.conn.send_event(toolcrib_upstream::conn::ConnEvent::Connect).await;
    let (permit, ()) =
        tokio::join!(with_time_limit(fixture.conn.acquire_without_retry(Demand::Call)), free);
    assert!(permit.is_ok(), "{permit:?}");
    drop(permit);
    fixture.close().await;
}

#[tokio::test]
async fn logout_revokes_the_tokens() {
    let mut fixture = LoginFixture::new(&[]).await;
    fixture.log_in().await;
    assert_eq!(fixture.call("whoami").await.unwrap(), "whoami as ada");
    let done = fixture.accounts().logout(&fixture.server).await.unwrap();
    assert!(done.was_known && matches!(done.revoked, Some(Ok(()))), "{done:?}");
    assert_eq!(fixture.count("revocations").await, 2);
    let failure = fixture.call("whoami").await.unwrap_err();
    assert_eq!(failure.code, "auth.login_required");
    let again = fixture.accounts().logout(&fixture.server).await.unwrap();
    assert!(!again.was_known && again.revoked.is_none(), "{again:?}");
    fixture.close().await;
}
