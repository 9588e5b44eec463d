//! Tests terminal output: colours, live progress and escaped text.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{PATH, codes, demo_server, native_workspace, parse_json, scripted_server};
use crate::test_gateway::TestGateway;
use crate::{NO_BUS, PROGRAM, TestWorkspace};

/// Ctrl-C.
const INTERRUPT: &str = "\u{3}";

/// A command on its own terminal.
fn terminal_command(workspace: &TestWorkspace, args: &str) -> Command {
    let mut command = Command::new("script");
    command
        .args(["-qec", &format!("{PROGRAM} {args}"), "/dev/null"])
        .current_dir(workspace.root())
        .env_clear()
        .env("HOME", workspace.home())
        .env("PATH", "/usr/bin:/bin")
        .env("TERM", "xterm")
        .env(NO_BUS.0, NO_BUS.1);
    command
}

/// The terminal output of a command, stderr included.
fn run_on_terminal(workspace: &TestWorkspace, args: &str) -> String {
    run_with_keys(workspace, &format!("--root . {args}"), "")
}

/// The terminal output of a command with typed input.
pub(super) fn run_with_keys(workspace: &TestWorkspace, args: &str, keys: &str) -> String {
    let mut child = terminal_command(workspace, args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("`script` of the package bsdutils is needed: {error}"));
    child.stdin.take().unwrap().write_all(keys.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The terminal output of a command with prompts: each answer is typed when its prompt appears.
fn run_with_answers(workspace: &TestWorkspace, args: &str, answers: &[(&str, &str)]) -> String {
    let mut command = terminal_command(workspace, args);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut sent = Vec::new();
    let mut part = [0; 4096];
    let mut answers = answers.iter().peekable();
    loop {
        let printed = String::from_utf8_lossy(&sent).into_owned();
        if let Some((_, answer)) = answers.next_if(|(question, _)| printed.contains(question)) {
            // After Ctrl-C no line break is typed.
            let end = if *answer == INTERRUPT { "" } else { "\n" };
            stdin.write_all(format!("{answer}{end}").as_bytes()).unwrap();
            continue;
        }
        match stdout.read(&mut part).unwrap() {
            0 => break,
            count => sent.extend_from_slice(&part[..count]),
        }
    }
    child.wait().unwrap();
    String::from_utf8_lossy(&sent).into_owned()
}

#[test]
fn input_is_prompted_once_and_password_is_hidden() {
    let inputs = json!([
        {"id": "key", "type": "promptString", "description": "The key", "password": true},
        {"id": "region", "type": "pickString", "description": "Where", "options": ["eu", "us"]},
    ]);
    let mut server = scripted_server(&Script::default());
    server["env"] = json!({"KEY": "${input:key}", "REGION": "${input:region}"});
    let text = json!({"inputs": inputs, "servers": {"s": server}}).to_string();
    let workspace = TestWorkspace::new().with_file(".vscode/mcp.json", &text);
    let named = ["--config", ".vscode/mcp.json"];
    let run =
        |args: &[&str]| workspace.run_with_env(&[args, &named[..], &["--json"]].concat(), &[PATH]);
    let ran = run(&["doctor"]);
    let error = parse_json(&ran)["servers"][0]["error"].take();
    assert_eq!(error["code"], "input.missing");
    assert!(error["fix"].as_str().unwrap().contains("`toolcrib login s` in a terminal"), "{error}");

    let args = "tools --config .vscode/mcp.json";
    let typed =
        [("The key (`key`, for server `s`): ", "c4nary"), ("2) us: ", "9"), ("not one of", "2")];
    let sent = run_with_answers(&workspace, args, &typed);
    assert!(sent.contains("  1) eu\r\n  2) us: ") && sent.contains("s_"), "{sent:?}");
    assert!(!sent.contains("c4nary"), "{sent:?}");
    // The input is not asked for again.
    assert!(!run_on_terminal(&workspace, args).contains("The key"));
    let text = parse_json(&run(&["call", "s__env"]))["text"].as_str().unwrap().to_owned();
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&report["env"]["KEY"], &report["env"]["REGION"]), (&json!("c4nary"), &json!("us")));
    let kept = parse_json(&run(&["doctor"]));
    assert_eq!(kept["credentials"]["storage"], "file");
    assert_eq!(codes(&kept["problems"]), [] as [&str; 0]);
}

