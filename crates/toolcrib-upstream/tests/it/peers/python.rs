//! Servers on the Python SDK, which speaks both eras, and on FastMCP.

use serde_json::{Value, json};
use toolcrib_testkit::{ask, peers};

use super::{Guest, scene};
use crate::scene::until;
use crate::served::Served;

fn entry(package: &str, args: &[&str]) -> Value {
    json!({"command": peers::python("v2", package, package).unwrap(), "args": args})
}

/// It is never slow, asks nobody and has a list that does not change.
#[tokio::test]
async fn the_time_server_converts_in_both_eras() {
    for (protocol, version) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
        let mut entry = entry("mcp-server-time", &["--local-timezone", "UTC"]);
        entry["protocol"] = json!(protocol);
        let guest = Guest::meet(scene(), &entry, json!({})).await;
        assert_eq!(guest.offers(), (version, [2, 0, 0, 0]));
        let zones =
            json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
        guest.drop_at_once("convert_time", &zones).await;
        let told = guest.call("convert_time", zones).await;
        assert_eq!(told["structuredContent"]["time_difference"], "+9.0h", "{told}");
        guest.part().await;
    }
}

/// Like the time server.
#[tokio::test]
async fn the_git_server_looks_after_a_repository_in_both_eras() {
    for (protocol, version) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
        let scene = scene();
        let repository = scene.path().join("repository");
        let path = repository.to_str().unwrap().to_owned();
        ask::ask("git", &["init", "-q", &path], scene.path()).unwrap();
        std::fs::write(repository.join("new.txt"), "new").unwrap();
        let mut entry = entry("mcp-server-git", &["--repository", &path]);
        entry["protocol"] = json!(protocol);
        let guest = Guest::meet(scene, &entry, json!({})).await;
        assert_eq!(guest.offers(), (version, [12, 0, 0, 0]));
        let here = json!({"repo_path": path});
        guest.drop_at_once("git_status", &here).await;
        let status = guest.say("git_status", here).await;
        assert!(status.contains("new.txt"), "{status}");
        guest.part().await;
    }
}

/// In the modern era it says that its lists do not change, though they do: there it cannot tell.
#[tokio::test]
async fn dis_48_dkr_39_fastmcp_over_http_in_both_eras() {
    // DKR-39 as well.
    let script = peers::folder().join("fastmcp_server.py");
    let python = peers::python("v2", "fastmcp", "python").unwrap();
    let args = [script.to_str().unwrap(), "http"];
    for (protocol, version) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
        let server = Served::where_it_says(&python, &args).await;
        let entry = json!({"url": server.url("/mcp"), "protocol": protocol});
        let guest = Guest::meet(scene(), &entry, json!({"value": "Ada"})).await;
        assert_eq!(guest.offers(), (version, [5, 1, 1, 1]));
        let sum = guest.call("add", json!({"a": 2, "b": 3})).await;
        assert_eq!(sum["structuredContent"], json!({"result": 5}));
        let greeted = json!({"name": "greet", "arguments": {"name": "Ada"}});
        let prompt = guest.request("prompts/get", &greeted).await;
        assert_eq!(prompt["messages"][0]["content"]["text"], "Say hello to Ada.");
        let read = guest.request("resources/read", &json!({"uri": "peer://mottos/7"})).await;
        assert_eq!(read["contents"][0]["text"], "motto 7");
        let (steps, _) = guest.progress("slow", &json!({"steps": 3, "pause_ms": 10})).await;
        assert_eq!(steps, [1.0, 2.0, 3.0]);
        guest.drop_underway("slow", &json!({"steps": 600, "pause_ms": 100})).await;
        guest.until_it_says("cancelled_calls", |count| count == "1").await;
        assert_eq!(guest.say("ask", json!({})).await, "hello Ada");
        guest.was_asked("elicitation/create").await;
        if !guest.is_modern() {
            guest.changes("change", "extra").await;
            assert_eq!(guest.say("extra", json!({})).await, "here");
        }
        until("quiet", || guest.session().peer().in_flight() == 0).await;
        guest.part().await;
    }
}
