//! Tests the log of `toolcrib serve` without `-v`.

use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::ChildStderr;
use toolcrib_testkit::scripted::Script;

use super::{ServeProcess, send_signal, with_time_limit};
use crate::TestWorkspace;
use crate::server_commands::{demo_server, native_workspace, scripted_server};

pub(super) type Log = Lines<BufReader<ChildStderr>>;

pub(super) fn log_of(served: &mut ServeProcess) -> Log {
    BufReader::new(served.child.stderr.take().unwrap()).lines()
}

/// The next line with all of these texts.
pub(super) async fn line(log: &mut Log, words: &[&str]) -> String {
    loop {
        let line = with_time_limit(log.next_line()).await.unwrap().unwrap();
        if words.iter().all(|word| line.contains(word)) {
            return line;
        }
    }
}

#[tokio::test]
async fn dom_102_each_failed_reload_is_logged_without_verbosity() {
    let workspace = native_workspace(&json!({"a": scripted_server(&Script::default())}));
    let mut served = ServeProcess::start(&workspace).await;
    let mut log = log_of(&mut served);
    let workspace = workspace.with_file("toolcrib.yaml", "version: [");
    for _ in 0..3 {
        assert_eq!(workspace.run(&["reload"]).code, 1);
        let report = line(&mut log, &["toolcrib.yaml:1:"]).await;
        assert!(report.starts_with("error: "), "{report}"); // DOM-102
    }
}

#[tokio::test]
async fn dom_102_each_failed_start_is_logged_without_verbosity() {
    let workspace = native_workspace(&json!({"a": {"command": "no-such-program-1"}}));
    let mut served = ServeProcess::start(&workspace).await;
    let mut log = log_of(&mut served);
    let failed = |name: &'static str| ["the server is down", "server=a", name];
    line(&mut log, &failed("no-such-program-1")).await; // DOM-102
    for name in ["no-such-program-2", "no-such-program-3"] {
        let file = json!({"version": 1, "servers": {"a": {"command": name}}});
        std::fs::write(workspace.root().join("toolcrib.yaml"), file.to_string()).unwrap();
        assert_eq!(workspace.run(&["reload"]).code, 1);
        line(&mut log, &failed(name)).await; // DOM-102
    }
}

#[tokio::test]
async fn dom_102_collisions_and_filtered_tools_are_logged_without_verbosity() {
    let entry = |denied: &[&str]| {
        let mut entry = scripted_server(&Script::default());
        entry["transport"] = json!("stdio");
        entry["tools"] = json!({"blacklist": denied});
        entry
    };
    let servers = json!({"one": entry(&["fail"]), "two": entry(&["env", "fail"])});
    let file = json!({"version": 1, "servers": servers}).to_string();
    let workspace = TestWorkspace::new().with_file(".minds/mcp.yaml", &file);
    let mut served = ServeProcess::start(&workspace).await;
    let mut log = log_of(&mut served);
    let mut seen = Vec::new();
    // Collects the lines, because their order depends on the start order of the servers.
    while seen.len() < 4 {
        let report = line(&mut log, &["is not offered"]).await;
        assert!(report.starts_with("warn: .minds/mcp.yaml:"), "{report}"); // DOM-102
        seen.push(report);
    }
    let is_told =
        |words: [&str; 3]| seen.iter().any(|it| words.iter().all(|word| it.contains(word)));
    assert!(is_told(["`fail`", "`one`", "filter.denied"]), "{seen:#?}");
    assert!(is_told(["`fail`", "`two`", "filter.denied"]), "{seen:#?}");
    assert!(is_told(["`env`", "`two`", "filter.denied"]), "{seen:#?}");
    assert!(is_told(["`echo`", "`two`", "name.collision"]), "{seen:#?}");
}

/// Two servers with colliding resources after this many empty lines, so that all locations change.
fn colliding(empty_lines: usize) -> String {
    let servers = json!({"one": demo_server(), "two": demo_server(), "off": {"command": "x", "enabled": false, "no-such-key": 1}});
    let file = json!({"version": 1, "servers": servers});
    "\n".repeat(empty_lines) + &file.to_string()
}

#[tokio::test]
async fn reload_logs_known_warning_once() {
    let workspace = native_workspace(&json!({})).with_file("toolcrib.yaml", &colliding(0));
    let mut served = ServeProcess::start(&workspace).await;
    let mut log = log_of(&mut served);
    for code in ["uri.collision", "uri.collision"] {
        line(&mut log, &[code]).await;
    }
    for empty_lines in 1..4 {
        std::fs::write(workspace.root().join("toolcrib.yaml"), colliding(empty_lines)).unwrap();
        workspace.json(&["reload"]);
    }
    send_signal(served.pid(), Signal::TERM);
    let mut rest = Vec::new();
    while let Some(line) = with_time_limit(log.next_line()).await.unwrap() {
        rest.push(line);
    }
    let again = |code: &str| rest.iter().filter(|line| line.contains(code)).count();
    assert_eq!(again("uri.collision"), 0, "{rest:#?}");
    assert!(again("no-such-key") <= 1, "{rest:#?}");
}

/// A client that does not read its server's stderr must not block the host.
#[tokio::test]
async fn unread_log_does_not_block_calls() {
    let workspace = native_workspace(&json!({"a": scripted_server(&Script::default())}));
    let served = ServeProcess::start(&workspace).await;
    served.post("/api/v1/dialogs", &json!({"id": "d"})).await;
    // More than a pipe holds.
    let name = "x".repeat(4000);
    for _ in 0..40 {
        let answer = served.post("/api/v1/dialogs/d/calls", &json!({"tool": name})).await;
        assert!(answer.contains("unknown_tool"), "{answer}");
    }
    assert_eq!(served.stop(Signal::TERM).await, Some(0));
}
