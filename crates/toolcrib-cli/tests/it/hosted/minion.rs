//! Minion's client configuration, from the file to the call.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, program};

use super::{parsed, server};
use crate::{Place, Ran};

const FLAGS: [&str; 4] = ["--config", "minion.json", "--dialect", "minion"];

fn place(servers: &Value) -> Place {
    Place::new().file("minion.json", &json!({"servers": servers}).to_string())
}

fn run(place: &Place, args: &[&str]) -> Ran {
    let args: Vec<&str> = args.iter().copied().chain(FLAGS).collect();
    place.run(&args)
}

fn listed(place: &Place, what: &str) -> Value {
    parsed(&run(place, &[what, "--json"]))
}

/// A scripted server by its name, with other keys besides.
fn entry(name: &str, keys: &Value) -> Value {
    let mut entry = json!({"ServerName": name, "Transport": "stdio", "Command": program().unwrap(),
        "Args": [Script::default().to_json()]});
    for (key, value) in keys.as_object().unwrap() {
        entry[key] = value.clone();
    }
    entry
}

#[test]
fn min_09_every_field_is_taken_and_told_but_secrets() {
    let place = place(&json!([
        entry("local", &json!({"Description": "Files", "Env": {"A": "canary-env"}, "WorkingDir": "sub",
            "URL": "", "AuthType": "none", "AuthConfig": null, "Capabilities": ["tools"],
            "ConnectTimeout": "7s", "RequestTimeout": "1m30s"})),
        {"ServerName": "far", "Transport": "http", "URL": "http://127.0.0.1:1/mcp", "AuthType": "bearer",
            "AuthConfig": {"Token": "canary-token"}},
    ]))
    .file("sub/x", "");
    let status = listed(&place, "servers");
    let local = server(&status, "local");
    assert_eq!((&local["state"], &local["transport"]), (&json!("ready"), &json!("stdio")));
    assert_eq!(server(&status, "far")["transport"], "streamable_http");
    let shown = run(&place, &["explain", "--json"]);
    let (all, text) = (parsed(&shown), format!("{status}{}", shown.out));
    let local = &all["config"]["servers"]["local"];
    assert_eq!(local["description"], "Files"); // MIN-09
    assert_eq!(local["transport"]["command"], json!(program().unwrap()));
    assert_eq!(local["transport"]["args"].as_array().unwrap().len(), 1);
    assert!(local["transport"]["cwd"].as_str().unwrap().ends_with("sub"));
    assert_eq!(local["init"]["require_server"], json!(["tools"]));
    assert_eq!(
        (&local["timeouts"]["connect"], &local["timeouts"]["request"]),
        (&json!("7s"), &json!("90s"))
    );
    assert_eq!(all["config"]["servers"]["far"]["transport"]["url"], "http://127.0.0.1:1/mcp");
    assert!(!text.contains("canary"), "{text}"); // MIN-09
    let told = run(&place, &["call", "mcp_local_env", "--raw"]);
    assert!(told.out.contains("canary-env") && told.out.contains("ws/sub"), "{told:?}");
}

#[test]
fn min_10_and_11_what_cannot_be_meant_fails_at_once() {
    for (entry, text) in [
        (
            json!({"ServerName": "s", "Transport": "pigeon", "Command": "x"}),
            "unsupported transport: pigeon",
        ), // MIN-10
        (json!({"ServerName": "s", "Transport": "stdio"}), "no `command`"), // MIN-11
        (json!({"ServerName": "s", "Transport": "http"}), "no `url`"),      // MIN-11
    ] {
        let place = place(&json!([entry]));
        let ran = run(&place, &["tools", "--json"]);
        let listed = parsed(&ran);
        assert_eq!((ran.code, &listed["tools"]), (1, &json!([])), "{ran:?}");
        let problem = &listed["problems"][0];
        assert_eq!(problem["server"], "s");
        let told = problem["text"].as_str().unwrap();
        assert!(told.contains(text), "{told}"); // MIN-10, MIN-11
        let status = super::parsed(&run(&place, &["servers", "--json"]));
        assert_eq!(status["servers"], json!([]), "no process");
    }
}

#[test]
fn min_12_both_spellings_of_the_address_are_taken() {
    for key in ["URL", "HTTPUrl"] {
        let mut entry = json!({"ServerName": "far", "Transport": "http"});
        entry[key] = json!("http://127.0.0.1:1/mcp");
        let place = place(&json!([entry]));
        assert_eq!(server(&listed(&place, "servers"), "far")["transport"], "streamable_http"); // MIN-12
        let shown = parsed(&run(&place, &["explain", "far", "--json"]));
        assert_eq!(shown["server"]["transport"]["url"], "http://127.0.0.1:1/mcp"); // MIN-12
    }
}

#[test]
fn min_19_a_capability_that_is_asked_for_and_lacking_is_in_the_status() {
    let wants = json!([entry("s", &json!({"Capabilities": ["tools", "telepathy"]}))]);
    let status = listed(&place(&wants), "servers");
    assert_eq!(server(&status, "s")["missing_capabilities"], json!(["telepathy"])); // MIN-19
    let ran = run(&place(&wants), &["servers"]);
    assert!(ran.err.contains("server `s` lacks what is asked of it: telepathy"), "{ran:?}");
}
