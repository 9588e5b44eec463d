//! Tests the start-up limit of silent servers: shared by all waiters, and remembered for the next host.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use toolcrib_testkit::http::{HttpServer, ScriptedResponse};
use toolcrib_testkit::scripted::{Script, Step, server_binary};

use super::{ServeProcess, wait_until_async};
use crate::TestWorkspace;

const LIMIT: Duration = Duration::from_secs(2);

/// Scheduling delay on a busy machine.
const SCHEDULING: Duration = Duration::from_millis(800);

/// Asserts that a wait ended with its limit.
fn assert_limit(elapsed_time: Duration, limit: Duration, what: &str) {
    assert!(elapsed_time >= limit.mul_f64(0.9), "{what}: {elapsed_time:?} for {limit:?}");
    assert!(
        elapsed_time <= limit.mul_f64(1.2) + SCHEDULING,
        "{what}: {elapsed_time:?} for {limit:?}"
    );
}

/// A server that records its starts in a file.
struct CountedServer {
    workspace: TestWorkspace,
    starts: PathBuf,
}

impl CountedServer {
    fn new(script: &Script) -> Self {
        let workspace = TestWorkspace::new();
        let starts = workspace.sibling_path("starts");
        let run = format!("echo started >> '{}'; exec \"$0\" \"$1\"", starts.display());
        let entry = json!({"command": "/bin/sh", "args": ["-c", run, server_binary().unwrap(), script.to_json()],
            "profile": "dispatch", "timeouts": {"startup": "2s"}});
        let file = json!({"version": 1, "servers": {"s": entry}}).to_string();
        CountedServer { workspace: workspace.with_file("toolcrib.yaml", &file), starts }
    }

    fn starts(&self) -> usize {
        std::fs::read_to_string(&self.starts).unwrap_or_default().lines().count()
    }
}

async fn get(served: &ServeProcess, path: &str) -> Value {
    body(&served.request_as_owner("GET", path, "").await)
}

fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|why| panic!("{why}: {answer}"))
}

