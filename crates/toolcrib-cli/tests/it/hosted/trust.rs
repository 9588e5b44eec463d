//! Configuration that was found where somebody is: nothing of it runs before somebody has seen what it runs.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::terminal::typed;
use super::{PATH, Shim, codes, demo, find, native, parsed, server};
use crate::{Place, Ran};

/// A workspace whose server notes that it was started.
fn noting() -> (Place, Shim) {
    let place = Place::new();
    let shim = place.shim("noting");
    let place = place.file("toolcrib.yaml", &entry(&shim, &json!({})));
    (place, shim)
}

fn entry(shim: &Shim, more: &Value) -> String {
    let mut entry = json!({"command": shim.path, "args": ["one"]});
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"version": 1, "servers": {"s": entry}}).to_string()
}

impl Place {
    /// A command by somebody who is in the workspace and does not name it.
    fn found(&self, args: &[&str]) -> Ran {
        let output = self.unnamed(args).env(PATH.0, PATH.1).output().unwrap();
        self.ran(&output)
    }

    fn found_json(&self, args: &[&str]) -> Value {
        parsed(&self.found(&[args, &["--json"]].concat()))
    }

    fn found_state(&self) -> Value {
        server(&self.found_json(&["servers"]), "s")["state"].clone()
    }
}

impl Shim {
    fn was_started(&self) -> bool {
        let was = self.started().is_some();
        drop(std::fs::remove_file(&self.log));
        was
    }
}

#[test]
fn nobody_logs_in_where_a_folder_that_is_not_trusted_leads() {
    let place = Place::new();
    let shim = place.shim("teller");
    let config = json!({
        "version": 1,
        "host": {"secrets": {"mine": {"kind": "command", "command": [shim.path, "{path}"]}}},
        "servers": {"s": {
            "url": "http://127.0.0.1:9/mcp",
            "auth": {"kind": "oauth", "client_id": "c", "client_secret": {"secret": "mine:x"}},
        }},
    });
    let place = place.file("toolcrib.yaml", &config.to_string());
    for command in ["login", "logout"] {
        let ran = place.found(&[command, "s"]);
        assert_ne!(ran.code, 0, "{ran:?}");
        assert!(ran.err.contains("`toolcrib trust`"), "{ran:?}");
        assert!(!shim.was_started(), "{command} ran the command of a secret");
    }
    // The same, trusted for once, asks for the secret.
    assert_ne!(place.found(&["login", "s", "--trust"]).code, 0);
    assert!(shim.was_started());
}

#[test]
fn what_is_found_starts_nothing_until_it_is_trusted() {
    let (place, shim) = noting();
    let listed = place.found_json(&["tools"]);
    let problem = find(&listed["problems"], "code", "trust.required");
    assert_eq!((&problem["server"], &problem["line"]), (&json!("s"), &json!(1)));
    assert!(problem["fix"].as_str().unwrap().contains("`toolcrib trust TMP/ws`"), "{problem}");
    assert_eq!(place.found_state(), "disabled");
    for args in [
        vec!["tools"],
        vec!["call", "s__t"],
        vec!["doctor"],
        vec!["doctor", "s"],
        vec!["reload"],
        vec!["server", "enable", "s"],
        vec!["server", "connect", "s"],
        vec!["server", "restart", "s"],
    ] {
        let ran = place.found(&args);
        assert_ne!(ran.code, 0, "{args:?}: {ran:?}");
        let said = ran.err + &ran.out;
        assert!(said.contains("trust"), "{args:?}: {said}");
        assert!(!shim.was_started(), "{args:?}");
    }
    // Looking is free.
    for args in [vec!["check"], vec!["explain"], vec!["trust", "--show"], vec!["servers"]] {
        let ran = place.found(&args);
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        assert!(!shim.was_started(), "{args:?}");
    }
}

#[test]
fn what_somebody_names_is_trusted_and_so_is_their_own_file() {
    let (place, shim) = noting();
    for args in [
        vec!["tools", "--root", "."],
        vec!["tools", "--config", "toolcrib.yaml"],
        vec!["tools", "--trust"],
    ] {
        let ran = place.found(&args);
        assert!(ran.code == 0 && shim.was_started(), "{args:?}: {ran:?}");
    }
    // For that run only.
    assert_eq!(place.found_state(), "disabled");
    let own = Place::new();
    let text = json!({"version": 1, "servers": {"mine": demo()}}).to_string();
    let own = own.file("~/.config/toolcrib/toolcrib.yaml", &text);
    assert_eq!(own.found_json(&["tools"])["tools"].as_array().unwrap().len(), 7);
}

