//! Authentication and limits of the control API: tokens, host names, and quotas.

use axum::body::Body;
use axum::http::Request;
use serde_json::json;
use toolcrib_server::api;
use toolcrib_server::identity::{EntryPoint, TokenStore};
use toolcrib_testkit::scripted::Script;
use tower::ServiceExt;

use super::{Credential, TestApi};

#[tokio::test]
async fn token_is_valid_until_revoked() {
    let api_server = TestApi::new(&[]).await;
    let tokens = TokenStore::in_folder(&api_server.host_fixture.path("state"));
    let status = async |by| api_server.send(by, "GET status", None).await;
    assert_eq!(status(Credential::Anonymous).await.status, 200);
    assert_eq!(status(Credential::Token("toolcrib_made_up")).await.status, 401);
    let (secret, _) = tokens.issue("laptop", "coder", false).unwrap();
    assert_eq!(
        status(Credential::Token(&secret)).await.status,
        200,
        "a new token is valid at once"
    );
    let refused = status(Credential::Anonymous).await;
    assert_eq!(refused.status, 401);
    assert_eq!(refused.header("www-authenticate"), Some("bearer realm=\"toolcrib\""));
    assert_eq!(refused.json()["error"]["kind"], "authentication");
    let wrong = status(Credential::Token("toolcrib_made_up")).await;
    assert!(wrong.header("www-authenticate").unwrap().contains("invalid_token"));
    assert_eq!(status(Credential::Token(&secret)).await.status, 200);
    assert_eq!(status(Credential::Socket).await.status, 200);
    tokens.issue("other", "other", false).unwrap();
    tokens.revoke("laptop").unwrap();
    // Another process has revoked the token, which the host notices after the check interval.
    tokio::time::sleep(std::time::Duration::from_millis(150)).await;
    assert_eq!(status(Credential::Token(&secret)).await.status, 401);
    api_server.close().await;
}

#[tokio::test]
async fn agent_choice_requires_permission() {
    let api_server = TestApi::new(&[("one", Script::default(), json!({}))]).await;
    let of = async |by, agent: &str| {
        let answer = api_server.send(by, "POST dialogs", Some(json!({"agent": agent}))).await;
        let list = api_server.send(by, &format!("GET tools?agent={agent}"), None).await;
        assert_eq!(answer.status == 201, list.status == 200);
        match answer.status {
            201 => answer.json()["agent"].as_str().unwrap().to_owned(),
            _ => format!("{:?}", answer.status_and_code()),
        }
    };
    let denied = format!("{:?}", (403, "denied.agent"));
    assert_eq!(of(Credential::Anonymous, "writer").await, "writer");
    assert_eq!(of(Credential::Socket, "writer").await, "writer");
    let (coder, _) = TokenStore::in_folder(&api_server.host_fixture.path("state"))
        .issue("c", "coder", false)
        .unwrap();
    assert_eq!(of(Credential::Token(&coder), "coder").await, "coder");
    assert_eq!(of(Credential::Token(&coder), "writer").await, denied);
    let invalid = || "request.invalid".to_owned();
    // An empty agent name is refused for every principal.
    for (by, agent) in
        [(Credential::Socket, ""), (Credential::Socket, "%20"), (Credential::Token(&coder), "")]
    {
        let list = api_server.send(by, &format!("GET tools?agent={agent}"), None).await;
        assert_eq!(list.status_and_code(), (400, invalid()), "{agent:?}");
        let agent = agent.replace("%20", " ");
        let answer = api_server.send(by, "POST dialogs", Some(json!({"agent": agent}))).await;
        assert_eq!(answer.status_and_code(), (400, invalid()), "{agent:?}");
    }
    let blank = api_server.send(Credential::Socket, "POST dialogs", Some(json!({"id": " "}))).await;
    assert_eq!(blank.status_and_code(), (400, invalid()));
    let own = api_server.send(Credential::Token(&coder), "POST dialogs", None).await;
    assert_eq!(own.json()["agent"], "coder");
    let owner = api_server.front().identity().new_owner_token().unwrap();
    assert_eq!(of(Credential::Token(&owner), "writer").await, "writer");
    assert_eq!(api_server.send(Credential::Token(&owner), "GET calls", None).await.status, 200);
    api_server.close().await;
}

