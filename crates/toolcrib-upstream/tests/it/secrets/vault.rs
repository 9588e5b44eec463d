//! Tests of the vault store against HashiCorp Vault's documented key-value API, version 2.

use toolcrib_testkit::http::{BodyStep, HttpServer, ReceivedRequest, ScriptedResponse};

use super::*;

const VAULT_TOKEN: &str = "c4nary-token";

/// Vault's response, selected by the path.
fn vault_reply(request: &ReceivedRequest) -> ScriptedResponse {
    let refusal = |status: u16, errors: &str| {
        let text = format!(r#"{{"errors":[{errors}]}}"#);
        ScriptedResponse::status(status).header("content-type", "application/json").send(text)
    };
    if request.header("x-vault-token") != Some(VAULT_TOKEN) || request.path.ends_with("/forbidden")
    {
        return refusal(403, "\"1 error occurred:\\n\\t* permission denied\\n\\n\"");
    }
    let data = |fields: &str| {
        ScriptedResponse::json(format!(
            r#"{{"request_id":"r","lease_id":"","renewable":false,"lease_duration":0,
            "data":{{"data":{fields},"metadata":{{"version":2,"destroyed":false}}}}}}"#
        ))
    };
    match request.path.as_str() {
        "/v1/secret/data/app/db" => data(r#"{"password":"c4nary","port":5432,"deep":{"a":1}}"#),
        "/v1/team/kv/data/one" => data(r#"{"only":"c4nary-one"}"#),
        "/v1/secret/data/sealed" => refusal(503, "\"Vault is sealed\""),
        "/v1/secret/data/huge" => {
            let (part, reply) =
                (BodyStep::Send("x".repeat(1 << 16)), ScriptedResponse::status(200));
            (0..64).fold(reply, |reply, _| reply.then_step(part.clone()))
        }
        "/v1/secret/data/slow" => ScriptedResponse::unanswered(),
        "/v1/secret/data/moved" => {
            ScriptedResponse::status(307).header("location", "/v1/secret/data/app/db")
        }
        "/v1/secret/data/broken" => ScriptedResponse::json("{\"data\":{\"data\":\"c4nary\""),
        _ => refusal(404, ""),
    }
}

async fn vault_fixture() -> (TestHost, HttpServer, Value) {
    let host = TestHost::with(Default::default(), &[("VAULT_TOKEN", VAULT_TOKEN)]);
    std::fs::write(host.path().join("vault-token"), VAULT_TOKEN).unwrap();
    let server = HttpServer::start(vault_reply).await.unwrap();
    let url = server.url("");
    let stores = json!({
        "v": {"kind": "vault", "url": url, "token": "${VAULT_TOKEN}", "timeout": "400ms"},
        "team": {"kind": "vault", "url": url, "mount": "team/kv", "token": {"secret": "file:vault-token"}},
        "stranger": {"kind": "vault", "url": url, "token": "wrong"},
        "down": {"kind": "vault", "url": "http://127.0.0.1:1", "token": VAULT_TOKEN},
        "loop": {"kind": "vault", "url": url, "token": {"secret": "loop:x/y"}},
        "unset": {"kind": "vault", "url": url, "token": "${NOT_SET}"},
        "bare": {"kind": "vault"},
    });
    (host, server, stores)
}

#[tokio::test]
async fn min_69_secret_is_a_field_at_its_path() {
    let (host, server, stores) = vault_fixture().await;
    assert_eq!(lookup(&host, &stores, "v:secret/app/db#password").await.unwrap(), "c4nary"); // MIN-69
    assert_eq!(lookup(&host, &stores, "v:secret/app/db#port").await.unwrap(), "5432");
    assert_eq!(lookup(&host, &stores, "team:one").await.unwrap(), "c4nary-one");
    lookup(&host, &stores, "team:one").await.unwrap();
    let request_count = |path: &str| {
        server.requests().iter().filter(|request| request.path.ends_with(path)).count()
    };
    // The second lookup is served from the cache.
    assert_eq!((request_count("/app/db"), request_count("/one")), (2, 1));
    host.close().await;
}

#[tokio::test]
async fn vault_failures_are_reported_without_secrets() {
    let (host, _server, stores) = vault_fixture().await;
    for (secret, code, part) in [
        ("v:secret/app/db#nothing", "secret.missing", "no entry of that name"),
        ("v:secret/nowhere", "secret.missing", "no entry of that name"),
        ("v:secret", "secret.missing", "no entry of that name"),
        ("v:secret/forbidden", "secret.denied", "denies access"),
        ("stranger:secret/app/db#password", "secret.denied", "denies access"),
        ("v:secret/app/db", "secret.unusable", "several fields"),
        ("v:secret/app/db#deep", "secret.unusable", "not text"),
        ("v:secret/sealed", "secret.unreachable", "sealed"),
        ("v:secret/huge", "secret.unusable", "over 1048576 bytes"),
        ("v:secret/slow", "secret.unreachable", "within 0.4 s"),
        ("v:secret/moved", "secret.unreachable", "307"),
        ("v:secret/broken", "secret.unusable", "key-value engine"),
        ("down:secret/x", "secret.unreachable", "127.0.0.1:1"),
        ("loop:x/y", "secret.invalid", "cannot come from a vault"),
        ("unset:x/y", "secret.invalid", "the variable `NOT_SET`"),
        ("bare:x/y", "secret.invalid", "`token`"),
    ] {
        let (found, text) = lookup_error(&host, &stores, secret).await;
        assert_eq!(found, code, "{secret}: {text}");
        assert!(text.contains(part), "{secret}: {text}");
        assert!(!text.contains("c4nary") && !text.contains("permission denied"), "{text}");
    }
    host.close().await;
}

#[tokio::test]
async fn unreachable_vault_is_transient_and_denial_is_not() {
    let (host, _server, stores) = vault_fixture().await;
    for (secret, is_transient) in [("down:secret/x", true), ("v:secret/forbidden", false)] {
        let conn = host.start(server_with_secret(&host, &stores, secret));
        let failure = with_time_limit(conn.acquire_without_retry(Demand::Call)).await.unwrap_err();
        assert_eq!(failure.is_transient(), is_transient, "{failure:?}");
        drop(conn);
    }
    host.close().await;
}
