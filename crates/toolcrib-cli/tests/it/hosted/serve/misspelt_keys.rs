//! Misspelt and misplaced keys that restrict a server: the list of tools does not widen.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::Served;
use crate::Place;
use crate::hosted::{PATH, demo, names, parsed};

const MINDS: &str = ".minds/mcp.yaml";

/// An entry of the demo server in Dominds' format with these keys.
fn minds(keys: &Value) -> String {
    let mut entry = demo();
    entry["transport"] = json!("stdio");
    entry.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    json!({"version": 1, "servers": {"demo": entry}}).to_string()
}

/// An entry of the demo server in the native format with these keys.
fn native(keys: &Value) -> String {
    let mut entry = demo();
    entry.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    json!({"version": 1, "servers": {"demo": entry}}).to_string()
}

/// A file, a good text of it that offers `echo` alone, and what mistakes make of the text.
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
    // The filter stands beside the server instead of in it.
    let beside = json!({"version": 1,
        "servers": {"demo": demo(), "expose": {"tools": {"allow": ["echo"]}}}});
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
            let ran = Place::new().file(file, &bad).run(&["check", "--json"]);
            assert_eq!(ran.code, 1, "{bad}: {ran:?}");
            let problems = parsed(&ran)["problems"].clone();
            let told = problems.as_array().unwrap().iter().any(|problem| {
                let code = problem["code"].as_str().unwrap();
                problem["server"] == "demo"
                    && problem["severity"] == "error"
                    && matches!(code, "key.unknown" | "key.misplaced")
                    && problem["line"].is_u64()
                    && problem["fix"].is_string()
            });
            assert!(told, "{bad}: {problems:#}");
            let out = problems.to_string();
            assert!(!out.contains("has no effect"), "{out}");
        }
    }
}

#[tokio::test]
async fn reload_keeps_the_filter_of_a_server_whose_new_filter_is_misspelt() {
    for (file, good, bad) in cases() {
        let place = Place::new().file(file, &good);
        let served = Served::start(&place).await;
        let offered = place.tools();
        assert_eq!(offered.len(), 1, "{offered:?}");
        for bad in bad {
            fs::write(place.root().join(file), &bad).unwrap();
            place.run_with(&["reload", "--json"], &[PATH]);
            assert_eq!(place.tools(), offered, "{bad}");
            // At a start there is no last good entry.
            let start = Place::new().file(file, &bad);
            let ran = start.run_with(&["tools", "--json"], &[PATH]);
            assert_eq!(names(&parsed(&ran)), Vec::<String>::new(), "{bad}");
        }
        assert_eq!(served.end(Signal::TERM).await, Some(0));
    }
}

#[test]
fn an_empty_allow_list_offers_nothing() {
    let place =
        Place::new().file("toolcrib.yaml", &native(&json!({"expose": {"tools": {"allow": []}}})));
    let ran = place.run_with(&["tools", "--json"], &[PATH]);
    assert_eq!(names(&parsed(&ran)), Vec::<String>::new());
    // DOM-30: to Dominds an empty list is the same as none.
    let place = Place::new().file(MINDS, &minds(&json!({"tools": {"whitelist": []}})));
    assert_eq!(place.tools().len(), 7);
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
        let file = json!({"version": 1, "gateway": gateway, "servers": {"demo": demo()}});
        let ran = Place::new().file("toolcrib.yaml", &file.to_string()).run(&["check", "--json"]);
        assert_eq!(ran.code, 1, "{gateway}");
        let problems = parsed(&ran)["problems"].clone();
        let all = problems.as_array().unwrap();
        let codes: Vec<&str> = all.iter().map(|it| it["code"].as_str().unwrap()).collect();
        assert_eq!(codes, [code, "security.closed"], "{gateway}: {problems:#}");
        assert!(all[0]["line"].is_u64() && all[0]["fix"].is_string(), "{problems:#}");
    }
}
