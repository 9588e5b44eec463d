//! Tests Minion's operations on a running host: connect, errors and status.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step, server_binary};

use super::ServeProcess;
use super::log_output::{line, log_of};
use crate::TestWorkspace;
use crate::server_commands::{find, scripted_server};

const FLAGS: [&str; 4] = ["--config", "minion.json", "--dialect", "minion"];

fn entry(name: &str, script: &Script) -> Value {
    json!({"ServerName": name, "Description": format!("About {name}"), "Transport": "stdio",
        "Command": server_binary().unwrap(), "Args": [script.to_json()]})
}

/// Starts a host with Minion's configuration.
async fn start(manager: &Value, servers: &Value) -> (ServeProcess, TestWorkspace) {
    let file = json!({"Manager": manager, "Servers": servers}).to_string();
    let workspace = TestWorkspace::new().with_file("minion.json", &file);
    (ServeProcess::start_with(&workspace, &FLAGS).await, workspace)
}

/// Status and body of a POST by the owner.
async fn post(served: &ServeProcess, path: &str, body: &Value) -> (u16, Value) {
    let answer = served.request_as_owner("POST", path, &body.to_string()).await;
    answer_parts(&answer)
}

async fn get(served: &ServeProcess, path: &str) -> Value {
    answer_parts(&served.request_as_owner("GET", path, "").await).1
}

fn answer_parts(answer: &str) -> (u16, Value) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|why| panic!("{why}: {answer}")))
}

fn crashing_script() -> Script {
    Script::default().start([Step::Stderr("I am out".to_owned()), Step::Exit(3)])
}

#[tokio::test]
async fn min_78_connecting_crashing_server_returns_its_failure() {
    let (served, _workspace) = start(&json!({}), &json!([entry("dies", &crashing_script())])).await;
    let (status, report) = post(&served, "servers/dies/connect", &json!({})).await;
    assert_eq!((status, &report["ok"]), (502, &json!(false)), "{report:#}"); // MIN-78
    assert_eq!(report["server"]["dialect_state"], "error");
    // The same for a server added at run time, which is not kept.
    let mut new = scripted_server(&crashing_script());
    new["id"] = json!("new");
    new["lifecycle"] = json!({"connect": "on_first_call"});
    for _ in 0..2 {
        let (status, report) = post(&served, "servers", &new).await;
        assert_eq!((status, &report["error"]["kind"]), (502, &json!("connection")), "{report:#}"); // MIN-78
    }
    let listed = get(&served, "servers").await;
    assert_eq!(listed["servers"].as_array().unwrap().len(), 1, "{listed:#}");
}

#[tokio::test]
async fn min_78_connect_answers_when_server_is_ready() {
    let (served, _workspace) = start(&json!({}), &json!([entry("a", &Script::default())])).await;
    let (status, report) = post(&served, "servers/a/connect", &json!({})).await;
    assert_eq!((status, &report["server"]["tools"]), (200, &json!(3)), "{report:#}"); // MIN-78
    let mut new = scripted_server(&Script::default());
    new["id"] = json!("new");
    new["lifecycle"] = json!({"connect": "on_first_call"});
    let (status, report) = post(&served, "servers", &new).await;
    assert_eq!((status, &report["state"], &report["tools"]), (201, &json!("ready"), &json!(3))); // MIN-78
}

#[tokio::test]
async fn min_80_timed_out_call_is_last_error_of_server() {
    let slow = Script::default().on("tools/call slow", [Step::Sleep(60_000)]);
    let (served, _workspace) = start(&json!({}), &json!([entry("a", &slow)])).await;
    post(&served, "dialogs", &json!({"id": "d"})).await;
    let call = json!({"tool": "mcp_a_slow", "timeout_ms": 300});
    let (_, report) = post(&served, "dialogs/d/calls", &call).await;
    assert_eq!(report["error"]["kind"], "timeout", "{report:#}");
    let status = get(&served, "servers/a").await;
    let text = status["last_error"].as_str().unwrap_or_default();
    assert!(text.contains("mcp_a_slow") && status["last_error_time"].is_string(), "{status:#}"); // MIN-80
    assert_eq!(status["state"], "ready");
}

