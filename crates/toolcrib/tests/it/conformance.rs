//! The client half of the official conformance suite, judged strictly: a warning counts as a failure. All but the
//! scenarios of authorisation.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toolcrib_testkit::conformance::{self, Half, Scenarios};

/// What does not pass, by version and scenario, with the reason. It may only shrink: what is listed and passes
/// fails the test.
const NOT_YET: [(&str, &str, &str); 0] = [];

/// How long one scenario may take; this only bounds a failure.
const LIMIT: Duration = Duration::from_secs(60);

/// One scenario measures a pause to within 200 ms, which a busy machine may miss.
const TRIES: u32 = 3;

#[tokio::test]
async fn the_suite_of_2025_11_25_passes() {
    judge("2025-11-25", 5).await;
}

#[tokio::test]
async fn the_suite_of_2026_07_28_passes() {
    judge("2026-07-28", 8).await;
}

async fn judge(version: &str, expected: usize) {
    let scenarios = scenarios(version).await;
    assert_eq!(scenarios.len(), expected, "{scenarios:?}");
    let mut wrong = Vec::new();
    for scenario in &scenarios {
        let blemishes = blemishes(version, scenario).await;
        let listed = NOT_YET.iter().any(|(v, s, _)| (*v, *s) == (version, scenario));
        if blemishes.is_empty() == listed {
            wrong.push(format!("{scenario}, listed: {listed}: {blemishes:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The required scenarios of clients, and those that run without being counted.
async fn scenarios(version: &str) -> Vec<String> {
    let Scenarios { required, others } =
        conformance::scenarios(Half::Client, version, LIMIT).await.unwrap();
    required.into_iter().chain(others).filter(|name| !name.starts_with("auth/")).collect()
}

/// Everything in a scenario that is not as it should be.
async fn blemishes(version: &str, scenario: &str) -> Vec<String> {
    let mut found = run(version, scenario).await;
    for _ in 1..TRIES {
        // Only lateness is a matter of chance.
        if !found.iter().any(|blemish| blemish.contains("late (")) {
            break;
        }
        found = run(version, scenario).await;
    }
    found
}

async fn run(version: &str, scenario: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let client = client();
    let client = client.to_str().unwrap();
    let args = ["client", "--command", client, "--scenario", scenario, "--spec-version", version];
    let args = [&args[..], &["--timeout", "30000", "-o", out]].concat();
    let output = conformance::suite(&args, LIMIT).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut blemishes = Vec::new();
    // Some scenarios let the client fail; none of them needs to.
    if !output.status.success() || said.contains("Client exited with code") {
        blemishes.push(said);
    }
    // What the suite wrote: one folder for the one scenario.
    let result = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    blemishes.extend(conformance::blemishes(&result).unwrap());
    blemishes
}

/// The driver, which cargo builds along with the tests.
fn client() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let client = here.ancestors().nth(2).unwrap().join("examples/conformance_client");
    assert!(Path::is_file(&client), "run `cargo build -p toolcrib --example conformance_client`");
    client
}
