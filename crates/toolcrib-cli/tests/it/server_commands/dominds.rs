//! Tests `.minds/mcp.yaml`, from the file to the call.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use toolcrib_testkit::scripted::Script;

use super::{PATH, codes, find, names, parse_json, scripted_server, server};
use crate::{PROGRAM, TestWorkspace};

/// A scripted server that offers only these tools.
fn entry(tools: &[&str]) -> Value {
    let own = |tool: &&&str| !["echo", "env"].contains(*tool);
    let names = tools.iter().filter(own).map(|tool| (*tool).to_owned()).collect();
    let mut entry = scripted_server(&Script { tools: names, ..Script::default() });
    entry["transport"] = json!("stdio");
    entry["tools"] = json!({"whitelist": tools});
    entry
}

fn file(servers: &Value) -> String {
    json!({"version": 1, "servers": servers}).to_string()
}

fn workspace(servers: &Value) -> TestWorkspace {
    TestWorkspace::new().with_file(".minds/mcp.yaml", &file(servers))
}

#[test]
fn dom_01_file_is_found_under_root_and_paths_are_relative_to_root() {
    let mut shown = entry(&["env"]);
    shown["command"] = json!("./tools/run");
    let workspace =
        TestWorkspace::new().with_file("deep/.minds/mcp.yaml", &file(&json!({"s": shown})));
    let shim = workspace.shim("run");
    let workspace = workspace.with_file("deep/tools/run", "");
    fs::copy(&shim.path, workspace.root().join("deep/tools/run")).unwrap();
    let listed = workspace.json(&["servers", "--root", "deep"]);
    assert_eq!(server(&listed, "s")["state"], "ready", "{listed:#}"); // DOM-01
    let report = workspace.json(&["call", "env", "--root", "deep"]);
    let report: Value = serde_json::from_str(report["text"].as_str().unwrap()).unwrap();
    assert_eq!(report["cwd"], "TMP/ws/deep"); // DOM-01
    assert_eq!(workspace.json(&["servers"])["servers"], json!([])); // DOM-01: elsewhere there is none
}

#[test]
fn dom_02_missing_file_means_no_servers_and_no_problems() {
    let workspace = TestWorkspace::new();
    let ran = workspace.run(&["tools", "--json"]);
    assert_eq!(ran.code, 0);
    let listed = parse_json(&ran);
    assert_eq!((&listed["tools"], &listed["problems"]), (&json!([]), &json!([]))); // DOM-02
    assert_eq!(workspace.json(&["status"])["problems"], 0);
}

#[test]
fn dom_03_other_formats_are_read_beside_dominds_file() {
    let mut other = scripted_server(&Script::default());
    other["transport"] = json!("stdio");
    let workspace = workspace(&json!({"one": entry(&["here"])}))
        .with_file(".dispatch/mcp.json", &json!({"servers": {"two": other}}).to_string());
    assert_eq!(workspace.tools(), ["here", "two__echo", "two__fail", "two__env"]); // DOM-03
}

#[test]
fn dom_04_unsupported_version_is_rejected() {
    for version in ["", "version: 2\n", "version: '1'\n"] {
        let servers = json!({"s": entry(&["echo"])});
        let workspace = TestWorkspace::new()
            .with_file(".minds/mcp.yaml", &format!("{version}servers: {servers}\n"));
        let ran = workspace.run(&["tools", "--json"]);
        let listed = parse_json(&ran);
        assert_eq!((ran.code, &listed["tools"]), (1, &json!([])), "{version}"); // DOM-04
        let problem = &listed["problems"][0];
        assert_eq!((&problem["severity"], &problem["server"]), (&json!("error"), &Value::Null));
        assert!(problem["text"].as_str().unwrap().contains("version"), "{problem}");
    }
}

#[test]
fn dom_05_every_server_is_toolset_of_same_name() {
    let listed = workspace(&json!({"playwright": entry(&["browse"])})).json(&["tools"]);
    assert_eq!(find(&listed["tools"], "name", "browse")["toolset"], "playwright"); // DOM-05
}

