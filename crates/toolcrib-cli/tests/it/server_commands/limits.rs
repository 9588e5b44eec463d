//! Tests errors of exceeded limits: server, limit and elapsed time.

use toolcrib_testkit::scripted::{Script, Step};

use super::*;

#[test]
fn oversized_answer_error_names_server_and_limit() {
    let mut large =
        scripted_server(&Script::default().on("tools/call big", [Step::LargeResult(200_000)]));
    large["limits"] = json!({"message": 65_536});
    let workspace = native_workspace(&json!({"large": large}));
    let error = workspace.json(&["call", "large__big"])["error"].clone();
    assert_eq!(error["kind"], "resource", "{error}");
    assert_eq!(error["message"], "server `large`: the answer is over the limit of 65536 bytes");
}

#[test]
fn deeply_nested_answer_error_names_server_and_limit() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let result =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"content\":[],\"x\":{deep}}}}}");
    let deep = scripted_server(&Script::default().on("tools/call deep", [Step::Message(result)]));
    let error =
        native_workspace(&json!({"nested": deep})).json(&["call", "nested__deep"])["error"].clone();
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("server `nested`: "), "{error}");
    assert!(message.contains("nested deeper than the limit of 128 levels"), "{error}");
}

#[test]
fn timeout_error_names_server_and_elapsed_time() {
    let slow = scripted_server(&Script::default().on("tools/call wait", [Step::Sleep(60_000)]));
    let workspace = native_workspace(&json!({"slow": slow}));
    let error = workspace.json(&["call", "slow__wait", "--timeout", "300ms"])["error"].clone();
    assert_eq!(error["kind"], "timeout", "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("no answer within "), "{error}");
    assert!(message.contains(" from server `slow` ("), "{error}");
    let passed = message.rsplit('(').next().unwrap().trim_end_matches(" s passed)");
    assert!(passed.parse::<f64>().unwrap() >= 0.3, "{error}");
}

/// A server that writes the text and then a line without an end.
fn endless(begins: &str) -> Value {
    let script = "printf %s \"$0\"; exec tr '\\0' y </dev/zero";
    json!({"command": "/bin/sh", "args": ["-c", script.replace('$', "$$"), begins],
        "limits": {"message": 65_536}, "timeouts": {"startup": "10m"}})
}

#[test]
fn endless_line_at_startup_fails_at_once_with_server_and_limit() {
    for begins in
        ["", "{\"jsonrpc\":\"2.0\",\"result\":\"", "{\"x\":\"", "Content-Length: 99999999\r\n\r\n"]
    {
        let workspace = native_workspace(&json!({"endless": endless(begins)}));
        let ran = workspace.run_with_env(&["tools"], &[PATH]);
        assert_eq!(ran.code, 3, "{begins}: {ran:?}");
        let report = "server `endless` is failed: failed to connect: the answer is over the limit of 65536 bytes";
        assert!(ran.err.contains(report), "{begins}: {ran:?}");
    }
}
