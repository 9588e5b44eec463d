//! The start-up limit of a server that says nothing: it holds, once for all who wait, and once for all hosts.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use toolcrib_testkit::http::{HttpServer, Reply};
use toolcrib_testkit::scripted::{Script, Step, program};

use super::{Served, until_async};
use crate::Place;

const LIMIT: Duration = Duration::from_secs(2);

/// What a loaded machine may add to any wait.
const SCHEDULING: Duration = Duration::from_millis(800);

/// Asserts that a wait ended with its limit.
fn assert_limit(took: Duration, limit: Duration, what: &str) {
    assert!(took >= limit.mul_f64(0.9), "{what}: {took:?} for {limit:?}");
    assert!(took <= limit.mul_f64(1.2) + SCHEDULING, "{what}: {took:?} for {limit:?}");
}

/// A server whose starts are counted in a file.
struct Counted {
    place: Place,
    starts: PathBuf,
}

impl Counted {
    fn new(script: &Script) -> Self {
        let place = Place::new();
        let starts = place.beside("starts");
        let run = format!("echo started >> '{}'; exec \"$0\" \"$1\"", starts.display());
        let entry = json!({"command": "/bin/sh", "args": ["-c", run, program().unwrap(), script.to_json()],
            "profile": "dispatch", "timeouts": {"startup": "2s"}});
        let file = json!({"version": 1, "servers": {"s": entry}}).to_string();
        Counted { place: place.file("toolcrib.yaml", &file), starts }
    }

    fn starts(&self) -> usize {
        std::fs::read_to_string(&self.starts).unwrap_or_default().lines().count()
    }
}

async fn get(served: &Served, path: &str) -> Value {
    body(&served.owner("GET", path, "").await)
}

fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|why| panic!("{why}: {answer}"))
}

/// How many tools of servers are listed, and how long that took.
async fn list(served: &Served) -> (usize, Duration) {
    let begun = Instant::now();
    let listed = get(served, "tools").await;
    let tools = listed["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    let of_server = tools.iter().filter(|tool| tool["name"].as_str().unwrap().starts_with("s__"));
    (of_server.count(), begun.elapsed())
}

/// The message of a connect that must fail, and how long it took.
async fn connect(served: &Served, server: &str) -> (Value, Duration) {
    let begun = Instant::now();
    let answer = served.owner("POST", &format!("servers/{server}/connect"), "{}").await;
    let took = begun.elapsed();
    let told = body(&answer);
    assert_eq!(told["ok"], false, "{told:#}");
    (told["error"].clone(), took)
}

#[tokio::test]
async fn dis_52_a_second_host_speaks_content_length_at_once() {
    let counted = Counted::new(&Script { content_length: true, ..Script::default() });
    let served = Served::start(&counted.place).await;
    let (tools, took) = list(&served).await;
    assert_eq!(tools, 0, "DIS-53");
    assert_limit(took, LIMIT, "the first list");
    until_async(async || get(&served, "servers/s").await["state"] == "ready").await;
    assert_eq!((list(&served).await.0, counted.starts()), (3, 2));
    served.end(Signal::TERM).await;

    let served = Served::start(&counted.place).await;
    let (tools, took) = list(&served).await;
    assert_eq!((tools, counted.starts()), (3, 3), "DIS-52");
    assert!(took < LIMIT, "DIS-52: {took:?}");
    served.end(Signal::TERM).await;
}

#[tokio::test]
async fn dis_53_a_silent_server_costs_one_limit_once_for_all_who_wait() {
    let silent = Script::default()
        .on("server/discover", [Step::Sleep(600_000)])
        .on("initialize", [Step::Sleep(600_000)]);
    let counted = Counted::new(&silent);
    let served = Served::start(&counted.place).await;
    for (tools, took) in <[_; 2]>::from(tokio::join!(list(&served), list(&served))) {
        assert_eq!(tools, 0);
        assert_limit(took, LIMIT, "lists that wait together");
    }
    // The next ones do not wait for the attempt with Content-Length.
    until_async(async || counted.starts() == 2).await;
    let (_, took) = list(&served).await;
    assert!(took < LIMIT / 2, "DIS-53: {took:?}");
    let (error, took) = connect(&served, "s").await;
    assert!(took < LIMIT / 2, "DIS-53: {took:?}");
    assert_eq!(error["kind"], "timeout", "{error:#}");
    assert_eq!(get(&served, "servers/s").await["state"], "failed");
    // The attempt ends after a limit of its own, and the process with it.
    tokio::time::sleep(LIMIT + SCHEDULING).await;
    until_async(async || get(&served, "servers/s").await["pid"].is_null()).await;
    assert_eq!(counted.starts(), 2, "DIS-53");
    // The attempt is not made again for this definition.
    let (_, took) = connect(&served, "s").await;
    assert_limit(took, LIMIT, "a connect that somebody asks for");
    tokio::time::sleep(2 * SCHEDULING).await;
    assert_eq!(counted.starts(), 3, "DIS-53");
    served.end(Signal::TERM).await;
}

/// HoloDeck's `timeout`: over HTTP and SSE, to a server that accepts connections and answers nothing.
#[tokio::test]
async fn hol_45_the_timeout_of_an_address_holds_with_the_diagnosis_after_it() {
    let far = HttpServer::start(|_| Reply::never()).await.unwrap();
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
    let place = Place::new().file("agent.yaml", &file);
    let served = Served::start(&place).await;
    for (name, limit) in &servers {
        let (error, took) = connect(&served, name).await;
        assert_eq!(error["kind"], "timeout", "{error:#}");
        assert_limit(took, *limit, name); // HOL-45
    }
    for (name, _) in &servers {
        until_async(async || {
            let status = get(&served, &format!("servers/{name}")).await;
            let text = status["last_error"].as_str().unwrap_or_default();
            assert_eq!(status["state"], "failed", "{status:#}");
            text.contains("likely cause: the server accepts connections")
        })
        .await;
    }
    served.end(Signal::TERM).await;
}

/// The same limit of a process, by Minion's `ConnectTimeout`. It heeds neither the end of its input nor SIGTERM.
#[tokio::test]
async fn hol_45_the_start_up_limit_of_a_process_holds_however_long_it_takes_to_end() {
    let stubborn = Script { ignore_end: true, ignore_sigterm: true, ..Script::default() }
        .start([Step::Stderr("about to hang".to_owned())])
        .on("server/discover", [Step::Sleep(600_000)])
        .on("initialize", [Step::Sleep(600_000)]);
    let limits = [("a", 500), ("b", 1500), ("c", 3000)];
    let servers = limits.map(|(name, limit)| {
        json!({"ServerName": name, "Description": name, "Transport": "stdio",
            "Command": program().unwrap(), "Args": [stubborn.to_json()],
            "ConnectTimeout": format!("{limit}ms")})
    });
    let file = json!({"Manager": {"RetryPolicy": {"MaxRetries": 0}}, "Servers": servers});
    let place = Place::new().file("minion.json", &file.to_string());
    let flags = ["--config", "minion.json", "--dialect", "minion"];
    let served = Served::start_with(&place, &flags).await;
    for (name, limit) in limits {
        let (error, took) = connect(&served, name).await;
        assert_limit(took, Duration::from_millis(limit), name); // HOL-45
        let text = error["text"].as_str().unwrap_or_default();
        assert!(text.contains("not ready within"), "{error:#}");
        let log = served.owner("GET", &format!("servers/{name}/log"), "").await;
        assert!(log.contains("about to hang"), "{log}");
    }
    served.end(Signal::TERM).await;
}
