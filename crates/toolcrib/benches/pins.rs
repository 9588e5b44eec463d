//! Time to compare 5,000 tools with their pins on each listing, compared with listing them without pins.
#![allow(clippy::unwrap_used, reason = "a benchmark fails if its setup fails")]
#![allow(
    clippy::disallowed_macros,
    clippy::print_stdout,
    reason = "a benchmark prints its results"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::runtime::Builder;
use toolcrib::Host;
use toolcrib_testkit::http::{HttpServer, ReceivedRequest, ScriptedResponse};

const TOOLS: usize = 5_000;
const ROUNDS: usize = 15;

fn main() {
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let measure = |pins| runtime.block_on(measure_relisting(pins));
    println!("listing {TOOLS} tools anew, of which one has changed, {ROUNDS} times, the median:");
    let unpinned = measure("off");
    println!("  pins: off      {unpinned:>8.1?}");
    for pins in ["warn", "enforce"] {
        let pinned = measure(pins);
        let ratio = pinned.as_secs_f64() / unpinned.as_secs_f64();
        println!("  pins: {pins:<8} {pinned:>8.1?}  {ratio:.2} times as long");
    }
}

async fn measure_relisting(pins: &str) -> Duration {
    let round = Arc::new(AtomicUsize::new(0));
    let server = HttpServer::start({
        let round = Arc::clone(&round);
        move |request: &ReceivedRequest| reply(request, &round)
    });
    let server = server.await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let entry = json!({"url": server.url("/mcp"), "protocol": "legacy"});
    let file = json!({"version": 1, "host": {"pins": pins}, "servers": {"s": entry}});
    std::fs::write(root.join("toolcrib.yaml"), file.to_string()).unwrap();
    let host = Host::builder(&root, folder.path().join("state")).start().await.unwrap();
    host.wait_until_settled().await;
    let mut durations = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        host.refresh_server("s").await.unwrap();
        durations.push(start.elapsed());
    }
    let changed = host.changed_definitions().await.len();
    assert_eq!(changed, usize::from(pins != "off"), "one definition changes each time");
    host.close().await;
    durations.sort_unstable();
    durations[ROUNDS / 2]
}

fn reply(request: &ReceivedRequest, round: &AtomicUsize) -> ScriptedResponse {
    let message: Value = serde_json::from_str(&request.body).unwrap_or_default();
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "1"},
        }),
        Some("tools/list") => {
            let round = round.fetch_add(1, Ordering::Relaxed);
            let tools = (0..TOOLS).map(|n| tool(n, if n == 0 { round } else { 0 }));
            json!({"tools": tools.collect::<Vec<_>>()})
        }
        _ => return ScriptedResponse::status(202),
    };
    ScriptedResponse::json(
        json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string(),
    )
}

/// A definition of typical length.
fn tool(number: usize, round: usize) -> Value {
    let description =
        "Reads a file and returns its content line by line, with all its properties. ".repeat(4);
    let text = json!({"type": "string", "description": "The path of the file."});
    json!({
        "name": format!("tool_{number}"),
        "description": format!("{description} {round}"),
        "inputSchema": {"type": "object", "properties": {"path": text, "to": text}, "required": ["path"]},
    })
}
