//! Tests that invalid security settings fail closed, section by section.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::ServeProcess;
use super::tokens::status;
use crate::TestWorkspace;
use crate::server_commands::{codes, demo_server, find, native_workspace, wait_until};

const TOKEN: &str = "a-secret-that-only-this-test-has";
const HASH: &str = "860a5f6de411e2c46b14b8491994ac8f4eb4ca378cf1107fa8254de5179442dd";

fn token() -> Value {
    json!({"sha256": HASH, "agent": "default"})
}

/// A native file with the demo server and these sections.
fn text(sections: &Value) -> String {
    let mut file = json!({"version": 1, "servers": {"demo": demo_server()}});
    let (file_map, sections) = (file.as_object_mut().unwrap(), sections.as_object().unwrap());
    file_map.extend(sections.clone());
    file.to_string()
}

fn workspace(sections: &Value) -> TestWorkspace {
    TestWorkspace::new().with_file("toolcrib.yaml", &text(sections))
}

fn write(workspace: &TestWorkspace, text: &str) {
    fs::write(workspace.root().join("toolcrib.yaml"), text).unwrap();
}

/// Invalid variants of a gateway section.
fn bad_gateways() -> Vec<Value> {
    vec![
        json!({"tokens": [token(), {"sha256": HASH}]}),
        json!({"tokens": [{"sha256": HASH, "agent": "default", "owner": "yes"}]}),
        json!({"tokens": [{"sha256": HASH, "agent": 5}]}),
        json!({"tokens": [token()], "oauth": {"issuer": 5}}),
        json!({"tokens": [token()], "oauth": true}),
        json!({"tokens": [token()], "oauth": {"isuer": "https://issuer.example"}}),
        json!({"oauth": {"audience": "a"}}),
        json!({"tokens": null}),
        json!({"token": [token()]}),
        json!("yes"),
    ]
}

#[tokio::test]
async fn reload_keeps_last_valid_gateway_section() {
    let good = text(&json!({"gateway": {"tokens": [token()]}}));
    let workspace = TestWorkspace::new().with_file("toolcrib.yaml", &good);
    let served = ServeProcess::start(&workspace).await;
    // A host listens before it has read its files. An answered request shows that it has.
    assert_eq!(status(&served, "/api/v1/tools", Some(TOKEN)).await, 200);
    let mut bad: Vec<String> =
        bad_gateways().iter().map(|gateway| text(&json!({"gateway": gateway}))).collect();
    bad.push(text(&json!({"gatewey": {"tokens": [token()]}})));
    bad.push("version: 1\ngateway: {".to_owned());
    bad.push("version: 2\n".to_owned());
    for bad in bad {
        write(&workspace, &bad);
        let problems = workspace.json(&["reload"])["problems"].clone();
        assert!(codes(&problems).contains(&"security.kept"), "{bad}: {problems:#}");
        assert_eq!(status(&served, "/api/v1/tools", None).await, 401, "{bad}");
        assert_eq!(status(&served, "/api/v1/tools", Some(TOKEN)).await, 200, "{bad}");
    }
    // A deleted file opens nothing; a file without tokens does.
    fs::remove_file(workspace.root().join("toolcrib.yaml")).unwrap();
    workspace.json(&["reload"]);
    assert_eq!(status(&served, "/api/v1/tools", None).await, 401);
    write(&workspace, &text(&json!({})));
    workspace.json(&["reload"]);
    assert_eq!(status(&served, "/api/v1/tools", None).await, 200);
    assert_eq!(served.stop(Signal::TERM).await, Some(0));
}

#[tokio::test]
async fn tokens_are_enforced_with_invalid_sibling_entry() {
    let workspace = workspace(&json!({}));
    let served = ServeProcess::start(&workspace).await;
    assert_eq!(status(&served, "/api/v1/tools", None).await, 200);
    let servers = json!({"demo": demo_server(), "bad": {"command": [5]}});
    write(&workspace, &text(&json!({"gateway": {"tokens": [token()]}, "servers": servers})));
    workspace.json(&["reload"]);
    assert_eq!(status(&served, "/api/v1/tools", None).await, 401);
    assert_eq!(status(&served, "/api/v1/tools", Some(TOKEN)).await, 200);
}

