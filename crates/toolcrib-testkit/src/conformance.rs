//! Runs the official conformance suite, lists its required scenarios and reads its results strictly.

use std::io;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use crate::peers;

/// The side of the protocol that a scenario tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConformanceRole {
    Client,
    Server,
}

/// Scenarios of one role for one protocol version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scenarios {
    /// Scenarios that must pass.
    pub required: Vec<String>,
    /// Scenarios that the suite runs and reports without scoring them.
    pub unscored: Vec<String>,
}

/// Runs the suite with these arguments.
pub async fn run_suite(args: &[&str], limit: Duration) -> io::Result<Output> {
    let [node, script] = peers::conformance_suite().map_err(io::Error::other)?;
    let output = Command::new(node).arg(script).args(args).kill_on_drop(true).output();
    timeout(limit, output).await.map_err(|_| {
        io::Error::other(format!("the conformance suite did not end within {limit:?}"))
    })?
}

/// Lists the scenarios of one role.
pub async fn list_scenarios(
    role: ConformanceRole,
    version: &str,
    limit: Duration,
) -> io::Result<Scenarios> {
    let output = run_suite(&["list", "--requirements", version], limit).await?;
    Ok(parse_scenarios(role, &String::from_utf8_lossy(&output.stdout)))
}

/// Reads the folder that the suite wrote for one scenario and returns its failures. Warnings count as
/// failures.
pub fn failed_checks(folder: &Path) -> io::Result<Vec<String>> {
    let text = std::fs::read_to_string(folder.join("checks.json"))?;
    let checks: Vec<Value> = serde_json::from_str(&text)?;
    let is = |check: &Value, status: &str| check["status"] == status;
    let failed = checks.iter().filter(|check| is(check, "FAILURE") || is(check, "WARNING"));
    let mut found: Vec<String> = failed
        .map(|check| {
            let [id, status, why] = ["id", "status", "errorMessage"].map(|key| &check[key]);
            format!("{id} {status}: {why} {}", check["details"])
        })
        .collect();
    if !checks.iter().any(|check| is(check, "SUCCESS")) && found.is_empty() {
        found.push("no check ran".to_owned());
    }
    Ok(found)
}

fn parse_scenarios(role: ConformanceRole, text: &str) -> Scenarios {
    let (heading, mark) = match role {
        ConformanceRole::Client => ("Client scenarios", " [client]"),
        ConformanceRole::Server => ("Server scenarios", " [server]"),
    };
    let entries = |text: &str| -> Vec<String> {
        text.lines().filter_map(|line| line.trim().strip_prefix("- ")).map(str::to_owned).collect()
    };
    let block = text.split(heading).nth(1).and_then(|rest| rest.split("\n\n").next());
    let unscored = entries(text);
    Scenarios {
        required: block.map(entries).unwrap_or_default(),
        unscored: unscored
            .iter()
            .filter_map(|entry| entry.strip_suffix(mark))
            .map(str::to_owned)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "Required for V (3 scenarios):\n\nServer scenarios (test against a server):\n  - ping\n  - tools\n\nClient scenarios (test against a client):\n  - initialize\n\nRun and reported, but never scored:\n  pending (2):\n    - polling [server]\n    - auth/x [client]\n";

    #[test]
    fn scenarios_are_split_by_role() {
        let server = parse_scenarios(ConformanceRole::Server, LIST);
        assert_eq!((server.required, server.unscored), (words("ping tools"), words("polling")));
        let client = parse_scenarios(ConformanceRole::Client, LIST);
        assert_eq!((client.required, client.unscored), (words("initialize"), words("auth/x")));
    }

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }
}
