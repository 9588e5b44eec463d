//! A configuration whose format fails as a whole (C19 of the dialects).

use serde_json::json;
use tokio::io::AsyncReadExt;

use super::{Served, spawn, within};
use crate::Place;
use crate::hosted::{PATH, demo, names};

const BAD: &str =
    "tools:\n  - { name: t, description: d, type: mcp, server: s, transport: stdio }\n";

/// HOL-39, C19: there is nothing to serve, so that the start fails and says why.
#[tokio::test]
async fn hol_39_serve_fails_where_a_bad_agent_file_is_the_only_one() {
    for (file, text) in [("agent.yaml", BAD), ("agent.yaml", "tools: [\n")] {
        for more in [["--listen", ":0"].as_slice(), &["--stdio"]] {
            let place = Place::new().file(file, text);
            let mut child = spawn(&place, &[&["serve"], more].concat(), &[PATH]);
            let ended = within(child.wait()).await.unwrap();
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
            assert_eq!(ended.code(), Some(1), "{said}");
            assert!(said.contains("cannot load `agent.yaml`"), "{said}");
        }
    }
}

/// DOM-88: where another file can be used, the host serves that one.
#[tokio::test]
async fn dom_88_serve_starts_where_another_file_can_be_used() {
    let native = json!({"version": 1, "servers": {"demo": demo()}});
    let place = Place::new().file("agent.yaml", BAD).file("toolcrib.yaml", &native.to_string());
    let _served = Served::start(&place).await;
    assert_eq!(names(&place.json(&["tools"])).len(), 7);
    // A format that skips what is wrong does not end the start.
    let place = Place::new().file(".dispatch/mcp.json", "{ no json");
    let _served = Served::start(&place).await;
    assert_eq!(names(&place.json(&["tools"])), [] as [&str; 0]);
}
