//! Tests requests that browsers send for web pages.

use serde_json::json;

use super::{ServeProcess, demo_server, native_workspace, new_token};
use crate::TestWorkspace;

const STATUS: &str = "GET /api/v1/status";

fn own_origin(served: &ServeProcess) -> String {
    served.url().to_owned()
}

#[tokio::test]
async fn other_local_ports_are_foreign_origins_unless_listed() {
    let file = json!({"version": 1, "servers": {"demo": demo_server()},
        "gateway": {"origins": ["http://localhost:3000"]}});
    let workspace = TestWorkspace::new().with_file("toolcrib.yaml", &file.to_string());
    let served = ServeProcess::start(&workspace).await;
    let own = own_origin(&served);
    for path in ["GET /api/v1/status", "GET /healthz", "GET /"] {
        for (origin, is_let_in) in [
            (own.as_str(), true),
            ("http://localhost:3000", true),
            ("http://127.0.0.1:3000", false),
            ("http://localhost:3001", false),
            ("http://localhost", false),
            ("https://evil.example", false),
        ] {
            let answer = served.request(path, &[("Origin", origin)], "").await;
            assert_eq!(answer.status != 403, is_let_in, "{path} {origin} {answer:?}");
        }
    }
}

#[tokio::test]
async fn cross_site_requests_without_token_are_rejected() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let served = ServeProcess::start(&workspace).await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let json = ("Content-Type", "application/json");
    for (site, is_let_in) in
        [("none", true), ("same-origin", true), ("same-site", false), ("cross-site", false)]
    {
        let site = ("Sec-Fetch-Site", site);
        for path in [STATUS, "GET /metrics", "GET /healthz"] {
            let answer = served.request(path, &[site], "").await;
            assert_eq!(answer.status != 403, is_let_in, "{path} {site:?} {answer:?}");
        }
        let answer = served.request("POST /mcp", &[json, site], &ping).await;
        assert_eq!(answer.status != 403, is_let_in, "{site:?} {answer:?}");
    }
    let bearer = format!("Bearer {}", new_token(&workspace, &["--owner"]));
    let token = ("Authorization", bearer.as_str());
    let cross = ("Sec-Fetch-Site", "cross-site");
    assert_eq!(served.request(STATUS, &[cross, token], "").await.status, 200);
}

#[tokio::test]
async fn api_bodies_must_be_json_without_unknown_fields() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let served = ServeProcess::start(&workspace).await;
    assert_eq!(workspace.tools().len(), 7, "the server is up");
    let json = ("Content-Type", "application/json");
    let plain = ("Content-Type", "text/plain");
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    for (line, headers, body, status) in [
        ("POST /api/v1/dialogs", vec![json], r#"{"id":"d"}"#, 201),
        (
            "POST /api/v1/dialogs",
            vec![("Content-Type", "application/json; charset=utf-8")],
            "{}",
            201,
        ),
        ("POST /api/v1/dialogs", vec![], "", 201),
        ("POST /api/v1/dialogs", vec![plain], "", 201),
        ("POST /api/v1/dialogs", vec![], "{}", 415),
        ("POST /api/v1/dialogs", vec![plain], r#"{"id":"e"}"#, 415),
        ("POST /api/v1/dialogs", vec![form], "id=e", 415),
        ("POST /api/v1/dialogs", vec![json], r#"{"name":"e"}"#, 400),
        ("POST /api/v1/dialogs", vec![json], r#"{"answers":{"all":true}}"#, 400),
        ("POST /api/v1/dialogs/d/calls", vec![json], r#"{"tool":"demo__echo","args":{}}"#, 400),
        ("POST /api/v1/dialogs/d/calls", vec![plain], r#"{"tool":"demo__echo"}"#, 415),
        ("PUT /api/v1/dialogs/d/servers/demo", vec![json], r#"{"enabled":true,"x":1}"#, 400),
        ("POST /api/v1/dialogs/d/requests/1", vec![json], r#"{"result":{},"x":1}"#, 400),
        ("POST /api/v1/prompts/p", vec![json], r#"{"argument":{}}"#, 400),
        // Endpoints without a body reject a non-empty one.
        ("POST /api/v1/servers/demo/refresh", vec![], "", 200),
        ("POST /api/v1/servers/demo/refresh", vec![json], "{}", 200),
        ("POST /api/v1/servers/demo/refresh", vec![json], r#"{"x":1}"#, 400),
        ("POST /api/v1/servers/demo/refresh", vec![plain], "{}", 415),
        ("DELETE /api/v1/dialogs/d", vec![plain], "x", 415),
    ] {
        let answer = served.request(line, &headers, body).await;
        assert_eq!(answer.status, status, "{line} {headers:?} {body} {answer:?}");
    }
}