/// Number of listed server tools, and the duration of the request.
async fn list(served: &ServeProcess) -> (usize, Duration) {
    let started_at = Instant::now();
    let listed = get(served, "tools").await;
    let tools = listed["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    let of_server = tools.iter().filter(|tool| tool["name"].as_str().unwrap().starts_with("s__"));
    (of_server.count(), started_at.elapsed())
}

/// The error of a failing connect, and its duration.
async fn connect(served: &ServeProcess, server: &str) -> (Value, Duration) {
    let started_at = Instant::now();
    let answer = served.request_as_owner("POST", &format!("servers/{server}/connect"), "{}").await;
    let elapsed_time = started_at.elapsed();
    let report = body(&answer);
    assert_eq!(report["ok"], false, "{report:#}");
    (report["error"].clone(), elapsed_time)
}

#[tokio::test]
async fn dis_52_next_host_uses_content_length_at_once() {
    let server = CountedServer::new(&Script { content_length: true, ..Script::default() });
    let served = ServeProcess::start(&server.workspace).await;
    let (tools, elapsed_time) = list(&served).await;
    assert_eq!(tools, 0, "DIS-53");
    assert_limit(elapsed_time, LIMIT, "the first list");
    wait_until_async(async || get(&served, "servers/s").await["state"] == "ready").await;
    assert_eq!((list(&served).await.0, server.starts()), (3, 2));
    served.stop(Signal::TERM).await;

    let served = ServeProcess::start(&server.workspace).await;
    let (tools, elapsed_time) = list(&served).await;
    assert_eq!((tools, server.starts()), (3, 3), "DIS-52");
    assert!(elapsed_time < LIMIT, "DIS-52: {elapsed_time:?}");
    served.stop(Signal::TERM).await;
}

#[tokio::test]
async fn dis_53_silent_server_costs_one_limit_shared_by_all_waiters() {
    let silent = Script::default()
        .on("server/discover", [Step::Sleep(600_000)])
        .on("initialize", [Step::Sleep(600_000)]);
    let server = CountedServer::new(&silent);
    let served = ServeProcess::start(&server.workspace).await;
    for (tools, elapsed_time) in <[_; 2]>::from(tokio::join!(list(&served), list(&served))) {
        assert_eq!(tools, 0);
        assert_limit(elapsed_time, LIMIT, "concurrent lists");
    }
    // Later requests do not wait for the attempt with Content-Length.
    wait_until_async(async || server.starts() == 2).await;
    let (_, elapsed_time) = list(&served).await;
    assert!(elapsed_time < LIMIT / 2, "DIS-53: {elapsed_time:?}");
    let (error, elapsed_time) = connect(&served, "s").await;
    assert!(elapsed_time < LIMIT / 2, "DIS-53: {elapsed_time:?}");
    assert_eq!(error["kind"], "timeout", "{error:#}");
    assert_eq!(get(&served, "servers/s").await["state"], "failed");
    // The attempt has its own limit, after which its process ends.
    tokio::time::sleep(LIMIT + SCHEDULING).await;
    wait_until_async(async || get(&served, "servers/s").await["pid"].is_null()).await;
    assert_eq!(server.starts(), 2, "DIS-53");
    // The attempt is not repeated for this definition.
    let (_, elapsed_time) = connect(&served, "s").await;
    assert_limit(elapsed_time, LIMIT, "an explicit connect");
    tokio::time::sleep(2 * SCHEDULING).await;
    assert_eq!(server.starts(), 3, "DIS-53");
    served.stop(Signal::TERM).await;
}

/// HoloDeck's `timeout` over HTTP and SSE, with a server that accepts connections and never answers.
#[tokio::test]
async fn hol_45_connect_timeout_of_url_includes_no_diagnosis_time() {
    let far = HttpServer::start(|_| ScriptedResponse::unanswered()).await.unwrap();
    let mut file = "tools:\n".to_owned();
    let mut servers = Vec::new();
    for (number, limit) in [0.5, 1.5, 3.0].into_iter().enumerate() {
        for transport in ["http", "sse"] {
            let (name, url) = (format!("{transport}{number}"), far.url("/mcp"));
            file += &format!(
                "  - {{ name: {name}, description: d, type: mcp, server: s, transport: {transport}, url: '{url}', timeout: {limit} }}\n"
            );
            servers.push((name, Duration::from_secs_f64(limit)));
        }
    }
    let workspace = TestWorkspace::new().with_file("agent.yaml", &file);
    let served = ServeProcess::start(&workspace).await;
    for (name, limit) in &servers {
        let (error, elapsed_time) = connect(&served, name).await;
        assert_eq!(error["kind"], "timeout", "{error:#}");
        assert_limit(elapsed_time, *limit, name); // HOL-45
    }
    for (name, _) in &servers {
        wait_until_async(async || {
            let status = get(&served, &format!("servers/{name}")).await;
            let text = status["last_error"].as_str().unwrap_or_default();
            assert_eq!(status["state"], "failed", "{status:#}");
            text.contains("likely cause: the server accepts connections")
        })
        .await;
    }
    served.stop(Signal::TERM).await;
}

/// Minion's `ConnectTimeout` of a process that ignores the end of its input and SIGTERM.
#[tokio::test]
async fn hol_45_startup_limit_excludes_time_to_end_process() {
    let stubborn = Script { ignore_end: true, ignore_sigterm: true, ..Script::default() }
        .start([Step::Stderr("about to hang".to_owned())])
        .on("server/discover", [Step::Sleep(600_000)])
        .on("initialize", [Step::Sleep(600_000)]);
    let limits = [("a", 500), ("b", 1500), ("c", 3000)];
    let servers = limits.map(|(name, limit)| {
        json!({"ServerName": name, "Description": name, "Transport": "stdio",
            "Command": server_binary().unwrap(), "Args": [stubborn.to_json()],
            "ConnectTimeout": format!("{limit}ms")})
    });
    let file = json!({"Manager": {"RetryPolicy": {"MaxRetries": 0}}, "Servers": servers});
    let workspace = TestWorkspace::new().with_file("minion.json", &file.to_string());
    let flags = ["--config", "minion.json", "--dialect", "minion"];
    let served = ServeProcess::start_with(&workspace, &flags).await;
    for (name, limit) in limits {
        let (error, elapsed_time) = connect(&served, name).await;
        assert_limit(elapsed_time, Duration::from_millis(limit), name); // HOL-45
        let text = error["text"].as_str().unwrap_or_default();
        assert!(text.contains("not ready within"), "{error:#}");
        let log = served.request_as_owner("GET", &format!("servers/{name}/log"), "").await;
        assert!(log.contains("about to hang"), "{log}");
    }
    served.stop(Signal::TERM).await;
}
