//! `.minds/mcp.yaml`, from the file to the call.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use toolcrib_testkit::scripted::Script;

use super::{PATH, codes, find, names, parsed, scripted, server};
use crate::{PROGRAM, Place};

/// The entry of a scripted server that offers just these tools.
fn entry(tools: &[&str]) -> Value {
    let own = |tool: &&&str| !["echo", "env"].contains(*tool);
    let names = tools.iter().filter(own).map(|tool| (*tool).to_owned()).collect();
    let mut entry = scripted(&Script { tools: names, ..Script::default() });
    entry["transport"] = json!("stdio");
    entry["tools"] = json!({"whitelist": tools});
    entry
}

fn file(servers: &Value) -> String {
    json!({"version": 1, "servers": servers}).to_string()
}

fn place(servers: &Value) -> Place {
    Place::new().file(".minds/mcp.yaml", &file(servers))
}

#[test]
fn dom_01_the_file_is_found_under_the_root_and_paths_are_from_there() {
    let mut shown = entry(&["env"]);
    shown["command"] = json!("./tools/run");
    let place = Place::new().file("deep/.minds/mcp.yaml", &file(&json!({"s": shown})));
    let shim = place.shim("run");
    let place = place.file("deep/tools/run", "");
    fs::copy(&shim.path, place.root().join("deep/tools/run")).unwrap();
    let listed = place.json(&["servers", "--root", "deep"]);
    assert_eq!(server(&listed, "s")["state"], "ready", "{listed:#}"); // DOM-01
    let told = place.json(&["call", "env", "--root", "deep"]);
    let told: Value = serde_json::from_str(told["text"].as_str().unwrap()).unwrap();
    assert_eq!(told["cwd"], "TMP/ws/deep"); // DOM-01
    assert_eq!(place.json(&["servers"])["servers"], json!([])); // DOM-01: elsewhere there is none
}

#[test]
fn dom_02_without_the_file_there_is_nothing_and_nothing_is_wrong() {
    let place = Place::new();
    let ran = place.run(&["tools", "--json"]);
    assert_eq!(ran.code, 0);
    let listed = parsed(&ran);
    assert_eq!((&listed["tools"], &listed["problems"]), (&json!([]), &json!([]))); // DOM-02
    assert_eq!(place.json(&["status"])["problems"], 0);
}

#[test]
fn dom_03_other_formats_stand_beside_it() {
    let mut other = scripted(&Script::default());
    other["transport"] = json!("stdio");
    let place = place(&json!({"one": entry(&["here"])}))
        .file(".dispatch/mcp.json", &json!({"servers": {"two": other}}).to_string());
    assert_eq!(place.tools(), ["here", "two__echo", "two__fail", "two__env"]); // DOM-03
}

#[test]
fn dom_04_another_version_is_none() {
    for version in ["", "version: 2\n", "version: '1'\n"] {
        let servers = json!({"s": entry(&["echo"])});
        let place = Place::new().file(".minds/mcp.yaml", &format!("{version}servers: {servers}\n"));
        let ran = place.run(&["tools", "--json"]);
        let listed = parsed(&ran);
        assert_eq!((ran.code, &listed["tools"]), (1, &json!([])), "{version}"); // DOM-04
        let problem = &listed["problems"][0];
        assert_eq!((&problem["severity"], &problem["server"]), (&json!("error"), &Value::Null));
        assert!(problem["text"].as_str().unwrap().contains("version"), "{problem}");
    }
}

#[test]
fn dom_05_each_server_is_a_toolset_of_its_name() {
    let listed = place(&json!({"playwright": entry(&["browse"])})).json(&["tools"]);
    assert_eq!(find(&listed["tools"], "name", "browse")["toolset"], "playwright"); // DOM-05
}

#[test]
fn dom_06_both_transports_are_spoken() {
    let mut demo = std::process::Command::new(PROGRAM)
        .args(["demo-server", "--http", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(demo.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let far = json!({"transport": "streamable_http", "url": url.trim(),
        "transform": [{"prefix": "far_"}]});
    let place = place(&json!({"near": entry(&["echo"]), "far": far}));
    let listed = place.json(&["servers"]);
    let called = place.run_with(&["call", "far_echo", "-a", "text=there"], &[PATH]);
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
fn dom_07_an_unsupported_transport_rejects_its_server_alone() {
    let bad = json!({"transport": "sse", "url": "http://127.0.0.1:1/"});
    let servers = json!({"one": entry(&["a"]), "bad": bad, "two": entry(&["b"])});
    let listed = place(&servers).json(&["tools"]);
    assert_eq!(names(&listed), ["a", "b"]); // DOM-07
    let problem = find(&listed["problems"], "severity", "error");
    assert_eq!(problem["server"], "bad"); // DOM-07
    assert!(problem["text"].as_str().unwrap().contains("sse"), "{problem}");
}

#[test]
fn dom_11_what_is_optional_may_be_left_out() {
    let mut minimal = scripted(&Script::default());
    minimal["transport"] = json!("stdio");
    let listed = place(&json!({"s": minimal})).json(&["tools"]);
    assert_eq!(names(&listed), ["echo", "fail", "env"]); // DOM-11
    assert_eq!(listed["problems"], json!([]));
}

#[test]
fn dom_12_only_truely_stateless_is_the_key() {
    for (key, scope, is_known) in
        [("truely-stateless", "shared", true), ("truly-stateless", "per_conversation", false)]
    {
        let mut one = entry(&["echo"]);
        one[key] = json!(true);
        let place = place(&json!({"s": one}));
        let listed = place.json(&["tools"]);
        let known = !codes(&listed["problems"]).contains(&"key.unknown");
        assert_eq!(known, is_known, "{key} {listed:#}"); // DOM-12
        let shown = place.json(&["explain", "s"]);
        assert_eq!(shown["server"]["session"]["scope"], scope, "{key}"); // DOM-12
        assert_eq!(place.run(&["call", "echo"]).code, 0);
    }
}

#[test]
fn dom_54_a_variable_of_text_is_literal() {
    let mut one = entry(&["env"]);
    one["env"] = json!({"A": "${HOME}"});
    let told = place(&json!({"s": one})).surroundings("env");
    assert_eq!(told["env"]["A"], "${HOME}"); // DOM-54
}

/// The team file of the Dominds design: `ws_read` is one of that program's own toolsets.
#[test]
fn dom_86_a_reserved_toolset_in_the_team_file_is_no_problem() {
    let team = "members:\n  alice:\n    toolsets:\n      - ws_read\n      - playwright\n";
    let mut shown = scripted(&Script::default());
    shown["transport"] = json!("stdio");
    let place = place(&json!({"playwright": shown})).file(".minds/team.yaml", team);
    assert_eq!(codes(&place.json(&["tools"])["problems"]), ["toolset.not_found"]);
    let host = json!({"version": 1, "host": {"reserved_toolsets": ["ws_read", "ws_mod", "os"]}});
    let place = place.file("toolcrib.yaml", &host.to_string());
    let listed = place.json(&["tools", "--agent", "alice"]);
    assert_eq!(codes(&listed["problems"]), [] as [&str; 0], "{listed:#}");
    assert_eq!(names(&listed), ["echo", "fail", "env"]);
    let checked = place.json(&["check"]);
    assert_eq!((&checked["ok"], &checked["problems"]), (&json!(true), &json!([])));
}
