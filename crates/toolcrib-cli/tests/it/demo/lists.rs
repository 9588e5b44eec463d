//! What is found: the handshake, the lists of all three primitives, and what reading them gives.

use serde_json::{Value, json};
use toolcrib_wire::handshake::{DiscoverResult, InitializeResult};
use toolcrib_wire::view::{Item, Page, Prompt, Resource, ResourceTemplate, Tool};
use toolcrib_wire::{Raw, method};

use super::{Client, WAYS};

#[tokio::test]
async fn the_handshake_of_each_era_is_answered() {
    for way in WAYS {
        let client = Client::new(way).await;
        let raw = Raw::of(&client.hello).unwrap();
        let (server, capabilities) = if way.is_modern() {
            let found = DiscoverResult::read(raw).unwrap();
            assert_eq!(found.versions().len(), 5);
            assert_eq!(found.newest_modern().unwrap().as_str(), way.version);
            (found.server(), found.capabilities())
        } else {
            let opened = InitializeResult::read(raw).unwrap();
            assert_eq!(opened.version().as_str(), way.version);
            assert_eq!(client.ask(method::PING, json!({})).await.unwrap(), json!({}));
            (opened.server(), opened.capabilities())
        };
        assert_eq!(server.unwrap().name().as_deref(), Some("toolcrib-demo"));
        assert!(capabilities.tools() && capabilities.resources() && capabilities.prompts());
        client.end().await;
    }
}

/// A list without anything bad or odd in it.
fn page<T: Item>(result: &Value) -> Vec<T> {
    let page = Page::read(&Raw::of(result).unwrap(), 100).unwrap();
    assert!(page.bad.is_empty() && page.notes.is_empty(), "{:?} {:?}", page.bad, page.notes);
    page.items
}

#[tokio::test]
async fn all_three_primitives_are_listed_and_read() {
    for way in WAYS {
        let client = Client::new(way).await;
        let tools = client.ask(method::TOOLS_LIST, json!({})).await.unwrap();
        let tools: Vec<Tool> = page(&tools);
        let names: Vec<&str> = tools.iter().map(Tool::name).collect();
        assert_eq!(names, ["echo", "add", "counter", "slow", "fail", "image", "elicit"]);
        for tool in &tools {
            assert!(tool.title().is_some() && tool.description().is_some(), "{}", tool.name());
            let annotations = tool.annotations();
            assert!(annotations.read_only.is_some() && annotations.idempotent.is_some());
        }
        let shaped: Vec<&str> =
            tools.iter().filter(|tool| tool.output_schema().is_some()).map(Tool::name).collect();
        assert_eq!(shaped, ["add", "counter"]);

        let resources = client.ask(method::RESOURCES_LIST, json!({})).await.unwrap();
        assert_eq!(page::<Resource>(&resources)[0].uri(), "demo://calls");
        let templates = client.ask(method::RESOURCE_TEMPLATES_LIST, json!({})).await.unwrap();
        let templates: Vec<ResourceTemplate> = page(&templates);
        assert_eq!(templates[0].uri_template(), "demo://square/{number}");
        let prompts = client.ask(method::PROMPTS_LIST, json!({})).await.unwrap();
        assert_eq!(page::<Prompt>(&prompts)[0].arguments().len(), 1);

        let params = json!({"uri": "demo://square/12"});
        let read = client.ask(method::RESOURCES_READ, params).await.unwrap();
        assert_eq!(read["contents"][0]["text"], "144");
        let params = json!({"name": "introduce", "arguments": {"name": "Ada"}});
        let prompt = client.ask(method::PROMPTS_GET, params).await.unwrap();
        assert_eq!(prompt["messages"][0]["role"], "user");
        client.end().await;
    }
}

#[tokio::test]
async fn what_is_not_there_is_an_error_and_the_server_goes_on() {
    for way in WAYS {
        let client = Client::new(way).await;
        assert_eq!(client.refused("no/such", json!({})).await.code, -32601);
        assert_eq!(client.refused("tools/call", json!({"name": "nope"})).await.code, -32602);
        let missing = if way.is_modern() { -32602 } else { -32002 };
        let uri = json!({"uri": "demo://nothing"});
        assert_eq!(client.refused("resources/read", uri).await.code, missing);
        assert_eq!(super::text(&client.tool("echo", json!({"text": "on"})).await), "on");
        client.end().await;
    }
}

#[test]
fn the_quickstart_begins_with_this_server() {
    let root = toolcrib_testkit::workspace_root().join("examples/quickstart");
    let root = root.to_str().unwrap();
    let place = crate::Place::new();
    assert_eq!(place.run(&["check", "--root", root]).err, "5 servers in 1 file: no problems\n");
    let ran = place.run(&["explain", "demo", "--root", root, "--json"]);
    let shown: Value = serde_json::from_str(&ran.out).unwrap();
    let server = &shown["server"]["transport"];
    assert_eq!(server["command"], "toolcrib", "{shown:#}");
    assert_eq!(server["args"], json!(["demo-server"]));
    // Nothing else is needed: of what the others are started with, nothing is there.
    let folder = std::path::Path::new(super::PROGRAM).parent().unwrap().display().to_string();
    let args = ["call", "demo__add", "-a", "a=19", "-a", "b=23", "--root", root];
    let ran = place.run_with(&args, &[("PATH", &folder)]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "{\"sum\":42}\n", ""));
    let ran = place.run_with(&["tools", "--json", "--root", root], &[("PATH", &folder)]);
    let tools: Value = serde_json::from_str(&ran.out).unwrap();
    let tools = tools["tools"].as_array().unwrap();
    assert_eq!((ran.code, ran.err.as_str(), tools.len()), (0, "", 7));
    assert!(tools.iter().all(|tool| tool["server"] == "demo"));
}
