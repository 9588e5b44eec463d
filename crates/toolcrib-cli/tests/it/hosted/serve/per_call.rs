//! Sessions of one call each, as the Docker platform has them.

use std::fs;

use serde_json::json;
use toolcrib_testkit::scripted::Script;

use super::Served;
use crate::hosted::{native, scripted};

/// DKR-45: the tools are listed in the session that is kept for discovery, and in no other.
#[tokio::test]
async fn dkr_45_per_call_sessions_do_not_list_tools_again() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut entry = scripted(&Script { log: Some(log.clone()), ..Script::default() });
    entry["profile"] = json!("docker");
    entry["session"] = json!({"scope": "per_call"});
    let place = native(&json!({"crm": entry}));
    let _served = Served::start(&place).await;
    for number in 1..=3 {
        let args = ["call", "crm:echo", "-a", &format!("x={number}")];
        // The docker profile hands text on where there is no structured content.
        assert_eq!(place.out(&args), format!("{{\"x\":{number}}}\n"));
    }
    let text = fs::read_to_string(&log).unwrap();
    let count = |method: &str| text.lines().filter(|line| line.contains(method)).count();
    assert_eq!(count("\"initialize\""), 4, "one for discovery, one for each call: {text}");
    assert_eq!(count("\"tools/call\""), 3);
    assert_eq!(count("\"tools/list\""), 1, "{text}");
    assert_eq!((count("\"prompts/list\""), count("\"resources/list\"")), (1, 1), "{text}");
}
