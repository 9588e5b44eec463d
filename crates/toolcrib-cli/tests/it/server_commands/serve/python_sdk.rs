//! Tests `toolcrib serve --stdio` with third-party clients.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use toolcrib_testkit::peers;

use crate::PROGRAM;
use crate::server_commands::{demo_server, native_workspace};

#[test]
fn python_sdk_client_lists_calls_and_reads_over_stdio() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let server = peers::python_program("v2", "mcp-server-time", "mcp-server-time").unwrap();
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/server_commands/serve/client.py");
    let ran = Command::new(server.with_file_name("python"))
        .arg(script)
        .args([PROGRAM, "serve", "--stdio", "--root"])
        .arg(workspace.root())
        .env("TOOLCRIB_STATE_DIR", workspace.root().join("state"))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&ran.stdout);
    let lines: Vec<&str> = printed.lines().collect();
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(lines[0], "toolcrib 2025-11-25");
    assert!(lines[1].contains("demo__add") && lines[1].contains("demo__counter"), "{printed}");
    assert_eq!(lines[2..], ["42", "application/json", "1"], "{printed}");
}
