//! `toolcrib serve --stdio`, as clients of other makers use it.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use toolcrib_testkit::peers;

use crate::PROGRAM;
use crate::hosted::{demo, native};

#[test]
fn a_client_of_the_python_sdk_lists_calls_and_reads_through_it() {
    let place = native(&json!({"demo": demo()}));
    let server = peers::python("v2", "mcp-server-time", "mcp-server-time").unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/hosted/serve/client.py");
    let ran = Command::new(server.with_file_name("python"))
        .arg(script)
        .args([PROGRAM, "serve", "--stdio", "--root"])
        .arg(place.root())
        .env("TOOLCRIB_STATE_DIR", place.root().join("state"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(lines[0], "toolcrib 2025-11-25");
    assert!(lines[1].contains("demo__add") && lines[1].contains("demo__counter"), "{said}");
    assert_eq!(lines[2..], ["42", "application/json", "1"], "{said}");
}
