//! Tests misspelt and misplaced keys that restrict a server: they never widen the list of tools.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::ServeProcess;
use crate::TestWorkspace;
use crate::server_commands::{PATH, demo_server, names, parse_json};

const MINDS: &str = ".minds/mcp.yaml";

/// A Dominds entry of the demo server with these keys.
fn minds(keys: &Value) -> String {
    let mut entry = demo_server();
    entry["transport"] = json!("stdio");
    entry.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    json!({"version": 1, "servers": {"demo": entry}}).to_string()
}

/// A native entry of the demo server with these keys.
fn native(keys: &Value) -> String {
    let mut entry = demo_server();
    entry.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    json!({"version": 1, "servers": {"demo": entry}}).to_string()
}

/// A file, a valid text that offers only `echo`, and invalid variants of it.
fn cases() -> Vec<(&'static str, String, Vec<String>)> {
    let minds_good = minds(&json!({"tools": {"whitelist": ["echo"]}}));
    let minds_bad = [
        json!({"tools": {"whitelst": ["echo"]}}),
        json!({"tols": {"whitelist": ["echo"]}}),
        json!({"whitelist": ["echo"]}),
        json!({"tools": {"blaklist": ["add"]}}),
        json!({"enbled": false}),
        json!({"disabled": true}),
    ];
    let native_good = native(&json!({"expose": {"tools": {"allow": ["echo"]}}}));
    let native_bad = [
        json!({"tools": {"allow": ["echo"]}}),
        json!({"allow": ["echo"]}),
        json!({"deny": ["add"]}),
        json!({"expose": {"allow": ["echo"]}}),
        json!({"timeouts": {"expose": {"tools": {"allow": ["echo"]}}}}),
        json!({"disabled": true}),
    ];
    let mut native_bad: Vec<String> = native_bad.iter().map(native).collect();
    // The filter is beside the server instead of in it.
    let beside = json!({"version": 1,
        "servers": {"demo": demo_server(), "expose": {"tools": {"allow": ["echo"]}}}});
    native_bad.push(beside.to_string());
    vec![
        (MINDS, minds_good, minds_bad.iter().map(minds).collect()),
        ("toolcrib.yaml", native_good, native_bad),
    ]
}

#[test]
fn check_reports_misspelt_filters_as_errors_of_the_server() {
    for (file, _, bad) in cases() {
        for bad in bad {
            let ran = TestWorkspace::new().with_file(file, &bad).run(&["check", "--json"]);
            assert_eq!(ran.code, 1, "{bad}: {ran:?}");
            let problems = parse_json(&ran)["problems"].clone();
            let report = problems.as_array().unwrap().iter().any(|problem| {
                let code = problem["code"].as_str().unwrap();
                problem["server"] == "demo"
                    && problem["severity"] == "error"
                    && matches!(code, "key.unknown" | "key.misplaced")
                    && problem["line"].is_u64()
                    && problem["fix"].is_string()
            });
            assert!(report, "{bad}: {problems:#}");
            let out = problems.to_string();
            assert!(!out.contains("has no effect"), "{out}");
        }
    }
}

#[tokio::test]
async fn reload_keeps_filter_when_new_filter_is_misspelt() {
    for (file, good, bad) in cases() {
        let workspace = TestWorkspace::new().with_file(file, &good);
        let served = ServeProcess::start(&workspace).await;
        let offered = workspace.tools();
        assert_eq!(offered.len(), 1, "{offered:?}");
        for bad in bad {
            fs::write(workspace.root().join(file), &bad).unwrap();
            workspace.run_with_env(&["reload", "--json"], &[PATH]);
            assert_eq!(workspace.tools(), offered, "{bad}");
            // A start has no last valid entry.
            let start = TestWorkspace::new().with_file(file, &bad);
            let ran = start.run_with_env(&["tools", "--json"], &[PATH]);
            assert_eq!(names(&parse_json(&ran)), Vec::<String>::new(), "{bad}");
        }
        assert_eq!(served.stop(Signal::TERM).await, Some(0));
    }
}

#[test]
fn empty_allow_list_offers_no_tools() {
    let workspace = TestWorkspace::new()
        .with_file("toolcrib.yaml", &native(&json!({"expose": {"tools": {"allow": []}}})));
    let ran = workspace.run_with_env(&["tools", "--json"], &[PATH]);
    assert_eq!(names(&parse_json(&ran)), Vec::<String>::new());
    // DOM-30: in Dominds an empty list means no filter.
    let workspace =
        TestWorkspace::new().with_file(MINDS, &minds(&json!({"tools": {"whitelist": []}})));
    assert_eq!(workspace.tools().len(), 7);
}

#[test]
fn check_reports_gateway_values_that_cannot_protect() {
    let hash = "00".repeat(32);
    for (gateway, code) in [
        (json!({"tokens": [{"sha256": "00", "agent": "ci"}]}), "token.hash"),
        (json!({"tokens": [{"sha256": "zz".repeat(32), "agent": "ci"}]}), "token.hash"),
        (json!({"tokens": [{"sha256": hash, "agent": ""}]}), "token.agent"),
        (json!({"origins": ["*"]}), "gateway.origin"),
        (json!({"hosts": ["*.example"]}), "gateway.host"),
        (json!({"oauth": {"issuer": "https://issuer.example"}}), "oauth.no_audience"),
    ] {
        let file = json!({"version": 1, "gateway": gateway, "servers": {"demo": demo_server()}});
        let ran = TestWorkspace::new()
            .with_file("toolcrib.yaml", &file.to_string())
            .run(&["check", "--json"]);
        assert_eq!(ran.code, 1, "{gateway}");
        let problems = parse_json(&ran)["problems"].clone();
        let all = problems.as_array().unwrap();
        let codes: Vec<&str> = all.iter().map(|it| it["code"].as_str().unwrap()).collect();
        assert_eq!(codes, [code, "security.closed"], "{gateway}: {problems:#}");
        assert!(all[0]["line"].is_u64() && all[0]["fix"].is_string(), "{problems:#}");
    }
}
