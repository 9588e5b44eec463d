//! Minion's operations on a running host: connecting, its errors, and what the status tells of them.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step, program};

use super::Served;
use super::logged::{line, log_of};
use crate::Place;
use crate::hosted::{find, scripted};

const FLAGS: [&str; 4] = ["--config", "minion.json", "--dialect", "minion"];

fn entry(name: &str, script: &Script) -> Value {
    json!({"ServerName": name, "Description": format!("About {name}"), "Transport": "stdio",
        "Command": program().unwrap(), "Args": [script.to_json()]})
}

/// A host of Minion's configuration, and an owner's way to its API.
async fn start(manager: &Value, servers: &Value) -> (Served, Place) {
    let file = json!({"Manager": manager, "Servers": servers}).to_string();
    let place = Place::new().file("minion.json", &file);
    (Served::start_with(&place, &FLAGS).await, place)
}

/// The status and the body of an answer to the owner.
async fn post(served: &Served, path: &str, body: &Value) -> (u16, Value) {
    let answer = served.owner("POST", path, &body.to_string()).await;
    answer_parts(&answer)
}

async fn get(served: &Served, path: &str) -> Value {
    answer_parts(&served.owner("GET", path, "").await).1
}

fn answer_parts(answer: &str) -> (u16, Value) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|why| panic!("{why}: {answer}")))
}

fn dying() -> Script {
    Script::default().start([Step::Stderr("I am out".to_owned()), Step::Exit(3)])
}

#[tokio::test]
async fn min_78_connecting_a_dying_server_returns_its_failure() {
    let (served, _place) = start(&json!({}), &json!([entry("dies", &dying())])).await;
    let (status, told) = post(&served, "servers/dies/connect", &json!({})).await;
    assert_eq!((status, &told["ok"]), (502, &json!(false)), "{told:#}"); // MIN-78
    assert_eq!(told["server"]["dialect_state"], "error");
    // The same for a server that nobody configured; it is not kept.
    let mut new = scripted(&dying());
    new["id"] = json!("new");
    new["lifecycle"] = json!({"connect": "on_first_call"});
    for _ in 0..2 {
        let (status, told) = post(&served, "servers", &new).await;
        assert_eq!((status, &told["error"]["kind"]), (502, &json!("connection")), "{told:#}"); // MIN-78
    }
    let listed = get(&served, "servers").await;
    assert_eq!(listed["servers"].as_array().unwrap().len(), 1, "{listed:#}");
}

#[tokio::test]
async fn min_78_a_server_that_comes_up_is_ready_when_the_answer_comes() {
    let (served, _place) = start(&json!({}), &json!([entry("a", &Script::default())])).await;
    let (status, told) = post(&served, "servers/a/connect", &json!({})).await;
    assert_eq!((status, &told["server"]["tools"]), (200, &json!(3)), "{told:#}"); // MIN-78
    let mut new = scripted(&Script::default());
    new["id"] = json!("new");
    new["lifecycle"] = json!({"connect": "on_first_call"});
    let (status, told) = post(&served, "servers", &new).await;
    assert_eq!((status, &told["state"], &told["tools"]), (201, &json!("ready"), &json!(3))); // MIN-78
}

#[tokio::test]
async fn min_80_a_call_that_timed_out_is_the_servers_last_error() {
    let slow = Script::default().on("tools/call slow", [Step::Sleep(60_000)]);
    let (served, _place) = start(&json!({}), &json!([entry("a", &slow)])).await;
    post(&served, "dialogs", &json!({"id": "d"})).await;
    let call = json!({"tool": "mcp_a_slow", "timeout_ms": 300});
    let (_, told) = post(&served, "dialogs/d/calls", &call).await;
    assert_eq!(told["error"]["kind"], "timeout", "{told:#}");
    let status = get(&served, "servers/a").await;
    let text = status["last_error"].as_str().unwrap_or_default();
    assert!(text.contains("mcp_a_slow") && status["last_error_time"].is_string(), "{status:#}"); // MIN-80
    assert_eq!(status["state"], "ready");
}

