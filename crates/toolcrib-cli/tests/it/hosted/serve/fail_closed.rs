//! Security settings that are invalid: each section fails closed by itself.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::Served;
use super::tokens::status;
use crate::Place;
use crate::hosted::{codes, demo, find, native, until};

const TOKEN: &str = "a-secret-that-only-this-test-has";
const HASH: &str = "860a5f6de411e2c46b14b8491994ac8f4eb4ca378cf1107fa8254de5179442dd";

fn token() -> Value {
    json!({"sha256": HASH, "agent": "default"})
}

/// A native file with the demo server and these sections.
fn text(sections: &Value) -> String {
    let mut file = json!({"version": 1, "servers": {"demo": demo()}});
    let (file_map, sections) = (file.as_object_mut().unwrap(), sections.as_object().unwrap());
    file_map.extend(sections.clone());
    file.to_string()
}

fn place(sections: &Value) -> Place {
    Place::new().file("toolcrib.yaml", &text(sections))
}

fn write(place: &Place, text: &str) {
    fs::write(place.root().join("toolcrib.yaml"), text).unwrap();
}

/// Gateway sections that a slip makes of a good one.
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
async fn reload_keeps_the_last_good_gateway_section() {
    let good = text(&json!({"gateway": {"tokens": [token()]}}));
    let place = Place::new().file("toolcrib.yaml", &good);
    let served = Served::start(&place).await;
    // A host listens before it has read its files; an answer tells that it has.
    assert_eq!(status(&served, "/api/v1/tools", Some(TOKEN)).await, 200);
    let mut bad: Vec<String> =
        bad_gateways().iter().map(|gateway| text(&json!({"gateway": gateway}))).collect();
    bad.push(text(&json!({"gatewey": {"tokens": [token()]}})));
    bad.push("version: 1\ngateway: {".to_owned());
    bad.push("version: 2\n".to_owned());
    for bad in bad {
        write(&place, &bad);
        let problems = place.json(&["reload"])["problems"].clone();
        assert!(codes(&problems).contains(&"security.kept"), "{bad}: {problems:#}");
        assert_eq!(status(&served, "/api/v1/tools", None).await, 401, "{bad}");
        assert_eq!(status(&served, "/api/v1/tools", Some(TOKEN)).await, 200, "{bad}");
    }
    // A file that is gone opens nothing; one that asks for no tokens does.
    fs::remove_file(place.root().join("toolcrib.yaml")).unwrap();
    place.json(&["reload"]);
    assert_eq!(status(&served, "/api/v1/tools", None).await, 401);
    write(&place, &text(&json!({})));
    place.json(&["reload"]);
    assert_eq!(status(&served, "/api/v1/tools", None).await, 200);
    assert_eq!(served.end(Signal::TERM).await, Some(0));
}

#[tokio::test]
async fn tokens_count_although_another_entry_of_the_file_is_invalid() {
    let place = place(&json!({}));
    let served = Served::start(&place).await;
    assert_eq!(status(&served, "/api/v1/tools", None).await, 200);
    let servers = json!({"demo": demo(), "bad": {"command": [5]}});
    write(&place, &text(&json!({"gateway": {"tokens": [token()]}, "servers": servers})));
    place.json(&["reload"]);
    assert_eq!(status(&served, "/api/v1/tools", None).await, 401);
    assert_eq!(status(&served, "/api/v1/tools", Some(TOKEN)).await, 200);
}

#[tokio::test]
async fn dom_88_an_invalid_gateway_section_at_start_serves_the_owner_only() {
    for gateway in bad_gateways() {
        let place = place(&json!({"gateway": gateway}));
        let served = Served::start(&place).await;
        is_closed(&served, &gateway).await;
        // The owner's socket works, and says what is wrong and where.
        assert_eq!(place.tools().len(), 7, "{gateway}");
        let problems = place.json(&["tools"])["problems"].clone();
        let closed = find(&problems, "code", "security.closed");
        assert!(closed["text"].as_str().unwrap().contains("`gateway` is invalid"), "{closed}");
        assert!(closed["line"].is_u64() && closed["fix"].is_string(), "{closed}");
        // A corrected section opens it.
        write(&place, &text(&json!({"gateway": {"tokens": [token()]}})));
        place.json(&["reload"]);
        assert_eq!(status(&served, "/api/v1/tools", Some(TOKEN)).await, 200, "{gateway}");
        assert_eq!(status(&served, "/api/v1/tools", None).await, 401, "{gateway}");
    }
}