#[tokio::test]
async fn min_81_name_collision_fails_connecting_server() {
    let one = Script { tools: vec!["b_x".to_owned()], ..Script::default() };
    let two = Script { tools: vec!["x".to_owned()], ..Script::default() };
    // Both tools are named `mcp_a_b_x`.
    let servers = json!([entry("a", &one), entry("a_b", &two)]);
    let (served, workspace) = start(&json!({}), &servers).await;
    assert_eq!(post(&served, "servers/a/connect", &json!({})).await.0, 200);
    for _ in 0..2 {
        let (status, report) = post(&served, "servers/a_b/connect", &json!({})).await;
        let error = &report["error"];
        let seen = (status, &error["kind"], &error["code"], &error["tool"]);
        let expected = (409, &json!("conflict"), &json!("name.collision"), &json!("mcp_a_b_x"));
        assert_eq!(seen, expected, "{report:#}"); // MIN-81
        let text = error["text"].as_str().unwrap();
        assert!(text.starts_with("[MCP:a_b] "), "{text}");
        assert!(text.contains("failed to register tool mcp_a_b_x: "), "{text}"); // MIN-46
    }
    let args: Vec<&str> = ["server", "connect", "a_b"].into_iter().chain(FLAGS).collect();
    let ran = workspace.run(&args);
    assert_eq!(ran.code, 1, "{ran:?}"); // MIN-81
    assert!(ran.err.contains("failed to register tool mcp_a_b_x"), "{ran:?}");
}

#[tokio::test]
async fn min_83_operation_and_call_errors_have_every_field() {
    let empty = Script::default().on("tools/list", [Step::Result(json!({"tools": []}))]);
    let slow = Script::default().on("tools/call slow", [Step::Sleep(60_000)]);
    let servers =
        json!([entry("dies", &crashing_script()), entry("empty", &empty), entry("a", &slow)]);
    let (served, _workspace) = start(&json!({}), &servers).await;
    let (_, report) = post(&served, "servers/dies/connect", &json!({})).await;
    let error = &report["error"];
    assert_eq!(error["server"], "dies", "{error:#}"); // MIN-83
    for field in ["code", "message", "cause", "timestamp", "text"] {
        assert!(error[field].as_str().is_some_and(|it| !it.is_empty()), "{field} {error:#}"); // MIN-83
    }
    let (text, cause) = (error["text"].as_str().unwrap(), error["cause"].as_str().unwrap());
    assert!(text.starts_with("[MCP:dies] ") && text.ends_with(cause), "{error:#}"); // MIN-83
    let (_, report) = post(&served, "servers/empty/connect", &json!({})).await;
    let text = report["error"]["text"].as_str().unwrap();
    assert!(text.contains("failed to discover tools: no tools found on server: empty"), "{text}"); // MIN-83
    // The error of a call also names its tool.
    post(&served, "dialogs", &json!({"id": "d"})).await;
    let call = json!({"tool": "mcp_a_slow", "timeout_ms": 300});
    let (_, report) = post(&served, "dialogs/d/calls", &call).await;
    let error = &report["error"];
    assert_eq!((&error["server"], &error["tool"]), (&json!("a"), &json!("mcp_a_slow"))); // MIN-83
    assert!(error["timestamp"].is_string() && error["code"].is_string(), "{error:#}");
    assert!(error["text"].as_str().unwrap().starts_with("[MCP:a] "), "{error:#}"); // MIN-83
    let listed = get(&served, "servers").await;
    assert_eq!(find(&listed["servers"], "id", "a")["description"], "About a"); // MIN-83
}

