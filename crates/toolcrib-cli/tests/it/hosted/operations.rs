//! What is done to servers, to the configuration, and what of it lasts.

use std::fs;

use serde_json::{Value, json};
use toolcrib::host::DialogRequest;
use toolcrib::{CallRequest, Host};
use toolcrib_testkit::scripted::Script;
use toolcrib_wire::{Limits, Raw};

use super::{PATH, demo, find, native, scripted, server};
use crate::Place;

#[test]
fn min_65_every_operation_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let entry = scripted(&Script { log: Some(log.clone()), ..Script::default() });
    let grants = json!({"members": {"ada": {"toolsets": ["s", "mcp_admin"]}}});
    let file = json!({"version": 1, "host": {"grants": grants}, "servers": {"s": entry}});
    let place = Place::new().file("toolcrib.yaml", &file.to_string());
    let lists = || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        text.lines().filter(|line| line.contains("tools/list")).count()
    };
    assert_eq!(place.out(&["server", "connect", "s"]), "s ready\n");
    assert_eq!(lists(), 1);
    assert_eq!(place.out(&["server", "refresh", "s"]), "s ready\n");
    assert_eq!(lists(), 3, "once to start, once to refresh");
    assert_eq!(place.out(&["server", "disconnect", "s"]), "s stopped\n");
    assert_eq!(server(&place.json(&["servers"]), "s")["state"], "ready");
    // Native tools and those of servers are called alike.
    assert_eq!(place.out(&["call", "s__echo", "-a", "x=1", "--agent", "ada"]), "{\"x\":1}\n");
    let restarted = place.out(&["call", "mcp_restart", "-a", "serverId=s", "--agent", "ada"]);
    assert_eq!(restarted, "restarted `s`\n");
    let told = place.json(&["server", "restart", "s"]);
    assert_eq!((&told["ok"], &told["error"]), (&json!(true), &Value::Null));
    assert_eq!(
        (&told["server"]["state"], &told["server"]["restarts"]),
        (&json!("ready"), &json!(1))
    );
}

#[test]
fn min_66_status_fields_after_good_and_bad_calls() {
    let place = native(&json!({"s": scripted(&Script::default())}));
    // What calls have counted ends with the host that counted it, so that they are made in one.
    let work = async {
        let host = Host::builder(place.root(), place.beside("state")).start().await.unwrap();
        host.settled().await;
        let dialog = host.dialog(DialogRequest::default()).await.unwrap();
        for tool in ["s__echo", "s__fail", "s__echo", "s__fail", "s__echo"] {
            let none = Raw::parse("{}", &Limits::default()).unwrap();
            dialog.execute(CallRequest::new(tool, none)).await;
        }
        let servers = host.servers();
        host.close().await;
        servers
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let servers = runtime.block_on(async { tokio::time::timeout(super::PATIENCE, work).await });
    let servers = servers.unwrap();
    let calls = &servers[0].calls;
    assert_eq!((calls.total, calls.succeeded, calls.failed), (5, 3, 2)); // MIN-66
    assert!(calls.average.is_some());

    // The command line shows the same fields, in Minion's words where the file is Minion's.
    let gone = json!({"ServerName": "gone", "Transport": "stdio", "Command": "no-such-program"});
    let mut there = scripted(&Script::default());
    let there = json!({"ServerName": "there", "Transport": "stdio",
        "Command": there["command"].take(), "Args": there["args"].take()});
    let place = place.file("minion.json", &json!({"servers": [gone, there]}).to_string());
    let args = ["servers", "--config", "minion.json", "--dialect", "minion"];
    let listed = place.json(&args);
    let there = server(&listed, "there"); // ServerName
    assert_eq!(
        (&there["dialect_state"], &there["transport"]),
        (&json!("connected"), &json!("stdio"))
    );
    assert_eq!(there["tools"], 3); // ToolsDiscovered
    assert_eq!(there["calls"], json!({"total": 0, "succeeded": 0, "failed": 0}));
    let gone = server(&listed, "gone");
    assert_eq!(gone["dialect_state"], "error");
    assert!(gone["last_error"].is_string() && gone["last_error_time"].is_string()); // MIN-66
}

#[test]
fn a_server_that_was_disabled_stays_so_and_explain_says_who_did_it() {
    let place = native(&json!({"demo": demo(), "other": demo()}));
    assert_eq!(place.out(&["server", "disable", "demo"]), "demo disabled\n");
    assert_eq!(server(&place.json(&["servers"]), "demo")["state"], "disabled");
    assert_eq!(place.tools().len(), 7);
    let ran = place.run_with(&["call", "demo__echo", "-a", "text=x"], &[PATH]);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.err, "error: tool not found: demo__echo\ndisabled: demo\n");
    let shown = place.out(&["explain", "demo"]);
    assert!(shown.contains("enabled: false  # override by the command line"), "{shown}");
    let origins = place.json(&["explain"]);
    assert_eq!(origins["origins"]["toolcrib.yaml#demo"]["enabled"], "override by the command line");
    assert_eq!(origins["config"]["servers"]["demo"]["enabled"], false);
    assert_eq!(place.out(&["server", "enable", "demo"]), "demo enabled\n");
    assert_eq!(place.tools().len(), 14);
    // The file is as it was.
    assert!(!place.read("toolcrib.yaml").contains("enabled"));
}

