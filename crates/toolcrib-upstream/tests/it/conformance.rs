//! The client half of the official conformance suite, judged strictly: a warning counts as a failure.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toolcrib_testkit::conformance::{self, Half, Scenarios};

/// What does not pass, by version and scenario, with the reason. It may only shrink: what is listed and passes
/// fails the test.
const NOT_YET: [(&str, &str, &str); 0] = [];

/// Extensions of the protocol that are not spoken here. They are run and reported by the suite, and count for nothing.
const NOT_SPOKEN: [&str; 4] = [
    "auth/enterprise-managed-authorization",
    "auth/dpop",
    "auth/dpop-nonce",
    "auth/wif-jwt-bearer",
];

/// How long one scenario may take; this only bounds a failure.
const LIMIT: Duration = Duration::from_secs(60);

/// One scenario measures a pause to within 200 ms, which a busy machine may miss.
const TRIES: u32 = 3;

#[tokio::test]
async fn the_suite_of_2025_11_25_passes() {
    judge("2025-11-25", 18, 3).await;
}

#[tokio::test]
async fn the_suite_of_2026_07_28_passes() {
    judge("2026-07-28", 32, 3).await;
}

/// What servers of 2025-03-26 have instead of metadata; the suite requires it of nobody any more.
#[tokio::test]
async fn servers_that_publish_nothing_are_logged_in_to() {
    for scenario in ["oauth-metadata-backcompat", "oauth-endpoint-fallback"] {
        let scenario = format!("auth/2025-03-26-{scenario}");
        assert_eq!(blemishes("2025-03-26", &scenario).await, [""; 0], "{scenario}");
    }
}

async fn judge(version: &str, required: usize, others: usize) {
    let found = scenarios(version).await;
    assert_eq!((found.required.len(), found.others.len()), (required, others), "{found:?}");
    let scenarios = [found.required, found.others].concat();
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
async fn scenarios(version: &str) -> Scenarios {
    let mut found = conformance::scenarios(Half::Client, version, LIMIT).await.unwrap();
    found.others.retain(|name| !NOT_SPOKEN.contains(&name.as_str()));
    found
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
    // Extensions belong to no version, and are run for whichever is spoken.
    let args = [&args[..], &["--force", "--timeout", "30000", "-o", out]].concat();
    let output = conformance::suite(&args, LIMIT).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut blemishes = Vec::new();
    // Some scenarios let the client fail; none of them needs to.
    if !output.status.success() || said.contains("Client exited with code") {
        blemishes.push(said);
    }
    blemishes.extend(conformance::blemishes(&result(folder.path())).unwrap());
    blemishes
}

/// What the suite wrote: one folder for the one scenario, whose name may be that of a folder in a folder.
fn result(folder: &Path) -> PathBuf {
    let inner = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    if inner.is_dir() { result(&inner) } else { folder.to_owned() }
}

/// The driver, which cargo builds along with the tests.
fn client() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let client = here.ancestors().nth(2).unwrap().join("examples/conformance_client");
    assert!(
        Path::is_file(&client),
        "run `cargo build -p toolcrib-upstream --example conformance_client`"
    );
    client
}
