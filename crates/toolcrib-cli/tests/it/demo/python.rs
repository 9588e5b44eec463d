//! Clients that others wrote: those of the Python SDK and of FastMCP, in both eras over both transports.

use tokio::process::Command;
use toolcrib_testkit::peers;

use super::{HttpServer, PROGRAM, within};

async fn run(client: &str, mode: &str, target: &str) {
    let python = peers::python("v2", "mcp", "python").unwrap();
    let script = peers::folder().join("demo_client.py");
    let output =
        Command::new(python).arg(script).args([client, mode, target]).kill_on_drop(true).output();
    let output = within(output).await.unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{client} {mode} {target}: {out}{err}");
    assert_eq!(out.trim(), "all as it should be", "{err}");
}

#[tokio::test]
async fn the_python_sdk_lists_calls_and_answers() {
    let server = HttpServer::start().await;
    for target in [PROGRAM, &server.url] {
        for mode in ["legacy", "auto"] {
            run("mcp", mode, target).await;
        }
    }
}

#[tokio::test]
async fn fastmcp_lists_calls_and_answers() {
    let server = HttpServer::start().await;
    for target in [PROGRAM, &server.url] {
        run("fastmcp", "auto", target).await;
    }
}