#[test]
fn explain_begins_no_store() {
    let place = native(&json!({"demo": demo()}));
    place.out(&["explain"]);
    assert!(!place.home().join(".local").exists());
}

#[test]
fn nobody_can_be_told_to_a_server_that_is_not_there() {
    let place = native(&json!({"demo": demo()}));
    let ran = place.run(&["server", "restart", "dmo"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (1, "error: there is no server `dmo`; there are demo\n")
    );
}

#[test]
fn reload_tells_what_becomes_of_each_server() {
    let place = native(&json!({"demo": demo(), "gone": {"command": "no-such-program-here"},
        "lazy": {"command": "x", "lifecycle": {"connect": "on_first_call"}}}));
    let ran = place.run_with(&["reload", "--json"], &[PATH]);
    assert_eq!(ran.code, 1);
    let told = super::parsed(&ran);
    assert_eq!(told["ok"], false);
    let step = |id: &str| find(&told["steps"], "server", &format!("toolcrib.yaml#{id}")).clone();
    assert_eq!(
        (&step("demo")["action"], &step("demo")["outcome"]),
        (&json!("start"), &json!("done"))
    );
    assert_eq!(step("lazy")["outcome"], "coming");
    assert_eq!(step("gone")["outcome"], "failed");
    assert!(step("gone")["error"].as_str().unwrap().contains("no-such-program-here"));
    let ran = native(&json!({"demo": demo()})).run(&["reload"]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.contains("toolcrib.yaml#demo  start   done\n"), "{ran:?}");
}

#[test]
fn a_dialog_has_its_own_switches() {
    let place = native(&json!({"demo": demo()}));
    let state = place.beside("state");
    let work = async {
        let host = Host::builder(place.root(), &state).start().await.unwrap();
        host.settled().await;
        let request = DialogRequest { id: Some("d1".to_owned()), ..DialogRequest::default() };
        host.dialog(request).await.unwrap().switch("demo", false).await.unwrap();
        host.close().await;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(super::PATIENCE, work).await }).unwrap();
    let state = state.display().to_string();
    let env = [("TOOLCRIB_STATE_DIR", state.as_str())];
    let ran = place.run_with(&["tools", "--dialog", "d1", "--json"], &env);
    assert_eq!(super::parsed(&ran)["tools"], json!([]), "{ran:?}");
    let ran = place.run_with(&["why", "demo__echo", "--dialog", "d1"], &env);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("`demo` is switched off in this dialog"), "{ran:?}");
    assert!(place.run_with(&["tools", "--dialog", "d2"], &env).out.contains("demo__echo"));
}
