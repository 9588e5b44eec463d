//! Servers on the Python SDK, which supports both eras, and on FastMCP.

use serde_json::{Value, json};
use toolcrib_testkit::{command, peers};

use super::{ThirdPartyServer, host};
use crate::network_server::NetworkServer;
use crate::test_host::wait_until;

fn entry(package: &str, args: &[&str]) -> Value {
    json!({"command": peers::python_program("v2", package, package).unwrap(), "args": args})
}

/// The server is fast, sends no requests and has a fixed list.
#[tokio::test]
async fn time_server_converts_in_both_eras() {
    for (protocol, version) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
        let mut entry = entry("mcp-server-time", &["--local-timezone", "UTC"]);
        entry["protocol"] = json!(protocol);
        let server = ThirdPartyServer::connect(host(), &entry, json!({})).await;
        assert_eq!(server.offered_counts(), (version, [2, 0, 0, 0]));
        let zones =
            json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
        server.drop_sent_call("convert_time", &zones).await;
        let result = server.call("convert_time", zones).await;
        assert_eq!(result["structuredContent"]["time_difference"], "+9.0h", "{result}");
        server.close().await;
    }
}

/// The same limits apply as for the time server.
#[tokio::test]
async fn git_server_reads_a_repository_in_both_eras() {
    for (protocol, version) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
        let host = host();
        let repository = host.path().join("repository");
        let path = repository.to_str().unwrap().to_owned();
        command::run_command("git", &["init", "-q", &path], host.path()).unwrap();
        std::fs::write(repository.join("new.txt"), "new").unwrap();
        let mut entry = entry("mcp-server-git", &["--repository", &path]);
        entry["protocol"] = json!(protocol);
        let server = ThirdPartyServer::connect(host, &entry, json!({})).await;
        assert_eq!(server.offered_counts(), (version, [12, 0, 0, 0]));
        let here = json!({"repo_path": path});
        server.drop_sent_call("git_status", &here).await;
        let status = server.call_text("git_status", here).await;
        assert!(status.contains("new.txt"), "{status}");
        server.close().await;
    }
}

/// In the modern era the server declares that its lists never change, although they do, so it cannot report changes
/// there.
#[tokio::test]
async fn dis_48_dkr_39_fastmcp_over_http_in_both_eras() {
    let script = peers::peers_folder().join("fastmcp_server.py");
    let python = peers::python_program("v2", "fastmcp", "python").unwrap();
    let args = [script.to_str().unwrap(), "http"];
    for (protocol, version) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
        let server = NetworkServer::start_reporting_address(&python, &args).await;
        let entry = json!({"url": server.url("/mcp"), "protocol": protocol});
        let server = ThirdPartyServer::connect(host(), &entry, json!({"value": "Ada"})).await;
        assert_eq!(server.offered_counts(), (version, [5, 1, 1, 1]));
        let sum = server.call("add", json!({"a": 2, "b": 3})).await;
        assert_eq!(sum["structuredContent"], json!({"result": 5}));
        let greeted = json!({"name": "greet", "arguments": {"name": "Ada"}});
        let prompt = server.request("prompts/get", &greeted).await;
        assert_eq!(prompt["messages"][0]["content"]["text"], "Say hello to Ada.");
        let read = server.request("resources/read", &json!({"uri": "peer://mottos/7"})).await;
        assert_eq!(read["contents"][0]["text"], "motto 7");
        let (steps, _) = server.progress("slow", &json!({"steps": 3, "pause_ms": 10})).await;
        assert_eq!(steps, [1.0, 2.0, 3.0]);
        server.drop_running_call("slow", &json!({"steps": 600, "pause_ms": 100})).await;
        server.call_until_text("cancelled_calls", |count| count == "1").await;
        assert_eq!(server.call_text("ask", json!({})).await, "hello Ada");
        server.expect_request("elicitation/create").await;
        if !server.is_modern() {
            server.trigger_tool_change("change", "extra").await;
            assert_eq!(server.call_text("extra", json!({})).await, "here");
        }
        wait_until("quiet", || server.session().peer().in_flight() == 0).await;
        server.close().await;
    }
}
