//! Tests operations on servers and configuration, and their persistence.

use std::fs;

use serde_json::{Value, json};
use toolcrib::{CallRequest, DialogRequest, Host};
use toolcrib_testkit::scripted::Script;
use toolcrib_wire::{MessageLimits, RawJson};

use super::{PATH, demo_server, find, native_workspace, scripted_server, server};
use crate::TestWorkspace;

#[test]
fn min_65_every_server_operation_works() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let entry = scripted_server(&Script { log: Some(log.clone()), ..Script::default() });
    let grants = json!({"members": {"ada": {"toolsets": ["s", "mcp_admin"]}}});
    let file = json!({"version": 1, "host": {"grants": grants}, "servers": {"s": entry}});
    let workspace = TestWorkspace::new().with_file("toolcrib.yaml", &file.to_string());
    let lists = || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        text.lines().filter(|line| line.contains("tools/list")).count()
    };
    assert_eq!(workspace.stdout_of(&["server", "connect", "s"]), "s ready\n");
    assert_eq!(lists(), 1);
    assert_eq!(workspace.stdout_of(&["server", "refresh", "s"]), "s ready\n");
    assert_eq!(lists(), 3, "one list per start and one per refresh");
    assert_eq!(workspace.stdout_of(&["server", "disconnect", "s"]), "s stopped\n");
    assert_eq!(server(&workspace.json(&["servers"]), "s")["state"], "ready");
    // Host tools and server tools are called the same way.
    assert_eq!(
        workspace.stdout_of(&["call", "s__echo", "-a", "x=1", "--agent", "ada"]),
        "{\"x\":1}\n"
    );
    let restarted =
        workspace.stdout_of(&["call", "mcp_restart", "-a", "serverId=s", "--agent", "ada"]);
    assert_eq!(restarted, "restarted `s`\n");
    let report = workspace.json(&["server", "restart", "s"]);
    assert_eq!((&report["ok"], &report["error"]), (&json!(true), &Value::Null));
    assert_eq!(
        (&report["server"]["state"], &report["server"]["restarts"]),
        (&json!("ready"), &json!(1))
    );
}

#[test]
fn min_66_status_fields_after_good_and_bad_calls() {
    let workspace = native_workspace(&json!({"s": scripted_server(&Script::default())}));
    // Call counters end with their host, so all calls use one host.
    let work = async {
        let host =
            Host::builder(workspace.root(), workspace.sibling_path("state")).start().await.unwrap();
        host.wait_until_settled().await;
        let dialog = host.open_dialog(DialogRequest::default()).await.unwrap();
        for tool in ["s__echo", "s__fail", "s__echo", "s__fail", "s__echo"] {
            let none = RawJson::parse("{}", &MessageLimits::default()).unwrap();
            dialog.execute(CallRequest::new(tool, none)).await;
        }
        let servers = host.servers();
        host.close().await;
        servers
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let servers = runtime.block_on(async { tokio::time::timeout(super::TIME_LIMIT, work).await });
    let servers = servers.unwrap();
    let calls = &servers[0].calls;
    assert_eq!((calls.total, calls.succeeded, calls.failed), (5, 3, 2)); // MIN-66
    assert!(calls.average.is_some());

    // The command line shows the same fields, with Minion's state names for a Minion file.
    let gone = json!({"ServerName": "gone", "Transport": "stdio", "Command": "no-such-program"});
    let mut there = scripted_server(&Script::default());
    let there = json!({"ServerName": "there", "Transport": "stdio",
        "Command": there["command"].take(), "Args": there["args"].take()});
    let workspace =
        workspace.with_file("minion.json", &json!({"servers": [gone, there]}).to_string());
    let args = ["servers", "--config", "minion.json", "--dialect", "minion"];
    let listed = workspace.json(&args);
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
fn disabled_server_stays_disabled_and_explain_names_origin() {
    let workspace = native_workspace(&json!({"demo": demo_server(), "other": demo_server()}));
    assert_eq!(workspace.stdout_of(&["server", "disable", "demo"]), "demo disabled\n");
    assert_eq!(server(&workspace.json(&["servers"]), "demo")["state"], "disabled");
    assert_eq!(workspace.tools().len(), 7);
    let ran = workspace.run_with_env(&["call", "demo__echo", "-a", "text=x"], &[PATH]);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.err, "error: tool not found: demo__echo\ndisabled: demo\n");
    let shown = workspace.stdout_of(&["explain", "demo"]);
    assert!(shown.contains("enabled: false  # override by the command line"), "{shown}");
    let origins = workspace.json(&["explain"]);
    assert_eq!(origins["origins"]["toolcrib.yaml#demo"]["enabled"], "override by the command line");
    assert_eq!(origins["config"]["servers"]["demo"]["enabled"], false);
    assert_eq!(workspace.stdout_of(&["server", "enable", "demo"]), "demo enabled\n");
    assert_eq!(workspace.tools().len(), 14);
    // The file is unchanged.
    assert!(!workspace.read("toolcrib.yaml").contains("enabled"));
}

#[test]
fn explain_creates_no_state_folder() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    workspace.stdout_of(&["explain"]);
    assert!(!workspace.home().join(".local").exists());
}

#[test]
fn restarting_unknown_server_fails() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let ran = workspace.run(&["server", "restart", "dmo"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (1, "error: there is no server `dmo`; there are demo\n")
    );
}

#[test]
fn reload_reports_outcome_of_every_server() {
    let workspace = native_workspace(
        &json!({"demo": demo_server(), "gone": {"command": "no-such-program-here"},
        "lazy": {"command": "x", "lifecycle": {"connect": "on_first_call"}}}),
    );
    let ran = workspace.run_with_env(&["reload", "--json"], &[PATH]);
    assert_eq!(ran.code, 1);
    let report = super::parse_json(&ran);
    assert_eq!(report["ok"], false);
    let step = |id: &str| find(&report["steps"], "server", &format!("toolcrib.yaml#{id}")).clone();
    assert_eq!(
        (&step("demo")["action"], &step("demo")["outcome"]),
        (&json!("start"), &json!("done"))
    );
    assert_eq!(step("lazy")["outcome"], "coming");
    assert_eq!(step("gone")["outcome"], "failed");
    assert!(step("gone")["error"].as_str().unwrap().contains("no-such-program-here"));
    let ran = native_workspace(&json!({"demo": demo_server()})).run(&["reload"]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.contains("toolcrib.yaml#demo  start   done\n"), "{ran:?}");
}

#[test]
fn dialog_has_own_server_switches() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let state = workspace.sibling_path("state");
    let work = async {
        let host = Host::builder(workspace.root(), &state).start().await.unwrap();
        host.wait_until_settled().await;
        let request = DialogRequest { id: Some("d1".to_owned()), ..DialogRequest::default() };
        host.open_dialog(request).await.unwrap().set_switch("demo", false).await.unwrap();
        host.close().await;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(super::TIME_LIMIT, work).await }).unwrap();
    let state = state.display().to_string();
    let env = [("TOOLCRIB_STATE_DIR", state.as_str())];
    let ran = workspace.run_with_env(&["tools", "--dialog", "d1", "--json"], &env);
    assert_eq!(super::parse_json(&ran)["tools"], json!([]), "{ran:?}");
    let ran = workspace.run_with_env(&["why", "demo__echo", "--dialog", "d1"], &env);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("`demo` is switched off in this dialog"), "{ran:?}");
    assert!(workspace.run_with_env(&["tools", "--dialog", "d2"], &env).out.contains("demo__echo"));
}
