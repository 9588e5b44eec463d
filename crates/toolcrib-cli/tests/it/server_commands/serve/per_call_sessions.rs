//! Tests sessions per call, as the Docker platform uses them.

use std::fs;

use serde_json::json;
use toolcrib_testkit::scripted::Script;

use super::ServeProcess;
use crate::server_commands::{native_workspace, scripted_server};

/// DKR-45: only the discovery session lists tools.
#[tokio::test]
async fn dkr_45_per_call_sessions_do_not_list_tools_again() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut entry = scripted_server(&Script { log: Some(log.clone()), ..Script::default() });
    entry["profile"] = json!("docker");
    entry["session"] = json!({"scope": "per_call"});
    let workspace = native_workspace(&json!({"crm": entry}));
    let _served = ServeProcess::start(&workspace).await;
    for number in 1..=3 {
        let args = ["call", "crm:echo", "-a", &format!("x={number}")];
        // The docker profile returns text when there is no structured content.
        assert_eq!(workspace.stdout_of(&args), format!("{{\"x\":{number}}}\n"));
    }
    let text = fs::read_to_string(&log).unwrap();
    let count = |method: &str| text.lines().filter(|line| line.contains(method)).count();
    assert_eq!(count("\"initialize\""), 4, "one for discovery, one for each call: {text}");
    assert_eq!(count("\"tools/call\""), 3);
    assert_eq!(count("\"tools/list\""), 1, "{text}");
    assert_eq!((count("\"prompts/list\""), count("\"resources/list\"")), (1, 1), "{text}");
}
