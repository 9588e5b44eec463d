//! Tests `.dispatch/mcp.json` and its fallback, from the file to the call.

use serde_json::{Value, json};
use toolcrib_testkit::http::{HttpServer, ReceivedRequest, ScriptedResponse};
use toolcrib_testkit::scripted::Script;

use super::{codes, find, names, parse_json, scripted_server, server};
use crate::TestWorkspace;

const FIRST: &str = ".dispatch/mcp.json";

fn workspace(servers: &Value) -> TestWorkspace {
    TestWorkspace::new().with_file(FIRST, &json!({"servers": servers}).to_string())
}

fn fallback() -> String {
    let mut command = scripted_server(&Script::default());
    let command = json!([command["command"].take(), command["args"][0].take()]);
    json!({"mcp": {"freecad": {"type": "local", "command": command}}}).to_string()
}

#[test]
fn dis_03_to_05_first_file_wins_and_shadowed_file_is_reported() {
    let workspace = TestWorkspace::new().with_file("opencode.json", &fallback());
    assert_eq!(workspace.tools(), ["freecad__echo", "freecad__fail", "freecad__env"]); // DIS-04
    let workspace = workspace.with_file(FIRST, r#"{"servers": {}}"#);
    assert_eq!(workspace.tools().len(), 3); // DIS-04: a file that declares none
    let own = json!({"servers": {"own": scripted_server(&Script::default())}});
    let workspace = workspace.with_file(FIRST, &own.to_string());
    let listed = workspace.json(&["tools"]);
    assert_eq!(names(&listed), ["own__echo", "own__fail", "own__env"]); // DIS-03, DIS-05
    assert_eq!(codes(&listed["problems"]), ["file.shadowed"]);
    assert!(listed["problems"][0]["text"].as_str().unwrap().contains("opencode.json")); // DIS-05
}

#[test]
fn dis_06_unconfigured_programs_are_not_started() {
    let workspace = TestWorkspace::new().with_file("readme.md", "# nothing");
    let shims = ["npx", "uvx", "docker"].map(|name| workspace.shim(name));
    let path = workspace.shim_path();
    let ran = workspace.run_with_env(&["servers", "--json"], &[("PATH", &path)]);
    assert_eq!((ran.code, &parse_json(&ran)["servers"]), (0, &json!([]))); // DIS-06
    assert!(shims.iter().all(|shim| shim.start_record().is_none())); // DIS-06
}

#[test]
fn dis_07_configured_command_is_started() {
    let workspace = TestWorkspace::new();
    let shim = workspace.shim("run");
    let entry = json!({"command": shim.path, "args": ["a b", "${HOME}"], "env": {"A": "x"}});
    let workspace = workspace.with_file(FIRST, &json!({"servers": {"s": entry}}).to_string());
    let report = workspace.server_environment("s__env");
    assert_eq!(report["env"]["A"], "x");
    let (_, _, args) = shim.start_record().unwrap();
    assert_eq!(args, ["a b", "${HOME}"]); // DIS-07
    assert_eq!(server(&workspace.json(&["servers"]), "s")["transport"], "stdio");
}

fn answer(received: &ReceivedRequest) -> ScriptedResponse {
    let message: Value = serde_json::from_str(&received.body).unwrap_or_default();
    let result = match message["method"].as_str() {
        Some("initialize") => {
            json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "far", "version": "1"}})
        }
        Some("tools/list") => {
            json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]})
        }
        Some("tools/call") => json!({"content": [{"type": "text", "text": "far away"}]}),
        Some(_) => return ScriptedResponse::status(202),
        None => return ScriptedResponse::status(405),
    };
    ScriptedResponse::json(
        json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string(),
    )
}

#[tokio::test]
async fn dis_08_http_server_is_called_with_configured_headers() {
    let far = HttpServer::start(answer).await.unwrap();
    let entry = json!({"transport": "http", "url": far.url("/mcp"), "headers": {"X-Key": "k"}});
    let workspace = workspace(&json!({"far": entry}));
    let ran =
        tokio::task::spawn_blocking(move || workspace.run(&["call", "far__t"])).await.unwrap();
    assert_eq!((ran.code, ran.out.as_str()), (0, "far away\n"), "{ran:?}");
    let posts: Vec<ReceivedRequest> =
        far.requests().into_iter().filter(|received| received.method == "POST").collect();
    assert!(posts.iter().any(|received| received.body.contains("tools/call")));
    assert!(posts.iter().all(|received| received.header("x-key") == Some("k"))); // DIS-08
}