#[tokio::test]
async fn min_83_call_record_has_request_id() {
    let (served, _workspace) = start(&json!({}), &json!([entry("a", &Script::default())])).await;
    post(&served, "dialogs", &json!({"id": "d"})).await;
    for with in [json!({"request_id": "r-1"}), json!({"mcp": {"request_id": "r-2"}}), json!({})] {
        let mut call = with;
        call["tool"] = json!("mcp_a_echo");
        let (_, report) = post(&served, "dialogs/d/calls", &call).await;
        assert_eq!(report["ok"], true, "{report:#}");
    }
    let calls = get(&served, "calls").await;
    let ids: Vec<&Value> =
        calls["calls"].as_array().unwrap().iter().map(|it| &it["request_id"]).collect();
    assert_eq!(ids, [&Value::Null, &json!("r-2"), &json!("r-1")], "{calls:#}"); // MIN-83
}

#[tokio::test]
async fn min_79_server_limit_counts_connections() {
    let servers = json!([entry("a", &Script::default()), entry("b", &Script::default())]);
    let (served, _workspace) = start(&json!({"MaxServers": 1}), &servers).await;
    let is = async |id: &str, state: &str| {
        let status = get(&served, &format!("servers/{id}")).await;
        assert_eq!(status["dialect_state"], state, "{status:#}");
    };
    // No server is connected, so either may connect.
    assert_eq!(post(&served, "servers/b/connect", &json!({})).await.0, 200); // MIN-79
    let (status, report) = post(&served, "servers/a/connect", &json!({})).await;
    assert_eq!((status, &report["error"]["code"]), (409, &json!("server.limit")), "{report:#}"); // MIN-06
    assert_eq!(report["error"]["server"], "a");
    is("b", "connected").await;
    assert_eq!(post(&served, "servers/b/disconnect", &json!({})).await.0, 200);
    let (status, report) = post(&served, "servers/a/connect", &json!({})).await;
    assert_eq!(status, 200, "{report:#}"); // MIN-79: disconnect A, and B connects
    is("a", "connected").await;
    is("b", "disconnected").await;
    assert_eq!(post(&served, "servers/b/connect", &json!({})).await.0, 409);
}

#[tokio::test]
async fn min_82_changed_tools_are_logged_on_list_changed() {
    let tool = |name: &str, text: &str, schema: Value| json!({"name": name, "description": text, "inputSchema": schema});
    let (any, typed) = (json!({"type": "object"}), json!({"type": "object", "required": ["x"]}));
    let change = tool("change", "Changes the others", any.clone());
    let before = json!({"tools": [change, tool("one", "First", any.clone()),
        tool("two", "Second", any.clone()), tool("three", "Third", any.clone())]});
    let after =
        json!({"tools": [change, tool("uno", "First", any), tool("three", "Third", typed)]});
    let count = tempfile::tempdir().unwrap();
    let turns = vec![vec![Step::Result(before)], vec![Step::Result(after)]];
    let list = Step::Sequence { count: count.path().join("lists"), turns };
    let method = "notifications/tools/list_changed".to_owned();
    let tells = Step::Notify { method, params: json!({}), times: 3 };
    let script =
        Script::default().on("tools/list", [list]).on("tools/call change", [Step::Respond, tells]);
    let (mut served, _workspace) = start(&json!({}), &json!([entry("s", &script)])).await;
    let mut log = log_of(&mut served);
    post(&served, "dialogs", &json!({"id": "d"})).await;
    let (_, report) = post(&served, "dialogs/d/calls", &json!({"tool": "mcp_s_change"})).await;
    assert_eq!(report["ok"], true, "{report:#}");
    let changes = ["`one` renamed to `uno`", "`two` removed", "schema of `three` changed"];
    for change in changes {
        let report = line(&mut log, &[change]).await;
        assert!(report.starts_with("warn: ") && report.contains("minion.json#s"), "{report}"); // MIN-82
    }
    // A refresh applies the new list.
    let status = get(&served, "servers/s").await;
    assert_eq!((&status["tools"], &status["cache"]), (&json!(4), &json!("stale")), "{status:#}"); // MIN-64
    let (_, report) = post(&served, "servers/s/refresh", &json!({})).await;
    assert_eq!(
        (&report["server"]["tools"], &report["server"]["cache"]),
        (&json!(3), &json!("ready"))
    ); // MIN-64
}
