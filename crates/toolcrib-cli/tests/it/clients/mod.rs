//! Clients of other makers, with the demo server directly and with the gateway in front of it, wherever it listens.
//! It keeps the server's own names, so that nobody can tell the difference.

mod browser;
mod servers;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::process::Command;
use toolcrib_testkit::peers;

use crate::demo::HttpServer;
use crate::serving::{PATH, Serving, within};
use crate::{PROGRAM, Place};

/// A program that is told what to talk to by the words that follow its own.
type Client = Vec<PathBuf>;

/// An address, or a program and its arguments.
type Target = Vec<String>;

#[tokio::test]
async fn of_the_python_sdk_in_the_legacy_era() {
    everywhere(&python("mcp", "legacy")).await;
    let gateway = Serving::start(demo()).await;
    talk(&python("mcp", "legacy"), &[gateway.at("/sse")], &gateway.place).await;
    gateway.end().await;
}

#[tokio::test]
async fn of_the_python_sdk_in_the_modern_era() {
    everywhere(&python("mcp", "auto")).await;
}

#[tokio::test]
async fn of_fastmcp_in_the_legacy_era() {
    everywhere(&python("fastmcp", "legacy")).await;
}

#[tokio::test]
async fn of_fastmcp_in_the_modern_era() {
    everywhere(&python("fastmcp", "auto")).await;
}

#[tokio::test]
async fn of_the_first_typescript_sdk() {
    everywhere(&typescript("v1")).await;
    let gateway = Serving::start(demo()).await;
    for target in [gateway.at("/sse"), gateway.socket()] {
        talk(&typescript("v1"), &[target], &gateway.place).await;
    }
    gateway.end().await;
}

#[tokio::test]
async fn of_the_second_typescript_sdk_in_the_legacy_era() {
    everywhere(&typescript("legacy")).await;
}

#[tokio::test]
async fn of_the_second_typescript_sdk_in_the_modern_era() {
    everywhere(&typescript("modern")).await;
}

#[tokio::test]
async fn of_the_rust_sdk() {
    for era in ["legacy", "modern"] {
        everywhere(&vec![peers::rmcp().unwrap(), "client".into(), era.into()]).await;
    }
}

#[tokio::test]
async fn the_inspector() {
    let server = HttpServer::start().await;
    inspect(std::slice::from_ref(&server.url), &Place::new()).await;
    let gateway = Serving::start(demo()).await;
    inspect(&[gateway.at("/mcp")], &gateway.place).await;
    gateway.end().await;
    let place = demo();
    inspect(&on_stdio(&place), &place).await;
}

fn python(kind: &str, mode: &str) -> Client {
    let mut client = python_script("demo_client.py", kind);
    client.push(mode.into());
    client
}

/// A script of ours on the Python SDK, with its first word.
fn python_script(script: &str, word: &str) -> Client {
    let python = peers::python("v2", "mcp", "python").unwrap();
    vec![python, peers::folder().join(script), word.into()]
}

/// Under the newer node, which has a WebSocket.
fn typescript(era: &str) -> Client {
    let [node, _] = peers::conformance().unwrap();
    vec![node, peers::folder().join("demo_client.mjs"), era.into()]
}

/// A workspace with the demo server alone.
fn demo() -> Place {
    let entry = json!({"command": PROGRAM, "args": ["demo-server"], "naming": {"template": "{tool}"},
        "lifecycle": {"connect": "eager"}});
    workspace(&json!({"demo": entry}))
}

fn workspace(servers: &Value) -> Place {
    Place::new().file("toolcrib.yaml", &json!({"version": 1, "servers": servers}).to_string())
}

/// The host of a workspace on standard streams, or a pipe to it where it runs already.
fn on_stdio(place: &Place) -> Target {
    let root = place.root().to_str().unwrap().to_owned();
    [PROGRAM, "serve", "--stdio", "--root", &root].map(str::to_owned).into()
}

/// With the server itself, with a gateway that the client starts, with one that runs, and with both at once.
async fn everywhere(client: &Client) {
    let place = demo();
    talk(client, &[PROGRAM, "demo-server"].map(str::to_owned), &place).await;
    talk(client, &[HttpServer::start().await.url.clone()], &place).await;
    talk(client, &on_stdio(&place), &place).await;
    let gateway = Serving::start(place).await;
    talk(client, &[gateway.at("/mcp")], &gateway.place).await;
    talk(client, &on_stdio(&gateway.place), &gateway.place).await;
    gateway.end().await;
}

/// Runs a script, which checks everything itself.
async fn talk(client: &Client, target: &[String], place: &Place) {
    let said = run(client, target, place.home().as_path()).await;
    assert_eq!(said.trim(), "all as it should be", "{client:?} {target:?}");
}

async fn inspect(target: &[String], place: &Place) {
    let inspector: Client = peers::inspector().unwrap().into();
    for era in ["legacy", "modern"] {
        let ask = async |words: &[&str]| {
            let options = ["--protocol-era", era, "--format", "json", "--method"];
            let words = options.iter().chain(words).map(|word| (*word).to_owned());
            let words: Vec<String> = ["--cli".to_owned()]
                .into_iter()
                .chain(target.iter().cloned())
                .chain(words)
                .collect();
            let said = run(&inspector, &words, &place.home()).await;
            let said: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
            said["result"].clone()
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

/// What a client says that ends well.
async fn run(client: &Client, words: &[String], home: &Path) -> String {
    let mut command = Command::new(&client[0]);
    command.args(&client[1..]).args(words).kill_on_drop(true);
    let output = command.env_clear().env("HOME", home).env("PATH", PATH).output();
    let output = within(output).await.unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{client:?} {words:?}: {}\n{out}{err}", output.status);
    out
}
