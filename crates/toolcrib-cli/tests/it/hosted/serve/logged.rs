//! The log of `toolcrib serve` without `-v`.

use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::ChildStderr;
use toolcrib_testkit::scripted::Script;

use super::{Served, tell, within};
use crate::Place;
use crate::hosted::{demo, native, scripted};

pub(super) type Log = Lines<BufReader<ChildStderr>>;

pub(super) fn log_of(served: &mut Served) -> Log {
    BufReader::new(served.child.stderr.take().unwrap()).lines()
}

/// The next line that contains all of these words.
pub(super) async fn line(log: &mut Log, words: &[&str]) -> String {
    loop {
        let line = within(log.next_line()).await.unwrap().unwrap();
        if words.iter().all(|word| line.contains(word)) {
            return line;
        }
    }
}

#[tokio::test]
async fn dom_102_each_failed_reload_is_logged_without_verbosity() {
    let place = native(&json!({"a": scripted(&Script::default())}));
    let mut served = Served::start(&place).await;
    let mut log = log_of(&mut served);
    let place = place.file("toolcrib.yaml", "version: [");
    for _ in 0..3 {
        assert_eq!(place.run(&["reload"]).code, 1);
        let told = line(&mut log, &["toolcrib.yaml:1:"]).await;
        assert!(told.starts_with("error: "), "{told}"); // DOM-102
    }
}

#[tokio::test]
async fn dom_102_each_failed_start_is_logged_without_verbosity() {
    let place = native(&json!({"a": {"command": "no-such-program-1"}}));
    let mut served = Served::start(&place).await;
    let mut log = log_of(&mut served);
    let failed = |name: &'static str| ["the server is down", "server=a", name];
    line(&mut log, &failed("no-such-program-1")).await; // DOM-102
    for name in ["no-such-program-2", "no-such-program-3"] {
        let file = json!({"version": 1, "servers": {"a": {"command": name}}});
        std::fs::write(place.root().join("toolcrib.yaml"), file.to_string()).unwrap();
        assert_eq!(place.run(&["reload"]).code, 1);
        line(&mut log, &failed(name)).await; // DOM-102
    }
}

#[tokio::test]
async fn dom_102_collisions_and_filtered_tools_are_logged_without_verbosity() {
    let entry = |denied: &[&str]| {
        let mut entry = scripted(&Script::default());
        entry["transport"] = json!("stdio");
        entry["tools"] = json!({"blacklist": denied});
        entry
    };
    let servers = json!({"one": entry(&["fail"]), "two": entry(&["env", "fail"])});
    let file = json!({"version": 1, "servers": servers}).to_string();
    let place = Place::new().file(".minds/mcp.yaml", &file);
    let mut served = Served::start(&place).await;
    let mut log = log_of(&mut served);
    let mut seen = Vec::new();
    // The order of the servers' starts decides which problem comes first, so they are gathered.
    while seen.len() < 4 {
        let told = line(&mut log, &["is not offered"]).await;
        assert!(told.starts_with("warn: .minds/mcp.yaml:"), "{told}"); // DOM-102
        seen.push(told);
    }
    let is_told =
        |words: [&str; 3]| seen.iter().any(|it| words.iter().all(|word| it.contains(word)));
    assert!(is_told(["`fail`", "`one`", "filter.denied"]), "{seen:#?}");
    assert!(is_told(["`fail`", "`two`", "filter.denied"]), "{seen:#?}");
    assert!(is_told(["`env`", "`two`", "filter.denied"]), "{seen:#?}");
    assert!(is_told(["`echo`", "`two`", "name.collision"]), "{seen:#?}");
}

/// Two servers with the same resources, after so many empty lines, so that every place in the file moves.
fn colliding(empty_lines: usize) -> String {
    let servers = json!({"one": demo(), "two": demo(), "off": {"command": "x", "enabled": false, "no-such-key": 1}});
    let file = json!({"version": 1, "servers": servers});
    "\n".repeat(empty_lines) + &file.to_string()
}

#[tokio::test]
async fn reload_logs_a_known_warning_no_second_time() {
    let place = native(&json!({})).file("toolcrib.yaml", &colliding(0));
    let mut served = Served::start(&place).await;
    let mut log = log_of(&mut served);
    for code in ["uri.collision", "uri.collision"] {
        line(&mut log, &[code]).await;
    }
    for empty_lines in 1..4 {
        std::fs::write(place.root().join("toolcrib.yaml"), colliding(empty_lines)).unwrap();
        place.json(&["reload"]);
    }
    tell(served.pid(), Signal::TERM);
    let mut rest = Vec::new();
    while let Some(line) = within(log.next_line()).await.unwrap() {
        rest.push(line);
    }
    let again = |code: &str| rest.iter().filter(|line| line.contains(code)).count();
    assert_eq!(again("uri.collision"), 0, "{rest:#?}");
    assert!(again("no-such-key") <= 1, "{rest:#?}");
}

/// A client that never reads its server's standard error must not bring the host to a halt.
#[tokio::test]
async fn a_log_that_nobody_reads_holds_up_no_call() {
    let place = native(&json!({"a": scripted(&Script::default())}));
    let served = Served::start(&place).await;
    served.post("/api/v1/dialogs", &json!({"id": "d"})).await;
    // More than a pipe holds.
    let name = "x".repeat(4000);
    for _ in 0..40 {
        let answer = served.post("/api/v1/dialogs/d/calls", &json!({"tool": name})).await;
        assert!(answer.contains("unknown_tool"), "{answer}");
    }
    assert_eq!(served.end(Signal::TERM).await, Some(0));
}