#[tokio::test]
async fn only_the_owner_may_use_a_folder_outside_the_root() {
    let api_server = TestApi::new(&[]).await;
    let root = api_server.host_fixture.path("root");
    std::fs::create_dir(root.join("below")).unwrap();
    std::os::unix::fs::symlink("/", root.join("away")).unwrap();
    let outside = api_server.host_fixture.path("state");
    for (cwd, owners, others) in [
        (json!(root), 201, 201),
        (json!("below"), 201, 201),
        (json!(outside), 201, 403),
        (json!(".."), 201, 403),
        (json!("away"), 201, 403),
        (json!("/no/such/folder"), 400, 403),
    ] {
        let body = json!({"cwd": cwd});
        let owner = api_server.send(Credential::Socket, "POST dialogs", Some(body.clone())).await;
        let other = api_server.send(Credential::Anonymous, "POST dialogs", Some(body)).await;
        assert_eq!((owner.status, other.status), (owners, others), "{cwd} {other:?}");
    }
    api_server.close().await;
}

#[tokio::test]
async fn dialog_names_are_scoped_per_principal() {
    let api_server = TestApi::new(&[("one", Script::default(), json!({}))]).await;
    let tokens = TokenStore::in_folder(&api_server.host_fixture.path("state"));
    let (one, _) = tokens.issue("one", "coder", false).unwrap();
    let (two, _) = tokens.issue("two", "coder", false).unwrap();
    let (one, two) = (Credential::Token(&one), Credential::Token(&two));
    let begin = async |by| api_server.send(by, "POST dialogs", Some(json!({"id": "d"}))).await;
    assert_eq!(begin(one).await.status, 201);
    assert_eq!(begin(one).await.status, 201, "the dialog is resumed");
    assert_eq!(api_server.send(two, "GET dialogs/d", None).await.status, 404);
    assert_eq!(api_server.send(two, "GET dialogs", None).await.json()["dialogs"], json!([]));
    assert_eq!(begin(two).await.json()["id"], "d");
    assert_eq!(begin(Credential::Socket).await.json()["id"], "d");
    let ids = |list: serde_json::Value| {
        let all = list["dialogs"].as_array().unwrap().clone();
        all.iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for by in [one, two] {
        assert_eq!(ids(api_server.send(by, "GET dialogs", None).await.json()), ["d"]);
        assert_eq!(api_server.send(by, "GET tools?dialog=d", None).await.status, 200);
    }
    // The owner has its own names and uses ids for dialogs of others.
    let all = ids(api_server.get("dialogs").await);
    assert_eq!(all.len(), 3, "{all:?}");
    for id in &all {
        api_server.get(&format!("dialogs/{id}")).await;
    }
    let theirs = all.iter().find(|id| *id != "d").unwrap();
    let squat = json!({"id": theirs});
    for id in [squat, json!({"id": "api:owner:default"})] {
        assert_eq!(api_server.send(two, "POST dialogs", Some(id)).await.status, 400);
    }
    assert_eq!(api_server.send(one, "DELETE dialogs/d", None).await.status, 204);
    assert_eq!(api_server.send(two, "GET dialogs/d", None).await.status, 200);
    assert_eq!(api_server.get("dialogs/d").await["principal"], "owner");
    api_server.close().await;
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_rejected() {
    let api_server = TestApi::with(&json!({"gateway": {"hosts": ["crib.example"]}}), &[]).await;
    for (headers, status) in [
        (vec![("Host", "localhost:7")], 200),
        (vec![("Host", "crib.example")], 200),
        (vec![("Host", "evil.example")], 403),
        (vec![("Host", "localhost:7"), ("Origin", "http://localhost:7")], 200),
        (vec![("Origin", "http://localhost:3000")], 403),
        (vec![("Sec-Fetch-Site", "cross-site")], 403),
        (vec![("Origin", "https://crib.example")], 200),
        (vec![("Origin", "https://evil.example")], 403),
        (vec![("Origin", "null")], 403),
    ] {
        let answer = api_server
            .request(Credential::Anonymous, "GET", "/api/v1/status", &headers, None)
            .await;
        assert_eq!(answer.status, status, "{headers:?}");
        let health =
            api_server.request(Credential::Anonymous, "GET", "/healthz", &headers, None).await;
        assert_eq!(health.status == 403, status == 403, "{headers:?}");
    }
    api_server.close().await;
}

#[tokio::test]
async fn limits_apply_per_principal() {
    let limits = json!({"gateway": {"limits": {"rate": 40, "sessions": 2, "body": "1KiB"}}});
    let api_server = TestApi::with(&limits, &[]).await;
    for expected in [201, 201, 429] {
        assert_eq!(
            api_server.send(Credential::Anonymous, "POST dialogs", None).await.status,
            expected
        );
    }
    assert_eq!(api_server.send(Credential::Socket, "POST dialogs", None).await.status, 201);
    let large = json!({"id": "x".repeat(2000)});
    let refused = api_server.send(Credential::Anonymous, "POST dialogs", Some(large)).await;
    assert_eq!(refused.status_and_code(), (413, "request.too_large".to_owned()));
    let mut last = 200;
    for _ in 0..400 {
        let answer = api_server.send(Credential::Anonymous, "GET status", None).await;
        last = answer.status;
        if last == 429 {
            assert_eq!(answer.header("retry-after"), Some("1"));
            break;
        }
    }
    assert_eq!(last, 429);
    assert_eq!(api_server.send(Credential::Socket, "GET status", None).await.status, 200);
    api_server.close().await;
}

#[tokio::test]
async fn public_address_without_tokens_rejects_requests() {
    let api_server = TestApi::new(&[]).await;
    let router = api::router(api_server.front());
    for (entry_point, status) in [
        (Some(EntryPoint::OwnerSocket), 200),
        (Some(EntryPoint::Loopback), 200),
        (Some(EntryPoint::Network("192.0.2.1".parse().unwrap())), 401),
        (None, 401),
    ] {
        let mut request = Request::get("/api/v1/status").body(Body::empty()).unwrap();
        if let Some(entry_point) = entry_point {
            request.extensions_mut().insert(entry_point);
        }
        let answer = router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{entry_point:?}");
    }
    api_server.close().await;
}

#[tokio::test]
async fn wrong_tokens_are_limited_and_valid_tokens_are_not() {
    let api_server = TestApi::with(&json!({"gateway": {"limits": {"wrong_tokens": 5}}}), &[]).await;
    let tokens = TokenStore::in_folder(&api_server.host_fixture.path("state"));
    let (known, _) = tokens.issue("known", "coder", false).unwrap();
    let (late, _) = tokens.issue("late", "coder", false).unwrap();
    let status = async |by| api_server.send(by, "GET status", None).await;
    assert_eq!(status(Credential::Token(&known)).await.status, 200);
    for _ in 0..5 {
        assert_eq!(status(Credential::Token("guess")).await.status, 401);
        assert_eq!(
            status(Credential::Anonymous).await.status,
            401,
            "a missing token is no failure"
        );
    }
    assert_eq!(status(Credential::Token(&late)).await.status, 200, "a first use is not limited");
    let refused = status(Credential::Token("guess")).await;
    assert_eq!(refused.status_and_code(), (429, "token.limit".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("12"));
    assert_eq!(refused.header("www-authenticate"), None);
    assert_eq!(status(Credential::Token(&late)).await.status, 200);
    let body = Some(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    let over_mcp = api_server.request(Credential::Token("guess"), "POST", "/mcp", &[], body).await;
    assert_eq!(over_mcp.status, 429);
    assert_eq!(status(Credential::Token(&known)).await.status, 200, "a known token is not limited");
    assert_eq!(status(Credential::Socket).await.status, 200);
    api_server.close().await;
}
