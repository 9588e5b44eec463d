//! HashiCorp Vault's key-value engine, version 2, as its documentation has it.

use toolcrib_testkit::http::{Asked, HttpServer, Reply, Step};

use super::*;

const TOKEN: &str = "c4nary-token";

/// As Vault answers: the path says how.
fn answer(asked: &Asked) -> Reply {
    let refusal = |status: u16, errors: &str| {
        let text = format!(r#"{{"errors":[{errors}]}}"#);
        Reply::status(status).header("content-type", "application/json").send(text)
    };
    if asked.header("x-vault-token") != Some(TOKEN) || asked.path.ends_with("/forbidden") {
        return refusal(403, "\"1 error occurred:\\n\\t* permission denied\\n\\n\"");
    }
    let data = |fields: &str| {
        Reply::json(format!(
            r#"{{"request_id":"r","lease_id":"","renewable":false,"lease_duration":0,
            "data":{{"data":{fields},"metadata":{{"version":2,"destroyed":false}}}}}}"#
        ))
    };
    match asked.path.as_str() {
        "/v1/secret/data/app/db" => data(r#"{"password":"c4nary","port":5432,"deep":{"a":1}}"#),
        "/v1/team/kv/data/one" => data(r#"{"only":"c4nary-one"}"#),
        "/v1/secret/data/sealed" => refusal(503, "\"Vault is sealed\""),
        "/v1/secret/data/huge" => {
            let (part, reply) = (Step::Send("x".repeat(1 << 16)), Reply::status(200));
            (0..64).fold(reply, |reply, _| reply.then(part.clone()))
        }
        "/v1/secret/data/slow" => Reply::never(),
        "/v1/secret/data/moved" => Reply::status(307).header("location", "/v1/secret/data/app/db"),
        "/v1/secret/data/broken" => Reply::json("{\"data\":{\"data\":\"c4nary\""),
        _ => refusal(404, ""),
    }
}

async fn vault() -> (Scene, HttpServer, Value) {
    let scene = Scene::with(Default::default(), &[("VAULT_TOKEN", TOKEN)]);
    std::fs::write(scene.path().join("vault-token"), TOKEN).unwrap();
    let server = HttpServer::start(answer).await.unwrap();
    let url = server.url("");
    let stores = json!({
        "v": {"kind": "vault", "url": url, "token": "${VAULT_TOKEN}", "timeout": "400ms"},
        "team": {"kind": "vault", "url": url, "mount": "team/kv", "token": {"secret": "file:vault-token"}},
        "stranger": {"kind": "vault", "url": url, "token": "wrong"},
        "down": {"kind": "vault", "url": "http://127.0.0.1:1", "token": TOKEN},
        "loop": {"kind": "vault", "url": url, "token": {"secret": "loop:x/y"}},
        "unset": {"kind": "vault", "url": url, "token": "${NOT_SET}"},
        "bare": {"kind": "vault"},
    });
    (scene, server, stores)
}

#[tokio::test]
async fn min_69_a_secret_is_a_field_of_what_is_at_its_path() {
    let (scene, server, stores) = vault().await;
    assert_eq!(found(&scene, &stores, "v:secret/app/db#password").await.unwrap(), "c4nary"); // MIN-69
    assert_eq!(found(&scene, &stores, "v:secret/app/db#port").await.unwrap(), "5432");
    assert_eq!(found(&scene, &stores, "team:one").await.unwrap(), "c4nary-one");
    found(&scene, &stores, "team:one").await.unwrap();
    let asked = |path: &str| server.requests().iter().filter(|it| it.path.ends_with(path)).count();
    // One answer is kept for a while.
    assert_eq!((asked("/app/db"), asked("/one")), (2, 1));
    scene.close().await;
}

#[tokio::test]
async fn each_way_to_fail_is_told_and_nothing_of_the_secret() {
    let (scene, _server, stores) = vault().await;
    for (secret, code, part) in [
        ("v:secret/app/db#nothing", "secret.missing", "nothing of that name"),
        ("v:secret/nowhere", "secret.missing", "nothing of that name"),
        ("v:secret", "secret.missing", "nothing of that name"),
        ("v:secret/forbidden", "secret.denied", "denies access"),
        ("stranger:secret/app/db#password", "secret.denied", "denies access"),
        ("v:secret/app/db", "secret.unusable", "several fields"),
        ("v:secret/app/db#deep", "secret.unusable", "no text"),
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
        let (found, text) = told(&scene, &stores, secret).await;
        assert_eq!(found, code, "{secret}: {text}");
        assert!(text.contains(part), "{secret}: {text}");
        assert!(!text.contains("c4nary") && !text.contains("permission denied"), "{text}");
    }
    scene.close().await;
}

#[tokio::test]
async fn a_store_that_is_down_is_tried_again_and_one_that_denies_is_not() {
    let (scene, _server, stores) = vault().await;
    for (secret, is_passing) in [("down:secret/x", true), ("v:secret/forbidden", false)] {
        let conn = scene.start(referring(&scene, &stores, secret));
        let failure = within(conn.first_try(Want::Call)).await.unwrap_err();
        assert_eq!(failure.is_passing(), is_passing, "{failure:?}");
        drop(conn);
    }
    scene.close().await;
}
