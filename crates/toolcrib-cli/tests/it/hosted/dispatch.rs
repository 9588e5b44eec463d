//! `.dispatch/mcp.json` and its fallback, from the file to the call.

use serde_json::{Value, json};
use toolcrib_testkit::http::{Asked, HttpServer, Reply};
use toolcrib_testkit::scripted::Script;

use super::{codes, find, names, parsed, scripted, server};
use crate::Place;

const FIRST: &str = ".dispatch/mcp.json";

fn place(servers: &Value) -> Place {
    Place::new().file(FIRST, &json!({"servers": servers}).to_string())
}

fn fallback() -> String {
    let mut command = scripted(&Script::default());
    let command = json!([command["command"].take(), command["args"][0].take()]);
    json!({"mcp": {"freecad": {"type": "local", "command": command}}}).to_string()
}

#[test]
fn dis_03_to_05_the_first_file_wins_and_the_other_is_named() {
    let place = Place::new().file("opencode.json", &fallback());
    assert_eq!(place.tools(), ["freecad__echo", "freecad__fail", "freecad__env"]); // DIS-04
    let place = place.file(FIRST, r#"{"servers": {}}"#);
    assert_eq!(place.tools().len(), 3); // DIS-04: a file that declares none
    let own = json!({"servers": {"own": scripted(&Script::default())}});
    let place = place.file(FIRST, &own.to_string());
    let listed = place.json(&["tools"]);
    assert_eq!(names(&listed), ["own__echo", "own__fail", "own__env"]); // DIS-03, DIS-05
    assert_eq!(codes(&listed["problems"]), ["file.shadowed"]);
    assert!(listed["problems"][0]["text"].as_str().unwrap().contains("opencode.json")); // DIS-05
}

#[test]
fn dis_06_nothing_runs_that_is_not_configured() {
    let place = Place::new().file("readme.md", "# nothing");
    let shims = ["npx", "uvx", "docker"].map(|name| place.shim(name));
    let path = place.shims();
    let ran = place.run_with(&["servers", "--json"], &[("PATH", &path)]);
    assert_eq!((ran.code, &parsed(&ran)["servers"]), (0, &json!([]))); // DIS-06
    assert!(shims.iter().all(|shim| shim.started().is_none())); // DIS-06
}

#[test]
fn dis_07_a_command_is_started() {
    let place = Place::new();
    let shim = place.shim("run");
    let entry = json!({"command": shim.path, "args": ["a b", "${HOME}"], "env": {"A": "x"}});
    let place = place.file(FIRST, &json!({"servers": {"s": entry}}).to_string());
    let told = place.surroundings("s__env");
    assert_eq!(told["env"]["A"], "x");
    let (_, _, args) = shim.started().unwrap();
    assert_eq!(args, ["a b", "${HOME}"]); // DIS-07
    assert_eq!(server(&place.json(&["servers"]), "s")["transport"], "stdio");
}

fn answer(asked: &Asked) -> Reply {
    let message: Value = serde_json::from_str(&asked.body).unwrap_or_default();
    let result = match message["method"].as_str() {
        Some("initialize") => {
            json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "far", "version": "1"}})
        }
        Some("tools/list") => {
            json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]})
        }
        Some("tools/call") => json!({"content": [{"type": "text", "text": "far away"}]}),
        Some(_) => return Reply::status(202),
        None => return Reply::status(405),
    };
    Reply::json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string())
}

#[tokio::test]
async fn dis_08_an_address_is_asked_with_its_headers() {
    let far = HttpServer::start(answer).await.unwrap();
    let entry = json!({"transport": "http", "url": far.url("/mcp"), "headers": {"X-Key": "k"}});
    let place = place(&json!({"far": entry}));
    let ran = tokio::task::spawn_blocking(move || place.run(&["call", "far__t"])).await.unwrap();
    assert_eq!((ran.code, ran.out.as_str()), (0, "far away\n"), "{ran:?}");
    let posts: Vec<Asked> =
        far.requests().into_iter().filter(|asked| asked.method == "POST").collect();
    assert!(posts.iter().any(|asked| asked.body.contains("tools/call")));
    assert!(posts.iter().all(|asked| asked.header("x-key") == Some("k"))); // DIS-08
}

