//! OAuth tokens of a scripted issuer with generated keys.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use toolcrib_testkit::http::{HttpServer, ReceivedRequest, ScriptedResponse};
use toolcrib_wire::base64;

use super::{Credential, TestApi};

const AUDIENCE: &str = "https://crib.example/mcp";

/// A named key pair of either type.
enum Key {
    Ec(String, EcdsaKeyPair, SystemRandom),
    Ed(String, Ed25519KeyPair),
}

impl Key {
    fn ec(name: &str) -> Self {
        let chance = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &chance).unwrap();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &chance);
        Key::Ec(name.to_owned(), pair.unwrap(), chance)
    }

    fn ed(name: &str) -> Self {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Key::Ed(name.to_owned(), Ed25519KeyPair::from_pkcs8(made.as_ref()).unwrap())
    }

    fn public(&self) -> Value {
        match self {
            Key::Ec(name, pair, _) => {
                let point = pair.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "kid": name, "use": "sig",
                    "x": base64url(&point[1..33]), "y": base64url(&point[33..])})
            }
            Key::Ed(name, pair) => {
                let key = base64url(pair.public_key().as_ref());
                json!({"kty": "OKP", "crv": "Ed25519", "kid": name, "alg": "EdDSA", "x": key})
            }
        }
    }

    fn sign(&self, claims: &Value) -> String {
        let (algorithm, name) = match self {
            Key::Ec(name, ..) => ("ES256", name),
            Key::Ed(name, _) => ("EdDSA", name),
        };
        let head = json!({"alg": algorithm, "kid": name, "typ": "JWT"}).to_string();
        let signed =
            format!("{}.{}", base64url(head.as_bytes()), base64url(claims.to_string().as_bytes()));
        let signature = match self {
            Key::Ec(_, pair, chance) => {
                pair.sign(chance, signed.as_bytes()).unwrap().as_ref().to_vec()
            }
            Key::Ed(_, pair) => pair.sign(signed.as_bytes()).as_ref().to_vec(),
        };
        format!("{signed}.{}", base64url(&signature))
    }
}

fn base64url(bytes: &[u8]) -> String {
    base64::encode(bytes).trim_end_matches('=').replace('+', "-").replace('/', "_")
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// An issuer whose keys can change.
struct Issuer {
    server: HttpServer,
    keys: Arc<Mutex<Vec<Value>>>,
}

impl Issuer {
    /// Serves OAuth metadata below a path of its own.
    async fn new(keys: &[&Key]) -> Self {
        let keys = Arc::new(Mutex::new(keys.iter().map(|key| key.public()).collect::<Vec<_>>()));
        let kept = Arc::clone(&keys);
        let answer = move |asked: &ReceivedRequest| {
            let at = format!("http://{}", asked.header("host").unwrap());
            match asked.path.as_str() {
                "/.well-known/oauth-authorization-server/realm" => ScriptedResponse::json(
                    json!({"issuer": format!("{at}/realm"), "jwks_uri": format!("{at}/keys")})
                        .to_string(),
                ),
                "/keys" => {
                    ScriptedResponse::json(json!({"keys": *kept.lock().unwrap()}).to_string())
                }
                _ => ScriptedResponse::status(404),
            }
        };
        Issuer { server: HttpServer::start(answer).await.unwrap(), keys }
    }

    fn url(&self) -> String {
        self.server.url("/realm")
    }

    fn fetched(&self) -> usize {
        self.server.requests().iter().filter(|asked| asked.path == "/keys").count()
    }

    fn claims(&self, agent: &str) -> Value {
        json!({"iss": self.url(), "aud": AUDIENCE, "sub": "ada", "bot": agent, "exp": now() + 600})
    }

    async fn api_server(&self) -> TestApi {
        let oauth = json!({"issuer": self.url(), "audience": AUDIENCE, "agent_claim": "bot"});
        TestApi::with(&json!({"gateway": {"oauth": oauth}}), &[]).await
    }
}

#[tokio::test]
async fn only_valid_issuer_tokens_are_accepted() {
    let (ec, ed, foreign) = (Key::ec("a"), Key::ed("b"), Key::ec("a"));
    let issuer = Issuer::new(&[&ec, &ed]).await;
    let api_server = issuer.api_server().await;
    let good = issuer.claims("coder");
    let with = |key: &str, value: Value| {
        let mut claims = good.clone();
        claims[key] = value;
        claims
    };
    let none = base64url(json!({"alg": "none"}).to_string().as_bytes());
    let unsigned = format!("{none}.{}.", base64url(good.to_string().as_bytes()));
    let mut cut = ec.sign(&good);
    cut.truncate(cut.len() - 4);
    for (token, is_good, what) in [
        (ec.sign(&good), true, "ES256"),
        (ed.sign(&good), true, "EdDSA"),
        (foreign.sign(&good), false, "another key with the same id"),
        (ec.sign(&with("aud", json!("https://other.example"))), false, "other audience"),
        (ec.sign(&with("iss", json!("https://other.example"))), false, "other issuer"),
        (ec.sign(&with("exp", json!(now() - 600))), false, "over"),
        (ec.sign(&with("bot", json!(7))), false, "without an agent"),
        (unsigned, false, "unsigned"),
        (cut, false, "cut"),
    ] {
        let answer = api_server.send(Credential::Token(&token), "POST dialogs", None).await;
        assert_eq!(answer.status, if is_good { 201 } else { 401 }, "{what}: {answer:?}");
        if is_good {
            let told = answer.json();
            assert_eq!(
                (&told["agent"], &told["principal"]),
                (&json!("coder"), &json!("oauth:ada"))
            );
        }
    }
    assert_eq!(issuer.fetched(), 1, "keys are cached");
    let other =
        api_server.send(Credential::Token(&ec.sign(&good)), "GET tools?agent=writer", None).await;
    assert_eq!(other.status_and_code(), (403, "denied.agent".to_owned()));
    assert_eq!(
        api_server.send(Credential::Token(&ec.sign(&good)), "POST reload", None).await.status,
        403
    );
    api_server.close().await;
}

#[tokio::test]
async fn oauth_subject_with_another_agent_cannot_use_the_first_agents_dialogs() {
    let key = Key::ec("a");
    let issuer = Issuer::new(&[&key]).await;
    let api_server = issuer.api_server().await;
    let [coder, writer] = ["coder", "writer"].map(|agent| key.sign(&issuer.claims(agent)));
    let (coder, writer) = (Credential::Token(&coder), Credential::Token(&writer));
    let begin = json!({"id": "d"});
    assert_eq!(api_server.send(coder, "POST dialogs", Some(begin.clone())).await.status, 201);
    assert_eq!(api_server.send(writer, "GET dialogs/d", None).await.status, 404);
    assert_eq!(api_server.send(writer, "GET dialogs", None).await.json()["dialogs"], json!([]));
    let unnamed = api_server.send(coder, "POST dialogs", None).await.json();
    let unnamed = format!("GET dialogs/{}", unnamed["id"].as_str().unwrap());
    assert_eq!(api_server.send(writer, &unnamed, None).await.status, 404);
    assert_eq!(api_server.send(coder, &unnamed, None).await.status, 200);
    let own = api_server.send(writer, "POST dialogs", Some(begin)).await.json();
    assert_eq!((&own["id"], &own["agent"]), (&json!("d"), &json!("writer")));
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "it", "version": "0"}});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let hello = api_server.request(coder, "POST", "/mcp", &[], Some(hello)).await;
    let session = [("Mcp-Session-Id", hello.header("mcp-session-id").unwrap())];
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for (by, status) in [(writer, 404), (coder, 200)] {
        let answer = api_server.request(by, "POST", "/mcp", &session, Some(ping.clone())).await;
        assert_eq!(answer.status, status, "{by:?} {answer:?}");
    }
    api_server.close().await;
}