#[test]
fn dom_06_stdio_and_streamable_http_servers_connect() {
    let mut demo = std::process::Command::new(PROGRAM)
        .args(["demo-server", "--http", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(demo.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let far = json!({"transport": "streamable_http", "url": url.trim(),
        "transform": [{"prefix": "far_"}]});
    let workspace = workspace(&json!({"near": entry(&["echo"]), "far": far}));
    let listed = workspace.json(&["servers"]);
    let called = workspace.run_with_env(&["call", "far_echo", "-a", "text=there"], &[PATH]);
    demo.kill().unwrap();
    demo.wait().unwrap();
    for (id, transport) in [("near", "stdio"), ("far", "streamable_http")] {
        let one = server(&listed, id);
        let seen = (&one["state"], &one["transport"]);
        assert_eq!(seen, (&json!("ready"), &json!(transport)), "{listed:#}"); // DOM-06
    }
    assert_eq!((called.code, called.out.as_str()), (0, "there\n"), "{called:?}");
}

#[test]
fn dom_07_unsupported_transport_rejects_only_its_server() {
    let bad = json!({"transport": "sse", "url": "http://127.0.0.1:1/"});
    let servers = json!({"one": entry(&["a"]), "bad": bad, "two": entry(&["b"])});
    let listed = workspace(&servers).json(&["tools"]);
    assert_eq!(names(&listed), ["a", "b"]); // DOM-07
    let problem = find(&listed["problems"], "severity", "error");
    assert_eq!(problem["server"], "bad"); // DOM-07
    assert!(problem["text"].as_str().unwrap().contains("sse"), "{problem}");
}

#[test]
fn dom_11_optional_keys_may_be_omitted() {
    let mut minimal = scripted_server(&Script::default());
    minimal["transport"] = json!("stdio");
    let listed = workspace(&json!({"s": minimal})).json(&["tools"]);
    assert_eq!(names(&listed), ["echo", "fail", "env"]); // DOM-11
    assert_eq!(listed["problems"], json!([]));
}

#[test]
fn dom_12_stateless_key_is_spelled_truely_stateless() {
    for (key, scope, is_known) in
        [("truely-stateless", "shared", true), ("truly-stateless", "per_conversation", false)]
    {
        let mut one = entry(&["echo"]);
        one[key] = json!(true);
        let workspace = workspace(&json!({"s": one}));
        let listed = workspace.json(&["tools"]);
        let known = !codes(&listed["problems"]).contains(&"key.unknown");
        assert_eq!(known, is_known, "{key} {listed:#}"); // DOM-12
        let shown = workspace.json(&["explain", "s"]);
        assert_eq!(shown["server"]["session"]["scope"], scope, "{key}"); // DOM-12
        assert_eq!(workspace.run(&["call", "echo"]).code, 0);
    }
}

#[test]
fn dom_54_env_text_is_literal() {
    let mut one = entry(&["env"]);
    one["env"] = json!({"A": "${HOME}"});
    let report = workspace(&json!({"s": one})).server_environment("env");
    assert_eq!(report["env"]["A"], "${HOME}"); // DOM-54
}

/// The team file of the Dominds design. `ws_read` is a toolset of Dominds itself.
#[test]
fn dom_86_reserved_toolset_in_team_file_is_accepted() {
    let team = "members:\n  alice:\n    toolsets:\n      - ws_read\n      - playwright\n";
    let mut shown = scripted_server(&Script::default());
    shown["transport"] = json!("stdio");
    let workspace = workspace(&json!({"playwright": shown})).with_file(".minds/team.yaml", team);
    assert_eq!(codes(&workspace.json(&["tools"])["problems"]), ["toolset.not_found"]);
    let host = json!({"version": 1, "host": {"reserved_toolsets": ["ws_read", "ws_mod", "os"]}});
    let workspace = workspace.with_file("toolcrib.yaml", &host.to_string());
    let listed = workspace.json(&["tools", "--agent", "alice"]);
    assert_eq!(codes(&listed["problems"]), [] as [&str; 0], "{listed:#}");
    assert_eq!(names(&listed), ["echo", "fail", "env"]);
    let checked = workspace.json(&["check"]);
    assert_eq!((&checked["ok"], &checked["problems"]), (&json!(true), &json!([])));
}
