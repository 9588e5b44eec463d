//! Locates the real MCP servers of `tests/peers` and explains how to install missing ones.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::workspace_root;

/// A peer that is not installed.
#[derive(Debug)]
pub struct NotInstalled {
    package: String,
    path: PathBuf,
}

impl fmt::Display for NotInstalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { package, path } = self;
        write!(
            f,
            "package `{package}` is not installed ({} is missing): run `make setup`",
            path.display()
        )
    }
}

impl std::error::Error for NotInstalled {}

/// Returns the program `binary` of the npm package `package`.
pub fn npm_program(package: &str, binary: &str) -> Result<PathBuf, NotInstalled> {
    require_file(package, peers_folder().join("node_modules/.bin").join(binary))
}

/// Returns the program `binary` of the PyPI package `package` in the set `set` (`requirements-SET.txt`).
pub fn python_program(set: &str, package: &str, binary: &str) -> Result<PathBuf, NotInstalled> {
    require_file(package, peers_folder().join(format!(".venv-{set}/bin")).join(binary))
}

/// Returns the peer built on the Rust SDK. `rmcp-peer legacy|modern|both stdio|http` is a server; over HTTP
/// it prints its address in one line, and it ends when its stdin ends. `rmcp-peer client legacy|modern
/// TARGET` is a client.
pub fn rmcp_peer() -> Result<PathBuf, NotInstalled> {
    require_file("rmcp", workspace_root().join(".cache/rmcp-peer/debug/rmcp-peer"))
}

/// Returns the official conformance suite: a recent node and the suite's script.
pub fn conformance_suite() -> Result<[PathBuf; 2], NotInstalled> {
    let binaries = peers_folder().join("conformance/node_modules/.bin");
    let node = require_file("node-linux-*", binaries.join("node"))?;
    Ok([node, require_file("@modelcontextprotocol/conformance", binaries.join("conformance"))?])
}

/// Returns the reference server of that suite: an interpreter and the script that starts it as
/// `stdio|http|sse`.
pub fn reference_server() -> Result<[PathBuf; 2], NotInstalled> {
    require_file(
        "mcp",
        workspace_root().join(".cache/reference-server/mcp_everything_server/server.py"),
    )?;
    Ok([python_program("v2", "mcp", "python")?, peers_folder().join("reference_server.py")])
}

/// Returns the MCP Inspector: a recent node and its script.
pub fn mcp_inspector() -> Result<[PathBuf; 2], NotInstalled> {
    let [node, _] = conformance_suite()?;
    let script = peers_folder().join("inspector/node_modules/.bin/mcp-inspector");
    Ok([node, require_file("@modelcontextprotocol/inspector", script)?])
}

/// Returns an OpenID provider with an MCP server behind it and a headless browser: a recent node and both
/// scripts.
pub fn openid_provider() -> Result<[PathBuf; 3], NotInstalled> {
    let [node, _] = conformance_suite()?;
    let home = peers_folder().join("provider");
    require_file("oidc-provider", home.join("node_modules/oidc-provider/package.json"))?;
    Ok([node, home.join("provider.mjs"), home.join("browser.mjs")])
}

/// Returns the browser that Playwright's server controls.
pub fn chromium() -> Result<PathBuf, NotInstalled> {
    require_file("chromium", PathBuf::from("/usr/bin/chromium"))
}

/// Returns the folder of the lock files and of our own small servers.
pub fn peers_folder() -> PathBuf {
    workspace_root().join("tests/peers")
}

fn require_file(package: &str, path: PathBuf) -> Result<PathBuf, NotInstalled> {
    if Path::is_file(&path) {
        return Ok(path);
    }
    Err(NotInstalled { package: package.to_owned(), path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_peer_error_names_the_install_command() {
        let error =
            python_program("v2", "no-such-package", "no-such-binary").unwrap_err().to_string();
        assert!(error.contains("`no-such-package`") && error.contains("`make setup`"), "{error}");
    }
}
