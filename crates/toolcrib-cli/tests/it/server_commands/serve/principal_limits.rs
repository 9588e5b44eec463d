//! Tests what one principal can see of servers and use of their sessions.

use std::fs;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{ServeProcess, StdioClient};
use crate::TestWorkspace;
use crate::server_commands::{native_workspace, scripted_server, server, wait_until};

/// Status and body of a response.
fn split_response(answer: &str) -> (u16, Value) {
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    let (from, to) = (body.find(['{', '[']), body.rfind(['}', ']']));
    let json = from.zip(to).and_then(|(from, to)| body.get(from..=to));
    (status, json.map_or(Value::Null, |json| serde_json::from_str(json).unwrap_or_default()))
}

async fn api_request(
    served: &ServeProcess,
    method: &str,
    path: &str,
    token: &str,
    body: &str,
) -> (u16, Value) {
    let length = body.len();
    let head = format!(
        "{method} /api/v1/{path} HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}"
    );
    split_response(&served.send(&head, body).await)
}

fn ids(servers: &Value) -> Vec<&str> {
    servers.as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect()
}

/// A server without a grant does not exist for an agent: it is not listed, named or called.
#[tokio::test]
async fn servers_are_shown_and_refreshed_only_with_grant() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let hidden = scripted_server(&Script { log: Some(log.clone()), ..Script::default() });
    let grants = json!({"members": {"ada": {"toolsets": ["open"]}, "bob": {"capabilities": ["mcp_hidden_echo"]}}});
    let servers = json!({"open": scripted_server(&Script::default()), "hidden": hidden});
    let file = json!({"version": 1, "host": {"grants": grants}, "servers": servers});
    let workspace = TestWorkspace::new().with_file("toolcrib.yaml", &file.to_string());
    let served = ServeProcess::start(&workspace).await;
    workspace.tools();
    let token = |agent: &str| {
        let report = workspace.json(&["token", "new", "--agent", agent]);
        report["token"].as_str().unwrap().to_owned()
    };
    let (ada, bob) = (token("ada"), token("bob"));
    let listed = api_request(&served, "GET", "servers", &ada, "").await.1;
    assert_eq!(ids(&listed["servers"]), ["open"], "{listed:#}");
    // A grant on one tool shows its server.
    let listed = api_request(&served, "GET", "servers", &bob, "").await.1;
    assert_eq!(ids(&listed["servers"]), ["hidden"], "{listed:#}");
    let lists = || {
        let text = fs::read_to_string(&log).unwrap();
        text.lines().filter(|line| line.contains("\"tools/list\"")).count()
    };
    let before = lists();
    let dialog = api_request(&served, "POST", "dialogs", &ada, r#"{"id":"d"}"#).await.1;
    assert_eq!(ids(&dialog["servers"]), ["open"], "{dialog:#}");
    for (method, path, body) in [
        ("GET", "servers/hidden", ""),
        ("POST", "servers/hidden/refresh", ""),
        ("POST", "servers/toolcrib.yaml%23hidden/refresh", ""),
        ("GET", "tools?server=hidden", ""),
        ("GET", "dialogs/d/tools?server=hidden", ""),
        ("PUT", "dialogs/d/servers/hidden", r#"{"enabled":false}"#),
    ] {
        let (status, mut report) = api_request(&served, method, path, &ada, body).await;
        assert_eq!(status, 404, "{method} {path}: {report:#}");
        // The response equals that of an unknown server, except for the time.
        let unknown = path.replace("hidden", "absent");
        let (_, mut other) = api_request(&served, method, &unknown, &ada, body).await;
        for answer in [&mut report, &mut other] {
            answer["error"]["timestamp"] = Value::Null;
        }
        let other = other.to_string().replace("absent", "hidden");
        assert_eq!(report.to_string(), other, "{method} {path}");
    }
    assert_eq!(lists(), before, "the hidden server received no request");
    assert_eq!(api_request(&served, "GET", "servers/open", &ada, "").await.0, 200);
    assert_eq!(api_request(&served, "POST", "servers/open/refresh", &ada, "").await.0, 200);
    assert_eq!(api_request(&served, "POST", "servers/hidden/refresh", &bob, "").await.0, 200);
    assert_eq!(lists(), before + 1);
    // The owner sees all servers.
    assert_eq!(ids(&workspace.json(&["servers"])["servers"]), ["open", "hidden"]);
}

/// Leased sessions are limited per principal and per server. A call waits until its deadline.
#[tokio::test]
async fn sessions_are_limited_per_principal_and_per_server() {
    let mut entry = scripted_server(&Script::default());
    entry["session"] =
        json!({"scope": "per_conversation", "max_per_principal": 2, "max_instances": 3});
    entry["protocol"] = json!("legacy");
    entry["timeouts"] = json!({"request": "700ms"});
    let workspace = native_workspace(&json!({"s": entry}));
    let served = ServeProcess::start(&workspace).await;
    workspace.tools();
    let token = |agent: &str| {
        let report = workspace.json(&["token", "new", "--agent", agent]);
        report["token"].as_str().unwrap().to_owned()
    };
    let (one, other) = (token("default"), token("default"));
    let call = async |token: &str, dialog: &str| {
        api_request(&served, "POST", "dialogs", token, &format!(r#"{{"id":"{dialog}"}}"#)).await;
        let path = format!("dialogs/{dialog}/calls");
        api_request(&served, "POST", &path, token, r#"{"tool":"s__echo","arguments":{}}"#).await.1
    };
    let kind = |report: &Value| report["error"]["kind"].as_str().map(str::to_owned);
    for dialog in ["a", "b"] {
        assert_eq!(kind(&call(&one, dialog).await), None, "{dialog}");
    }
    assert_eq!(
        kind(&call(&one, "c").await).as_deref(),
        Some("resource"),
        "the limit per principal is two"
    );
    assert_eq!(kind(&call(&other, "d").await), None, "another principal has its own limit");
    assert_eq!(
        kind(&call(&other, "e").await).as_deref(),
        Some("resource"),
        "the limit per server is three"
    );
    assert_eq!(server(&workspace.json(&["servers"]), "s")["sessions"], 3);
    // A released session becomes available.
    assert_eq!(api_request(&served, "DELETE", "dialogs/a", &one, "").await.0, 204);
    assert_eq!(kind(&call(&one, "c").await), None);
    // Default limits apply without configuration.
    let shown = native_workspace(&json!({"s": scripted_server(&Script::default())}))
        .stdout_of(&["explain", "s"]);
    for line in ["max_instances: 256", "max_per_principal: 64"] {
        assert!(shown.contains(line), "{shown}");
    }
}

/// DOM-62: the result of the call that started a lease has a reminder; later ones do not.
#[tokio::test]
async fn dom_62_first_result_has_lease_reminder() {
    let mut leased = scripted_server(&Script::default());
    leased["session"] = json!({"scope": "per_conversation"});
    leased["protocol"] = json!("legacy");
    let mut shared = leased.clone();
    shared["session"] = json!({"scope": "shared"});
    let workspace = native_workspace(&json!({"own": leased, "all": shared}));
    let mut client = StdioClient::start(&workspace).await;
    let reminders = |result: &Value| result["_meta"]["toolcrib/reminders"].clone();
    let first = client.call("own__echo", json!({})).await;
    let report = reminders(&first);
    assert_eq!(
        (&report[0]["server"], report.as_array().unwrap().len()),
        (&json!("own"), 1),
        "{first}"
    );
    assert!(report[0]["text"].as_str().unwrap().contains("mcp_release"), "{report}");
    assert_eq!(reminders(&client.call("own__echo", json!({})).await), Value::Null);
    assert_eq!(reminders(&client.call("all__echo", json!({})).await), Value::Null);
    // After the release the next call starts another lease.
    client.call("mcp_release", json!({"serverId": "own"})).await;
    assert_eq!(reminders(&client.call("own__fail", json!({})).await), report);
}

/// DKR-30: a lasting session resets the attempt counter, in the API and in the metrics.
#[tokio::test]
async fn dkr_30_success_resets_attempt_counter() {
    let workspace = TestWorkspace::new();
    let fail = || vec![Step::Exit(1)];
    let turns = vec![vec![], fail(), fail(), vec![], fail(), fail(), fail()];
    let turns = Step::Sequence { count: workspace.sibling_path("count"), turns };
    let mut entry = scripted_server(&Script::default().start([turns]));
    let tries = json!({"max": 3, "initial": "100ms", "max_delay": "100ms"});
    entry["profile"] = json!("docker");
    entry["lifecycle"] = json!({"reconnect": tries});
    let file = json!({"version": 1, "servers": {"d": entry}});
    let workspace = workspace.with_file("toolcrib.yaml", &file.to_string());
    let served = ServeProcess::start(&workspace).await;
    let now = || server(&workspace.json(&["servers"]), "d").clone();
    let kill_when_it_lasted = || {
        wait_until("the server is ready", || now()["state"] == "ready");
        let started_at = Instant::now();
        assert_eq!(now()["attempts"], 0);
        let pid = i32::try_from(now()["pid"].as_i64().unwrap()).unwrap();
        // A shorter session does not count as a success.
        wait_until("the session has lasted", || started_at.elapsed().as_millis() > 1500);
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    };
    kill_when_it_lasted();
    wait_until("both attempts have failed", || now()["restarts"] == 1 && now()["state"] == "ready");
    kill_when_it_lasted();
    // If the counter had not been reset, the first failure would have been the last.
    wait_until("all attempts have failed", || now()["state"] == "failed");
    assert_eq!((&now()["attempts"], &now()["restarts"]), (&json!(3), &json!(2)));
    let metrics = served.request_head("GET /metrics HTTP/1.1").await;
    let attempts = r#"toolcrib_server_attempts{server="d",source="toolcrib.yaml"} 3"#;
    assert!(metrics.contains(attempts), "{metrics}");
}