#[tokio::test]
async fn unknown_key_refetches_at_a_limited_rate() {
    let (old, new) = (Key::ec("old"), Key::ec("new"));
    let issuer = Issuer::new(&[&old]).await;
    let api_server = issuer.api_server().await;
    let ask = async |key: &Key| {
        let token = key.sign(&issuer.claims("coder"));
        api_server.send(Credential::Token(&token), "GET status", None).await.status
    };
    assert_eq!((ask(&old).await, issuer.fetched()), (200, 1));
    issuer.keys.lock().unwrap().push(new.public());
    for _ in 0..5 {
        // Invented key names must not cause more fetches.
        assert_eq!((ask(&new).await, issuer.fetched()), (401, 1));
    }
    assert_eq!(ask(&old).await, 200);
    api_server.close().await;
}

#[tokio::test]
async fn unreachable_issuer_does_not_count_as_a_wrong_token() {
    let (key, issuer) = (Key::ec("one"), Issuer::new(&[]).await);
    let token = key.sign(&issuer.claims("coder"));
    let oauth = json!({"issuer": issuer.url(), "audience": AUDIENCE, "agent_claim": "bot"});
    drop(issuer);
    let gateway = json!({"gateway": {"oauth": oauth, "limits": {"wrong_tokens": 2}}});
    let api_server = TestApi::with(&gateway, &[]).await;
    for _ in 0..5 {
        let refused = api_server.send(Credential::Token(&token), "GET status", None).await;
        assert_eq!(refused.status_and_code(), (401, "token.unverified".to_owned()));
    }
    api_server.close().await;
}

#[tokio::test]
async fn unauthorized_response_points_to_resource_metadata() {
    let issuer = Issuer::new(&[]).await;
    let api_server = issuer.api_server().await;
    let refused = api_server.send(Credential::Anonymous, "GET status", None).await;
    assert_eq!(refused.status, 401);
    let told = refused.header("www-authenticate").unwrap();
    let at = "resource_metadata=\"https://crib.example/.well-known/oauth-protected-resource/mcp\"";
    assert!(told.contains(at), "{told}");
    for path in ["", "/mcp"] {
        let path = format!("/.well-known/oauth-protected-resource{path}");
        let metadata =
            api_server.request(Credential::Anonymous, "GET", &path, &[], None).await.json();
        assert_eq!(metadata["resource"], AUDIENCE);
        assert_eq!(metadata["authorization_servers"], json!([issuer.url()]));
    }
    api_server.close().await;
    let api_server = TestApi::new(&[]).await;
    let path = "/.well-known/oauth-protected-resource";
    assert_eq!(api_server.request(Credential::Anonymous, "GET", path, &[], None).await.status, 404);
    api_server.close().await;
}