/// Over TCP only the two probes are answered.
async fn is_closed(served: &Served, why: &Value) {
    let console = served.line["console"].as_str().unwrap();
    let (_, owner) = console.split_once("/#token=").unwrap();
    for path in ["/", "/mcp", "/mcp/demo", "/sse", "/ws", "/api/v1/tools", "/metrics"] {
        assert_eq!(status(served, path, None).await, 503, "{path} {why}");
        assert_eq!(status(served, path, Some(TOKEN)).await, 503, "{path} {why}");
        assert_eq!(status(served, path, Some(owner)).await, 503, "{path} {why}");
    }
    assert_eq!(status(served, "/healthz", None).await, 204, "{why}");
    super::within(async {
        while status(served, "/readyz", None).await != 204 {
            // Readiness is told by nothing else over TCP.
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn dom_88_a_broken_native_file_closes_the_gateway_and_other_files_servers_start() {
    let command = demo()["command"].as_str().unwrap().to_owned();
    let mcp = json!({"version": 1, "servers": {"other": {
        "transport": "stdio", "command": command, "args": ["demo-server"]}}});
    for broken in ["version: 1\nservers: {", "version: 2\n", "\u{0}", "include: 5\nversion: 1\n"] {
        let place = Place::new().file("toolcrib.yaml", broken);
        let place = place.file(".minds/mcp.yaml", &mcp.to_string());
        let served = Served::start(&place).await;
        is_closed(&served, &json!(broken)).await;
        let servers = || place.json(&["servers"]);
        until("the other file's server is ready", || {
            find(&servers()["servers"], "id", "other")["state"] == "ready"
        });
        // Grants of the broken file are unknown, so nobody has one.
        assert_eq!(place.tools(), Vec::<String>::new(), "{broken:?}");
    }
}

#[tokio::test]
async fn an_invalid_permission_is_off() {
    for (permissions, fix) in [
        (json!({"spawn": "nope"}), json!({"spawn": true})),
        (json!({"spwan": false}), json!({})),
        (json!({"spawn": null}), json!({"network": true})),
        (json!("nope"), json!({})),
    ] {
        let place = place(&json!({"host": {"permissions": permissions}}));
        let served = Served::start(&place).await;
        let listed = place.json(&["tools"]);
        assert_eq!(listed["tools"], json!([]), "{permissions}");
        let closed = find(&listed["problems"], "code", "security.closed");
        assert!(closed["text"].as_str().unwrap().contains("host.permissions."), "{closed}");
        write(&place, &text(&json!({"host": {"permissions": fix}})));
        place.json(&["reload"]);
        // On a reload the last good section stays.
        write(&place, &text(&json!({"host": {"permissions": permissions}})));
        place.json(&["reload"]);
        place.out(&["server", "restart", "demo"]);
        assert_eq!(place.tools().len(), 7, "{permissions}");
        assert_eq!(served.end(Signal::TERM).await, Some(0));
    }
}

#[tokio::test]
async fn invalid_grants_are_no_grants() {
    let good = json!({"members": {"default": {"toolsets": []}, "coder": {"toolsets": ["demo"]}}});
    let tools = |place: &Place, agent| {
        let listed = place.json(&["tools", "--agent", agent]);
        listed["tools"].as_array().unwrap().len()
    };
    for bad in [
        json!({"members": 5}),
        json!({"members": {"default": {"toolsets": "none"}, "coder": {"toolsets": ["demo"]}}}),
        json!({"membres": {"default": {"toolsets": []}}}),
        json!([]),
    ] {
        let place = place(&json!({"host": {"grants": bad}}));
        let served = Served::start(&place).await;
        assert_eq!((tools(&place, "default"), tools(&place, "coder")), (0, 0), "{bad}");
        write(&place, &text(&json!({"host": {"grants": good}})));
        place.json(&["reload"]);
        assert_eq!((tools(&place, "default"), tools(&place, "coder")), (0, 7), "{bad}");
        write(&place, &text(&json!({"host": {"grants": bad}})));
        place.json(&["reload"]);
        assert_eq!((tools(&place, "default"), tools(&place, "coder")), (0, 7), "{bad}");
        assert_eq!(served.end(Signal::TERM).await, Some(0));
    }
}

#[test]
fn invalid_secrets_stop_the_servers_that_use_them() {
    let mut uses = demo();
    uses["env"] = json!({"KEY": {"secret": "file:key"}});
    let servers = json!({"uses": uses, "plain": demo()});
    for (secrets, started) in [(json!({}), 14), (json!({"vault": {"kind": "valt"}}), 7)] {
        let place = native(&servers).file("key", "value");
        let file = json!({"version": 1, "servers": servers, "host": {"secrets": secrets}});
        let place = place.file("toolcrib.yaml", &file.to_string());
        assert_eq!(place.tools().len(), started, "{secrets}");
    }
}

#[test]
fn an_invalid_key_that_restricts_a_server_stops_that_server_only() {
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
        let mut entry = demo();
        entry[key] = bad.clone();
        let place = native(&json!({"bad": entry, "good": demo()}));
        let listed = place.json(&["tools"]);
        let tools = listed["tools"].as_array().unwrap();
        assert!(tools.iter().all(|tool| tool["server"] == "good"), "{key} {bad}: {listed:#}");
        assert_eq!(tools.len(), 7, "{key} {bad}");
        // The same in a profile stops the servers that use it.
        let file = json!({"version": 1, "profiles": {"p": {key: bad}}, "servers": {
            "bad": {"profile": "p", "command": demo()["command"], "args": demo()["args"]},
            "good": demo()}});
        let place = place.file("toolcrib.yaml", &file.to_string());
        let listed = place.json(&["tools"]);
        let tools = listed["tools"].as_array().unwrap();
        assert!(tools.iter().all(|tool| tool["server"] == "good"), "profile {key} {bad}");
    }
}