#[tokio::test]
async fn dom_88_invalid_gateway_section_at_start_serves_owner_only() {
    for gateway in bad_gateways() {
        let workspace = workspace(&json!({"gateway": gateway}));
        let served = ServeProcess::start(&workspace).await;
        is_closed(&served, &gateway).await;
        // The owner's socket works and reports the problem with its location.
        assert_eq!(workspace.tools().len(), 7, "{gateway}");
        let problems = workspace.json(&["tools"])["problems"].clone();
        let closed = find(&problems, "code", "security.closed");
        assert!(closed["text"].as_str().unwrap().contains("`gateway` is invalid"), "{closed}");
        assert!(closed["line"].is_u64() && closed["fix"].is_string(), "{closed}");
        // A corrected section opens the gateway.
        write(&workspace, &text(&json!({"gateway": {"tokens": [token()]}})));
        workspace.json(&["reload"]);
        assert_eq!(status(&served, "/api/v1/tools", Some(TOKEN)).await, 200, "{gateway}");
        assert_eq!(status(&served, "/api/v1/tools", None).await, 401, "{gateway}");
    }
}

/// Over TCP only `/healthz` and `/readyz` answer.
async fn is_closed(served: &ServeProcess, why: &Value) {
    let console = served.line["console"].as_str().unwrap();
    let (_, owner) = console.split_once("/#token=").unwrap();
    for path in ["/", "/mcp", "/mcp/demo", "/sse", "/ws", "/api/v1/tools", "/metrics"] {
        assert_eq!(status(served, path, None).await, 503, "{path} {why}");
        assert_eq!(status(served, path, Some(TOKEN)).await, 503, "{path} {why}");
        assert_eq!(status(served, path, Some(owner)).await, 503, "{path} {why}");
    }
    assert_eq!(status(served, "/healthz", None).await, 204, "{why}");
    super::with_time_limit(async {
        while status(served, "/readyz", None).await != 204 {
            // Polling is the only way to observe readiness over TCP.
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn dom_88_broken_native_file_closes_gateway_and_other_files_load() {
    let command = demo_server()["command"].as_str().unwrap().to_owned();
    let mcp = json!({"version": 1, "servers": {"other": {
        "transport": "stdio", "command": command, "args": ["demo-server"]}}});
    for broken in ["version: 1\nservers: {", "version: 2\n", "\u{0}", "include: 5\nversion: 1\n"] {
        let workspace = TestWorkspace::new().with_file("toolcrib.yaml", broken);
        let workspace = workspace.with_file(".minds/mcp.yaml", &mcp.to_string());
        let served = ServeProcess::start(&workspace).await;
        is_closed(&served, &json!(broken)).await;
        let servers = || workspace.json(&["servers"]);
        wait_until("the other file's server is ready", || {
            find(&servers()["servers"], "id", "other")["state"] == "ready"
        });
        // The grants of the broken file are unknown, so no agent has one.
        assert_eq!(workspace.tools(), Vec::<String>::new(), "{broken:?}");
    }
}

#[tokio::test]
async fn invalid_permission_is_denied() {
    for (permissions, fix) in [
        (json!({"spawn": "nope"}), json!({"spawn": true})),
        (json!({"spwan": false}), json!({})),
        (json!({"spawn": null}), json!({"network": true})),
        (json!("nope"), json!({})),
    ] {
        let workspace = workspace(&json!({"host": {"permissions": permissions}}));
        let served = ServeProcess::start(&workspace).await;
        let listed = workspace.json(&["tools"]);
        assert_eq!(listed["tools"], json!([]), "{permissions}");
        let closed = find(&listed["problems"], "code", "security.closed");
        assert!(closed["text"].as_str().unwrap().contains("host.permissions."), "{closed}");
        write(&workspace, &text(&json!({"host": {"permissions": fix}})));
        workspace.json(&["reload"]);
        // A reload keeps the last valid section.
        write(&workspace, &text(&json!({"host": {"permissions": permissions}})));
        workspace.json(&["reload"]);
        workspace.stdout_of(&["server", "restart", "demo"]);
        assert_eq!(workspace.tools().len(), 7, "{permissions}");
        assert_eq!(served.stop(Signal::TERM).await, Some(0));
    }
}

#[tokio::test]
async fn invalid_grants_grant_no_access() {
    let good = json!({"members": {"default": {"toolsets": []}, "coder": {"toolsets": ["demo"]}}});
    let tools = |workspace: &TestWorkspace, agent| {
        let listed = workspace.json(&["tools", "--agent", agent]);
        listed["tools"].as_array().unwrap().len()
    };
    for bad in [
        json!({"members": 5}),
        json!({"members": {"default": {"toolsets": "none"}, "coder": {"toolsets": ["demo"]}}}),
        json!({"membres": {"default": {"toolsets": []}}}),
        json!([]),
    ] {
        let workspace = workspace(&json!({"host": {"grants": bad}}));
        let served = ServeProcess::start(&workspace).await;
        assert_eq!((tools(&workspace, "default"), tools(&workspace, "coder")), (0, 0), "{bad}");
        write(&workspace, &text(&json!({"host": {"grants": good}})));
        workspace.json(&["reload"]);
        assert_eq!((tools(&workspace, "default"), tools(&workspace, "coder")), (0, 7), "{bad}");
        write(&workspace, &text(&json!({"host": {"grants": bad}})));
        workspace.json(&["reload"]);
        assert_eq!((tools(&workspace, "default"), tools(&workspace, "coder")), (0, 7), "{bad}");
        assert_eq!(served.stop(Signal::TERM).await, Some(0));
    }
}

#[test]
fn invalid_secrets_stop_servers_using_them() {
    let mut uses = demo_server();
    uses["env"] = json!({"KEY": {"secret": "file:key"}});
    let servers = json!({"uses": uses, "plain": demo_server()});
    for (secrets, started) in [(json!({}), 14), (json!({"vault": {"kind": "valt"}}), 7)] {
        let workspace = native_workspace(&servers).with_file("key", "value");
        let file = json!({"version": 1, "servers": servers, "host": {"secrets": secrets}});
        let workspace = workspace.with_file("toolcrib.yaml", &file.to_string());
        assert_eq!(workspace.tools().len(), started, "{secrets}");
    }
}

#[test]
fn invalid_restricting_key_stops_only_its_server() {
    for (key, bad) in [
        ("expose", json!({"tools": {"deny": 5}})),
        ("expose", json!({"tools": {"dney": ["add"]}})),
        ("expose", json!({"tools": {"deny": null}})),
        ("expsoe", json!({"tools": {"deny": ["add"]}})),
        ("allow_commands", json!(5)),
        ("allow_commands", Value::Null),
        ("alow_commands", json!(["nothing"])),
        ("url_policy", json!("https")),
        ("inherit_env", json!("nothing")),
        ("inherit_evn", json!("none")),
        ("client", json!({"sampling": "of"})),
        ("client", json!({"samplin": "off"})),
        ("access", json!({"grnat": "capabilities"})),
        ("enabled", json!("no")),
        ("enabld", json!(false)),
    ] {
        let mut entry = demo_server();
        entry[key] = bad.clone();
        let workspace = native_workspace(&json!({"bad": entry, "good": demo_server()}));
        let listed = workspace.json(&["tools"]);
        let tools = listed["tools"].as_array().unwrap();
        assert!(tools.iter().all(|tool| tool["server"] == "good"), "{key} {bad}: {listed:#}");
        assert_eq!(tools.len(), 7, "{key} {bad}");
        // The same key in a profile stops the servers that use the profile.
        let file = json!({"version": 1, "profiles": {"p": {key: bad}}, "servers": {
            "bad": {"profile": "p", "command": demo_server()["command"], "args": demo_server()["args"]},
            "good": demo_server()}});
        let workspace = workspace.with_file("toolcrib.yaml", &file.to_string());
        let listed = workspace.json(&["tools"]);
        let tools = listed["tools"].as_array().unwrap();
        assert!(tools.iter().all(|tool| tool["server"] == "good"), "profile {key} {bad}");
    }
}
