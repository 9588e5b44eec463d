//! Client half of the official conformance suite. A warning counts as a failure.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toolcrib_testkit::conformance::{self, ConformanceRole, Scenarios};

/// Scenarios that fail, by version, with the reason. A listed scenario that passes fails the test.
const EXPECTED_FAILURES: [(&str, &str, &str); 0] = [];

/// Unsupported extensions. The suite runs and reports them without counting them.
const UNSUPPORTED_EXTENSIONS: [&str; 4] = [
    "auth/enterprise-managed-authorization",
    "auth/dpop",
    "auth/dpop-nonce",
    "auth/wif-jwt-bearer",
];

/// Time limit of one scenario.
const LIMIT: Duration = Duration::from_secs(60);

/// One scenario measures a pause to within 200 ms, which a busy machine may miss.
const MAX_ATTEMPTS: u32 = 3;

#[tokio::test]
async fn conformance_suite_2025_11_25_passes() {
    check_suite("2025-11-25", 18, 3).await;
}

#[tokio::test]
async fn conformance_suite_2026_07_28_passes() {
    check_suite("2026-07-28", 32, 3).await;
}

/// Servers of 2025-03-26 have no metadata. The suite no longer requires this login.
#[tokio::test]
async fn login_works_without_published_metadata() {
    for scenario in ["oauth-metadata-backcompat", "oauth-endpoint-fallback"] {
        let scenario = format!("auth/2025-03-26-{scenario}");
        assert_eq!(scenario_failures("2025-03-26", &scenario).await, [""; 0], "{scenario}");
    }
}

async fn check_suite(version: &str, required: usize, unscored: usize) {
    let found = scenarios(version).await;
    assert_eq!((found.required.len(), found.unscored.len()), (required, unscored), "{found:?}");
    let scenarios = [found.required, found.unscored].concat();
    let mut wrong = Vec::new();
    for scenario in &scenarios {
        let scenario_failures = scenario_failures(version, scenario).await;
        let listed = EXPECTED_FAILURES.iter().any(|(v, s, _)| (*v, *s) == (version, scenario));
        if scenario_failures.is_empty() == listed {
            wrong.push(format!("{scenario}, listed: {listed}: {scenario_failures:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Required client scenarios, and those that run without being counted.
async fn scenarios(version: &str) -> Scenarios {
    let mut found =
        conformance::list_scenarios(ConformanceRole::Client, version, LIMIT).await.unwrap();
    found.unscored.retain(|name| !UNSUPPORTED_EXTENSIONS.contains(&name.as_str()));
    found
}

/// Failures and warnings of a scenario.
async fn scenario_failures(version: &str, scenario: &str) -> Vec<String> {
    let mut found = run_scenario(version, scenario).await;
    for _ in 1..MAX_ATTEMPTS {
        // Only timing failures are repeated.
        if !found.iter().any(|failure| failure.contains("late (")) {
            break;
        }
        found = run_scenario(version, scenario).await;
    }
    found
}

async fn run_scenario(version: &str, scenario: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let client = client_program();
    let client = client.to_str().unwrap();
    let args = ["client", "--command", client, "--scenario", scenario, "--spec-version", version];
    // Extensions belong to no version and run with any.
    let args = [&args[..], &["--force", "--timeout", "30000", "-o", out]].concat();
    let output = conformance::run_suite(&args, LIMIT).await.unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut scenario_failures = Vec::new();
    // Some scenarios allow the client to fail; ours must not.
    if !output.status.success() || stderr.contains("Client exited with code") {
        scenario_failures.push(stderr);
    }
    scenario_failures.extend(conformance::failed_checks(&result(folder.path())).unwrap());
    scenario_failures
}

/// Result folder of the scenario. Its name may contain a path separator.
fn result(folder: &Path) -> PathBuf {
    let inner = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    if inner.is_dir() { result(&inner) } else { folder.to_owned() }
}

/// The client program, which cargo builds along with the tests.
fn client_program() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let client = here.ancestors().nth(2).unwrap().join("examples/conformance_client");
    assert!(
        Path::is_file(&client),
        "run `cargo build -p toolcrib-e2e --example conformance_client`"
    );
    client
}
