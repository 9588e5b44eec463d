//! Commands beside a host that runs: they are its clients, and what they do lasts in it.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{Served, spawn, tell, within};
use crate::hosted::{PATH, demo, is_alive, names, native, scripted, server, until};
use crate::{PROGRAM, Place};

/// A server that keeps a count for each conversation of the legacy era.
fn counting() -> Value {
    let mut entry = demo();
    entry["protocol"] = json!("legacy");
    entry["session"] = json!({"scope": "per_conversation"});
    entry
}

fn pid(place: &Place, id: &str) -> Value {
    server(&place.json(&["servers"]), id)["pid"].clone()
}

#[tokio::test]
async fn every_command_uses_the_host_that_runs() {
    let place = native(&json!({"demo": demo()}));
    let served = Served::start(&place).await;
    assert_eq!(names(&place.json(&["tools"])).len(), 7);
    let first = pid(&place, "demo");
    assert!(is_alive(u32::try_from(first.as_u64().unwrap()).unwrap()), "it outlives the command");
    assert_eq!(place.out(&["call", "demo__echo", "-a", "text=hi"]), "hi\n");
    assert_eq!(place.out(&["read", "demo://square/12"]), "144\n");
    assert!(place.out(&["prompt", "demo__introduce", "-a", "name=Ada"]).starts_with("user: "));
    assert_eq!(place.json(&["why", "demo__add"])["usable"], true);
    assert_eq!(place.json(&["resources"])["resources"][0]["uri"], "demo://calls");
    assert_eq!(place.json(&["prompts"])["prompts"][0]["name"], "demo__introduce");
    assert_eq!(pid(&place, "demo"), first, "one host, one server");
    // What was counted is what was asked of it, whoever asked.
    assert_eq!(place.json(&["call", "demo__fail"])["is_error"], true);
    let listed = place.json(&["servers"]);
    let calls = &server(&listed, "demo")["calls"];
    assert_eq!(*calls, json!({"total": 2, "succeeded": 1, "failed": 1}));
    let said = place.out(&["status"]);
    assert!(said.contains(&format!("pid {}, {}", served.pid(), served.url())), "{said}");
    assert_eq!(place.run(&["call", "demo__none"]).code, 1);
    assert_eq!(served.end(Signal::TERM).await, Some(0));
    // Now each is on its own again.
    assert!(place.out(&["status"]).contains("a host of its own"));
}

#[tokio::test]
async fn what_is_counted_has_a_name_wherever_it_is_counted() {
    let place = native(&json!({"demo": counting()}));
    let _served = Served::start(&place).await;
    let counted = || {
        let (tools, status) = (place.run(&["tools"]), place.out(&["status"]));
        let status = status.lines().nth(1).unwrap().to_owned();
        (tools.err.lines().last().unwrap().to_owned(), status)
    };
    let status = "1 server, 1 ready; 7 tools of servers; 0 problems".to_owned();
    assert_eq!(counted(), ("7 tools".to_owned(), status.clone()));
    // Whoever has a session of his own is offered a tool of the host besides, to give it back.
    place.out(&["call", "demo__counter"]);
    assert_eq!(counted(), ("8 tools, 1 of them the host's own".to_owned(), status));
    assert_eq!(place.json(&["status"])["tools"], 7);
}

#[tokio::test]
async fn what_is_done_to_a_server_lasts_in_the_host() {
    let place = native(&json!({"demo": demo(), "gone": {"command": "no-such-program-here"}}));
    let _served = Served::start(&place).await;
    assert_eq!(place.out(&["server", "connect", "demo"]), "demo ready\n");
    let first = pid(&place, "demo");
    assert_eq!(place.out(&["server", "restart", "demo"]), "demo ready\n");
    assert_ne!(pid(&place, "demo"), first);
    assert_eq!(place.out(&["server", "disconnect", "demo"]), "demo stopped\n");
    assert_eq!(server(&place.json(&["servers"]), "demo")["state"], "stopped");
    assert_eq!(place.out(&["server", "connect", "demo"]), "demo ready\n");
    assert_eq!(place.run_with(&["server", "connect", "gone"], &[PATH]).code, 3);
    let ran = place.run(&["server", "restart", "dmo"]);
    assert_eq!(ran.err, "error: there is no server `dmo`; there are demo, gone\n");
    // Somebody changes a file, and a command has it read.
    let place = place.file("toolcrib.yaml", &json!({"version": 1, "servers": {}}).to_string());
    assert_eq!(place.json(&["reload"])["ok"], true);
    assert_eq!(place.json(&["servers"])["servers"], json!([]));
}

