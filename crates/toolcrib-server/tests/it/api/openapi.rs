//! The description that is kept in `schema/` is the present one, and has every route.

use std::path::PathBuf;

use serde_json::json;
use toolcrib_server::api;

use super::{By, Crib};

#[test]
#[expect(clippy::disallowed_methods, reason = "the test also brings the file up to date")]
fn the_committed_description_is_the_present_one() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schema/openapi.json");
    let present = serde_json::to_string_pretty(&api::openapi()).unwrap() + "\n";
    assert!(present.len() < 100_000, "{} bytes", present.len());
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &present).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let how = "run `UPDATE_SCHEMA=1 cargo test -p toolcrib-server openapi` and commit the file";
    assert!(committed == present, "{} is not up to date: {how}", path.display());
}

/// Routes and description are of one table; this shows that the table is what is served, and that what is not in
/// it is not.
#[tokio::test]
async fn every_route_is_described_and_nothing_else_is_served() {
    let crib = Crib::new(&[]).await;
    let described = crib.get("openapi.json").await;
    assert_eq!(described["openapi"], "3.1.0");
    for (path, operations) in described["paths"].as_object().unwrap() {
        let path = path.replace("{call}", "1").replace("{request}", "1");
        for method in ["get", "post", "put", "delete"] {
            if (path.as_str(), method) == ("/api/v1/events", "get") {
                continue; // It goes on for ever; `events.rs` listens to it.
            }
            let answer =
                crib.request(By::Socket, &method.to_uppercase(), &path, &[], Some(json!({}))).await;
            let is_served = answer.status != 405 && answer.json_code() != "endpoint.unknown";
            assert_eq!(is_served, operations.get(method).is_some(), "{method} {path} {answer:?}");
        }
    }
    // Until there is an agent runtime.
    for what in [
        "POST dialogs/d/messages",
        "POST dialogs/d/stop",
        "POST dialogs/d/resume",
        "GET projection",
    ] {
        let answer = crib.ask(By::Socket, what, None).await;
        assert_eq!(answer.failure(), (404, "endpoint.unknown".to_owned()), "{what}");
    }
    crib.end().await;
}

impl super::Answer {
    fn json_code(&self) -> String {
        let json: serde_json::Value = serde_json::from_str(&self.text).unwrap_or_default();
        json["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}
