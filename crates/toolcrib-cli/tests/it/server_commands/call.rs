//! Tests `toolcrib call`.

use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{PATH, demo_server, native_workspace, parse_json, scripted_server};

#[test]
fn string_arguments_are_typed_by_tool_schema() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    assert_eq!(
        workspace.stdout_of(&["call", "demo__add", "-a", "a=19", "-a", "b=23"]),
        "{\"sum\":42}\n"
    );
    assert_eq!(workspace.stdout_of(&["call", "demo__echo", "-a", "text=19"]), "19\n");
    assert_eq!(workspace.stdout_of(&["call", "demo__echo", "--args", r#"{"text":"hi"}"#]), "hi\n");
    // Without a terminal no progress is printed.
    let ran = workspace.run_with_env(&["call", "demo__slow", "-a", "seconds=0.2"], &[PATH]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn log_notifications_do_not_end_call() {
    let log = |times| Step::Notify {
        method: "notifications/message".to_owned(),
        params: json!({"level": "info", "data": "half way"}),
        times,
    };
    let script = Script::default().on("tools/call slow", [log(2), Step::Respond]);
    let workspace = native_workspace(&json!({"s": scripted_server(&script)}));
    let ran = workspace.run_with_env(&["call", "s__slow"], &[PATH]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert_eq!(workspace.json(&["call", "s__slow"])["ok"], true);
    let ran = workspace.run_with_env(&["call", "s__slow", "-v"], &[PATH]);
    assert!(ran.code == 0 && ran.err.contains("half way"), "{ran:?}");
}

#[test]
fn arguments_are_read_from_stdin_on_request() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let mut child = workspace
        .command(&["call", "demo__echo", "--args", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(br#"{"text":"from a pipe"}"#).unwrap();
    let ran = workspace.command_output(&child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (0, "from a pipe\n"), "{ran:?}");
}

#[test]
fn json_result_has_contract_fields_for_every_outcome() {
    let contract = [
        "ok",
        "is_error",
        "text",
        "content",
        "structured",
        "server",
        "tool",
        "duration_ms",
        "attempts",
        "error",
        "meta",
    ];
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    for (args, code, kind) in [
        (vec!["demo__add", "-a", "a=1", "-a", "b=2"], 0, Value::Null),
        (vec!["demo__fail"], 1, json!("tool")),
        // The command validates arguments regardless of the policy.
        (vec!["demo__add", "-a", "a=1"], 1, json!("invalid_arguments")),
        (vec!["demo__add", "-a", "a=x", "-a", "b=2"], 1, json!("invalid_arguments")),
        (vec!["demo__nothing"], 1, json!("unknown_tool")),
    ] {
        let args: Vec<&str> = ["call", "--json"].into_iter().chain(args).collect();
        let ran = workspace.run_with_env(&args, &[PATH]);
        let report = parse_json(&ran);
        assert_eq!(ran.code, code, "{args:?} {ran:?}");
        for field in contract {
            assert!(report.get(field).is_some(), "{field} {report}");
        }
        assert_eq!(report["ok"], code == 0);
        assert_eq!(report["error"]["kind"], kind, "{report}");
    }
}

#[test]
fn invalid_arguments_are_reported_and_not_sent() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let schema = json!({"tools": [{"name": "t", "inputSchema": {"type": "object", "required": ["x"]}}],
        "resultType": "complete"});
    let script = Script { log: Some(log.clone()), ..Script::default() }
        .on("tools/list", [Step::Result(schema)]);
    let workspace = native_workspace(&json!({"s": scripted_server(&script)}));
    let ran = workspace.run(&["call", "s__t"]);
    assert_eq!(ran.code, 1);
    assert_eq!(
        ran.err,
        "error: [MCP:s] invalid arguments for `s__t`: `/x`: expected a value, it is required\n"
    );
    assert!(!fs::read_to_string(log).unwrap().contains("tools/call"));
}

#[test]
fn failed_tool_prints_result_and_exits_with_one() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let ran = workspace.run(&["call", "demo__fail", "-a", "message=no luck"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (1, "no luck\n", ""));
    let ran = workspace.run(&["call", "demo__none"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "error: tool not found: demo__none\n"));
}

#[test]
fn raw_output_equals_server_result_byte_for_byte() {
    let odd = r#"{"content":[{"type":"text","text":"\u001b[31m","x":1.50e+2}], "y": 10000000000000000000000}"#;
    let result = format!(r#"{{"jsonrpc":"2.0","id":$id,"result":{odd}}}"#);
    let script = Script { legacy_only: true, ..Script::default() }
        .on("tools/call odd", [Step::Message(result)]);
    let workspace = native_workspace(&json!({"s": scripted_server(&script)}));
    assert_eq!(workspace.stdout_of(&["call", "s__odd", "--raw"]), format!("{odd}\n"));
    // In a pipe the text is printed unescaped.
    assert_eq!(workspace.stdout_of(&["call", "s__odd"]), "\u{1b}[31m\n");
}

#[test]
fn timeout_option_limits_one_call() {
    let script = Script::default().on("tools/call slow", [Step::Sleep(60_000), Step::Respond]);
    let workspace = native_workspace(&json!({"s": scripted_server(&script)}));
    let ran = workspace.run_with_env(&["call", "s__slow", "--timeout", "200ms", "--json"], &[PATH]);
    assert_eq!((ran.code, &parse_json(&ran)["error"]["kind"]), (1, &json!("timeout")), "{ran:?}");
}

#[test]
fn unreachable_server_exits_with_three() {
    let workspace = native_workspace(&json!({"gone": {"command": "no-such-program-here"}}));
    for args in [
        vec!["tools"],
        vec!["call", "gone__x"],
        vec!["why", "gone__x"],
        vec!["resources"],
        vec!["read", "a://b"],
        vec!["prompts"],
        vec!["prompt", "p"],
        vec!["server", "connect", "gone"],
    ] {
        let ran = workspace.run_with_env(&args, &[PATH]);
        assert_eq!(ran.code, 3, "{args:?} {ran:?}");
        assert!(ran.err.contains("cannot find the program `no-such-program-here`"), "{ran:?}");
    }
}

#[test]
fn known_tool_of_unreachable_server_exits_with_three() {
    let workspace = native_workspace(&json!({}));
    let shim = workspace.shim("once");
    let entry = json!({"command": shim.path, "lifecycle": {"connect": "on_first_call"}});
    let workspace = workspace
        .with_file("toolcrib.yaml", &json!({"version": 1, "servers": {"s": entry}}).to_string());
    assert_eq!(workspace.run_with_env(&["call", "s__echo"], &[PATH]).code, 0);
    fs::remove_file(&shim.path).unwrap();
    let started_at = Instant::now();
    let ran = workspace.run_with_env(&["call", "s__echo", "--json"], &[PATH]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert_eq!(parse_json(&ran)["error"]["kind"], "connection");
    assert!(started_at.elapsed() < Duration::from_secs(15), "the call was retried");
    // The last known tools are shown, and the output says so.
    let ran = workspace.run_with_env(&["tools"], &[PATH]);
    assert!(ran.out.contains("s__echo") && ran.err.contains("shown as last seen: s"), "{ran:?}");
}
