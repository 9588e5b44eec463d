//! The server half of the official conformance suite: the suite asks our gateway, and the reference server answers
//! behind it. Judged strictly: a warning counts as a failure.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_testkit::conformance::{self, Half};
use toolcrib_testkit::peers;

use crate::serving::{Serving, Upstream};
use crate::{PROGRAM, Place};

/// The versions of the protocol, each with how many scenarios its release froze.
const VERSIONS: [(&str, usize); 2] = [("2025-11-25", 30), ("2026-07-28", 37)];

/// What does not pass, by version and scenario, with the reason. It may only shrink: what is listed and passes
/// fails the test.
const NOT_YET: [(&str, &str, &str); 0] = [];

/// How long one half may take; this only bounds a failure.
const LIMIT: Duration = Duration::from_secs(150);

/// The control: what the suite asks can be passed.
#[tokio::test]
async fn the_reference_server_itself_passes() {
    let server = reference("http").await;
    for (version, _) in VERSIONS {
        judge(version, &server.url).await;
    }
}

/// The other control: some scenarios pass on nothing at all, and it must be seen that the others do not.
#[tokio::test]
async fn a_gateway_in_front_of_nothing_does_not_pass() {
    let gateway = Serving::start(place(json!({}))).await;
    for (version, all) in VERSIONS {
        let failed = failed(version, &gateway.at("/mcp")).await.len();
        assert!((all / 3..all).contains(&failed), "{failed} of {all} failed");
    }
    gateway.end().await;
}

#[tokio::test]
async fn the_suite_of_2025_11_25_passes_with_the_server_on_stdio() {
    behind("2025-11-25", json!({"everything": on_stdio()})).await;
}

#[tokio::test]
async fn the_suite_of_2026_07_28_passes_with_the_server_on_stdio() {
    behind("2026-07-28", json!({"everything": on_stdio()})).await;
}

#[tokio::test]
async fn the_suites_pass_with_the_server_on_streamable_http() {
    let server = reference("http").await;
    for (version, _) in VERSIONS {
        behind(version, json!({"everything": own_names(json!({"url": server.url}))})).await;
    }
}

#[tokio::test]
async fn the_suites_pass_with_the_server_on_sse() {
    let server = reference("sse").await;
    let entry = own_names(json!({"transport": {"kind": "sse", "url": server.url}}));
    for (version, _) in VERSIONS {
        behind(version, json!({"everything": entry})).await;
    }
}

#[tokio::test]
async fn the_suites_pass_with_another_server_beside_the_one_on_stdio() {
    for (version, _) in VERSIONS {
        behind(version, beside(on_stdio())).await;
    }
}

#[tokio::test]
async fn the_suites_pass_with_another_server_beside_the_one_on_streamable_http() {
    let server = reference("http").await;
    for (version, _) in VERSIONS {
        behind(version, beside(own_names(json!({"url": server.url})))).await;
    }
}

#[tokio::test]
async fn the_suites_pass_with_another_server_beside_the_one_on_sse() {
    let server = reference("sse").await;
    let entry = own_names(json!({"transport": {"kind": "sse", "url": server.url}}));
    for (version, _) in VERSIONS {
        behind(version, beside(entry.clone())).await;
    }
}

/// Two servers, of which the suite knows one.
fn beside(everything: Value) -> Value {
    let demo = eager(json!({"command": PROGRAM, "args": ["demo-server"]}));
    json!({"demo": demo, "everything": everything})
}

fn on_stdio() -> Value {
    let [python, script] = peers::reference().unwrap();
    own_names(json!({"command": python, "args": [script, "stdio"]}))
}

/// The suite asks for tools by the names that the reference server gives them.
fn own_names(mut entry: Value) -> Value {
    entry["naming"] = json!({"template": "{tool}"});
    eager(entry)
}

/// The first list waits for it.
fn eager(mut entry: Value) -> Value {
    entry["lifecycle"] = json!({"connect": "eager"});
    entry
}

async fn behind(version: &str, servers: Value) {
    let gateway = Serving::start(place(servers)).await;
    judge(version, &gateway.at("/mcp")).await;
    gateway.end().await;
}

fn place(servers: Value) -> Place {
    Place::new().file("toolcrib.yaml", &json!({"version": 1, "servers": servers}).to_string())
}

async fn reference(transport: &str) -> Upstream {
    let [python, script] = peers::reference().unwrap();
    Upstream::start(&python, &[script.to_str().unwrap(), transport]).await
}

async fn judge(version: &str, url: &str) {
    let mut failed = failed(version, url).await;
    let mut wrong = Vec::new();
    for (_, scenario, why) in NOT_YET.iter().filter(|(v, ..)| *v == version) {
        if failed.remove(*scenario).is_none() {
            wrong.push(format!("{scenario} passes, and is listed: {why}"));
        }
    }
    wrong.extend(failed.iter().map(|(scenario, found)| format!("{scenario}: {found:#?}")));
    assert!(wrong.is_empty(), "{version}: {}", wrong.join("\n"));
}

/// The required scenarios that do not pass, with everything in them that is not as it should be.
async fn failed(version: &str, url: &str) -> BTreeMap<String, Vec<String>> {
    let required = conformance::scenarios(Half::Server, version, LIMIT).await.unwrap().required;
    let expected = VERSIONS.iter().find(|(v, _)| *v == version).map(|(_, count)| *count);
    assert_eq!(Some(required.len()), expected, "{required:?}");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let args = ["server", "--url", url, "--requirements", version, "--timeout", "30000", "-o", out];
    let output = conformance::suite(&args, LIMIT).await.unwrap();
    let results = results(&folder);
    let judged = required.into_iter().map(|scenario| {
        let found = match results.get(&scenario) {
            Some(result) => conformance::blemishes(result).unwrap(),
            None => {
                vec![format!("there is no result: {}", String::from_utf8_lossy(&output.stderr))]
            }
        };
        (scenario, found)
    });
    judged.filter(|(_, found)| !found.is_empty()).collect()
}

/// The folder that the suite wrote for each scenario, by its name: `server-NAME-2026-11-16T06-50-54-372Z`.
fn results(folder: &tempfile::TempDir) -> BTreeMap<String, std::path::PathBuf> {
    const MOMENT: usize = "-2026-11-16T06-50-54-372Z".len();
    let results = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    results
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            let name = name.strip_prefix("server-").unwrap();
            (name[..name.len() - MOMENT].to_owned(), path)
        })
        .collect()
}
