//! Tests configurations whose format fails as a whole (C19 of the dialects).

use serde_json::json;
use tokio::io::AsyncReadExt;

use super::{ServeProcess, spawn, with_time_limit};
use crate::TestWorkspace;
use crate::server_commands::{PATH, demo_server, names};

const BAD: &str =
    "tools:\n  - { name: t, description: d, type: mcp, server: s, transport: stdio }\n";

/// HOL-39, C19: without any usable file the start fails with the reason.
#[tokio::test]
async fn hol_39_serve_fails_when_only_file_is_invalid_agent_file() {
    for (file, text) in [("agent.yaml", BAD), ("agent.yaml", "tools: [\n")] {
        for more in [["--listen", ":0"].as_slice(), &["--stdio"]] {
            let workspace = TestWorkspace::new().with_file(file, text);
            let mut child = spawn(&workspace, &[&["serve"], more].concat(), &[PATH]);
            let ended = with_time_limit(child.wait()).await.unwrap();
            let mut output = String::new();
            child.stderr.take().unwrap().read_to_string(&mut output).await.unwrap();
            assert_eq!(ended.code(), Some(1), "{output}");
            assert!(output.contains("cannot load `agent.yaml`"), "{output}");
        }
    }
}

/// DOM-88: the host serves another usable file.
#[tokio::test]
async fn dom_88_serve_starts_with_another_valid_file() {
    let native = json!({"version": 1, "servers": {"demo": demo_server()}});
    let workspace = TestWorkspace::new()
        .with_file("agent.yaml", BAD)
        .with_file("toolcrib.yaml", &native.to_string());
    let _served = ServeProcess::start(&workspace).await;
    assert_eq!(names(&workspace.json(&["tools"])).len(), 7);
    // A format that skips invalid entries does not fail the start.
    let workspace = TestWorkspace::new().with_file(".dispatch/mcp.json", "{ no json");
    let _served = ServeProcess::start(&workspace).await;
    assert_eq!(names(&workspace.json(&["tools"])), [] as [&str; 0]);
}