#[tokio::test]
async fn what_a_server_remembers_of_one_command_is_there_for_the_next() {
    let place = native(&json!({"demo": counting()}));
    let count = |args: &[&str]| {
        let told = place.json(&[&["call", "demo__counter"], args].concat());
        told["structured"]["value"].as_i64().unwrap_or_else(|| panic!("{told}"))
    };
    // A host of its own forgets.
    assert_eq!((count(&[]), count(&[])), (1, 1));
    let _served = Served::start(&place).await;
    assert_eq!((count(&[]), count(&[]), count(&[])), (1, 2, 3));
    assert_eq!((count(&["--dialog", "d"]), count(&["--dialog", "d"])), (1, 2));
    assert_eq!(count(&[]), 4);
}

#[tokio::test]
async fn it_is_said_which_host_is_used_to_whoever_wants_to_know() {
    let place = native(&json!({"demo": demo()}));
    let ran = place.run_with(&["tools", "-v"], &[PATH]);
    assert!(ran.err.contains("no host of this root runs"), "{ran:?}");
    let served = Served::start(&place).await;
    let ran = place.run_with(&["tools", "-v"], &[PATH]);
    let expected = format!("is used host=pid {}, {}", served.pid(), served.url());
    assert!(ran.err.contains(&expected), "{ran:?}");
    // Other files are another configuration, and the host that runs does not have it.
    let other = json!({"mcpServers": {"other": {"command": PROGRAM, "args": ["demo-server"]}}});
    let place = place.file("other.json", &other.to_string());
    let args = ["tools", "--config", "other.json", "--dialect", "claude"];
    assert_eq!(names(&place.json(&args))[0], "other__echo");
}

#[tokio::test]
async fn an_interrupted_command_cancels_its_call_and_the_host_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let script = Script { log: Some(log.clone()), ..Script::default() }
        .on("tools/call slow", [Step::Sleep(60_000), Step::Answer]);
    let place = native(&json!({"s": scripted(&script)}));
    let _served = Served::start(&place).await;
    let has = |method: &str| fs::read_to_string(&log).unwrap_or_default().contains(method);
    let mut child = spawn(&place, &["call", "s__slow"], &[PATH]);
    until("the call has begun", || has("tools/call"));
    tell(child.id().unwrap(), Signal::INT);
    assert_eq!(within(child.wait()).await.unwrap().code(), Some(130));
    until("the call is cancelled", || has("notifications/cancelled"));
    assert_eq!(place.out(&["call", "s__echo", "-a", "x=1"]), "{\"x\":1}\n");
}

/// DIS-55: what the file disables can be enabled while the host runs; the file stays as it is.
#[tokio::test]
async fn dis_55_a_disabled_server_is_enabled_at_run_time() {
    let mut entry = scripted(&Script::default());
    entry["disabled"] = json!(true);
    let file = json!({"servers": {"freecad": entry}}).to_string();
    let place = Place::new().file(".dispatch/mcp.json", &file);
    let _served = Served::start(&place).await;
    assert_eq!(server(&place.json(&["servers"]), "freecad")["state"], "disabled");
    assert_eq!(place.run(&["call", "freecad__echo"]).code, 1);
    place.out(&["server", "enable", "freecad"]);
    assert_eq!(place.tools(), ["freecad__echo", "freecad__fail", "freecad__env"]);
    assert_eq!(place.out(&["call", "freecad__echo", "-a", "x=1"]), "{\"x\":1}\n");
    place.out(&["server", "disable", "freecad"]);
    assert_eq!(place.tools(), [] as [&str; 0]);
    assert_eq!(place.read(".dispatch/mcp.json"), file);
}