#[tokio::test]
async fn min_81_a_name_clash_fails_whoever_connects() {
    let one = Script { tools: vec!["b_x".to_owned()], ..Script::default() };
    let two = Script { tools: vec!["x".to_owned()], ..Script::default() };
    // `mcp_a_b_x` twice.
    let servers = json!([entry("a", &one), entry("a_b", &two)]);
    let (served, place) = start(&json!({}), &servers).await;
    assert_eq!(post(&served, "servers/a/connect", &json!({})).await.0, 200);
    for _ in 0..2 {
        let (status, told) = post(&served, "servers/a_b/connect", &json!({})).await;
        let error = &told["error"];
        let seen = (status, &error["kind"], &error["code"], &error["tool"]);
        let expected = (409, &json!("conflict"), &json!("name.collision"), &json!("mcp_a_b_x"));
        assert_eq!(seen, expected, "{told:#}"); // MIN-81
        let text = error["text"].as_str().unwrap();
        assert!(text.starts_with("[MCP:a_b] "), "{text}");
        assert!(text.contains("failed to register tool mcp_a_b_x: "), "{text}"); // MIN-46
    }
    let args: Vec<&str> = ["server", "connect", "a_b"].into_iter().chain(FLAGS).collect();
    let ran = place.run(&args);
    assert_eq!(ran.code, 1, "{ran:?}"); // MIN-81
    assert!(ran.err.contains("failed to register tool mcp_a_b_x"), "{ran:?}");
}

#[tokio::test]
async fn min_83_errors_of_operations_and_calls_carry_every_field() {
    let empty = Script::default().on("tools/list", [Step::Result(json!({"tools": []}))]);
    let slow = Script::default().on("tools/call slow", [Step::Sleep(60_000)]);
    let servers = json!([entry("dies", &dying()), entry("empty", &empty), entry("a", &slow)]);
    let (served, _place) = start(&json!({}), &servers).await;
    let (_, told) = post(&served, "servers/dies/connect", &json!({})).await;
    let error = &told["error"];
    assert_eq!(error["server"], "dies", "{error:#}"); // MIN-83
    for field in ["code", "message", "cause", "timestamp", "text"] {
        assert!(error[field].as_str().is_some_and(|it| !it.is_empty()), "{field} {error:#}"); // MIN-83
    }
    let (text, cause) = (error["text"].as_str().unwrap(), error["cause"].as_str().unwrap());
    assert!(text.starts_with("[MCP:dies] ") && text.ends_with(cause), "{error:#}"); // MIN-83
    let (_, told) = post(&served, "servers/empty/connect", &json!({})).await;
    let text = told["error"]["text"].as_str().unwrap();
    assert!(text.contains("failed to discover tools: no tools found on server: empty"), "{text}"); // MIN-83
    // A call names its tool, too.
    post(&served, "dialogs", &json!({"id": "d"})).await;
    let call = json!({"tool": "mcp_a_slow", "timeout_ms": 300});
    let (_, told) = post(&served, "dialogs/d/calls", &call).await;
    let error = &told["error"];
    assert_eq!((&error["server"], &error["tool"]), (&json!("a"), &json!("mcp_a_slow"))); // MIN-83
    assert!(error["timestamp"].is_string() && error["code"].is_string(), "{error:#}");
    assert!(error["text"].as_str().unwrap().starts_with("[MCP:a] "), "{error:#}"); // MIN-83
    let listed = get(&served, "servers").await;
    assert_eq!(find(&listed["servers"], "id", "a")["description"], "About a"); // MIN-83
}

