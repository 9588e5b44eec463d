//! Tests trust of discovered configuration: it starts no process before a person has approved it.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::terminal::run_with_keys;
use super::{PATH, Shim, codes, demo_server, find, native_workspace, parse_json, server};
use crate::{CommandOutput, TestWorkspace};

/// A workspace whose server records its start.
fn recording_workspace() -> (TestWorkspace, Shim) {
    let workspace = TestWorkspace::new();
    let shim = workspace.shim("noting");
    let workspace = workspace.with_file("toolcrib.yaml", &entry(&shim, &json!({})));
    (workspace, shim)
}

fn entry(shim: &Shim, more: &Value) -> String {
    let mut entry = json!({"command": shim.path, "args": ["one"]});
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"version": 1, "servers": {"s": entry}}).to_string()
}

impl TestWorkspace {
    /// Runs a command in the workspace without naming it.
    fn run_without_root(&self, args: &[&str]) -> CommandOutput {
        let output = self.command_without_root(args).env(PATH.0, PATH.1).output().unwrap();
        self.command_output(&output)
    }

    fn json_without_root(&self, args: &[&str]) -> Value {
        parse_json(&self.run_without_root(&[args, &["--json"]].concat()))
    }

    fn state_without_root(&self) -> Value {
        server(&self.json_without_root(&["servers"]), "s")["state"].clone()
    }
}

impl Shim {
    fn was_started(&self) -> bool {
        let was = self.start_record().is_some();
        drop(std::fs::remove_file(&self.log));
        was
    }
}

#[test]
fn login_requires_trusted_folder() {
    let workspace = TestWorkspace::new();
    let shim = workspace.shim("teller");
    let config = json!({
        "version": 1,
        "host": {"secrets": {"mine": {"kind": "command", "command": [shim.path, "{path}"]}}},
        "servers": {"s": {
            "url": "http://127.0.0.1:9/mcp",
            "auth": {"kind": "oauth", "client_id": "c", "client_secret": {"secret": "mine:x"}},
        }},
    });
    let workspace = workspace.with_file("toolcrib.yaml", &config.to_string());
    for command in ["login", "logout"] {
        let ran = workspace.run_without_root(&[command, "s"]);
        assert_ne!(ran.code, 0, "{ran:?}");
        assert!(ran.err.contains("`toolcrib trust`"), "{ran:?}");
        assert!(!shim.was_started(), "{command} ran the command of a secret");
    }
    // With `--trust` the secret is requested.
    assert_ne!(workspace.run_without_root(&["login", "s", "--trust"]).code, 0);
    assert!(shim.was_started());
}

#[test]
fn untrusted_configuration_starts_no_server() {
    let (workspace, shim) = recording_workspace();
    let listed = workspace.json_without_root(&["tools"]);
    let problem = find(&listed["problems"], "code", "trust.required");
    assert_eq!((&problem["server"], &problem["line"]), (&json!("s"), &json!(1)));
    assert!(problem["fix"].as_str().unwrap().contains("`toolcrib trust TMP/ws`"), "{problem}");
    assert_eq!(workspace.state_without_root(), "disabled");
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
        let ran = workspace.run_without_root(&args);
        assert_ne!(ran.code, 0, "{args:?}: {ran:?}");
        let printed = ran.err + &ran.out;
        assert!(printed.contains("trust"), "{args:?}: {printed}");
        assert!(!shim.was_started(), "{args:?}");
    }
    // Inspecting needs no trust.
    for args in [vec!["check"], vec!["explain"], vec!["trust", "--show"], vec!["servers"]] {
        let ran = workspace.run_without_root(&args);
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        assert!(!shim.was_started(), "{args:?}");
    }
}

#[test]
fn named_root_and_user_file_are_trusted() {
    let (workspace, shim) = recording_workspace();
    for args in [
        vec!["tools", "--root", "."],
        vec!["tools", "--config", "toolcrib.yaml"],
        vec!["tools", "--trust"],
    ] {
        let ran = workspace.run_without_root(&args);
        assert!(ran.code == 0 && shim.was_started(), "{args:?}: {ran:?}");
    }
    // `--trust` applies to one run.
    assert_eq!(workspace.state_without_root(), "disabled");
    let own = TestWorkspace::new();
    let text = json!({"version": 1, "servers": {"mine": demo_server()}}).to_string();
    let own = own.with_file("~/.config/toolcrib/toolcrib.yaml", &text);
    assert_eq!(own.json_without_root(&["tools"])["tools"].as_array().unwrap().len(), 7);
}

