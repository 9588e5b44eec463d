//! Tests of an HTTP server that runs in a container and requires a token.

use std::net::TcpListener;
use std::process::Command;

use serde_json::json;
use toolcrib_testkit::openid_provider::OpenIdProvider;
use toolcrib_upstream::auth::ProtectedServer;
use toolcrib_upstream::conn::ServerState;

use super::LoginFixture;
use crate::test_host::{TestHost, wait_until, with_time_limit};

const IMAGE: &str = "toolcrib-test:latest";

/// Script that serves one HTTP request with the tools of the image.
const SERVER_SCRIPT: &str = include_str!("mcp_server.sh");

/// A container that is killed on drop.
struct McpContainer(String);

impl McpContainer {
    /// Uses the host network, because an engine may have no other.
    fn start(issuer: &str, port: u16) -> Self {
        let port = port.to_string();
        let env = [format!("ISSUER={issuer}"), format!("SERVE={SERVER_SCRIPT}")];
        let run = ["run", "-d", "--rm", "--network", "host", "-e", &env[0], "-e", &env[1], IMAGE];
        let serve = ["/bin/busybox", "nc", "-ll", "-p", &port, "-e", "sh", "-c", "eval \"$SERVE\""];
        let output = Command::new("docker").args(run).args(serve).output();
        let output = output.expect("run `make setup` (Debian package docker.io)");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        McpContainer(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

impl Drop for McpContainer {
    fn drop(&mut self) {
        // A container that survives ends with the engine.
        let _ = Command::new("docker").args(["kill", &self.0]).output();
    }
}

#[tokio::test]
async fn dkr_09_server_in_a_container_gets_its_token() {
    let provider = with_time_limit(OpenIdProvider::start(&[])).await.unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let container = McpContainer::start(&provider.issuer, port);
    wait_until("the container listens", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    })
    .await;
    let host = TestHost::new();
    let url = format!("http://127.0.0.1:{port}/mcp");
    let spec = host.server(&json!({"url": url, "protocol": "legacy"}));
    let server = ProtectedServer::from_spec(&spec, &|_| None).unwrap().unwrap();
    let conn = host.start(spec);
    let fixture = LoginFixture { host, provider, conn, server };
    let failure = fixture.call("whoami").await.unwrap_err();
    assert_eq!(failure.code, "auth.login_required", "{failure}");
    fixture.log_in().await;
    let text = fixture.call("whoami").await.unwrap();
    assert!(text.starts_with("a token of "), "{text}");
    assert_eq!(fixture.conn.view().lifecycle.state(), ServerState::Ready);
    fixture.close().await;
    drop(container);
}
