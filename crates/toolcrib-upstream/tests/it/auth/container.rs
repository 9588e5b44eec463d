//! A server over HTTP that runs in a container and wants a token.

use std::net::TcpListener;
use std::process::Command;

use serde_json::json;
use toolcrib_testkit::provider::Provider;
use toolcrib_upstream::auth::Protected;
use toolcrib_upstream::conn::State;

use super::Stage;
use crate::scene::{Scene, until, within};

const IMAGE: &str = "toolcrib-test:latest";

/// Answers one request of HTTP, with what the image has.
const SERVE: &str = include_str!("boxed.sh");

/// A container that ends with this.
struct Boxed(String);

impl Boxed {
    /// On the machine's own network: an engine may have no other.
    fn start(issuer: &str, port: u16) -> Self {
        let port = port.to_string();
        let env = [format!("ISSUER={issuer}"), format!("SERVE={SERVE}")];
        let run = ["run", "-d", "--rm", "--network", "host", "-e", &env[0], "-e", &env[1], IMAGE];
        let serve = ["/bin/busybox", "nc", "-ll", "-p", &port, "-e", "sh", "-c", "eval \"$SERVE\""];
        let output = Command::new("docker").args(run).args(serve).output();
        let output = output.expect("run `make setup` (Debian package docker.io)");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Boxed(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

impl Drop for Boxed {
    fn drop(&mut self) {
        // What it leaves ends with the engine.
        let _ = Command::new("docker").args(["kill", &self.0]).output();
    }
}

#[tokio::test]
async fn dkr_09_a_server_in_a_container_that_asks_for_a_token_gets_one() {
    let provider = within(Provider::start(&[])).await.unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let boxed = Boxed::start(&provider.issuer, free);
    until("the container listens", || std::net::TcpStream::connect(("127.0.0.1", free)).is_ok())
        .await;
    let scene = Scene::new();
    let url = format!("http://127.0.0.1:{free}/mcp");
    let spec = scene.server(&json!({"url": url, "protocol": "legacy"}));
    let server = Protected::of(&spec, &|_| None).unwrap().unwrap();
    let conn = scene.start(spec);
    let stage = Stage { scene, provider, conn, server };
    let failure = stage.call("whoami").await.unwrap_err();
    assert_eq!(failure.code, "auth.login_required", "{failure}");
    stage.log_in().await;
    let said = stage.call("whoami").await.unwrap();
    assert!(said.starts_with("a token of "), "{said}");
    assert_eq!(stage.conn.view().life.state(), State::Ready);
    stage.close().await;
    drop(boxed);
}