#[test]
fn trust_is_of_what_runs_and_lasts_as_long_as_that_does() {
    let (place, shim) = noting();
    let ran = place.found(&["trust"]);
    let path = place.plain(shim.path.to_str().unwrap());
    assert_eq!(ran.out, format!("  s (toolcrib.yaml)\n    stdio: {path} one\n"));
    assert_eq!(ran.err, "TMP/ws is trusted: 1 server\n");
    let file = place.home().join(".local/state/toolcrib/trust.json");
    assert_eq!(super::serve::mode(&file), 0o600);
    assert_eq!(place.found_state(), "ready");
    // Anything else may change.
    let place = place.file("toolcrib.yaml", &entry(&shim, &json!({"timeouts": {"request": "5s"}})));
    assert_eq!(place.found_state(), "ready");
    let place = place.file("toolcrib.yaml", &entry(&shim, &json!({"args": ["two"]})));
    assert!(shim.was_started());
    assert_eq!(place.found_state(), "disabled");
    assert!(!shim.was_started());
    // What was trusted once and is there again, is trusted.
    let place = place.file("toolcrib.yaml", &entry(&shim, &json!({})));
    assert_eq!(place.found_state(), "ready");
    assert!(place.found(&["trust", "--list"]).out.contains("TMP/ws"));
    assert_eq!(place.found(&["trust", "--forget"]).out, "TMP/ws is not trusted any more\n");
    assert_eq!(place.found_state(), "disabled");
    assert_eq!(place.found(&["trust", "--forget"]).code, 1);
    assert_eq!(place.found(&["trust", "--list", "--json"]).out, "{\n  \"folders\": []\n}\n");
}

#[test]
fn a_folder_is_the_same_whatever_led_to_it_and_no_other_is() {
    let (place, _) = noting();
    let inner = place.read("toolcrib.yaml");
    let place = place.file("deep/toolcrib.yaml", &inner);
    symlink(place.root(), place.beside("link")).unwrap();
    assert_eq!(place.found(&["trust", "../link/deep/.."]).code, 0);
    assert_eq!(place.found_state(), "ready");
    let in_folder = |folder: &std::path::Path| {
        let mut command = place.unnamed(&["servers", "--json"]);
        let output = command.env(PATH.0, PATH.1).current_dir(folder).output().unwrap();
        server(&parsed(&place.ran(&output)), "s")["state"].clone()
    };
    assert_eq!(in_folder(&place.beside("link")), "ready");
    // The same text in a folder below is another folder's.
    assert_eq!(in_folder(&place.root().join("deep")), "disabled");
}

#[test]
fn a_terminal_is_asked_once_and_shown_what_would_run() {
    let (place, shim) = noting();
    let evil = json!({"args": ["\u{1b}[2J\u{202e}x", "two words"], "env": {"TOKEN": "s3cret"}});
    let place = place.file("toolcrib.yaml", &entry(&shim, &evil));
    let sent = typed(&place, "servers", "n\n");
    assert!(sent.contains("is not trusted. It would run:"), "{sent:?}");
    let shown = format!(r#"stdio: {} \u{{1b}}[2J\u{{202e}}x "two words""#, shim.path.display());
    assert!(sent.contains(&shown), "{sent:?}");
    assert!(sent.contains("TOKEN: \"***\"") && !sent.contains("s3cret"), "{sent:?}");
    assert!(sent.contains("Trust it? [y/N] ") && sent.contains("disabled"), "{sent:?}");
    assert!(!shim.was_started());
    let sent = typed(&place, "servers", "y\n");
    assert!(sent.contains("Trust it?") && sent.contains("ready"), "{sent:?}");
    assert!(shim.was_started());
    let sent = typed(&place, "servers", "");
    assert!(!sent.contains("Trust it?") && sent.contains("ready"), "{sent:?}");
    // Whoever names it is not asked.
    assert_eq!(place.found(&["trust", "--forget"]).code, 0);
    assert!(!typed(&place, "servers --root .", "").contains("Trust it?"));
    assert!(!typed(&place, "check", "").contains("Trust it?"));
}

#[test]
fn what_is_found_says_nothing_of_the_host_before() {
    let place = native(&json!({"s": demo()}));
    let mut file: Value = serde_json::from_str(&place.read("toolcrib.yaml")).unwrap();
    file["gateway"] = json!({"oauth": {"issuer": "https://evil.example"}});
    file["host"] = json!({"reserved_tools": ["s__add"]});
    let place = place.file("toolcrib.yaml", &file.to_string());
    // Somebody else's issuer does not open an address to the world.
    let ran = place.found(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let listed = place.found_json(&["tools"]);
    assert_eq!(codes(&listed["problems"]), ["trust.required"; 2]);
    assert!(place.found(&["trust"]).out.contains("https://evil.example"));
    let listed = place.found_json(&["tools"]);
    assert_eq!(listed["tools"].as_array().unwrap().len(), 6, "the file counts now");
}
