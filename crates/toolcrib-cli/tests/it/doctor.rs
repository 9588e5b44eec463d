//! Tests `toolcrib doctor`, which starts every server once and reports on it.

use serde_json::{Value, json};
use toolcrib_testkit::peers;
use toolcrib_testkit::scripted::{Script, Step, server_binary};

use crate::TestWorkspace;

fn scripted_server(script: &Script) -> Value {
    json!({"command": server_binary().unwrap(), "args": [script.to_json()]})
}

/// The report of one server.
fn server_report<'a>(report: &'a Value, id: &str) -> &'a Value {
    let all = report["servers"].as_array().unwrap();
    all.iter().find(|server| server["id"] == id).unwrap()
}

fn workspace() -> TestWorkspace {
    let banner = Script { legacy_only: true, ..Script::default() }
        .start([Step::Raw("Welcome!\n".to_owned())]);
    let talking = Script::default().start([Step::Stderr("no licence\n".to_owned()), Step::Exit(4)]);
    let mut off = scripted_server(&Script::default());
    off["enabled"] = json!(false);
    let mut wants = scripted_server(&Script::default());
    wants["init"] = json!({"require_server": ["tools", "telepathy"]});
    let modern = Script { modern_only: true, ..Script::default() };
    let demo = json!({"command": env!("CARGO_BIN_EXE_toolcrib"), "args": ["demo-server"]});
    let text = json!({"version": 1, "servers": {
        "both": wants, "banner": scripted_server(&banner), "dying": scripted_server(&talking),
        "missing": {"command": "no-such-program-here"}, "off": off, "demo": demo,
        "modern": scripted_server(&modern),
    }});
    TestWorkspace::new().with_file("toolcrib.yaml", &text.to_string())
}

#[test]
fn doctor_starts_every_server_once_and_reports_it() {
    let workspace = workspace();
    let ran =
        workspace.run_with_env(&["doctor", "--json"], &[("PATH", "/usr/local/bin:/usr/bin:/bin")]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["ok"], false);
    assert_eq!(report["servers"].as_array().unwrap().len(), 6); // what is switched off is not started
    let both = server_report(&report, "both");
    assert_eq!((&both["ok"], &both["protocol_version"]), (&json!(true), &json!("2026-07-28")));
    assert_eq!((&both["framing"], &both["tools"]), (&json!("newline"), &json!(3)));
    // The server does not announce the legacy era.
    assert_eq!(both["eras"], json!(["modern", "legacy"]));
    assert_eq!(server_report(&report, "modern")["eras"], json!(["modern"]));
    // MIN-19: a required capability that the server lacks.
    assert_eq!(both["oddities"][0]["code"], "capability.missing");
    assert!(both["oddities"][0]["text"].as_str().unwrap().contains("telepathy"));
    let banner = server_report(&report, "banner");
    assert_eq!((&banner["ok"], &banner["eras"]), (&json!(true), &json!(["legacy"])));
    // DOM-25: a banner is reported and does not end the connection.
    assert_eq!(banner["oddities"][0]["code"], "stream.noise");
    let dying = server_report(&report, "dying");
    assert_eq!((&dying["ok"], &dying["error"]["kind"]), (&json!(false), &json!("connection")));
    assert_eq!(dying["stderr"], "no licence"); // DOM-24: its stderr is its log
    let missing = server_report(&report, "missing");
    assert_eq!(missing["error"]["code"], "stdio.spawn.not_found");
    assert!(missing["error"]["fix"].is_string());
    let demo = server_report(&report, "demo");
    assert_eq!((&demo["ok"], &demo["eras"]), (&json!(true), &json!(["modern", "legacy"])));
    assert_eq!(
        (&demo["tools"], &demo["prompts"], &demo["resources"]),
        (&json!(7), &json!(1), &json!(1))
    );
}

#[test]
fn doctor_report_of_one_server_is_readable() {
    let workspace = workspace();
    let path = [("PATH", "/usr/local/bin:/usr/bin:/bin")];
    let ran = workspace.run_with_env(&["doctor", "banner"], &path);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("good    banner"), "{ran:?}");
    assert!(ran.out.contains("speaks 2025-11-25 (legacy), newline"), "{ran:?}");
    assert!(ran.out.contains("odd: it writes non-protocol output"), "{ran:?}");
    let kept = "credentials are stored unencrypted, readable by their owner only (no keyring is available: ";
    assert!(ran.out.contains(kept), "{ran:?}");
    assert!(ran.out.contains("in TMP/home/.local/state/toolcrib/credentials\n"), "{ran:?}");
    let ran = workspace.run_with_env(&["doctor", "dying"], &path);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("failed  dying") && ran.out.contains("stderr: no licence"), "{ran:?}");
    let ran = workspace.run_with_env(&["doctor", "nobody"], &path);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("there is no server `nobody`; there are both, banner"), "{ran:?}");
}

/// Servers of the Python SDK reject `initialize` on a connection that has spoken the modern era.
#[test]
fn doctor_finds_both_eras_with_separate_connections() {
    let time = peers::python_program("v2", "mcp-server-time", "mcp-server-time").unwrap();
    let text = json!({"version": 1, "servers": {
        "time": {"command": time, "args": ["--local-timezone", "UTC"]},
        "asked": {"command": time, "args": ["--local-timezone", "UTC"], "protocol": "modern"},
    }});
    let workspace = TestWorkspace::new().with_file("toolcrib.yaml", &text.to_string());
    let ran =
        workspace.run_with_env(&["doctor", "--json"], &[("PATH", "/usr/local/bin:/usr/bin:/bin")]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let time = server_report(&report, "time");
    assert_eq!(time["eras"], json!(["modern", "legacy"]));
    assert_eq!((&time["protocol_version"], &time["tools"]), (&json!("2026-07-28"), &json!(2)));
    // A configured protocol is not probed.
    assert_eq!(server_report(&report, "asked")["eras"], json!(["modern"]));
}
