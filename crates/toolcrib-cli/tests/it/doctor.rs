//! `toolcrib doctor`: every server started once, and what was seen of it.

use serde_json::{Value, json};
use toolcrib_testkit::peers;
use toolcrib_testkit::scripted::{Script, Step, program};

use crate::Place;

fn scripted(script: &Script) -> Value {
    json!({"command": program().unwrap(), "args": [script.to_json()]})
}

/// The report of one server.
fn of<'a>(report: &'a Value, id: &str) -> &'a Value {
    let all = report["servers"].as_array().unwrap();
    all.iter().find(|server| server["id"] == id).unwrap()
}

fn place() -> Place {
    let banner = Script { legacy_only: true, ..Script::default() }
        .start([Step::Raw("Welcome!\n".to_owned())]);
    let talking = Script::default().start([Step::Stderr("no licence\n".to_owned()), Step::Exit(4)]);
    let mut off = scripted(&Script::default());
    off["enabled"] = json!(false);
    let mut wants = scripted(&Script::default());
    wants["init"] = json!({"require_server": ["tools", "telepathy"]});
    let modern = Script { modern_only: true, ..Script::default() };
    let demo = json!({"command": env!("CARGO_BIN_EXE_toolcrib"), "args": ["demo-server"]});
    let text = json!({"version": 1, "servers": {
        "both": wants, "banner": scripted(&banner), "dying": scripted(&talking),
        "missing": {"command": "no-such-program-here"}, "off": off, "demo": demo,
        "modern": scripted(&modern),
    }});
    Place::new().file("toolcrib.yaml", &text.to_string())
}

#[test]
fn each_server_is_started_once_and_reported() {
    let place = place();
    let ran = place.run_with(&["doctor", "--json"], &[("PATH", "/usr/local/bin:/usr/bin:/bin")]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["ok"], false);
    assert_eq!(report["servers"].as_array().unwrap().len(), 6); // what is switched off is not started
    let both = of(&report, "both");
    assert_eq!((&both["ok"], &both["protocol_version"]), (&json!(true), &json!("2026-07-28")));
    assert_eq!((&both["framing"], &both["tools"]), (&json!("newline"), &json!(3)));
    // It does not say that it speaks the legacy era as well.
    assert_eq!(both["eras"], json!(["modern", "legacy"]));
    assert_eq!(of(&report, "modern")["eras"], json!(["modern"]));
    // MIN-19: what the configuration asks for and the server lacks.
    assert_eq!(both["oddities"][0]["code"], "capability.missing");
    assert!(both["oddities"][0]["text"].as_str().unwrap().contains("telepathy"));
    let banner = of(&report, "banner");
    assert_eq!((&banner["ok"], &banner["eras"]), (&json!(true), &json!(["legacy"])));
    // DOM-25: a banner is a problem that names itself, and not the end.
    assert_eq!(banner["oddities"][0]["code"], "stream.noise");
    let dying = of(&report, "dying");
    assert_eq!((&dying["ok"], &dying["error"]["kind"]), (&json!(false), &json!("connection")));
    assert_eq!(dying["stderr"], "no licence"); // DOM-24: its stderr is its log
    let missing = of(&report, "missing");
    assert_eq!(missing["error"]["code"], "stdio.spawn.not_found");
    assert!(missing["error"]["fix"].is_string());
    let demo = of(&report, "demo");
    assert_eq!((&demo["ok"], &demo["eras"]), (&json!(true), &json!(["modern", "legacy"])));
    assert_eq!(
        (&demo["tools"], &demo["prompts"], &demo["resources"]),
        (&json!(7), &json!(1), &json!(1))
    );
}

#[test]
fn one_server_can_be_asked_for_and_people_can_read_the_report() {
    let place = place();
    let path = [("PATH", "/usr/local/bin:/usr/bin:/bin")];
    let ran = place.run_with(&["doctor", "banner"], &path);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("good    banner"), "{ran:?}");
    assert!(ran.out.contains("speaks 2025-11-25 (legacy), newline"), "{ran:?}");
    assert!(ran.out.contains("odd: it writes what is no message"), "{ran:?}");
    let kept =
        "credentials are kept as they are, for their owner alone (there is no keyring here: ";
    assert!(ran.out.contains(kept), "{ran:?}");
    assert!(ran.out.contains("in TMP/home/.local/state/toolcrib/credentials\n"), "{ran:?}");
    let ran = place.run_with(&["doctor", "dying"], &path);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("failed  dying") && ran.out.contains("stderr: no licence"), "{ran:?}");
    let ran = place.run_with(&["doctor", "nobody"], &path);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("there is no server `nobody`; there are both, banner"), "{ran:?}");
}

/// On a connection that has spoken the modern era servers on the Python SDK refuse `initialize`.
#[test]
fn both_eras_of_a_server_are_found_though_it_speaks_only_one_on_a_connection() {
    let time = peers::python("v2", "mcp-server-time", "mcp-server-time").unwrap();
    let text = json!({"version": 1, "servers": {
        "time": {"command": time, "args": ["--local-timezone", "UTC"]},
        "asked": {"command": time, "args": ["--local-timezone", "UTC"], "protocol": "modern"},
    }});
    let place = Place::new().file("toolcrib.yaml", &text.to_string());
    let ran = place.run_with(&["doctor", "--json"], &[("PATH", "/usr/local/bin:/usr/bin:/bin")]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let time = of(&report, "time");
    assert_eq!(time["eras"], json!(["modern", "legacy"]));
    assert_eq!((&time["protocol_version"], &time["tools"]), (&json!("2026-07-28"), &json!(2)));
    // Who has said what is to be spoken does not ask for anything else.
    assert_eq!(of(&report, "asked")["eras"], json!(["modern"]));
}
