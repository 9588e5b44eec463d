//! What only a terminal sees: colours, live progress, and foreign text without its power.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{PATH, codes, demo, native, parsed, scripted};
use crate::serving::Serving;
use crate::{NO_BUS, PROGRAM, Place};

/// Ctrl-C.
const INTERRUPT: &str = "\u{3}";

/// A command on a terminal of its own.
fn terminal(place: &Place, args: &str) -> Command {
    let mut command = Command::new("script");
    command
        .args(["-qec", &format!("{PROGRAM} {args}"), "/dev/null"])
        .current_dir(place.root())
        .env_clear()
        .env("HOME", place.home())
        .env("PATH", "/usr/bin:/bin")
        .env("TERM", "xterm")
        .env(NO_BUS.0, NO_BUS.1);
    command
}

/// What a terminal is sent by a command, errors and all.
fn on_terminal(place: &Place, args: &str) -> String {
    typed(place, &format!("--root . {args}"), "")
}

/// The same where somebody types something.
pub(super) fn typed(place: &Place, args: &str, keys: &str) -> String {
    let mut child = terminal(place, args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("`script` of the package bsdutils is needed: {error}"));
    child.stdin.take().unwrap().write_all(keys.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The same for a command that asks: each answer is typed when its question stands there.
fn answered(place: &Place, args: &str, answers: &[(&str, &str)]) -> String {
    let mut command = terminal(place, args);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut sent = Vec::new();
    let mut part = [0; 4096];
    let mut answers = answers.iter().peekable();
    loop {
        let said = String::from_utf8_lossy(&sent).into_owned();
        if let Some((_, answer)) = answers.next_if(|(question, _)| said.contains(question)) {
            // Whoever interrupts types nothing more.
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
fn an_input_is_asked_for_once_and_a_password_is_not_seen() {
    let inputs = json!([
        {"id": "key", "type": "promptString", "description": "The key", "password": true},
        {"id": "region", "type": "pickString", "description": "Where", "options": ["eu", "us"]},
    ]);
    let mut server = scripted(&Script::default());
    server["env"] = json!({"KEY": "${input:key}", "REGION": "${input:region}"});
    let text = json!({"inputs": inputs, "servers": {"s": server}}).to_string();
    let place = Place::new().file(".vscode/mcp.json", &text);
    let named = ["--config", ".vscode/mcp.json"];
    let run = |args: &[&str]| place.run_with(&[args, &named[..], &["--json"]].concat(), &[PATH]);
    let ran = run(&["doctor"]);
    let error = parsed(&ran)["servers"][0]["error"].take();
    assert_eq!(error["code"], "input.missing");
    assert!(error["fix"].as_str().unwrap().contains("`toolcrib login s` in a terminal"), "{error}");

    let args = "tools --config .vscode/mcp.json";
    let typed =
        [("The key (`key`, for server `s`): ", "c4nary"), ("2) us: ", "9"), ("none of", "2")];
    let sent = answered(&place, args, &typed);
    assert!(sent.contains("  1) eu\r\n  2) us: ") && sent.contains("s_"), "{sent:?}");
    assert!(!sent.contains("c4nary"), "{sent:?}");
    // Never again, wherever it is run.
    assert!(!on_terminal(&place, args).contains("The key"));
    let text = parsed(&run(&["call", "s__env"]))["text"].as_str().unwrap().to_owned();
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&told["env"]["KEY"], &told["env"]["REGION"]), (&json!("c4nary"), &json!("us")));
    let kept = parsed(&run(&["doctor"]));
    assert_eq!(kept["credentials"]["storage"], "file");
    assert_eq!(codes(&kept["problems"]), [] as [&str; 0]);
}

#[tokio::test]
async fn an_answer_can_be_changed_and_the_host_that_runs_takes_it() {
    let inputs = json!([
        {"id": "key", "type": "promptString", "description": "The key", "password": true},
        {"id": "both", "type": "promptString", "description": "For both"},
    ]);
    let server = |key: &str| {
        let mut server = scripted(&Script::default());
        server["env"] = json!({"KEY": key, "BOTH": "${input:both}"});
        server
    };
    let servers = json!({"s": server("${input:key}"), "t": server("x")});
    let text = json!({"inputs": inputs, "servers": servers}).to_string();
    let place = Place::new().file(".vscode/mcp.json", &text);
    let serving = Serving::start_with(place, &["--config", ".vscode/mcp.json"]).await;
    let place = &serving.place;
    let named = ["--config", ".vscode/mcp.json"];
    let run = |args: &[&str]| place.run_with(&[args, &named[..], &["--json"]].concat(), &[PATH]);
    let told = || {
        let text =
            parsed(&run(&["call", "s__env"]))["text"].as_str().unwrap_or_default().to_owned();
        serde_json::from_str::<Value>(&text).unwrap_or_default()["env"].take()
    };
    assert_eq!(told()["KEY"], Value::Null);
    let log_in = "login s --config .vscode/mcp.json";
    let sent = answered(place, log_in, &[("For both", "b"), ("The key", "wr0ng")]);
    assert!(sent.contains("`s` has the answers that it needs"), "{sent:?}");
    assert!(sent.contains("the host that runs has connected it"), "{sent:?}");
    assert_eq!((&told()["KEY"], &told()["BOTH"]), (&json!("wr0ng"), &json!("b")));

    let ran = parsed(&run(&["logout", "s"]));
    assert_eq!(ran["answers_forgotten"], 1, "the other is used by `t` as well: {ran}");
    assert_eq!(told()["KEY"], Value::Null, "its sessions have ended");
    let sent = answered(place, log_in, &[("The key", "r1ght")]);
    assert!(!sent.contains("For both"), "{sent:?}");
    assert_eq!((&told()["KEY"], &told()["BOTH"]), (&json!("r1ght"), &json!("b")));
    serving.end().await;
}

#[test]
fn whoever_interrupts_a_login_is_told_what_it_has_changed() {
    let inputs = json!([
        {"id": "one", "type": "promptString", "description": "The first"},
        {"id": "two", "type": "promptString", "description": "The second"},
    ]);
    let mut server = scripted(&Script::default());
    server["env"] = json!({"ONE": "${input:one}", "TWO": "${input:two}"});
    let text = json!({"inputs": inputs, "servers": {"s": server}}).to_string();
    let place = Place::new().file(".vscode/mcp.json", &text);
    let args = "login s --config .vscode/mcp.json";
    let sent = answered(&place, args, &[("The first", INTERRUPT)]);
    assert!(sent.contains("interrupted: nothing has changed"), "{sent:?}");
    let sent = answered(&place, args, &[("The first", "1"), ("The second", INTERRUPT)]);
    assert!(sent.contains("interrupted: the answer to `one` is kept"), "{sent:?}");
    let sent = answered(&place, args, &[("The second", "2")]);
    assert!(sent.contains("`s` has the answers that it needs"), "{sent:?}");
}

#[test]
fn progress_is_one_line_that_is_written_over() {
    let place = native(&json!({"demo": demo()}));
    let sent = on_terminal(&place, "call demo__slow -a seconds=0.5");
    assert!(sent.contains("\r\u{1b}[2Kcalling demo__slow"), "{sent:?}");
    assert!(sent.contains("\r\u{1b}[2Kdemo__slow: "), "{sent:?}");
    assert!(sent.contains("up, starting demo"), "{sent:?}");
    // The line is free again before the result.
    assert!(sent.ends_with("\r\u{1b}[2KThat took 0.5 seconds.\r\n"), "{sent:?}");
    let quiet = on_terminal(&place, "call -q demo__slow -a seconds=0.2");
    assert_eq!(quiet, "That took 0.2 seconds.\r\n");
}

#[test]
fn dis_44_a_result_cannot_command_the_terminal() {
    let result = json!({"resultType": "complete",
        "content": [{"type": "text", "text": "a\u{1b}]0;owned\u{7}b\n\tc"}]});
    let script = Script::default().on("tools/call t", [Step::Result(result)]);
    let place = native(&json!({"s": scripted(&script)}));
    let sent = on_terminal(&place, "call -q s__t");
    assert_eq!(sent, "a\\u{1b}]0;owned\\u{7}b\r\n\tc\r\n"); // DIS-44
}

#[test]
fn a_table_has_colours_there() {
    let place = native(&json!({"demo": demo()}));
    let sent = on_terminal(&place, "servers -q");
    assert!(sent.contains("\u{1b}[1m\u{1b}[32mready\u{1b}[0m"), "{sent:?}");
}
