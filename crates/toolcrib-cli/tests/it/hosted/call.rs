//! `toolcrib call`.

use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{PATH, demo, native, parsed, scripted};

#[test]
fn a_tool_is_called_with_words_that_its_schema_gives_types() {
    let place = native(&json!({"demo": demo()}));
    assert_eq!(place.out(&["call", "demo__add", "-a", "a=19", "-a", "b=23"]), "{\"sum\":42}\n");
    assert_eq!(place.out(&["call", "demo__echo", "-a", "text=19"]), "19\n");
    assert_eq!(place.out(&["call", "demo__echo", "--args", r#"{"text":"hi"}"#]), "hi\n");
    // Standard error is no terminal here, so that nothing of progress is on it.
    let ran = place.run_with(&["call", "demo__slow", "-a", "seconds=0.2"], &[PATH]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn what_a_server_logs_on_the_way_is_no_end() {
    let log = |times| Step::Notify {
        method: "notifications/message".to_owned(),
        params: json!({"level": "info", "data": "half way"}),
        times,
    };
    let script = Script::default().on("tools/call slow", [log(2), Step::Answer]);
    let place = native(&json!({"s": scripted(&script)}));
    let ran = place.run_with(&["call", "s__slow"], &[PATH]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert_eq!(place.json(&["call", "s__slow"])["ok"], true);
    let ran = place.run_with(&["call", "s__slow", "-v"], &[PATH]);
    assert!(ran.code == 0 && ran.err.contains("half way"), "{ran:?}");
}

#[test]
fn the_arguments_come_from_standard_input_where_asked_for() {
    let place = native(&json!({"demo": demo()}));
    let mut child = place
        .command(&["call", "demo__echo", "--args", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(br#"{"text":"from a pipe"}"#).unwrap();
    let ran = place.ran(&child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (0, "from a pipe\n"), "{ran:?}");
}

#[test]
fn json_has_the_contracts_fields_however_it_ends() {
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
    let place = native(&json!({"demo": demo()}));
    for (args, code, kind) in [
        (vec!["demo__add", "-a", "a=1", "-a", "b=2"], 0, Value::Null),
        (vec!["demo__fail"], 1, json!("tool")),
        // Arguments are checked here always, whatever policy says.
        (vec!["demo__add", "-a", "a=1"], 1, json!("invalid_arguments")),
        (vec!["demo__add", "-a", "a=x", "-a", "b=2"], 1, json!("invalid_arguments")),
        (vec!["demo__nothing"], 1, json!("unknown_tool")),
    ] {
        let args: Vec<&str> = ["call", "--json"].into_iter().chain(args).collect();
        let ran = place.run_with(&args, &[PATH]);
        let told = parsed(&ran);
        assert_eq!(ran.code, code, "{args:?} {ran:?}");
        for field in contract {
            assert!(told.get(field).is_some(), "{field} {told}");
        }
        assert_eq!(told["ok"], code == 0);
        assert_eq!(told["error"]["kind"], kind, "{told}");
    }
}

#[test]
fn what_was_wrong_with_the_arguments_is_said_and_nothing_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let schema = json!({"tools": [{"name": "t", "inputSchema": {"type": "object", "required": ["x"]}}],
        "resultType": "complete"});
    let script = Script { log: Some(log.clone()), ..Script::default() }
        .on("tools/list", [Step::Result(schema)]);
    let place = native(&json!({"s": scripted(&script)}));
    let ran = place.run(&["call", "s__t"]);
    assert_eq!(ran.code, 1);
    assert_eq!(
        ran.err,
        "error: [MCP:s] invalid arguments for `s__t`: `/x`: expected a value, it is required\n"
    );
    assert!(!fs::read_to_string(log).unwrap().contains("tools/call"));
}

#[test]
fn a_failed_tool_says_so_on_standard_output_and_ends_with_one() {
    let place = native(&json!({"demo": demo()}));
    let ran = place.run(&["call", "demo__fail", "-a", "message=no luck"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (1, "no luck\n", ""));
    let ran = place.run(&["call", "demo__none"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "error: tool not found: demo__none\n"));
}

#[test]
fn raw_is_what_the_server_gave_byte_for_byte() {
    let odd = r#"{"content":[{"type":"text","text":"\u001b[31m","x":1.50e+2}], "y": 10000000000000000000000}"#;
    let result = format!(r#"{{"jsonrpc":"2.0","id":$id,"result":{odd}}}"#);
    let script = Script { legacy_only: true, ..Script::default() }
        .on("tools/call odd", [Step::Message(result)]);
    let place = native(&json!({"s": scripted(&script)}));
    assert_eq!(place.out(&["call", "s__odd", "--raw"]), format!("{odd}\n"));
    // In a pipe text is what it is, escapes included.
    assert_eq!(place.out(&["call", "s__odd"]), "\u{1b}[31m\n");
}

#[test]
fn a_limit_can_be_set_for_one_call() {
    let script = Script::default().on("tools/call slow", [Step::Sleep(60_000), Step::Answer]);
    let place = native(&json!({"s": scripted(&script)}));
    let ran = place.run_with(&["call", "s__slow", "--timeout", "200ms", "--json"], &[PATH]);
    assert_eq!((ran.code, &parsed(&ran)["error"]["kind"]), (1, &json!("timeout")), "{ran:?}");
}

#[test]
fn nothing_reached_ends_with_three() {
    let place = native(&json!({"gone": {"command": "no-such-program-here"}}));
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
        let ran = place.run_with(&args, &[PATH]);
        assert_eq!(ran.code, 3, "{args:?} {ran:?}");
        assert!(ran.err.contains("cannot find the program `no-such-program-here`"), "{ran:?}");
    }
}

#[test]
fn a_tool_that_is_known_of_a_server_that_is_gone_ends_with_three() {
    let place = native(&json!({}));
    let shim = place.shim("once");
    let entry = json!({"command": shim.path, "lifecycle": {"connect": "on_first_call"}});
    let place =
        place.file("toolcrib.yaml", &json!({"version": 1, "servers": {"s": entry}}).to_string());
    assert_eq!(place.run_with(&["call", "s__echo"], &[PATH]).code, 0);
    fs::remove_file(&shim.path).unwrap();
    let begun = Instant::now();
    let ran = place.run_with(&["call", "s__echo", "--json"], &[PATH]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert_eq!(parsed(&ran)["error"]["kind"], "connection");
    assert!(begun.elapsed() < Duration::from_secs(15), "it was tried again and again");
    // And what is shown of it is as it was last seen, which is said.
    let ran = place.run_with(&["tools"], &[PATH]);
    assert!(ran.out.contains("s__echo") && ran.err.contains("shown as last seen: s"), "{ran:?}");
}