#[tokio::test]
async fn changed_input_is_applied_by_running_host() {
    let inputs = json!([
        {"id": "key", "type": "promptString", "description": "The key", "password": true},
        {"id": "both", "type": "promptString", "description": "For both"},
    ]);
    let server = |key: &str| {
        let mut server = scripted_server(&Script::default());
        server["env"] = json!({"KEY": key, "BOTH": "${input:both}"});
        server
    };
    let servers = json!({"s": server("${input:key}"), "t": server("x")});
    let text = json!({"inputs": inputs, "servers": servers}).to_string();
    let workspace = TestWorkspace::new().with_file(".vscode/mcp.json", &text);
    let gateway = TestGateway::start_with_args(workspace, &["--config", ".vscode/mcp.json"]).await;
    let workspace = &gateway.workspace;
    let named = ["--config", ".vscode/mcp.json"];
    let run =
        |args: &[&str]| workspace.run_with_env(&[args, &named[..], &["--json"]].concat(), &[PATH]);
    let report = || {
        let text =
            parse_json(&run(&["call", "s__env"]))["text"].as_str().unwrap_or_default().to_owned();
        serde_json::from_str::<Value>(&text).unwrap_or_default()["env"].take()
    };
    assert_eq!(report()["KEY"], Value::Null);
    let log_in = "login s --config .vscode/mcp.json";
    let sent = run_with_answers(workspace, log_in, &[("For both", "b"), ("The key", "wr0ng")]);
    assert!(sent.contains("`s` has the answers that it needs"), "{sent:?}");
    assert!(sent.contains("the running host has connected the server"), "{sent:?}");
    assert_eq!((&report()["KEY"], &report()["BOTH"]), (&json!("wr0ng"), &json!("b")));

    let ran = parse_json(&run(&["logout", "s"]));
    assert_eq!(ran["answers_forgotten"], 1, "`t` uses the other input as well: {ran}");
    assert_eq!(report()["KEY"], Value::Null, "its sessions are closed");
    let sent = run_with_answers(workspace, log_in, &[("The key", "r1ght")]);
    assert!(!sent.contains("For both"), "{sent:?}");
    assert_eq!((&report()["KEY"], &report()["BOTH"]), (&json!("r1ght"), &json!("b")));
    gateway.stop().await;
}

#[test]
fn interrupted_login_reports_kept_inputs() {
    let inputs = json!([
        {"id": "one", "type": "promptString", "description": "The first"},
        {"id": "two", "type": "promptString", "description": "The second"},
    ]);
    let mut server = scripted_server(&Script::default());
    server["env"] = json!({"ONE": "${input:one}", "TWO": "${input:two}"});
    let text = json!({"inputs": inputs, "servers": {"s": server}}).to_string();
    let workspace = TestWorkspace::new().with_file(".vscode/mcp.json", &text);
    let args = "login s --config .vscode/mcp.json";
    let sent = run_with_answers(&workspace, args, &[("The first", INTERRUPT)]);
    assert!(sent.contains("interrupted: nothing has changed"), "{sent:?}");
    let sent = run_with_answers(&workspace, args, &[("The first", "1"), ("The second", INTERRUPT)]);
    assert!(sent.contains("interrupted: the answer to `one` is stored"), "{sent:?}");
    let sent = run_with_answers(&workspace, args, &[("The second", "2")]);
    assert!(sent.contains("`s` has the answers that it needs"), "{sent:?}");
}

#[test]
fn progress_overwrites_one_terminal_line() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let sent = run_on_terminal(&workspace, "call demo__slow -a seconds=0.5");
    assert!(sent.contains("\r\u{1b}[2Kcalling demo__slow"), "{sent:?}");
    assert!(sent.contains("\r\u{1b}[2Kdemo__slow: "), "{sent:?}");
    assert!(sent.contains("up, starting demo"), "{sent:?}");
    // The progress line is cleared before the result.
    assert!(sent.ends_with("\r\u{1b}[2KThat took 0.5 seconds.\r\n"), "{sent:?}");
    let quiet = run_on_terminal(&workspace, "call -q demo__slow -a seconds=0.2");
    assert_eq!(quiet, "That took 0.2 seconds.\r\n");
}

#[test]
fn dis_44_control_characters_in_results_are_escaped_on_terminal() {
    let result = json!({"resultType": "complete",
        "content": [{"type": "text", "text": "a\u{1b}]0;owned\u{7}b\n\tc"}]});
    let script = Script::default().on("tools/call t", [Step::Result(result)]);
    let workspace = native_workspace(&json!({"s": scripted_server(&script)}));
    let sent = run_on_terminal(&workspace, "call -q s__t");
    assert_eq!(sent, "a\\u{1b}]0;owned\\u{7}b\r\n\tc\r\n"); // DIS-44
}

#[test]
fn tables_are_coloured_on_terminal() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let sent = run_on_terminal(&workspace, "servers -q");
    assert!(sent.contains("\u{1b}[1m\u{1b}[32mready\u{1b}[0m"), "{sent:?}");
}
