//! What one principal can see of servers, and take of their sessions.

use std::fs;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{Client, Served};
use crate::Place;
use crate::hosted::{native, scripted, server, until};

/// The status and the body of an answer.
fn answered(answer: &str) -> (u16, Value) {
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    let (from, to) = (body.find(['{', '[']), body.rfind(['}', ']']));
    let json = from.zip(to).and_then(|(from, to)| body.get(from..=to));
    (status, json.map_or(Value::Null, |json| serde_json::from_str(json).unwrap_or_default()))
}

async fn ask(served: &Served, method: &str, path: &str, token: &str, body: &str) -> (u16, Value) {
    let length = body.len();
    let head = format!(
        "{method} /api/v1/{path} HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}"
    );
    answered(&served.send(&head, body).await)
}

fn ids(servers: &Value) -> Vec<&str> {
    servers.as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect()
}

/// A server without a grant does not exist for an agent: it is not listed, not named, and not asked for anything.
#[tokio::test]
async fn servers_are_shown_and_refreshed_only_with_a_grant() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let hidden = scripted(&Script { log: Some(log.clone()), ..Script::default() });
    let grants = json!({"members": {"ada": {"toolsets": ["open"]}, "bob": {"capabilities": ["mcp_hidden_echo"]}}});
    let servers = json!({"open": scripted(&Script::default()), "hidden": hidden});
    let file = json!({"version": 1, "host": {"grants": grants}, "servers": servers});
    let place = Place::new().file("toolcrib.yaml", &file.to_string());
    let served = Served::start(&place).await;
    place.tools();
    let token = |agent: &str| {
        let told = place.json(&["token", "new", "--agent", agent]);
        told["token"].as_str().unwrap().to_owned()
    };
    let (ada, bob) = (token("ada"), token("bob"));
    let listed = ask(&served, "GET", "servers", &ada, "").await.1;
    assert_eq!(ids(&listed["servers"]), ["open"], "{listed:#}");
    // A grant on one tool is a grant on its server.
    let listed = ask(&served, "GET", "servers", &bob, "").await.1;
    assert_eq!(ids(&listed["servers"]), ["hidden"], "{listed:#}");
    let lists = || {
        let text = fs::read_to_string(&log).unwrap();
        text.lines().filter(|line| line.contains("\"tools/list\"")).count()
    };
    let before = lists();
    let dialog = ask(&served, "POST", "dialogs", &ada, r#"{"id":"d"}"#).await.1;
    assert_eq!(ids(&dialog["servers"]), ["open"], "{dialog:#}");
    for (method, path, body) in [
        ("GET", "servers/hidden", ""),
        ("POST", "servers/hidden/refresh", ""),
        ("POST", "servers/toolcrib.yaml%23hidden/refresh", ""),
        ("GET", "tools?server=hidden", ""),
        ("GET", "dialogs/d/tools?server=hidden", ""),
        ("PUT", "dialogs/d/servers/hidden", r#"{"enabled":false}"#),
    ] {
        let (status, mut told) = ask(&served, method, path, &ada, body).await;
        assert_eq!(status, 404, "{method} {path}: {told:#}");
        // The answer is the same as for a server that does not exist, but for the time.
        let unknown = path.replace("hidden", "absent");
        let (_, mut other) = ask(&served, method, &unknown, &ada, body).await;
        for answer in [&mut told, &mut other] {
            answer["error"]["timestamp"] = Value::Null;
        }
        let other = other.to_string().replace("absent", "hidden");
        assert_eq!(told.to_string(), other, "{method} {path}");
    }
    assert_eq!(lists(), before, "nothing was asked of it");
    assert_eq!(ask(&served, "GET", "servers/open", &ada, "").await.0, 200);
    assert_eq!(ask(&served, "POST", "servers/open/refresh", &ada, "").await.0, 200);
    assert_eq!(ask(&served, "POST", "servers/hidden/refresh", &bob, "").await.0, 200);
    assert_eq!(lists(), before + 1);
    // The owner sees all.
    assert_eq!(ids(&place.json(&["servers"])["servers"]), ["open", "hidden"]);
}

/// Sessions that dialogs hold are limited for each principal and for each server; a call waits until its deadline.
#[tokio::test]
async fn sessions_of_a_principal_and_of_a_server_are_limited() {
    let mut entry = scripted(&Script::default());
    entry["session"] =
        json!({"scope": "per_conversation", "max_per_principal": 2, "max_instances": 3});
    entry["protocol"] = json!("legacy");
    entry["timeouts"] = json!({"request": "700ms"});
    let place = native(&json!({"s": entry}));
    let served = Served::start(&place).await;
    place.tools();
    let token = |agent: &str| {
        let told = place.json(&["token", "new", "--agent", agent]);
        told["token"].as_str().unwrap().to_owned()
    };
    let (one, other) = (token("default"), token("default"));
    let call = async |token: &str, dialog: &str| {
        ask(&served, "POST", "dialogs", token, &format!(r#"{{"id":"{dialog}"}}"#)).await;
        let path = format!("dialogs/{dialog}/calls");
        ask(&served, "POST", &path, token, r#"{"tool":"s__echo","arguments":{}}"#).await.1
    };
    let kind = |told: &Value| told["error"]["kind"].as_str().map(str::to_owned);
    for dialog in ["a", "b"] {
        assert_eq!(kind(&call(&one, dialog).await), None, "{dialog}");
    }
    assert_eq!(kind(&call(&one, "c").await).as_deref(), Some("resource"), "two are one's share");
    assert_eq!(kind(&call(&other, "d").await), None, "another has a share of its own");
    assert_eq!(kind(&call(&other, "e").await).as_deref(), Some("resource"), "the server has three");
    assert_eq!(server(&place.json(&["servers"]), "s")["sessions"], 3);
    // What is given back is free for whoever waits.
    assert_eq!(ask(&served, "DELETE", "dialogs/a", &one, "").await.0, 204);
    assert_eq!(kind(&call(&one, "c").await), None);
    // There are limits where nobody sets any.
    let shown = native(&json!({"s": scripted(&Script::default())})).out(&["explain", "s"]);
    for line in ["max_instances: 256", "max_per_principal: 64"] {
        assert!(shown.contains(line), "{shown}");
    }
}

/// DOM-62: the result of the call that began a lease reminds the agent of it; later ones do not.
#[tokio::test]
async fn dom_62_the_gateway_reminds_of_a_lease_in_the_first_result() {
    let mut leased = scripted(&Script::default());
    leased["session"] = json!({"scope": "per_conversation"});
    leased["protocol"] = json!("legacy");
    let mut shared = leased.clone();
    shared["session"] = json!({"scope": "shared"});
    let place = native(&json!({"own": leased, "all": shared}));
    let mut client = Client::start(&place).await;
    let reminders = |result: &Value| result["_meta"]["toolcrib/reminders"].clone();
    let first = client.call("own__echo", json!({})).await;
    let told = reminders(&first);
    assert_eq!((&told[0]["server"], told.as_array().unwrap().len()), (&json!("own"), 1), "{first}");
    assert!(told[0]["text"].as_str().unwrap().contains("mcp_release"), "{told}");
    assert_eq!(reminders(&client.call("own__echo", json!({})).await), Value::Null);
    assert_eq!(reminders(&client.call("all__echo", json!({})).await), Value::Null);
    // After the lease was given back, the next one is another.
    client.call("mcp_release", json!({"serverId": "own"})).await;
    assert_eq!(reminders(&client.call("own__fail", json!({})).await), told);
}

/// DKR-30: a session that lasts resets the count of failed attempts, in the API and in the metrics.
#[tokio::test]
async fn dkr_30_a_success_resets_the_attempt_counter() {
    let place = Place::new();
    let fail = || vec![Step::Exit(1)];
    let turns = vec![vec![], fail(), fail(), vec![], fail(), fail(), fail()];
    let turns = Step::Turns { count: place.beside("count"), turns };
    let mut entry = scripted(&Script::default().start([turns]));
    let tries = json!({"max": 3, "initial": "100ms", "max_delay": "100ms"});
    entry["profile"] = json!("docker");
    entry["lifecycle"] = json!({"reconnect": tries});
    let file = json!({"version": 1, "servers": {"d": entry}});
    let place = place.file("toolcrib.yaml", &file.to_string());
    let served = Served::start(&place).await;
    let now = || server(&place.json(&["servers"]), "d").clone();
    let kill_when_it_lasted = || {
        until("it is ready", || now()["state"] == "ready");
        let begun = Instant::now();
        assert_eq!(now()["attempts"], 0);
        let pid = i32::try_from(now()["pid"].as_i64().unwrap()).unwrap();
        // A session that ends sooner was no success.
        until("it has lasted", || begun.elapsed().as_millis() > 1500);
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    };
    kill_when_it_lasted();
    until("both attempts have failed", || now()["restarts"] == 1 && now()["state"] == "ready");
    kill_when_it_lasted();
    // With the two before, the first failure would have been the last.
    until("the attempts are over", || now()["state"] == "failed");
    assert_eq!((&now()["attempts"], &now()["restarts"]), (&json!(3), &json!(2)));
    let metrics = served.ask("GET /metrics HTTP/1.1").await;
    let attempts = r#"toolcrib_server_attempts{server="d",source="toolcrib.yaml"} 3"#;
    assert!(metrics.contains(attempts), "{metrics}");
}
