//! `toolcrib connect`, there and back, for every client.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{PROGRAM, Place};

/// Each client, a file of it, and what may be in that file.
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

impl Place {
    /// A file of the home.
    fn own(&self, path: &str) -> PathBuf {
        self.home().join(path)
    }

    fn own_text(&self, path: &str) -> String {
        fs::read_to_string(self.own(path)).unwrap()
    }

    /// What a file is now, without what differs from machine to machine and from time to time.
    fn shown(&self, client: &str, path: &str) -> String {
        let text = self.plain(&self.own_text(path)).replace(PROGRAM, "/bin/toolcrib");
        match text.split_once(&format!("{client}-")) {
            Some((before, rest)) => format!("{before}{client}-CHANCE{}", &rest[8..]),
            None => text,
        }
    }

    fn connected(&self, args: &[&str]) -> String {
        let args: Vec<&str> = ["connect"].into_iter().chain(args.iter().copied()).collect();
        let ran = self.run(&args);
        assert_eq!(ran.code, 0, "{args:?} {ran:?}");
        ran.out
    }
}

#[test]
fn it_is_written_beside_what_is_there_and_taken_out_again_to_the_byte() {
    for (client, path, text) in FILES {
        let place = Place::new().file(&format!("~/{path}"), text);
        fs::set_permissions(place.own(path), fs::Permissions::from_mode(0o640)).unwrap();
        let said = place.connected(&[client]);
        assert!(said.contains("has Toolcrib now: TMP/home/"), "{said}");
        insta::assert_snapshot!(format!("{client}_starts_it"), place.shown(client, path));
        let backup = format!("{path}.toolcrib-backup");
        assert_eq!(place.own_text(&backup), text);
        let mode = fs::metadata(place.own(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o640, "{client}");
        // Twice is once.
        let before = place.own_text(path);
        assert!(place.connected(&[client]).contains("already"), "{client}");
        assert_eq!(place.own_text(path), before);
        assert!(place.connected(&[client, "--undo"]).contains("is as it was before"), "{client}");
        assert_eq!(place.own_text(path), text, "{client}");
        assert!(!place.own(&backup).exists());
        assert!(place.connected(&[client, "--undo"]).contains("has no Toolcrib"), "{client}");
    }
}

#[test]
fn over_http_it_has_a_dialog_of_its_own_which_stays() {
    for (client, path, text) in FILES {
        let place = Place::new().file(&format!("~/{path}"), text);
        let ran = place.run(&["connect", client, "--http"]);
        if client == "claude-desktop" {
            assert_eq!((ran.code, place.own_text(path).as_str()), (1, text));
            assert!(ran.err.contains("leave --http out"), "{ran:?}");
            continue;
        }
        assert_eq!(ran.code, 0, "{ran:?}");
        insta::assert_snapshot!(format!("{client}_asks_it"), place.shown(client, path));
        let before = place.own_text(path);
        place.connected(&[client, "--http"]);
        assert_eq!(place.own_text(path), before, "{client}");
        // From one way to the other and back out.
        place.connected(&[client]);
        assert!(!place.own_text(path).contains("Toolcrib-Dialog"), "{client}");
        place.connected(&[client, "--undo"]);
        assert_eq!(place.own_text(path), text, "{client}");
    }
}

#[test]
fn a_file_that_was_not_there_is_gone_again() {
    for (client, path, _) in FILES {
        let place = Place::new();
        place.connected(&[client]);
        assert!(place.own_text(path).contains("--stdio"), "{client}");
        place.connected(&[client, "--undo"]);
        assert!(!place.own(path).exists(), "{client}");
    }
}

#[test]
fn what_others_wrote_since_stays() {
    let place = Place::new().file("~/.cursor/mcp.json", FILES[2].2);
    place.connected(&["cursor"]);
    let text = place.own_text(".cursor/mcp.json").replace("tabs here", "changed since");
    let place = place.file("~/.cursor/mcp.json", &text);
    let said = place.connected(&["cursor", "--undo"]);
    assert!(said.contains("has changed since"), "{said}");
    assert_eq!(
        place.own_text(".cursor/mcp.json"),
        FILES[2].2.replace("tabs here", "changed since")
    );
}

#[test]
fn what_a_person_added_to_the_entry_stays_when_it_is_updated() {
    let place = Place::new();
    place.connected(&["cursor"]);
    let text = place.own_text(".cursor/mcp.json");
    let mut json: Value = serde_json::from_str(&text).unwrap();
    json["mcpServers"]["toolcrib"]["env"] = json!({"A": "b"});
    let place = place.file("~/.cursor/mcp.json", &json.to_string());
    fs::create_dir(place.folder.path().join("other")).unwrap();
    let other = place.folder.path().join("other");
    assert!(
        place.connected(&["cursor", "--root", other.to_str().unwrap()]).contains("as it is now")
    );
    let now: Value = serde_json::from_str(&place.own_text(".cursor/mcp.json")).unwrap();
    let entry = &now["mcpServers"]["toolcrib"];
    assert_eq!((&entry["env"]["A"], &entry["args"][3]), (&json!("b"), &json!(other)));
}

#[test]
fn an_entry_of_another_workspace_is_named_and_comes_back() {
    for (client, path, text) in FILES {
        let place = Place::new().file(&format!("~/{path}"), text);
        let other = place.folder.path().join("other");
        fs::create_dir(&other).unwrap();
        let root = ["--root", other.to_str().unwrap()];
        place.connected(&[client]);
        let first = place.own_text(path);
        let said = place.connected(&[&[client][..], &root].concat());
        assert!(said.contains("; it had that of TMP/ws before\n"), "{client}: {said}");
        let second = place.own_text(path);
        assert!(second.contains(root[1]), "{client}: {second}");
        // The same once more replaces nothing.
        let said = place.connected(&[&[client][..], &root].concat());
        assert!(said.contains("already") && !said.contains("TMP/ws "), "{client}: {said}");
        let said = place.connected(&[&[client, "--undo"][..], &root].concat());
        assert!(said.contains("has the Toolcrib of TMP/ws again"), "{client}: {said}");
        assert_eq!(place.own_text(path), first, "{client}");
        assert!(place.connected(&[client, "--undo"]).contains("is as it was before"), "{client}");
        assert_eq!(place.own_text(path), text, "{client}");
        let left = fs::read_dir(place.own(path).parent().unwrap()).unwrap();
        let left = left
            .filter(|it| it.as_ref().unwrap().file_name().to_string_lossy().contains("toolcrib-"));
        assert_eq!(left.count(), 0, "{client}");
    }
}

#[test]
fn programs_are_told_what_was_replaced_and_what_came_back() {
    let place = Place::new();
    let other = place.folder.path().join("other");
    fs::create_dir(&other).unwrap();
    let root = ["--root", other.to_str().unwrap(), "--json"];
    let told = |args: &[&str]| -> Value {
        serde_json::from_str(&place.run(&[&["connect", "cursor"], args].concat()).out).unwrap()
    };
    let first = told(&["--json"]);
    assert_eq!((&first["action"], &first["replaced"]), (&json!("written"), &Value::Null));
    let second = told(&root);
    assert_eq!(second["action"], "updated");
    assert_eq!(second["replaced"], json!({"root": "TMP/ws"}));
    assert_eq!(told(&root)["replaced"], Value::Null);
    let undone = told(&[&["--undo"], &root[..]].concat());
    assert_eq!(
        (&undone["action"], &undone["returned"]),
        (&json!("returned"), &json!({"root": "TMP/ws"}))
    );
    // Each way back, one at a time; and an entry that was taken out by hand has nothing before it.
    told(&root);
    assert_eq!(told(&["--json"])["replaced"], json!({"root": "TMP/other"}));
    assert_eq!(told(&["--undo", "--json"])["returned"], json!({"root": "TMP/other"}));
    let place = place.file("~/.cursor/mcp.json", "{}");
    assert_eq!(place.run(&["connect", "cursor"]).code, 0);
    assert!(place.connected(&["cursor", "--undo"]).contains("is as it was before"));
}

#[test]
fn a_token_of_another_workspace_stays_there() {
    let place = Place::new().file("toolcrib.yaml", "version: 1\ngateway: { listen: ':7998' }\n");
    let other = place.folder.path().join("other");
    fs::create_dir(&other).unwrap();
    let root = ["--root", other.to_str().unwrap()];
    assert_eq!(place.run(&["token", "new", "--name", "first"]).code, 0);
    place.connected(&["cursor", "--http"]);
    let first = place.own_text(".cursor/mcp.json");
    assert!(first.contains("Bearer toolcrib_"), "{first}");
    let said = place.connected(&[&["cursor", "--http"][..], &root].concat());
    assert!(said.contains("it had that of http://127.0.0.1:7998/mcp before"), "{said}");
    assert!(!place.own_text(".cursor/mcp.json").contains("Bearer"));
    place.connected(&[&["cursor", "--undo"][..], &root].concat());
    assert_eq!(place.own_text(".cursor/mcp.json"), first);
    assert_eq!(tokens(&place), ["first", "connect:cursor"], "it is as good as it was");
    place.connected(&["cursor", "--undo"]);
    assert_eq!(tokens(&place), ["first"]);
}

#[test]
fn nothing_is_written_over_what_is_not_ours_or_cannot_be_read() {
    for (text, why) in [
        ("{\n  \"mcpServers\": {\n", "cannot be read: line "),
        ("[]", "is left as it is"),
        ("{\"mcpServers\": []}", "is left as it is"),
        ("{\"mcpServers\": {\"toolcrib\": {\"command\": \"x\"}}}", "has another server at"),
        ("{\"mcpServers\": {\"toolcrib\": 1}}", "has something else at"),
    ] {
        let place = Place::new().file("~/.cursor/mcp.json", text);
        for more in [None, Some("--undo")] {
            let args: Vec<&str> = ["connect", "cursor"].into_iter().chain(more).collect();
            let ran = place.run(&args);
            if more.is_none() {
                assert_eq!(ran.code, 1, "{text} {ran:?}");
                assert!(ran.err.contains(why), "{text} {ran:?}");
            }
            assert_eq!(place.own_text(".cursor/mcp.json"), text);
        }
        assert_eq!(fs::read_dir(place.own(".cursor")).unwrap().count(), 1, "{text}");
    }
    let place = Place::new().file("~/.config/goose/config.yaml", "extensions: { a: { x: 1 } }\n");
    let ran = place.run(&["connect", "goose"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("by hand:\nextensions:\n  toolcrib:\n    enabled: true\n"), "{ran:?}");
}

#[test]
fn it_is_printed_for_whoever_wants_to_paste_it() {
    let place = Place::new();
    let ran = place.run(&["connect", "vscode", "--http", "--print", "--project"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "VS Code, in TMP/ws/.vscode/mcp.json:\n"));
    let printed: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(printed["servers"]["toolcrib"]["url"], "http://127.0.0.1:7420/mcp");
    assert!(!place.root().join(".vscode").exists());
}

#[test]
fn a_workspace_has_files_of_its_own_and_links_lead_on() {
    let place = Place::new();
    place.connected(&["claude-code", "--project"]);
    assert!(place.read(".mcp.json").contains("--stdio"));
    let ran = place.run(&["connect", "windsurf", "--project"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("leave --project out"), "{ran:?}");
    let place = place.file("dotfiles/mcp.json", "{}\n");
    fs::create_dir_all(place.own(".cursor")).unwrap();
    let real = place.root().join("dotfiles/mcp.json");
    std::os::unix::fs::symlink(&real, place.own(".cursor/mcp.json")).unwrap();
    place.connected(&["cursor"]);
    assert!(fs::symlink_metadata(place.own(".cursor/mcp.json")).unwrap().is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("--stdio"));
}

#[test]
fn without_a_client_all_are_listed() {
    let place = Place::new().file("~/.cursor/mcp.json", "{}").file("~/.gemini/settings.json", "{");
    place.connected(&["codex"]);
    let listed: Value = serde_json::from_str(&place.connected(&["--json"])).unwrap();
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
    assert!(place.connected(&[]).contains("cursor          user     TMP/home/.cursor/mcp.json"));
}

/// The names of the tokens that there are.
fn tokens(place: &Place) -> Vec<String> {
    let listed: Value = serde_json::from_str(&place.run(&["token", "list", "--json"]).out).unwrap();
    let all = listed["tokens"].as_array().unwrap();
    all.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_token_for_an_entry_that_cannot_be_written_ends_at_once() {
    let backup = "~/.cursor/mcp.json.toolcrib-backup/in_the_way";
    let place = Place::new().file("~/.cursor/mcp.json", "{}").file(backup, "");
    assert_eq!(place.run(&["token", "new", "--name", "first"]).code, 0);
    let ran = place.run(&["connect", "cursor", "--http"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(tokens(&place), ["first"]);
    assert_eq!(place.own_text(".cursor/mcp.json"), "{}");
}

#[test]
fn where_tokens_are_wanted_a_client_over_http_gets_one_of_its_own() {
    let place = Place::new();
    let first = place.run(&["token", "new", "--name", "first"]);
    assert_eq!(first.code, 0, "{first:?}");
    let names = || tokens(&place);
    let header = |path: &str| {
        let json: Value = serde_json::from_str(&place.own_text(path)).unwrap();
        json["mcpServers"]["toolcrib"]["headers"]["Authorization"].clone()
    };
    place.connected(&["cursor", "--http"]);
    let token = header(".cursor/mcp.json");
    assert!(token.as_str().unwrap().starts_with("Bearer toolcrib_"), "{token}");
    assert_eq!(names(), ["first", "connect:cursor"]);
    // Twice is once.
    assert!(place.connected(&["cursor", "--http"]).contains("already"));
    assert_eq!((header(".cursor/mcp.json"), names().len()), (token, 2));
    place.connected(&["cursor", "--undo"]);
    assert_eq!(names(), ["first"], "it ends with the entry");
    // What others read, or is only printed, has no secret in it.
    for more in ["--print", "--project"] {
        let ran = place.run(&["connect", "cursor", "--http", more]);
        assert!(ran.err.contains("Authorization: Bearer TOKEN"), "{ran:?}");
        assert!(!ran.out.contains("Bearer"), "{ran:?}");
    }
    assert!(!place.read(".cursor/mcp.json").contains("Bearer"));
    assert_eq!(names(), ["first"]);
}

#[test]
fn the_address_is_the_one_that_the_configuration_names() {
    let place = Place::new().file("toolcrib.yaml", "version: 1\ngateway: { listen: ':7999' }\n");
    let ran = place.run(&["connect", "vscode", "--http", "--print"]);
    let printed: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(printed["servers"]["toolcrib"]["url"], "http://127.0.0.1:7999/mcp");
    let place = place.file("toolcrib.yaml", "version: 1\ngateway: { listen: 'nowhere' }\n");
    for args in [&["connect", "vscode", "--http", "--print"][..], &["serve"]] {
        let ran = place.run(args);
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains("gateway.listen is `nowhere`"), "{ran:?}");
    }
}