#[test]
fn dis_09_what_is_disabled_is_shown_and_not_started() {
    let place = Place::new();
    let shim = place.shim("run");
    let entry = json!({"command": shim.path, "disabled": true});
    let place = place.file(FIRST, &json!({"servers": {"s": entry}}).to_string());
    let listed = place.json(&["servers"]);
    let one = server(&listed, "s");
    assert_eq!((&one["state"], &one["pid"]), (&json!("disabled"), &Value::Null)); // DIS-09
    assert_eq!(place.tools(), [] as [&str; 0]);
    assert!(shim.started().is_none()); // DIS-09
}

#[test]
fn dis_19_to_21_names_and_descriptions() {
    let servers = json!({"chrome-devtools": scripted(&Script::default())});
    let listed = place(&servers).json(&["tools"]);
    let tool = find(&listed["tools"], "name", "chrome-devtools__echo"); // DIS-19, DIS-20
    assert_eq!(tool["description"], "[chrome-devtools] The tool echo"); // DIS-21
    assert_eq!(tool["original_name"], "echo");
    // DIS-19: the separator is a setting.
    let mut entry = scripted(&Script::default());
    entry["profile"] = json!("dispatch");
    entry["naming"] = json!({"separator": "_"});
    let place = super::native(&json!({"chrome-devtools": entry}));
    let listed = place.json(&["tools"]);
    let tool = find(&listed["tools"], "name", "chrome-devtools_echo"); // DIS-19, DIS-20
    assert_eq!(tool["description"], "[chrome-devtools] The tool echo");
    assert_eq!(place.run(&["call", "chrome-devtools_echo"]).code, 0);
}

/// DIS-19, C1 of the dialects: a profile sets the names of all entries of the file, which stays as it is.
#[test]
fn dis_19_an_include_sets_the_separator_of_a_dispatch_file() {
    let place = place(&json!({"freecad": scripted(&Script::default())}));
    let file = json!({
        "version": 1,
        "profiles": {"short": {"base": "dispatch", "naming": {"separator": "_"}}},
        "include": [{"path": FIRST, "profile": "short"}],
    });
    let place = place.file("toolcrib.yaml", &file.to_string());
    let listed = place.json(&["tools"]);
    assert_eq!(names(&listed), ["freecad_echo", "freecad_fail", "freecad_env"]);
    assert_eq!(codes(&listed["problems"]), [] as [&str; 0]);
    // The rest is the format's own.
    let tool = find(&listed["tools"], "name", "freecad_echo");
    assert_eq!(tool["description"], "[freecad] The tool echo");
    assert_eq!(place.run(&["call", "freecad_echo"]).code, 0);
    assert_eq!(place.json(&["servers"])["servers"].as_array().unwrap().len(), 1);
    let shown = place.out(&["explain", "freecad"]);
    assert!(shown.contains("separator: _"), "{shown}");
    // A separator that cannot stand anywhere is told of.
    let file = json!({
        "version": 1,
        "profiles": {"bare": {"base": "dispatch", "naming": {"template": "{tool}", "separator": "_"}}},
        "include": [{"path": FIRST, "profile": "bare"}],
    });
    let checked = place.file("toolcrib.yaml", &file.to_string()).json(&["check"]);
    assert_eq!(codes(&checked["problems"]), ["naming.separator.unused"], "{checked:#}");
}

/// DIS-55: a file in a folder above the root is nobody's.
#[test]
fn dis_55_parent_folders_are_not_searched() {
    let place = place(&json!({"above": scripted(&Script::default())})).file("deep/er/x", "");
    for root in ["deep", "deep/er"] {
        assert_eq!(place.json(&["servers", "--root", root])["servers"], json!([]), "{root}");
    }
    let mut command = place.unnamed(&["servers", "--json"]);
    command.current_dir(place.root().join("deep/er"));
    let ran = place.ran(&command.output().unwrap());
    assert_eq!((ran.code, &parsed(&ran)["servers"]), (0, &json!([])), "{ran:?}");
}
