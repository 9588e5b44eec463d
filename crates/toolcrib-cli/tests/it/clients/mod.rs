//! Tests third-party clients with the demo server directly and through the gateway, on every transport. The gateway
//! keeps the server's tool names, so that clients see no difference.

mod browser;
mod servers;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::process::Command;
use toolcrib_testkit::peers;

use crate::demo::HttpServer;
use crate::test_gateway::{PATH, TestGateway, with_time_limit};
use crate::{PROGRAM, TestWorkspace};

/// A program and its arguments. The target is appended.
type Client = Vec<PathBuf>;

/// A URL, or a program and its arguments.
type Target = Vec<String>;

#[tokio::test]
async fn python_sdk_legacy_client_works_on_every_transport() {
    check_every_transport(&python("mcp", "legacy")).await;
    let gateway = TestGateway::start(demo_workspace()).await;
    run_client_script(&python("mcp", "legacy"), &[gateway.url("/sse")], &gateway.workspace).await;
    gateway.stop().await;
}

#[tokio::test]
async fn python_sdk_modern_client_works_on_every_transport() {
    check_every_transport(&python("mcp", "auto")).await;
}

#[tokio::test]
async fn fastmcp_legacy_client_works_on_every_transport() {
    check_every_transport(&python("fastmcp", "legacy")).await;
}

#[tokio::test]
async fn fastmcp_modern_client_works_on_every_transport() {
    check_every_transport(&python("fastmcp", "auto")).await;
}

#[tokio::test]
async fn typescript_sdk_v1_client_works_on_every_transport() {
    check_every_transport(&typescript("v1")).await;
    let gateway = TestGateway::start(demo_workspace()).await;
    for target in [gateway.url("/sse"), gateway.websocket_url()] {
        run_client_script(&typescript("v1"), &[target], &gateway.workspace).await;
    }
    gateway.stop().await;
}

#[tokio::test]
async fn typescript_sdk_v2_legacy_client_works_on_every_transport() {
    check_every_transport(&typescript("legacy")).await;
}

#[tokio::test]
async fn typescript_sdk_v2_modern_client_works_on_every_transport() {
    check_every_transport(&typescript("modern")).await;
}

#[tokio::test]
async fn rust_sdk_client_works_on_every_transport() {
    for era in ["legacy", "modern"] {
        check_every_transport(&vec![peers::rmcp_peer().unwrap(), "client".into(), era.into()])
            .await;
    }
}

#[tokio::test]
async fn inspector_works_on_every_transport() {
    let server = HttpServer::start().await;
    run_inspector(std::slice::from_ref(&server.url), &TestWorkspace::new()).await;
    let gateway = TestGateway::start(demo_workspace()).await;
    run_inspector(&[gateway.url("/mcp")], &gateway.workspace).await;
    gateway.stop().await;
    let workspace = demo_workspace();
    run_inspector(&stdio_target(&workspace), &workspace).await;
}

fn python(kind: &str, mode: &str) -> Client {
    let mut client = python_script("demo_client.py", kind);
    client.push(mode.into());
    client
}

/// A client script for the Python SDK with its first argument.
fn python_script(script: &str, word: &str) -> Client {
    let python = peers::python_program("v2", "mcp", "python").unwrap();
    vec![python, peers::peers_folder().join(script), word.into()]
}

/// Uses the newer Node.js, which has a WebSocket client.
fn typescript(era: &str) -> Client {
    let [node, _] = peers::conformance_suite().unwrap();
    vec![node, peers::peers_folder().join("demo_client.mjs"), era.into()]
}

/// A workspace with only the demo server.
fn demo_workspace() -> TestWorkspace {
    let entry = json!({"command": PROGRAM, "args": ["demo-server"], "naming": {"template": "{tool}"},
        "lifecycle": {"connect": "eager"}});
    workspace_with(&json!({"demo": entry}))
}

fn workspace_with(servers: &Value) -> TestWorkspace {
    TestWorkspace::new()
        .with_file("toolcrib.yaml", &json!({"version": 1, "servers": servers}).to_string())
}

/// Serves the workspace on standard streams. Joins the running host if there is one.
fn stdio_target(workspace: &TestWorkspace) -> Target {
    let root = workspace.root().to_str().unwrap().to_owned();
    [PROGRAM, "serve", "--stdio", "--root", &root].map(str::to_owned).into()
}

/// Tests the client with the server itself, with a gateway that the client starts, with a running gateway, and with
/// both.
async fn check_every_transport(client: &Client) {
    let workspace = demo_workspace();
    run_client_script(client, &[PROGRAM, "demo-server"].map(str::to_owned), &workspace).await;
    run_client_script(client, &[HttpServer::start().await.url.clone()], &workspace).await;
    run_client_script(client, &stdio_target(&workspace), &workspace).await;
    let gateway = TestGateway::start(workspace).await;
    run_client_script(client, &[gateway.url("/mcp")], &gateway.workspace).await;
    run_client_script(client, &stdio_target(&gateway.workspace), &gateway.workspace).await;
    gateway.stop().await;
}

/// Runs a client script, which contains all checks.
async fn run_client_script(client: &Client, target: &[String], workspace: &TestWorkspace) {
    let printed = run_client(client, target, workspace.home().as_path()).await;
    assert_eq!(printed.trim(), "all as it should be", "{client:?} {target:?}");
}

async fn run_inspector(target: &[String], workspace: &TestWorkspace) {
    let inspector: Client = peers::mcp_inspector().unwrap().into();
    for era in ["legacy", "modern"] {
        let ask = async |words: &[&str]| {
            let options = ["--protocol-era", era, "--format", "json", "--method"];
            let words = options.iter().chain(words).map(|word| (*word).to_owned());
            let words: Vec<String> = ["--cli".to_owned()]
                .into_iter()
                .chain(target.iter().cloned())
                .chain(words)
                .collect();
            let printed = run_client(&inspector, &words, &workspace.home()).await;
            let printed: Value =
                serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}"));
            printed["result"].clone()
        };
        let listed = ask(&["tools/list"]).await;
        assert_eq!(listed["tools"].as_array().map(Vec::len), Some(7), "{listed}");
        let call = ["tools/call", "--tool-name", "add", "--tool-args-json", r#"{"a":2,"b":40}"#];
        assert_eq!(ask(&call).await["structuredContent"], json!({"sum": 42}));
        let read = ask(&["resources/read", "--uri", "demo://square/12"]).await;
        assert_eq!(read["contents"][0]["text"], "144", "{read}");
        let prompt = ["prompts/get", "--prompt-name", "introduce", "--prompt-args", "name=Ada"];
        assert_eq!(ask(&prompt).await["messages"].as_array().map(Vec::len), Some(1));
    }
}

/// The output of a successful client.
async fn run_client(client: &Client, words: &[String], home: &Path) -> String {
    let mut command = Command::new(&client[0]);
    command.args(&client[1..]).args(words).kill_on_drop(true);
    let output = command.env_clear().env("HOME", home).env("PATH", PATH).output();
    let output = with_time_limit(output).await.unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{client:?} {words:?}: {}\n{out}{err}", output.status);
    out
}
