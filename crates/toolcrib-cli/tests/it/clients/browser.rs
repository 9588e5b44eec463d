//! Playwright's server behind the gateway: two dialogs, each with a browser of its own.

use serde_json::json;
use toolcrib_testkit::peers;

use super::{python_script, talk, workspace};
use crate::serving::Serving;

#[tokio::test]
async fn two_dialogs_browse_at_once_and_see_nothing_of_each_other() {
    let program = peers::npm("@playwright/mcp", "playwright-mcp").unwrap();
    let flags = ["--headless", "--no-sandbox", "--isolated", "--executable-path"];
    let args: Vec<_> =
        flags.map(Into::into).into_iter().chain([peers::chromium().unwrap()]).collect();
    let entry = json!({"command": program, "args": args, "session": {"scope": "per_conversation"},
        "lifecycle": {"connect": "eager"}, "timeouts": {"startup": "60s"}});
    let gateway = Serving::start(workspace(&json!({"browser": entry}))).await;
    for mode in ["legacy", "auto"] {
        let client = python_script("browser_client.py", mode);
        talk(&client, &[gateway.at("/mcp")], &gateway.place).await;
    }
    gateway.end().await;
}
