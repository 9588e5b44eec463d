//! Tokens, names, limits: who is let in, and how much of it.

use axum::body::Body;
use axum::http::Request;
use serde_json::json;
use toolcrib_server::api;
use toolcrib_server::identity::{Door, Tokens};
use toolcrib_testkit::scripted::Script;
use tower::ServiceExt;

use super::{By, Crib};

#[tokio::test]
async fn a_token_counts_from_when_it_is_made_until_it_is_revoked() {
    let crib = Crib::new(&[]).await;
    let tokens = Tokens::of(&crib.scene.path("state"));
    let status = async |by| crib.ask(by, "GET status", None).await;
    assert_eq!(status(By::Tcp).await.status, 200);
    assert_eq!(status(By::Token("toolcrib_made_up")).await.status, 401);
    let (secret, _) = tokens.issue("laptop", "coder", false).unwrap();
    assert_eq!(status(By::Token(&secret)).await.status, 200, "it is good at once");
    let refused = status(By::Tcp).await;
    assert_eq!(refused.status, 401);
    assert_eq!(refused.header("www-authenticate"), Some("bearer realm=\"toolcrib\""));
    assert_eq!(refused.json()["error"]["kind"], "authentication");
    let wrong = status(By::Token("toolcrib_made_up")).await;
    assert!(wrong.header("www-authenticate").unwrap().contains("invalid_token"));
    assert_eq!(status(By::Token(&secret)).await.status, 200);
    assert_eq!(status(By::Socket).await.status, 200);
    tokens.issue("other", "other", false).unwrap();
    tokens.revoke("laptop").unwrap();
    // Somebody else has ended it: the host looks only so often.
    tokio::time::sleep(std::time::Duration::from_millis(150)).await;
    assert_eq!(status(By::Token(&secret)).await.status, 401);
    crib.end().await;
}

#[tokio::test]
async fn an_agent_is_chosen_by_whoever_may() {
    let crib = Crib::new(&[("one", Script::default(), json!({}))]).await;
    let of = async |by, agent: &str| {
        let answer = crib.ask(by, "POST dialogs", Some(json!({"agent": agent}))).await;
        let list = crib.ask(by, &format!("GET tools?agent={agent}"), None).await;
        assert_eq!(answer.status == 201, list.status == 200);
        match answer.status {
            201 => answer.json()["agent"].as_str().unwrap().to_owned(),
            _ => format!("{:?}", answer.failure()),
        }
    };
    let denied = format!("{:?}", (403, "denied.agent"));
    assert_eq!(of(By::Tcp, "writer").await, "writer");
    assert_eq!(of(By::Socket, "writer").await, "writer");
    let (coder, _) = Tokens::of(&crib.scene.path("state")).issue("c", "coder", false).unwrap();
    assert_eq!(of(By::Token(&coder), "coder").await, "coder");
    assert_eq!(of(By::Token(&coder), "writer").await, denied);
    let invalid = || "request.invalid".to_owned();
    // Nobody is nameless, not even who may be anybody.
    for (by, agent) in [(By::Socket, ""), (By::Socket, "%20"), (By::Token(&coder), "")] {
        let list = crib.ask(by, &format!("GET tools?agent={agent}"), None).await;
        assert_eq!(list.failure(), (400, invalid()), "{agent:?}");
        let agent = agent.replace("%20", " ");
        let answer = crib.ask(by, "POST dialogs", Some(json!({"agent": agent}))).await;
        assert_eq!(answer.failure(), (400, invalid()), "{agent:?}");
    }
    let blank = crib.ask(By::Socket, "POST dialogs", Some(json!({"id": " "}))).await;
    assert_eq!(blank.failure(), (400, invalid()));
    let own = crib.ask(By::Token(&coder), "POST dialogs", None).await;
    assert_eq!(own.json()["agent"], "coder");
    let owner = crib.front().identity().fresh_owner_token().unwrap();
    assert_eq!(of(By::Token(&owner), "writer").await, "writer");
    assert_eq!(crib.ask(By::Token(&owner), "GET calls", None).await.status, 200);
    crib.end().await;
}

#[tokio::test]
async fn only_the_owner_works_outside_of_the_root() {
    let crib = Crib::new(&[]).await;
    let root = crib.scene.path("root");
    std::fs::create_dir(root.join("below")).unwrap();
    std::os::unix::fs::symlink("/", root.join("away")).unwrap();
    let outside = crib.scene.path("state");
    for (cwd, owners, others) in [
        (json!(root), 201, 201),
        (json!("below"), 201, 201),
        (json!(outside), 201, 403),
        (json!(".."), 201, 403),
        (json!("away"), 201, 403),
        (json!("/no/such/folder"), 400, 403),
    ] {
        let body = json!({"cwd": cwd});
        let owner = crib.ask(By::Socket, "POST dialogs", Some(body.clone())).await;
        let other = crib.ask(By::Tcp, "POST dialogs", Some(body)).await;
        assert_eq!((owner.status, other.status), (owners, others), "{cwd} {other:?}");
    }
    crib.end().await;
}

