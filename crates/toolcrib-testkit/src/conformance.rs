//! The official conformance suite: which scenarios it requires, running it, and reading strictly what it found.

use std::io;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use crate::peers;

/// Which end of a conversation is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    Client,
    Server,
}

/// The scenarios of one half for one version of the protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scenarios {
    /// Those that count.
    pub required: Vec<String>,
    /// Those that are run and reported, and count for nothing.
    pub others: Vec<String>,
}

/// Runs the suite with these words.
pub async fn suite(args: &[&str], limit: Duration) -> io::Result<Output> {
    let [node, script] = peers::conformance().map_err(io::Error::other)?;
    let output = Command::new(node).arg(script).args(args).kill_on_drop(true).output();
    timeout(limit, output).await.map_err(|_| io::Error::other(format!("not within {limit:?}")))?
}

/// What the suite asks of one half.
pub async fn scenarios(half: Half, version: &str, limit: Duration) -> io::Result<Scenarios> {
    let output = suite(&["list", "--requirements", version], limit).await?;
    Ok(listed(half, &String::from_utf8_lossy(&output.stdout)))
}

/// Everything that is not as it should be in the folder that the suite wrote for one scenario. A warning counts.
pub fn blemishes(folder: &Path) -> io::Result<Vec<String>> {
    let text = std::fs::read_to_string(folder.join("checks.json"))?;
    let checks: Vec<Value> = serde_json::from_str(&text)?;
    let is = |check: &Value, status: &str| check["status"] == status;
    let bad = checks.iter().filter(|check| is(check, "FAILURE") || is(check, "WARNING"));
    let mut found: Vec<String> = bad
        .map(|check| {
            let [id, status, why] = ["id", "status", "errorMessage"].map(|key| &check[key]);
            format!("{id} {status}: {why} {}", check["details"])
        })
        .collect();
    if !checks.iter().any(|check| is(check, "SUCCESS")) && found.is_empty() {
        found.push("nothing was checked".to_owned());
    }
    Ok(found)
}

fn listed(half: Half, text: &str) -> Scenarios {
    let (heading, mark) = match half {
        Half::Client => ("Client scenarios", " [client]"),
        Half::Server => ("Server scenarios", " [server]"),
    };
    let entries = |text: &str| -> Vec<String> {
        text.lines().filter_map(|line| line.trim().strip_prefix("- ")).map(str::to_owned).collect()
    };
    let block = text.split(heading).nth(1).and_then(|rest| rest.split("\n\n").next());
    let others = entries(text);
    Scenarios {
        required: block.map(entries).unwrap_or_default(),
        others: others
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
    fn each_half_has_its_scenarios() {
        let server = listed(Half::Server, LIST);
        assert_eq!((server.required, server.others), (words("ping tools"), words("polling")));
        let client = listed(Half::Client, LIST);
        assert_eq!((client.required, client.others), (words("initialize"), words("auth/x")));
    }

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }
}