#[test]
fn dis_09_disabled_server_is_listed_and_not_started() {
    let workspace = TestWorkspace::new();
    let shim = workspace.shim("run");
    let entry = json!({"command": shim.path, "disabled": true});
    let workspace = workspace.with_file(FIRST, &json!({"servers": {"s": entry}}).to_string());
    let listed = workspace.json(&["servers"]);
    let one = server(&listed, "s");
    assert_eq!((&one["state"], &one["pid"]), (&json!("disabled"), &Value::Null)); // DIS-09
    assert_eq!(workspace.tools(), [] as [&str; 0]);
    assert!(shim.start_record().is_none()); // DIS-09
}

#[test]
fn dis_19_to_21_tool_names_and_descriptions_have_server_prefix() {
    let servers = json!({"chrome-devtools": scripted_server(&Script::default())});
    let listed = workspace(&servers).json(&["tools"]);
    let tool = find(&listed["tools"], "name", "chrome-devtools__echo"); // DIS-19, DIS-20
    assert_eq!(tool["description"], "[chrome-devtools] The tool echo"); // DIS-21
    assert_eq!(tool["original_name"], "echo");
    // DIS-19: the separator is a setting.
    let mut entry = scripted_server(&Script::default());
    entry["profile"] = json!("dispatch");
    entry["naming"] = json!({"separator": "_"});
    let workspace = super::native_workspace(&json!({"chrome-devtools": entry}));
    let listed = workspace.json(&["tools"]);
    let tool = find(&listed["tools"], "name", "chrome-devtools_echo"); // DIS-19, DIS-20
    assert_eq!(tool["description"], "[chrome-devtools] The tool echo");
    assert_eq!(workspace.run(&["call", "chrome-devtools_echo"]).code, 0);
}

/// DIS-19, C1 of the dialects: a profile sets the names of all entries, and the file stays unchanged.
#[test]
fn dis_19_include_sets_separator_of_dispatch_file() {
    let workspace = workspace(&json!({"freecad": scripted_server(&Script::default())}));
    let file = json!({
        "version": 1,
        "profiles": {"short": {"base": "dispatch", "naming": {"separator": "_"}}},
        "include": [{"path": FIRST, "profile": "short"}],
    });
    let workspace = workspace.with_file("toolcrib.yaml", &file.to_string());
    let listed = workspace.json(&["tools"]);
    assert_eq!(names(&listed), ["freecad_echo", "freecad_fail", "freecad_env"]);
    assert_eq!(codes(&listed["problems"]), [] as [&str; 0]);
    // The other settings are those of the format.
    let tool = find(&listed["tools"], "name", "freecad_echo");
    assert_eq!(tool["description"], "[freecad] The tool echo");
    assert_eq!(workspace.run(&["call", "freecad_echo"]).code, 0);
    assert_eq!(workspace.json(&["servers"])["servers"].as_array().unwrap().len(), 1);
    let shown = workspace.stdout_of(&["explain", "freecad"]);
    assert!(shown.contains("separator: _"), "{shown}");
    // A separator without a place in the template is reported.
    let file = json!({
        "version": 1,
        "profiles": {"bare": {"base": "dispatch", "naming": {"template": "{tool}", "separator": "_"}}},
        "include": [{"path": FIRST, "profile": "bare"}],
    });
    let checked = workspace.with_file("toolcrib.yaml", &file.to_string()).json(&["check"]);
    assert_eq!(codes(&checked["problems"]), ["naming.separator.unused"], "{checked:#}");
}

/// DIS-55: files in folders above the root are ignored.
#[test]
fn dis_55_parent_folders_are_not_searched() {
    let workspace = workspace(&json!({"above": scripted_server(&Script::default())}))
        .with_file("deep/er/x", "");
    for root in ["deep", "deep/er"] {
        assert_eq!(workspace.json(&["servers", "--root", root])["servers"], json!([]), "{root}");
    }
    let mut command = workspace.command_without_root(&["servers", "--json"]);
    command.current_dir(workspace.root().join("deep/er"));
    let ran = workspace.command_output(&command.output().unwrap());
    assert_eq!((ran.code, &parse_json(&ran)["servers"]), (0, &json!([])), "{ran:?}");
}
