//! `toolcrib serve --stdio`, as clients of other makers use it.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use toolcrib_testkit::peers;

use super::{demo, native};
use crate::PROGRAM;

#[test]
fn a_client_of_the_python_sdk_lists_calls_and_reads_through_it() {
    let place = native(&json!({"demo": demo()}));
    let server = peers::python("v2", "mcp-server-time", "mcp-server-time").unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/hosted/client.py");
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

#[test]
fn it_says_what_it_needs() {
    let ran = native(&json!({})).run(&["serve"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("--stdio"), "{ran:?}");
}
