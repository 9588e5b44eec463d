//! What is said when a limit is exceeded: which server, which limit, how long it took.

use toolcrib_testkit::scripted::{Script, Step};

use super::*;

#[test]
fn an_answer_over_the_limit_names_the_server_and_the_limit() {
    let mut large = scripted(&Script::default().on("tools/call big", [Step::Big(200_000)]));
    large["limits"] = json!({"message": 65_536});
    let place = native(&json!({"large": large}));
    let error = place.json(&["call", "large__big"])["error"].clone();
    assert_eq!(error["kind"], "resource", "{error}");
    assert_eq!(error["message"], "server `large`: the answer is over the limit of 65536 bytes");
}

#[test]
fn an_answer_nested_too_deeply_names_the_server_and_the_limit() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let result =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"content\":[],\"x\":{deep}}}}}");
    let deep = scripted(&Script::default().on("tools/call deep", [Step::Message(result)]));
    let error = native(&json!({"nested": deep})).json(&["call", "nested__deep"])["error"].clone();
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("server `nested`: "), "{error}");
    assert!(message.contains("nested deeper than the limit of 128 levels"), "{error}");
}

#[test]
fn a_timeout_names_the_server_and_the_time_that_passed() {
    let slow = scripted(&Script::default().on("tools/call wait", [Step::Sleep(60_000)]));
    let place = native(&json!({"slow": slow}));
    let error = place.json(&["call", "slow__wait", "--timeout", "300ms"])["error"].clone();
    assert_eq!(error["kind"], "timeout", "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("no answer within "), "{error}");
    assert!(message.contains(" from server `slow` ("), "{error}");
    let passed = message.rsplit('(').next().unwrap().trim_end_matches(" s passed)");
    assert!(passed.parse::<f64>().unwrap() >= 0.3, "{error}");
}

/// Writes this, and then a line that has no end.
fn endless(begins: &str) -> Value {
    let script = "printf %s \"$0\"; exec tr '\\0' y </dev/zero";
    json!({"command": "/bin/sh", "args": ["-c", script.replace('$', "$$"), begins],
        "limits": {"message": 65_536}, "timeouts": {"startup": "10m"}})
}

#[test]
fn a_line_without_an_end_at_startup_names_the_server_and_the_limit_at_once() {
    for begins in
        ["", "{\"jsonrpc\":\"2.0\",\"result\":\"", "{\"x\":\"", "Content-Length: 99999999\r\n\r\n"]
    {
        let place = native(&json!({"endless": endless(begins)}));
        let ran = place.run_with(&["tools"], &[PATH]);
        assert_eq!(ran.code, 3, "{begins}: {ran:?}");
        let told = "server `endless` is failed: failed to connect: the answer is over the limit of 65536 bytes";
        assert!(ran.err.contains(told), "{begins}: {ran:?}");
    }
}
