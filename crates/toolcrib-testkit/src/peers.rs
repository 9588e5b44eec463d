//! Where the real MCP servers of `tests/peers` are, and what to do when one is not there.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::workspace_root;

/// A peer that is not installed.
#[derive(Debug)]
pub struct Missing {
    package: String,
    path: PathBuf,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { package, path } = self;
        write!(
            f,
            "package `{package}` is not installed ({} is missing): run `make setup`",
            path.display()
        )
    }
}

impl std::error::Error for Missing {}

/// The program `binary` that the npm package `package` installs.
pub fn npm(package: &str, binary: &str) -> Result<PathBuf, Missing> {
    installed(package, folder().join("node_modules/.bin").join(binary))
}

/// The program `binary` that the PyPI package `package` installs into the set `set`
/// (`requirements-SET.txt`).
pub fn python(set: &str, package: &str, binary: &str) -> Result<PathBuf, Missing> {
    installed(package, folder().join(format!(".venv-{set}/bin")).join(binary))
}

/// The peer on the Rust SDK. `rmcp-peer legacy|modern|both stdio|http` is a server; over HTTP it says its address in
/// one line, and it ends when its stdin ends. `rmcp-peer client legacy|modern TARGET` is a client.
pub fn rmcp() -> Result<PathBuf, Missing> {
    installed("rmcp", workspace_root().join(".cache/rmcp-peer/debug/rmcp-peer"))
}

/// The official conformance suite: a node that is new enough for it, and its script.
pub fn conformance() -> Result<[PathBuf; 2], Missing> {
    let binaries = folder().join("conformance/node_modules/.bin");
    let node = installed("node-linux-*", binaries.join("node"))?;
    Ok([node, installed("@modelcontextprotocol/conformance", binaries.join("conformance"))?])
}

/// The reference server of that suite: an interpreter, and the script that starts it as `stdio|http|sse`.
pub fn reference() -> Result<[PathBuf; 2], Missing> {
    installed(
        "mcp",
        workspace_root().join(".cache/reference-server/mcp_everything_server/server.py"),
    )?;
    Ok([python("v2", "mcp", "python")?, folder().join("reference_server.py")])
}

/// The MCP Inspector: a node that is new enough for it, and its script.
pub fn inspector() -> Result<[PathBuf; 2], Missing> {
    let [node, _] = conformance()?;
    let script = folder().join("inspector/node_modules/.bin/mcp-inspector");
    Ok([node, installed("@modelcontextprotocol/inspector", script)?])
}

/// An OpenID provider with a server behind it, and a browser without a person: a node that is new enough, and both
/// scripts.
pub fn provider() -> Result<[PathBuf; 3], Missing> {
    let [node, _] = conformance()?;
    let home = folder().join("provider");
    installed("oidc-provider", home.join("node_modules/oidc-provider/package.json"))?;
    Ok([node, home.join("provider.mjs"), home.join("browser.mjs")])
}

/// The browser that Playwright's server drives.
pub fn chromium() -> Result<PathBuf, Missing> {
    installed("chromium", PathBuf::from("/usr/bin/chromium"))
}

/// The folder of the lock files and of our own small servers.
pub fn folder() -> PathBuf {
    workspace_root().join("tests/peers")
}

fn installed(package: &str, path: PathBuf) -> Result<PathBuf, Missing> {
    if Path::is_file(&path) {
        return Ok(path);
    }
    Err(Missing { package: package.to_owned(), path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_peer_is_named_with_the_command_that_installs_it() {
        let error = python("v2", "no-such-package", "no-such-binary").unwrap_err().to_string();
        assert!(error.contains("`no-such-package`") && error.contains("`make setup`"), "{error}");
    }
}