#[tokio::test]
async fn names_of_dialogs_are_a_namespace_per_principal() {
    let crib = Crib::new(&[("one", Script::default(), json!({}))]).await;
    let tokens = Tokens::of(&crib.scene.path("state"));
    let (one, _) = tokens.issue("one", "coder", false).unwrap();
    let (two, _) = tokens.issue("two", "coder", false).unwrap();
    let (one, two) = (By::Token(&one), By::Token(&two));
    let begin = async |by| crib.ask(by, "POST dialogs", Some(json!({"id": "d"}))).await;
    assert_eq!(begin(one).await.status, 201);
    assert_eq!(begin(one).await.status, 201, "it is taken up again");
    assert_eq!(crib.ask(two, "GET dialogs/d", None).await.status, 404);
    assert_eq!(crib.ask(two, "GET dialogs", None).await.json()["dialogs"], json!([]));
    assert_eq!(begin(two).await.json()["id"], "d");
    assert_eq!(begin(By::Socket).await.json()["id"], "d");
    let ids = |list: serde_json::Value| {
        let all = list["dialogs"].as_array().unwrap().clone();
        all.iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for by in [one, two] {
        assert_eq!(ids(crib.ask(by, "GET dialogs", None).await.json()), ["d"]);
        assert_eq!(crib.ask(by, "GET tools?dialog=d", None).await.status, 200);
    }
    // The owner has names of his own, and reaches those of others by their ids.
    let all = ids(crib.get("dialogs").await);
    assert_eq!(all.len(), 3, "{all:?}");
    for id in &all {
        crib.get(&format!("dialogs/{id}")).await;
    }
    let theirs = all.iter().find(|id| *id != "d").unwrap();
    let squat = json!({"id": theirs});
    for id in [squat, json!({"id": "api:owner:default"})] {
        assert_eq!(crib.ask(two, "POST dialogs", Some(id)).await.status, 400);
    }
    assert_eq!(crib.ask(one, "DELETE dialogs/d", None).await.status, 204);
    assert_eq!(crib.ask(two, "GET dialogs/d", None).await.status, 200);
    assert_eq!(crib.get("dialogs/d").await["principal"], "owner");
    crib.end().await;
}

#[tokio::test]
async fn foreign_names_and_pages_are_kept_out() {
    let crib = Crib::with(&json!({"gateway": {"hosts": ["crib.example"]}}), &[]).await;
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
        let answer = crib.request(By::Tcp, "GET", "/api/v1/status", &headers, None).await;
        assert_eq!(answer.status, status, "{headers:?}");
        let health = crib.request(By::Tcp, "GET", "/healthz", &headers, None).await;
        assert_eq!(health.status == 403, status == 403, "{headers:?}");
    }
    crib.end().await;
}

#[tokio::test]
async fn nobody_uses_more_than_his_share() {
    let limits = json!({"gateway": {"limits": {"rate": 40, "sessions": 2, "body": "1KiB"}}});
    let crib = Crib::with(&limits, &[]).await;
    for expected in [201, 201, 429] {
        assert_eq!(crib.ask(By::Tcp, "POST dialogs", None).await.status, expected);
    }
    assert_eq!(crib.ask(By::Socket, "POST dialogs", None).await.status, 201);
    let large = json!({"id": "x".repeat(2000)});
    let refused = crib.ask(By::Tcp, "POST dialogs", Some(large)).await;
    assert_eq!(refused.failure(), (413, "request.too_large".to_owned()));
    let mut last = 200;
    for _ in 0..400 {
        let answer = crib.ask(By::Tcp, "GET status", None).await;
        last = answer.status;
        if last == 429 {
            assert_eq!(answer.header("retry-after"), Some("1"));
            break;
        }
    }
    assert_eq!(last, 429);
    assert_eq!(crib.ask(By::Socket, "GET status", None).await.status, 200);
    crib.end().await;
}

#[tokio::test]
async fn where_others_reach_the_host_nobody_is_let_in_for_want_of_tokens() {
    let crib = Crib::new(&[]).await;
    let router = api::router(crib.front());
    for (door, status) in [
        (Some(Door::Socket), 200),
        (Some(Door::Tcp), 200),
        (Some(Door::Net("192.0.2.1".parse().unwrap())), 401),
        (None, 401),
    ] {
        let mut request = Request::get("/api/v1/status").body(Body::empty()).unwrap();
        if let Some(door) = door {
            request.extensions_mut().insert(door);
        }
        let answer = router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{door:?}");
    }
    crib.end().await;
}

#[tokio::test]
async fn wrong_tokens_are_limited_and_valid_ones_from_the_same_address_are_not() {
    let crib = Crib::with(&json!({"gateway": {"limits": {"wrong_tokens": 5}}}), &[]).await;
    let tokens = Tokens::of(&crib.scene.path("state"));
    let (known, _) = tokens.issue("known", "coder", false).unwrap();
    let (late, _) = tokens.issue("late", "coder", false).unwrap();
    let status = async |by| crib.ask(by, "GET status", None).await;
    assert_eq!(status(By::Token(&known)).await.status, 200);
    for _ in 0..5 {
        assert_eq!(status(By::Token("guess")).await.status, 401);
        assert_eq!(status(By::Tcp).await.status, 401, "that is no guess");
    }
    assert_eq!(status(By::Token(&late)).await.status, 200, "it was never seen before");
    let refused = status(By::Token("guess")).await;
    assert_eq!(refused.failure(), (429, "token.limit".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("12"));
    assert_eq!(refused.header("www-authenticate"), None);
    assert_eq!(status(By::Token(&late)).await.status, 200);
    let body = Some(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    let over_mcp = crib.request(By::Token("guess"), "POST", "/mcp", &[], body).await;
    assert_eq!(over_mcp.status, 429);
    assert_eq!(status(By::Token(&known)).await.status, 200, "it came in before");
    assert_eq!(status(By::Socket).await.status, 200);
    crib.end().await;
}
