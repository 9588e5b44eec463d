//! The OpenAPI file in `schema/` is current and complete.

use std::path::PathBuf;

use serde_json::json;
use toolcrib_server::api;

use super::{Credential, TestApi};

#[test]
#[expect(clippy::disallowed_methods, reason = "the test also brings the file up to date")]
fn committed_openapi_file_is_up_to_date() {
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

/// Routes and document come from one table; this shows that exactly this table is served.
#[tokio::test]
async fn openapi_describes_exactly_the_served_routes() {
    let api_server = TestApi::new(&[]).await;
    let described = api_server.get("openapi.json").await;
    assert_eq!(described["openapi"], "3.1.0");
    for (path, operations) in described["paths"].as_object().unwrap() {
        let path = path.replace("{call}", "1").replace("{request}", "1");
        for method in ["get", "post", "put", "delete"] {
            if (path.as_str(), method) == ("/api/v1/events", "get") {
                continue; // It goes on for ever; `events.rs` listens to it.
            }
            let answer = api_server
                .request(Credential::Socket, &method.to_uppercase(), &path, &[], Some(json!({})))
                .await;
            let is_served = answer.status != 405 && answer.error_code() != "endpoint.unknown";
            assert_eq!(is_served, operations.get(method).is_some(), "{method} {path} {answer:?}");
        }
    }
    // These need an agent runtime, which does not exist yet.
    for what in [
        "POST dialogs/d/messages",
        "POST dialogs/d/stop",
        "POST dialogs/d/resume",
        "GET projection",
    ] {
        let answer = api_server.send(Credential::Socket, what, None).await;
        assert_eq!(answer.status_and_code(), (404, "endpoint.unknown".to_owned()), "{what}");
    }
    api_server.close().await;
}

impl super::ApiResponse {
    fn error_code(&self) -> String {
        let json: serde_json::Value = serde_json::from_str(&self.text).unwrap_or_default();
        json["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}