#[tokio::test]
async fn min_83_the_request_id_is_in_the_record_of_the_call() {
    let (served, _place) = start(&json!({}), &json!([entry("a", &Script::default())])).await;
    post(&served, "dialogs", &json!({"id": "d"})).await;
    for with in [json!({"request_id": "r-1"}), json!({"mcp": {"request_id": "r-2"}}), json!({})] {
        let mut call = with;
        call["tool"] = json!("mcp_a_echo");
        let (_, told) = post(&served, "dialogs/d/calls", &call).await;
        assert_eq!(told["ok"], true, "{told:#}");
    }
    let calls = get(&served, "calls").await;
    let ids: Vec<&Value> =
        calls["calls"].as_array().unwrap().iter().map(|it| &it["request_id"]).collect();
    assert_eq!(ids, [&Value::Null, &json!("r-2"), &json!("r-1")], "{calls:#}"); // MIN-83
}

#[tokio::test]
async fn min_79_the_limit_counts_connections_not_entries() {
    let servers = json!([entry("a", &Script::default()), entry("b", &Script::default())]);
    let (served, _place) = start(&json!({"MaxServers": 1}), &servers).await;
    let is = async |id: &str, state: &str| {
        let status = get(&served, &format!("servers/{id}")).await;
        assert_eq!(status["dialect_state"], state, "{status:#}");
    };
    // Nobody is connected, so any of them may be.
    assert_eq!(post(&served, "servers/b/connect", &json!({})).await.0, 200); // MIN-79
    let (status, told) = post(&served, "servers/a/connect", &json!({})).await;
    assert_eq!((status, &told["error"]["code"]), (409, &json!("server.limit")), "{told:#}"); // MIN-06
    assert_eq!(told["error"]["server"], "a");
    is("b", "connected").await;
    assert_eq!(post(&served, "servers/b/disconnect", &json!({})).await.0, 200);
    let (status, told) = post(&served, "servers/a/connect", &json!({})).await;
    assert_eq!(status, 200, "{told:#}"); // MIN-79: disconnect A, and B connects
    is("a", "connected").await;
    is("b", "disconnected").await;
    assert_eq!(post(&served, "servers/b/connect", &json!({})).await.0, 409);
}

#[tokio::test]
async fn min_82_changed_tools_are_logged_when_the_server_says_that_its_list_changed() {
    let tool = |name: &str, text: &str, schema: Value| json!({"name": name, "description": text, "inputSchema": schema});
    let (any, typed) = (json!({"type": "object"}), json!({"type": "object", "required": ["x"]}));
    let change = tool("change", "Changes the others", any.clone());
    let before = json!({"tools": [change, tool("one", "First", any.clone()),
        tool("two", "Second", any.clone()), tool("three", "Third", any.clone())]});
    let after =
        json!({"tools": [change, tool("uno", "First", any), tool("three", "Third", typed)]});
    let count = tempfile::tempdir().unwrap();
    let turns = vec![vec![Step::Result(before)], vec![Step::Result(after)]];
    let list = Step::Turns { count: count.path().join("lists"), turns };
    let method = "notifications/tools/list_changed".to_owned();
    let tells = Step::Notify { method, params: json!({}), times: 3 };
    let script =
        Script::default().on("tools/list", [list]).on("tools/call change", [Step::Answer, tells]);
    let (mut served, _place) = start(&json!({}), &json!([entry("s", &script)])).await;
    let mut log = log_of(&mut served);
    post(&served, "dialogs", &json!({"id": "d"})).await;
    let (_, told) = post(&served, "dialogs/d/calls", &json!({"tool": "mcp_s_change"})).await;
    assert_eq!(told["ok"], true, "{told:#}");
    let changes = ["`one` renamed to `uno`", "`two` removed", "schema of `three` changed"];
    for change in changes {
        let told = line(&mut log, &[change]).await;
        assert!(told.starts_with("warn: ") && told.contains("minion.json#s"), "{told}"); // MIN-82
    }
    // The new list counts when somebody refreshes it.
    let status = get(&served, "servers/s").await;
    assert_eq!((&status["tools"], &status["cache"]), (&json!(4), &json!("stale")), "{status:#}"); // MIN-64
    let (_, told) = post(&served, "servers/s/refresh", &json!({})).await;
    assert_eq!((&told["server"]["tools"], &told["server"]["cache"]), (&json!(3), &json!("ready"))); // MIN-64
}
