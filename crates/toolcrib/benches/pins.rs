//! What it costs to hold 5,000 tools against their pins each time they are listed, beside listing them without pins.
#![allow(clippy::unwrap_used, reason = "a bench that cannot set its scene has failed")]
#![allow(clippy::disallowed_macros, clippy::print_stdout, reason = "a bench tells what it found")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::runtime::Builder;
use toolcrib::Host;
use toolcrib_testkit::http::{Asked, HttpServer, Reply};

const TOOLS: usize = 5_000;
const ROUNDS: usize = 15;

fn main() {
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let listed = |pins| runtime.block_on(relisted(pins));
    println!("listing {TOOLS} tools anew, of which one has changed, {ROUNDS} times, the median:");
    let unpinned = listed("off");
    println!("  pins: off      {unpinned:>8.1?}");
    for pins in ["warn", "enforce"] {
        let pinned = listed(pins);
        let ratio = pinned.as_secs_f64() / unpinned.as_secs_f64();
        println!("  pins: {pins:<8} {pinned:>8.1?}  {ratio:.2} times as long");
    }
}

async fn relisted(pins: &str) -> Duration {
    let round = Arc::new(AtomicUsize::new(0));
    let server = HttpServer::start({
        let round = Arc::clone(&round);
        move |asked: &Asked| reply(asked, &round)
    });
    let server = server.await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let entry = json!({"url": server.url("/mcp"), "protocol": "legacy"});
    let file = json!({"version": 1, "host": {"pins": pins}, "servers": {"s": entry}});
    std::fs::write(root.join("toolcrib.yaml"), file.to_string()).unwrap();
    let host = Host::builder(&root, folder.path().join("state")).start().await.unwrap();
    host.settled().await;
    let mut took = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        host.refresh("s").await.unwrap();
        took.push(begun.elapsed());
    }
    let changed = host.changed_definitions().await.len();
    assert_eq!(changed, usize::from(pins != "off"), "one tool of them is another one each time");
    host.close().await;
    took.sort_unstable();
    took[ROUNDS / 2]
}

fn reply(asked: &Asked, round: &AtomicUsize) -> Reply {
    let message: Value = serde_json::from_str(&asked.body).unwrap_or_default();
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
        _ => return Reply::status(202),
    };
    Reply::json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string())
}

/// About as much text as tools have.
fn tool(number: usize, round: usize) -> Value {
    let what =
        "Reads what is there and tells it, line by line, with all that belongs to it. ".repeat(4);
    let text = json!({"type": "string", "description": "The name of what is meant, as a path."});
    json!({
        "name": format!("tool_{number}"),
        "description": format!("{what} {round}"),
        "inputSchema": {"type": "object", "properties": {"path": text, "to": text}, "required": ["path"]},
    })
}
