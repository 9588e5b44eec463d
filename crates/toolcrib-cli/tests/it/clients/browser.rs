//! Tests Playwright's server behind the gateway with two dialogs.

use serde_json::json;
use toolcrib_testkit::peers;

use super::{python_script, run_client_script, workspace_with};
use crate::test_gateway::TestGateway;

#[tokio::test]
async fn concurrent_dialogs_have_isolated_browsers() {
    let program = peers::npm_program("@playwright/mcp", "playwright-mcp").unwrap();
    let flags = ["--headless", "--no-sandbox", "--isolated", "--executable-path"];
    let args: Vec<_> =
        flags.map(Into::into).into_iter().chain([peers::chromium().unwrap()]).collect();
    let entry = json!({"command": program, "args": args, "session": {"scope": "per_conversation"},
        "lifecycle": {"connect": "eager"}, "timeouts": {"startup": "60s"}});
    let gateway = TestGateway::start(workspace_with(&json!({"browser": entry}))).await;
    for mode in ["legacy", "auto"] {
        let client = python_script("browser_client.py", mode);
        run_client_script(&client, &[gateway.url("/mcp")], &gateway.workspace).await;
    }
    gateway.stop().await;
}
