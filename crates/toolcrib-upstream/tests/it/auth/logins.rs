//! How tokens come: by a person, by the host itself, for more than at first.

use serde_json::json;
use toolcrib_upstream::conn::{FailureKind, State};

use super::Stage;

#[tokio::test]
async fn min_18_dis_49_a_login_gives_a_token_that_is_kept_and_used() {
    let mut stage = Stage::new(&[]).await;
    let failure = stage.call("whoami").await.unwrap_err();
    assert_eq!((failure.kind, failure.code), (FailureKind::Authentication, "auth.login_required"));
    assert_eq!(failure.fix.as_deref(), Some("run `toolcrib login it`"));
    assert_eq!(stage.conn.view().life.state(), State::Failed);
    assert_eq!(stage.conn.view().life.next_retry(), None, "it is not tried again by itself");
    stage.log_in().await;
    assert_eq!(stage.call("whoami").await.unwrap(), "whoami as ada");
    assert_eq!(stage.conn.view().life.state(), State::Ready);
    let kept = stage.kept().await;
    assert_eq!(kept["accounts"][0]["issuer"], stage.provider.issuer);
    assert_eq!(kept["accounts"][0]["resource"], stage.provider.server);
    assert_eq!(stage.count("registrations").await, 1);
    // The same place again needs no other registration.
    stage.log_in().await;
    assert_eq!(stage.count("registrations").await, 1);
    stage.close().await;
}

#[tokio::test]
async fn the_old_transport_uses_tokens_as_well() {
    let stage = Stage::with(&["--sse"], json!({"transport": "sse"})).await;
    let failure = stage.call("whoami").await.unwrap_err();
    assert_eq!(failure.code, "auth.login_required");
    stage.log_in().await;
    assert_eq!(stage.call("whoami").await.unwrap(), "whoami as ada");
    stage.close().await;
}

#[tokio::test]
async fn what_needs_more_fails_with_the_scopes_and_the_next_login_asks_for_both() {
    let stage = Stage::new(&[]).await;
    stage.log_in().await;
    assert_eq!(stage.call("whoami").await.unwrap(), "whoami as ada");
    let failure = stage.call("change").await.unwrap_err();
    assert_eq!((failure.kind, failure.code), (FailureKind::Authentication, "auth.login_required"));
    assert!(failure.message.contains("`mcp:read`"), "{failure}");
    assert!(failure.message.contains("`mcp:write`"), "{failure}");
    assert_eq!(stage.conn.view().life.state(), State::Ready, "the others go on");
    let address = stage.begin().await.unwrap().address().to_string();
    assert!(address.contains("scope=mcp%3Aread+") && address.contains("mcp%3Awrite"), "{address}");
    stage.log_in().await;
    // The session takes the new token as soon as the old one is refused.
    assert_eq!(stage.call("change").await.unwrap(), "change as ada");
    stage.close().await;
}

#[tokio::test]
async fn the_host_itself_gets_tokens_and_more_of_them_without_a_person() {
    let auth = json!({"auth": {
        "kind": "oauth", "grant": "client_credentials",
        "client_id": "machine", "client_secret": "machine-secret",
    }});
    let mut stage = Stage::with(&[], auth).await;
    assert_eq!(stage.call("whoami").await.unwrap(), "whoami as machine");
    assert_eq!(stage.count("tokens").await, 1);
    assert_eq!(stage.call("change").await.unwrap(), "change as machine");
    assert_eq!(stage.count("tokens").await, 2);
    assert_eq!(stage.call("change").await.unwrap(), "change as machine");
    assert_eq!(stage.count("tokens").await, 2);
    stage.close().await;
}

#[tokio::test]
async fn a_wrong_secret_is_the_issuers_word_and_no_login() {
    let auth = json!({"auth": {
        "kind": "oauth", "grant": "client_credentials",
        "client_id": "machine", "client_secret": "an0ther-secret",
    }});
    let stage = Stage::with(&[], auth).await;
    let failure = stage.call("whoami").await.unwrap_err();
    assert_eq!((failure.kind, failure.code), (FailureKind::Authentication, "auth.refused"));
    assert!(failure.message.contains("invalid_client"), "{failure}");
    assert!(!failure.message.contains("an0ther-secret"), "{failure}");
    stage.close().await;
}

#[tokio::test]
async fn an_issuer_whose_clock_is_wrong_is_no_trouble() {
    for skew in ["--skew=3600", "--skew=-3600"] {
        let mut stage = Stage::new(&[skew, "--ttl", "3"]).await;
        stage.log_in().await;
        assert_eq!(stage.call("whoami").await.unwrap(), "whoami as ada");
        assert_eq!(stage.count("refreshes").await, 0, "{skew}");
        // Tokens expire by real clocks only.
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        assert_eq!(stage.call("whoami").await.unwrap(), "whoami as ada");
        assert!(stage.count("refreshes").await >= 1, "{skew}");
        stage.close().await;
    }
}

#[tokio::test]
async fn metadata_that_lead_astray_are_told_and_not_followed() {
    let mut stage = Stage::new(&[]).await;
    for (mischief, code, said) in [
        ("redirect", "auth.address_forbidden", "169.254.169.254"),
        ("redirect-plain", "auth.address_forbidden", "http://example.com"),
        ("huge", "auth.bad_answer", "more than 262144 bytes"),
        ("issuer", "auth.wrong_issuer", "https://honest.example"),
        ("plain", "auth.address_forbidden", "not encrypted"),
        ("broken", "auth.issuer_unreachable", "status 500"),
    ] {
        stage.provider.order(&format!("mischief {mischief}")).await.unwrap();
        let error = stage.begin().await.unwrap_err();
        assert_eq!(error.code(), code, "{mischief}: {error}");
        assert!(error.to_string().contains(said), "{mischief}: {error}");
    }
    stage.provider.order("mischief").await.unwrap();
    let login = stage.begin().await.unwrap();
    let answer = super::browse(login.address().as_str()).await.unwrap();
    let forged = answer.replace("iss=http", "iss=https");
    assert_ne!(forged, answer);
    assert_eq!(login.finish(&forged).await.unwrap_err().code(), "auth.wrong_issuer");
    assert_eq!(stage.count("tokens").await, 0, "no code went anywhere");
    stage.close().await;
}

#[tokio::test]
async fn a_login_that_is_given_up_changes_nothing() {
    let stage = Stage::new(&[]).await;
    stage.log_in().await;
    let before = stage.kept().await;
    drop(stage.begin().await.unwrap());
    let login = stage.begin().await.unwrap();
    let refused = login.finish("error=access_denied&state=x").await.unwrap_err();
    assert_eq!(refused.code(), "auth.wrong_issuer", "{refused}");
    assert_eq!(stage.kept().await, before);
    assert_eq!(stage.call("whoami").await.unwrap(), "whoami as ada");
    stage.close().await;
}
