//! Runs the server half of the official conformance suite against the gateway with the reference server behind it. A
//! warning counts as a failure.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_testkit::conformance::{self, ConformanceRole};
use toolcrib_testkit::peers;

use crate::test_gateway::{TestGateway, UpstreamProcess};
use crate::{PROGRAM, TestWorkspace};

/// Protocol versions with the number of scenarios in their frozen suites.
const VERSIONS: [(&str, usize); 2] = [("2025-11-25", 30), ("2026-07-28", 37)];

/// Failing scenarios by version, with the reason. A listed scenario that passes fails the test.
const EXPECTED_FAILURES: [(&str, &str, &str); 0] = [];

/// Bounds one run of the suite.
const LIMIT: Duration = Duration::from_secs(150);

/// Control: the suite can be passed.
#[tokio::test]
async fn reference_server_passes_both_suites() {
    let server = start_reference_server("http").await;
    for (version, _) in VERSIONS {
        check_suite(version, &server.url).await;
    }
}

/// Control: some scenarios pass without any server, the others must fail.
#[tokio::test]
async fn gateway_without_servers_fails_both_suites() {
    let gateway = TestGateway::start(workspace_with(json!({}))).await;
    for (version, all) in VERSIONS {
        let failed = failed_scenarios(version, &gateway.url("/mcp")).await.len();
        assert!((all / 3..all).contains(&failed), "{failed} of {all} failed");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn suite_2025_11_25_passes_with_stdio_server() {
    check_suite_behind_gateway("2025-11-25", json!({"everything": stdio_reference()})).await;
}

#[tokio::test]
async fn suite_2026_07_28_passes_with_stdio_server() {
    check_suite_behind_gateway("2026-07-28", json!({"everything": stdio_reference()})).await;
}

#[tokio::test]
async fn suites_pass_with_streamable_http_server() {
    let server = start_reference_server("http").await;
    for (version, _) in VERSIONS {
        check_suite_behind_gateway(
            version,
            json!({"everything": with_plain_names(json!({"url": server.url}))}),
        )
        .await;
    }
}

#[tokio::test]
async fn suites_pass_with_sse_server() {
    let server = start_reference_server("sse").await;
    let entry = with_plain_names(json!({"transport": {"kind": "sse", "url": server.url}}));
    for (version, _) in VERSIONS {
        check_suite_behind_gateway(version, json!({"everything": entry})).await;
    }
}

#[tokio::test]
async fn suites_pass_with_second_server_beside_stdio_server() {
    for (version, _) in VERSIONS {
        check_suite_behind_gateway(version, with_second_server(stdio_reference())).await;
    }
}

#[tokio::test]
async fn suites_pass_with_second_server_beside_streamable_http_server() {
    let server = start_reference_server("http").await;
    for (version, _) in VERSIONS {
        check_suite_behind_gateway(
            version,
            with_second_server(with_plain_names(json!({"url": server.url}))),
        )
        .await;
    }
}

#[tokio::test]
async fn suites_pass_with_second_server_beside_sse_server() {
    let server = start_reference_server("sse").await;
    let entry = with_plain_names(json!({"transport": {"kind": "sse", "url": server.url}}));
    for (version, _) in VERSIONS {
        check_suite_behind_gateway(version, with_second_server(entry.clone())).await;
    }
}

/// Two servers, one of which the suite uses.
fn with_second_server(everything: Value) -> Value {
    let demo = with_eager_connect(json!({"command": PROGRAM, "args": ["demo-server"]}));
    json!({"demo": demo, "everything": everything})
}

fn stdio_reference() -> Value {
    let [python, script] = peers::reference_server().unwrap();
    with_plain_names(json!({"command": python, "args": [script, "stdio"]}))
}

/// The suite calls tools by the names of the reference server.
fn with_plain_names(mut entry: Value) -> Value {
    entry["naming"] = json!({"template": "{tool}"});
    with_eager_connect(entry)
}

/// Connects eagerly, so that the first list waits for the server.
fn with_eager_connect(mut entry: Value) -> Value {
    entry["lifecycle"] = json!({"connect": "eager"});
    entry
}

async fn check_suite_behind_gateway(version: &str, servers: Value) {
    let gateway = TestGateway::start(workspace_with(servers)).await;
    check_suite(version, &gateway.url("/mcp")).await;
    gateway.stop().await;
}

fn workspace_with(servers: Value) -> TestWorkspace {
    TestWorkspace::new()
        .with_file("toolcrib.yaml", &json!({"version": 1, "servers": servers}).to_string())
}

async fn start_reference_server(transport: &str) -> UpstreamProcess {
    let [python, script] = peers::reference_server().unwrap();
    UpstreamProcess::start(&python, &[script.to_str().unwrap(), transport]).await
}

async fn check_suite(version: &str, url: &str) {
    let mut failed = failed_scenarios(version, url).await;
    let mut wrong = Vec::new();
    for (_, scenario, why) in EXPECTED_FAILURES.iter().filter(|(v, ..)| *v == version) {
        if failed.remove(*scenario).is_none() {
            wrong.push(format!("{scenario} passes, and is listed: {why}"));
        }
    }
    wrong.extend(failed.iter().map(|(scenario, found)| format!("{scenario}: {found:#?}")));
    assert!(wrong.is_empty(), "{version}: {}", wrong.join("\n"));
}

/// The required scenarios that fail, with their findings.
async fn failed_scenarios(version: &str, url: &str) -> BTreeMap<String, Vec<String>> {
    let required = conformance::list_scenarios(ConformanceRole::Server, version, LIMIT)
        .await
        .unwrap()
        .required;
    let expected = VERSIONS.iter().find(|(v, _)| *v == version).map(|(_, count)| *count);
    assert_eq!(Some(required.len()), expected, "{required:?}");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let args = ["server", "--url", url, "--requirements", version, "--timeout", "30000", "-o", out];
    let output = conformance::run_suite(&args, LIMIT).await.unwrap();
    let results = result_folders(&folder);
    let judged = required.into_iter().map(|scenario| {
        let found = match results.get(&scenario) {
            Some(result) => conformance::failed_checks(result).unwrap(),
            None => {
                vec![format!("there is no result: {}", String::from_utf8_lossy(&output.stderr))]
            }
        };
        (scenario, found)
    });
    judged.filter(|(_, found)| !found.is_empty()).collect()
}

/// The result folder of each scenario. The suite names it `server-NAME-2026-11-16T06-50-54-372Z`.
fn result_folders(folder: &tempfile::TempDir) -> BTreeMap<String, std::path::PathBuf> {
    const TIMESTAMP_LENGTH: usize = "-2026-11-16T06-50-54-372Z".len();
    let results = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    results
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            let name = name.strip_prefix("server-").unwrap();
            (name[..name.len() - TIMESTAMP_LENGTH].to_owned(), path)
        })
        .collect()
}
