//! Tests `toolcrib connect` and `--undo` for every client.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{PROGRAM, TestWorkspace};

/// Each client with its file and an initial content of that file.
const FILES: [(&str, &str, &str); 10] = [
    (
        "claude-code",
        ".claude.json",
        "{\n  \"numStartups\": 7,\n  \"mcpServers\": {\n    \"git\": { \"command\": \"git-mcp\" }\n  },\n  \"projects\": {}\n}\n",
    ),
    (
        "claude-desktop",
        ".config/Claude/claude_desktop_config.json",
        "{\n    \"globalShortcut\": \"\",\n    \"mcpServers\": {}\n}",
    ),
    (
        "cursor",
        ".cursor/mcp.json",
        "{\n\t// tabs here\n\t\"mcpServers\": {\n\t\t\"git\": { \"command\": \"git-mcp\" }, // kept\n\t}\n}\n",
    ),
    (
        "vscode",
        ".config/Code/User/mcp.json",
        "{\n  \"inputs\": [],\n  /* mine */\n  \"servers\": { \"web\": { \"type\": \"http\", \"url\": \"https://x.test\" } }\n}\n",
    ),
    (
        "codex",
        ".codex/config.toml",
        "# my model\nmodel = \"m\"\n\n[mcp_servers.git] # kept\ncommand = 'git-mcp'\n\n[profiles.fast]\nx = 1\n",
    ),
    (
        "goose",
        ".config/goose/config.yaml",
        "GOOSE_MODEL: m # mine\nextensions:\n  # kept\n  developer:\n    enabled: true\n    type: builtin\nGOOSE_MODE: auto\n",
    ),
    ("windsurf", ".codeium/windsurf/mcp_config.json", "{ \"mcpServers\": {} }\n"),
    (
        "zed",
        ".config/zed/settings.json",
        "// Zed settings\n{\n  \"theme\": \"One Dark\", // kept\n  \"vim_mode\": true,\n}\n",
    ),
    ("gemini-cli", ".gemini/settings.json", "{\"theme\": \"x\"}"),
    (
        "opencode",
        ".config/opencode/opencode.json",
        "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"mcp\": {}\n}\n",
    ),
];

impl TestWorkspace {
    /// A path in the home folder.
    fn home_path(&self, path: &str) -> PathBuf {
        self.home().join(path)
    }

    fn home_text(&self, path: &str) -> String {
        fs::read_to_string(self.home_path(path)).unwrap()
    }

    /// The file without parts that differ between machines and runs.
    fn entry_text(&self, client: &str, path: &str) -> String {
        let text = self.redact_folder(&self.home_text(path)).replace(PROGRAM, "/bin/toolcrib");
        match text.split_once(&format!("{client}-")) {
            Some((before, rest)) => format!("{before}{client}-CHANCE{}", &rest[8..]),
            None => text,
        }
    }

    fn connect_client(&self, args: &[&str]) -> String {
        let args: Vec<&str> = ["connect"].into_iter().chain(args.iter().copied()).collect();
        let ran = self.run(&args);
        assert_eq!(ran.code, 0, "{args:?} {ran:?}");
        ran.out
    }
}