#[test]
fn trust_applies_to_commands_and_ends_when_they_change() {
    let (workspace, shim) = recording_workspace();
    let ran = workspace.run_without_root(&["trust"]);
    let path = workspace.redact_folder(shim.path.to_str().unwrap());
    assert_eq!(ran.out, format!("  s (toolcrib.yaml)\n    stdio: {path} one\n"));
    assert_eq!(ran.err, "TMP/ws is trusted: 1 server\n");
    let file = workspace.home().join(".local/state/toolcrib/trust.json");
    assert_eq!(super::serve::file_mode(&file), 0o600);
    assert_eq!(workspace.state_without_root(), "ready");
    // Changes of other keys keep the trust.
    let workspace = workspace
        .with_file("toolcrib.yaml", &entry(&shim, &json!({"timeouts": {"request": "5s"}})));
    assert_eq!(workspace.state_without_root(), "ready");
    let workspace = workspace.with_file("toolcrib.yaml", &entry(&shim, &json!({"args": ["two"]})));
    assert!(shim.was_started());
    assert_eq!(workspace.state_without_root(), "disabled");
    assert!(!shim.was_started());
    // Returning to a trusted command restores the trust.
    let workspace = workspace.with_file("toolcrib.yaml", &entry(&shim, &json!({})));
    assert_eq!(workspace.state_without_root(), "ready");
    assert!(workspace.run_without_root(&["trust", "--list"]).out.contains("TMP/ws"));
    assert_eq!(
        workspace.run_without_root(&["trust", "--forget"]).out,
        "TMP/ws is no longer trusted\n"
    );
    assert_eq!(workspace.state_without_root(), "disabled");
    assert_eq!(workspace.run_without_root(&["trust", "--forget"]).code, 1);
    assert_eq!(
        workspace.run_without_root(&["trust", "--list", "--json"]).out,
        "{\n  \"folders\": []\n}\n"
    );
}

#[test]
fn trust_applies_to_canonical_folder_only() {
    let (workspace, _) = recording_workspace();
    let inner = workspace.read("toolcrib.yaml");
    let workspace = workspace.with_file("deep/toolcrib.yaml", &inner);
    symlink(workspace.root(), workspace.sibling_path("link")).unwrap();
    assert_eq!(workspace.run_without_root(&["trust", "../link/deep/.."]).code, 0);
    assert_eq!(workspace.state_without_root(), "ready");
    let in_folder = |folder: &std::path::Path| {
        let mut command = workspace.command_without_root(&["servers", "--json"]);
        let output = command.env(PATH.0, PATH.1).current_dir(folder).output().unwrap();
        server(&parse_json(&workspace.command_output(&output)), "s")["state"].clone()
    };
    assert_eq!(in_folder(&workspace.sibling_path("link")), "ready");
    // The same text in a subfolder belongs to another folder.
    assert_eq!(in_folder(&workspace.root().join("deep")), "disabled");
}

#[test]
fn terminal_prompts_once_and_shows_commands() {
    let (workspace, shim) = recording_workspace();
    let evil = json!({"args": ["\u{1b}[2J\u{202e}x", "two words"], "env": {"TOKEN": "s3cret"}});
    let workspace = workspace.with_file("toolcrib.yaml", &entry(&shim, &evil));
    let sent = run_with_keys(&workspace, "servers", "n\n");
    assert!(sent.contains("is not trusted. It would run:"), "{sent:?}");
    let shown = format!(r#"stdio: {} \u{{1b}}[2J\u{{202e}}x "two words""#, shim.path.display());
    assert!(sent.contains(&shown), "{sent:?}");
    assert!(sent.contains("TOKEN: \"***\"") && !sent.contains("s3cret"), "{sent:?}");
    assert!(sent.contains("Trust it? [y/N] ") && sent.contains("disabled"), "{sent:?}");
    assert!(!shim.was_started());
    let sent = run_with_keys(&workspace, "servers", "y\n");
    assert!(sent.contains("Trust it?") && sent.contains("ready"), "{sent:?}");
    assert!(shim.was_started());
    let sent = run_with_keys(&workspace, "servers", "");
    assert!(!sent.contains("Trust it?") && sent.contains("ready"), "{sent:?}");
    // A named root is not prompted for.
    assert_eq!(workspace.run_without_root(&["trust", "--forget"]).code, 0);
    assert!(!run_with_keys(&workspace, "servers --root .", "").contains("Trust it?"));
    assert!(!run_with_keys(&workspace, "check", "").contains("Trust it?"));
}

#[test]
fn untrusted_file_does_not_configure_host() {
    let workspace = native_workspace(&json!({"s": demo_server()}));
    let mut file: Value = serde_json::from_str(&workspace.read("toolcrib.yaml")).unwrap();
    file["gateway"] =
        json!({"oauth": {"issuer": "https://evil.example", "audience": "https://tools.example"}});
    file["host"] = json!({"reserved_tools": ["s__add"]});
    let workspace = workspace.with_file("toolcrib.yaml", &file.to_string());
    // An untrusted issuer does not allow a public address.
    let ran = workspace.run_without_root(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let listed = workspace.json_without_root(&["tools"]);
    assert_eq!(codes(&listed["problems"]), ["trust.required"; 2]);
    assert!(workspace.run_without_root(&["trust"]).out.contains("https://evil.example"));
    let listed = workspace.json_without_root(&["tools"]);
    assert_eq!(listed["tools"].as_array().unwrap().len(), 6, "the file applies now");
}
