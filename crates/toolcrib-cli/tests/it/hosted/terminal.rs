//! What only a terminal sees: colours, live progress, and foreign text without its power.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::json;
use toolcrib_testkit::scripted::{Script, Step};

use super::{demo, native, scripted};
use crate::{PROGRAM, Place};

/// What a terminal is sent by a command, errors and all.
fn on_terminal(place: &Place, args: &str) -> String {
    typed(place, &format!("--root . {args}"), "")
}

/// The same where somebody types something.
pub(super) fn typed(place: &Place, args: &str, keys: &str) -> String {
    let line = format!("{PROGRAM} {args}");
    let mut command = Command::new("script");
    command
        .args(["-qec", &line, "/dev/null"])
        .current_dir(place.root())
        .env_clear()
        .env("HOME", place.home())
        .env("PATH", "/usr/bin:/bin")
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("`script` of the package bsdutils is needed: {error}"));
    child.stdin.take().unwrap().write_all(keys.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
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
