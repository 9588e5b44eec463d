//! Tests of logins by users, of client credentials, and of additional scopes.

use serde_json::json;
use toolcrib_upstream::conn::{FailureKind, ServerState};

use super::LoginFixture;

#[tokio::test]
async fn min_18_dis_49_login_token_is_stored_and_used() {
    let mut fixture = LoginFixture::new(&[]).await;
    let failure = fixture.call("whoami").await.unwrap_err();
    assert_eq!((failure.kind, failure.code), (FailureKind::Authentication, "auth.login_required"));
    assert_eq!(failure.fix.as_deref(), Some("run `toolcrib login it`"));
    assert_eq!(fixture.conn.view().lifecycle.state(), ServerState::Failed);
    assert_eq!(fixture.conn.view().lifecycle.next_retry(), None, "no automatic retry");
    fixture.log_in().await;
    assert_eq!(fixture.call("whoami").await.unwrap(), "whoami as ada");
    assert_eq!(fixture.conn.view().lifecycle.state(), ServerState::Ready);
    let stored = fixture.stored_login().await;
    assert_eq!(stored["accounts"][0]["issuer"], fixture.provider.issuer);
    assert_eq!(stored["accounts"][0]["resource"], fixture.provider.server);
    assert_eq!(fixture.count("registrations").await, 1);
    // A login with the same redirect URI needs no new registration.
    fixture.log_in().await;
    assert_eq!(fixture.count("registrations").await, 1);
    fixture.close().await;
}

#[tokio::test]
async fn sse_transport_uses_tokens() {
    let fixture = LoginFixture::with(&["--sse"], json!({"transport": "sse"})).await;
    let failure = fixture.call("whoami").await.unwrap_err();
    assert_eq!(failure.code, "auth.login_required");
    fixture.log_in().await;
    assert_eq!(fixture.call("whoami").await.unwrap(), "whoami as ada");
    fixture.close().await;
}

#[tokio::test]
async fn insufficient_scope_fails_and_the_next_login_requests_both_scopes() {
    let fixture = LoginFixture::new(&[]).await;
    fixture.log_in().await;
    assert_eq!(fixture.call("whoami").await.unwrap(), "whoami as ada");
    let failure = fixture.call("change").await.unwrap_err();
    assert_eq!((failure.kind, failure.code), (FailureKind::Authentication, "auth.login_required"));
    assert!(failure.message.contains("`mcp:read`"), "{failure}");
    assert!(failure.message.contains("`mcp:write`"), "{failure}");
    assert_eq!(
        fixture.conn.view().lifecycle.state(),
        ServerState::Ready,
        "the session stays ready"
    );
    let address = fixture.start_login().await.unwrap().authorization_url().to_string();
    assert!(address.contains("scope=mcp%3Aread+") && address.contains("mcp%3Awrite"), "{address}");
    fixture.log_in().await;
    // The session uses the new token as soon as the old one is refused.
    assert_eq!(fixture.call("change").await.unwrap(), "change as ada");
    fixture.close().await;
}

#[tokio::test]
async fn client_credentials_grant_needs_no_person() {
    let auth = json!({"auth": {
        "kind": "oauth", "grant": "client_credentials",
        "client_id": "machine", "client_secret": "machine-secret",
    }});
    let mut fixture = LoginFixture::with(&[], auth).await;
    assert_eq!(fixture.call("whoami").await.unwrap(), "whoami as machine");
    assert_eq!(fixture.count("tokens").await, 1);
    assert_eq!(fixture.call("change").await.unwrap(), "change as machine");
    assert_eq!(fixture.count("tokens").await, 2);
    assert_eq!(fixture.call("change").await.unwrap(), "change as machine");
    assert_eq!(fixture.count("tokens").await, 2);
    fixture.close().await;
}

#[tokio::test]
async fn wrong_client_secret_is_reported_as_refused() {
    let auth = json!({"auth": {
        "kind": "oauth", "grant": "client_credentials",
        "client_id": "machine", "client_secret": "an0ther-secret",
    }});
    let fixture = LoginFixture::with(&[], auth).await;
    let failure = fixture.call("whoami").await.unwrap_err();
    assert_eq!((failure.kind, failure.code), (FailureKind::Authentication, "auth.refused"));
    assert!(failure.message.contains("invalid_client"), "{failure}");
    assert!(!failure.message.contains("an0ther-secret"), "{failure}");
    fixture.close().await;
}

#[tokio::test]
async fn issuer_clock_skew_is_tolerated() {
    for skew in ["--skew=3600", "--skew=-3600"] {
        let mut fixture = LoginFixture::new(&[skew, "--ttl", "3"]).await;
        fixture.log_in().await;
        assert_eq!(fixture.call("whoami").await.unwrap(), "whoami as ada");
        assert_eq!(fixture.count("refreshes").await, 0, "{skew}");
        // Tokens expire in real time.
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        assert_eq!(fixture.call("whoami").await.unwrap(), "whoami as ada");
        assert!(fixture.count("refreshes").await >= 1, "{skew}");
        fixture.close().await;
    }
}

#[tokio::test]
async fn malicious_metadata_is_reported_and_not_followed() {
    let mut fixture = LoginFixture::new(&[]).await;
    for (mischief, code, said) in [
        ("redirect", "auth.address_forbidden", "169.254.169.254"),
        ("redirect-plain", "auth.address_forbidden", "http://example.com"),
        ("huge", "auth.bad_answer", "more than 262144 bytes"),
        ("issuer", "auth.wrong_issuer", "https://honest.example"),
        ("plain", "auth.address_forbidden", "not encrypted"),
        ("broken", "auth.issuer_unreachable", "status 500"),
    ] {
        fixture.provider.send_command(&format!("mischief {mischief}")).await.unwrap();
        let error = fixture.start_login().await.unwrap_err();
        assert_eq!(error.code(), code, "{mischief}: {error}");
        assert!(error.to_string().contains(said), "{mischief}: {error}");
    }
    fixture.provider.send_command("mischief").await.unwrap();
    let login = fixture.start_login().await.unwrap();
    let answer = super::open_in_browser(login.authorization_url().as_str()).await.unwrap();
    let forged = answer.replace("iss=http", "iss=https");
    assert_ne!(forged, answer);
    assert_eq!(login.finish(&forged).await.unwrap_err().code(), "auth.wrong_issuer");
    assert_eq!(fixture.count("tokens").await, 0, "no token request");
    fixture.close().await;
}

#[tokio::test]
async fn abandoned_login_changes_nothing() {
    let fixture = LoginFixture::new(&[]).await;
    fixture.log_in().await;
    let before = fixture.stored_login().await;
    drop(fixture.start_login().await.unwrap());
    let login = fixture.start_login().await.unwrap();
    let refused = login.finish("error=access_denied&state=x").await.unwrap_err();
    assert_eq!(refused.code(), "auth.wrong_issuer", "{refused}");
    assert_eq!(fixture.stored_login().await, before);
    assert_eq!(fixture.call("whoami").await.unwrap(), "whoami as ada");
    fixture.close().await;
}