#[test]
fn connect_adds_stdio_entry_and_undo_restores_file_byte_for_byte() {
    for (client, path, text) in FILES {
        let workspace = TestWorkspace::new().with_file(&format!("~/{path}"), text);
        fs::set_permissions(workspace.home_path(path), fs::Permissions::from_mode(0o640)).unwrap();
        let output = workspace.connect_client(&[client]);
        assert!(
            output.contains("added Toolcrib to ") && output.contains(": TMP/home/"),
            "{output}"
        );
        insta::assert_snapshot!(
            format!("{client}_stdio_entry"),
            workspace.entry_text(client, path)
        );
        let backup = format!("{path}.toolcrib-backup");
        assert_eq!(workspace.home_text(&backup), text);
        let mode = fs::metadata(workspace.home_path(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o640, "{client}");
        // The second run changes nothing.
        let before = workspace.home_text(path);
        assert!(workspace.connect_client(&[client]).contains("already"), "{client}");
        assert_eq!(workspace.home_text(path), before);
        assert!(workspace.connect_client(&[client, "--undo"]).contains("restored "), "{client}");
        assert_eq!(workspace.home_text(path), text, "{client}");
        assert!(!workspace.home_path(&backup).exists());
        assert!(
            workspace.connect_client(&[client, "--undo"]).contains("is not connected"),
            "{client}"
        );
    }
}

#[test]
fn http_entry_keeps_its_dialog_id() {
    for (client, path, text) in FILES {
        let workspace = TestWorkspace::new().with_file(&format!("~/{path}"), text);
        let ran = workspace.run(&["connect", client, "--http"]);
        if client == "claude-desktop" {
            assert_eq!((ran.code, workspace.home_text(path).as_str()), (1, text));
            assert!(ran.err.contains("omit --http"), "{ran:?}");
            continue;
        }
        assert_eq!(ran.code, 0, "{ran:?}");
        insta::assert_snapshot!(format!("{client}_http_entry"), workspace.entry_text(client, path));
        let before = workspace.home_text(path);
        workspace.connect_client(&[client, "--http"]);
        assert_eq!(workspace.home_text(path), before, "{client}");
        // Switch from HTTP to stdio, then undo.
        workspace.connect_client(&[client]);
        assert!(!workspace.home_text(path).contains("Toolcrib-Dialog"), "{client}");
        workspace.connect_client(&[client, "--undo"]);
        assert_eq!(workspace.home_text(path), text, "{client}");
    }
}

#[test]
fn undo_removes_file_that_connect_created() {
    for (client, path, _) in FILES {
        let workspace = TestWorkspace::new();
        workspace.connect_client(&[client]);
        assert!(workspace.home_text(path).contains("--stdio"), "{client}");
        workspace.connect_client(&[client, "--undo"]);
        assert!(!workspace.home_path(path).exists(), "{client}");
    }
}

#[test]
fn undo_keeps_later_edits() {
    let workspace = TestWorkspace::new().with_file("~/.cursor/mcp.json", FILES[2].2);
    workspace.connect_client(&["cursor"]);
    let text = workspace.home_text(".cursor/mcp.json").replace("tabs here", "changed since");
    let workspace = workspace.with_file("~/.cursor/mcp.json", &text);
    let output = workspace.connect_client(&["cursor", "--undo"]);
    assert!(output.contains("has changed since"), "{output}");
    assert_eq!(
        workspace.home_text(".cursor/mcp.json"),
        FILES[2].2.replace("tabs here", "changed since")
    );
}

#[test]
fn update_keeps_keys_added_to_entry() {
    let workspace = TestWorkspace::new();
    workspace.connect_client(&["cursor"]);
    let text = workspace.home_text(".cursor/mcp.json");
    let mut json: Value = serde_json::from_str(&text).unwrap();
    json["mcpServers"]["toolcrib"]["env"] = json!({"A": "b"});
    let workspace = workspace.with_file("~/.cursor/mcp.json", &json.to_string());
    fs::create_dir(workspace.folder.path().join("other")).unwrap();
    let other = workspace.folder.path().join("other");
    assert!(
        workspace
            .connect_client(&["cursor", "--root", other.to_str().unwrap()])
            .contains("updated Toolcrib")
    );
    let now: Value = serde_json::from_str(&workspace.home_text(".cursor/mcp.json")).unwrap();
    let entry = &now["mcpServers"]["toolcrib"];
    assert_eq!((&entry["env"]["A"], &entry["args"][3]), (&json!("b"), &json!(other)));
}

#[test]
fn undo_restores_entry_of_another_workspace() {
    for (client, path, text) in FILES {
        let workspace = TestWorkspace::new().with_file(&format!("~/{path}"), text);
        let other = workspace.folder.path().join("other");
        fs::create_dir(&other).unwrap();
        let root = ["--root", other.to_str().unwrap()];
        workspace.connect_client(&[client]);
        let first = workspace.home_text(path);
        let output = workspace.connect_client(&[&[client][..], &root].concat());
        assert!(output.contains("; the previous entry pointed to TMP/ws\n"), "{client}: {output}");
        let second = workspace.home_text(path);
        assert!(second.contains(root[1]), "{client}: {second}");
        // Repeating the command replaces nothing.
        let output = workspace.connect_client(&[&[client][..], &root].concat());
        assert!(output.contains("already") && !output.contains("TMP/ws "), "{client}: {output}");
        let output = workspace.connect_client(&[&[client, "--undo"][..], &root].concat());
        assert!(output.contains("which points to TMP/ws: "), "{client}: {output}");
        assert_eq!(workspace.home_text(path), first, "{client}");
        assert!(workspace.connect_client(&[client, "--undo"]).contains("restored "), "{client}");
        assert_eq!(workspace.home_text(path), text, "{client}");
        let left = fs::read_dir(workspace.home_path(path).parent().unwrap()).unwrap();
        let left = left
            .filter(|it| it.as_ref().unwrap().file_name().to_string_lossy().contains("toolcrib-"));
        assert_eq!(left.count(), 0, "{client}");
    }
}

#[test]
fn json_output_names_replaced_and_restored_entries() {
    let workspace = TestWorkspace::new();
    let other = workspace.folder.path().join("other");
    fs::create_dir(&other).unwrap();
    let root = ["--root", other.to_str().unwrap(), "--json"];
    let connect_json = |args: &[&str]| -> Value {
        serde_json::from_str(&workspace.run(&[&["connect", "cursor"], args].concat()).out).unwrap()
    };
    let first = connect_json(&["--json"]);
    assert_eq!((&first["action"], &first["replaced"]), (&json!("written"), &Value::Null));
    let second = connect_json(&root);
    assert_eq!(second["action"], "updated");
    assert_eq!(second["replaced"], json!({"root": "TMP/ws"}));
    assert_eq!(connect_json(&root)["replaced"], Value::Null);
    let undone = connect_json(&[&["--undo"], &root[..]].concat());
    assert_eq!(
        (&undone["action"], &undone["returned"]),
        (&json!("returned"), &json!({"root": "TMP/ws"}))
    );
    // Undo one step at a time. An entry removed by hand has no predecessor.
    connect_json(&root);
    assert_eq!(connect_json(&["--json"])["replaced"], json!({"root": "TMP/other"}));
    assert_eq!(connect_json(&["--undo", "--json"])["returned"], json!({"root": "TMP/other"}));
    let workspace = workspace.with_file("~/.cursor/mcp.json", "{}");
    assert_eq!(workspace.run(&["connect", "cursor"]).code, 0);
    assert!(workspace.connect_client(&["cursor", "--undo"]).contains("restored "));
}

#[test]
fn token_of_another_workspace_is_kept() {
    let workspace = TestWorkspace::new()
        .with_file("toolcrib.yaml", "version: 1\ngateway: { listen: ':7998' }\n");
    let other = workspace.folder.path().join("other");
    fs::create_dir(&other).unwrap();
    let root = ["--root", other.to_str().unwrap()];
    assert_eq!(workspace.run(&["token", "new", "--name", "first"]).code, 0);
    workspace.connect_client(&["cursor", "--http"]);
    let first = workspace.home_text(".cursor/mcp.json");
    assert!(first.contains("Bearer toolcrib_"), "{first}");
    let output = workspace.connect_client(&[&["cursor", "--http"][..], &root].concat());
    assert!(output.contains("the previous entry pointed to http://127.0.0.1:7998/mcp"), "{output}");
    assert!(!workspace.home_text(".cursor/mcp.json").contains("Bearer"));
    workspace.connect_client(&[&["cursor", "--undo"][..], &root].concat());
    assert_eq!(workspace.home_text(".cursor/mcp.json"), first);
    assert_eq!(
        token_names(&workspace),
        ["first", "connect:cursor"],
        "the old token is still valid"
    );
    workspace.connect_client(&["cursor", "--undo"]);
    assert_eq!(token_names(&workspace), ["first"]);
}

#[test]
fn connect_does_not_overwrite_foreign_or_unreadable_entries() {
    for (text, why) in [
        ("{\n  \"mcpServers\": {\n", "cannot parse TMP/home/.cursor/mcp.json: line "),
        ("[]", "is not changed"),
        ("{\"mcpServers\": []}", "is not changed"),
        ("{\"mcpServers\": {\"toolcrib\": {\"command\": \"x\"}}}", "has another server at"),
        ("{\"mcpServers\": {\"toolcrib\": 1}}", "has something else at"),
    ] {
        let workspace = TestWorkspace::new().with_file("~/.cursor/mcp.json", text);
        for more in [None, Some("--undo")] {
            let args: Vec<&str> = ["connect", "cursor"].into_iter().chain(more).collect();
            let ran = workspace.run(&args);
            if more.is_none() {
                assert_eq!(ran.code, 1, "{text} {ran:?}");
                assert!(ran.err.contains(why), "{text} {ran:?}");
            }
            assert_eq!(workspace.home_text(".cursor/mcp.json"), text);
        }
        assert_eq!(fs::read_dir(workspace.home_path(".cursor")).unwrap().count(), 1, "{text}");
    }
    let workspace = TestWorkspace::new()
        .with_file("~/.config/goose/config.yaml", "extensions: { a: { x: 1 } }\n");
    let ran = workspace.run(&["connect", "goose"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("by hand:\nextensions:\n  toolcrib:\n    enabled: true\n"), "{ran:?}");
}

#[test]
fn print_outputs_entry_without_writing_file() {
    let workspace = TestWorkspace::new();
    let ran = workspace.run(&["connect", "vscode", "--http", "--print", "--project"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "VS Code, in TMP/ws/.vscode/mcp.json:\n"));
    let printed: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(printed["servers"]["toolcrib"]["url"], "http://127.0.0.1:7420/mcp");
    assert!(!workspace.root().join(".vscode").exists());
}

#[test]
fn project_files_and_symbolic_links_are_written() {
    let workspace = TestWorkspace::new();
    workspace.connect_client(&["claude-code", "--project"]);
    assert!(workspace.read(".mcp.json").contains("--stdio"));
    let ran = workspace.run(&["connect", "windsurf", "--project"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("omit --project"), "{ran:?}");
    let workspace = workspace.with_file("dotfiles/mcp.json", "{}\n");
    fs::create_dir_all(workspace.home_path(".cursor")).unwrap();
    let real = workspace.root().join("dotfiles/mcp.json");
    std::os::unix::fs::symlink(&real, workspace.home_path(".cursor/mcp.json")).unwrap();
    workspace.connect_client(&["cursor"]);
    assert!(fs::symlink_metadata(workspace.home_path(".cursor/mcp.json")).unwrap().is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("--stdio"));
}

#[test]
fn connect_without_client_lists_all_clients() {
    let workspace = TestWorkspace::new()
        .with_file("~/.cursor/mcp.json", "{}")
        .with_file("~/.gemini/settings.json", "{");
    workspace.connect_client(&["codex"]);
    let listed: Value = serde_json::from_str(&workspace.connect_client(&["--json"])).unwrap();
    let state = |client: &str, scope: &str| {
        let all = listed["clients"].as_array().unwrap();
        let one = all.iter().find(|it| it["client"] == client && it["scope"] == scope);
        one.map(|it| it["state"].clone())
    };
    assert_eq!(state("codex", "user"), Some(json!("connected")));
    assert_eq!(state("cursor", "user"), Some(json!("there")));
    assert_eq!(state("zed", "project"), Some(json!("missing")));
    assert_eq!(state("gemini-cli", "user"), Some(json!("unusable")));
    assert_eq!(state("goose", "project"), None);
    assert!(
        workspace
            .connect_client(&[])
            .contains("cursor          user     TMP/home/.cursor/mcp.json")
    );
}

/// The names of all tokens.
fn token_names(workspace: &TestWorkspace) -> Vec<String> {
    let listed: Value =
        serde_json::from_str(&workspace.run(&["token", "list", "--json"]).out).unwrap();
    let all = listed["tokens"].as_array().unwrap();
    all.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn token_is_revoked_when_entry_cannot_be_written() {
    let backup = "~/.cursor/mcp.json.toolcrib-backup/in_the_way";
    let workspace =
        TestWorkspace::new().with_file("~/.cursor/mcp.json", "{}").with_file(backup, "");
    assert_eq!(workspace.run(&["token", "new", "--name", "first"]).code, 0);
    let ran = workspace.run(&["connect", "cursor", "--http"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(token_names(&workspace), ["first"]);
    assert_eq!(workspace.home_text(".cursor/mcp.json"), "{}");
}

#[test]
fn http_entry_gets_own_token_when_tokens_are_required() {
    let workspace = TestWorkspace::new();
    let first = workspace.run(&["token", "new", "--name", "first"]);
    assert_eq!(first.code, 0, "{first:?}");
    let names = || token_names(&workspace);
    let header = |path: &str| {
        let json: Value = serde_json::from_str(&workspace.home_text(path)).unwrap();
        json["mcpServers"]["toolcrib"]["headers"]["Authorization"].clone()
    };
    workspace.connect_client(&["cursor", "--http"]);
    let token = header(".cursor/mcp.json");
    assert!(token.as_str().unwrap().starts_with("Bearer toolcrib_"), "{token}");
    assert_eq!(names(), ["first", "connect:cursor"]);
    // The second run changes nothing.
    assert!(workspace.connect_client(&["cursor", "--http"]).contains("already"));
    assert_eq!((header(".cursor/mcp.json"), names().len()), (token, 2));
    workspace.connect_client(&["cursor", "--undo"]);
    assert_eq!(names(), ["first"], "the token is revoked with the entry");
    // Shared files and printed entries contain no secret.
    for more in ["--print", "--project"] {
        let ran = workspace.run(&["connect", "cursor", "--http", more]);
        assert!(ran.err.contains("Authorization: Bearer TOKEN"), "{ran:?}");
        assert!(!ran.out.contains("Bearer"), "{ran:?}");
    }
    assert!(!workspace.read(".cursor/mcp.json").contains("Bearer"));
    assert_eq!(names(), ["first"]);
}

#[test]
fn http_entry_uses_configured_address() {
    let workspace = TestWorkspace::new()
        .with_file("toolcrib.yaml", "version: 1\ngateway: { listen: ':7999' }\n");
    let ran = workspace.run(&["connect", "vscode", "--http", "--print"]);
    let printed: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(printed["servers"]["toolcrib"]["url"], "http://127.0.0.1:7999/mcp");
    let workspace =
        workspace.with_file("toolcrib.yaml", "version: 1\ngateway: { listen: 'nowhere' }\n");
    for args in [&["connect", "vscode", "--http", "--print"][..], &["serve"]] {
        let ran = workspace.run(args);
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains("gateway.listen is `nowhere`"), "{ran:?}");
    }
}
