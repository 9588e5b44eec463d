//! Tests that need installed programs: MCP servers from npm and PyPI, Docker, an OpenID provider, a keyring.
//!
//! `make setup` installs these programs. A missing program fails its tests. All other tests run without them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot prepare its fixture has failed"
)]

mod auth;
mod conformance;
mod docker;
mod everything_server;
mod host_login;
mod host_servers;
mod installed_servers;
mod keyring;
mod network_server;
mod network_transports;
mod third_party;
mod torture;

// The fixtures belong to the tests of the crates that they exercise, which use all of their items.
#[allow(dead_code, reason = "shared with the tests of toolcrib-upstream")]
#[path = "../../../toolcrib-upstream/tests/it/link_fixture.rs"]
mod link_fixture;
#[allow(dead_code, reason = "shared with the tests of toolcrib-upstream")]
#[path = "../../../toolcrib-upstream/tests/it/peer_fixture.rs"]
mod peer_fixture;
#[allow(dead_code, reason = "shared with the tests of toolcrib-upstream")]
#[path = "../../../toolcrib-upstream/tests/it/secrets_fixture.rs"]
mod secrets_fixture;
#[allow(dead_code, reason = "shared with the tests of toolcrib-upstream")]
#[path = "../../../toolcrib-upstream/tests/it/test_host.rs"]
mod test_host;
#[allow(dead_code, reason = "shared with the tests of toolcrib")]
#[path = "../../../toolcrib/tests/it/host/workspace.rs"]
mod workspace;
