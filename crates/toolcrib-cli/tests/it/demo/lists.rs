//! Tests the handshake and the lists of the demo server.

use serde_json::{Value, json};
use toolcrib_wire::handshake::{DiscoverResult, InitializeResult};
use toolcrib_wire::view::{
    ListItem, Page, PromptView, ResourceTemplateView, ResourceView, ToolView,
};
use toolcrib_wire::{RawJson, method};

use super::{CONNECTION_MODES, Client};

#[tokio::test]
async fn both_handshakes_are_answered() {
    for mode in CONNECTION_MODES {
        let client = Client::new(mode).await;
        let raw = RawJson::from_value(&client.hello).unwrap();
        let (server, capabilities) = if mode.is_modern() {
            let found = DiscoverResult::read(raw).unwrap();
            assert_eq!(found.versions().len(), 5);
            assert_eq!(found.newest_modern().unwrap().as_str(), mode.version);
            (found.server(), found.capabilities())
        } else {
            let opened = InitializeResult::read(raw).unwrap();
            assert_eq!(opened.version().as_str(), mode.version);
            assert_eq!(client.request(method::PING, json!({})).await.unwrap(), json!({}));
            (opened.server(), opened.capabilities())
        };
        assert_eq!(server.unwrap().name().as_deref(), Some("toolcrib-demo"));
        assert!(capabilities.tools() && capabilities.resources() && capabilities.prompts());
        client.close().await;
    }
}

/// Parses a list and checks that it has no invalid items.
fn page<T: ListItem>(result: &Value) -> Vec<T> {
    let page = Page::read(&RawJson::from_value(result).unwrap(), 100).unwrap();
    assert!(page.bad.is_empty() && page.warnings.is_empty(), "{:?} {:?}", page.bad, page.warnings);
    page.items
}

#[tokio::test]
async fn tools_resources_and_prompts_are_listed_and_read() {
    for mode in CONNECTION_MODES {
        let client = Client::new(mode).await;
        let tools = client.request(method::TOOLS_LIST, json!({})).await.unwrap();
        let tools: Vec<ToolView> = page(&tools);
        let names: Vec<&str> = tools.iter().map(ToolView::name).collect();
        assert_eq!(names, ["echo", "add", "counter", "slow", "fail", "image", "elicit"]);
        for tool in &tools {
            assert!(tool.title().is_some() && tool.description().is_some(), "{}", tool.name());
            let annotations = tool.annotations();
            assert!(annotations.read_only.is_some() && annotations.idempotent.is_some());
        }
        let shaped: Vec<&str> = tools
            .iter()
            .filter(|tool| tool.output_schema().is_some())
            .map(ToolView::name)
            .collect();
        assert_eq!(shaped, ["add", "counter"]);

        let resources = client.request(method::RESOURCES_LIST, json!({})).await.unwrap();
        assert_eq!(page::<ResourceView>(&resources)[0].uri(), "demo://calls");
        let templates = client.request(method::RESOURCE_TEMPLATES_LIST, json!({})).await.unwrap();
        let templates: Vec<ResourceTemplateView> = page(&templates);
        assert_eq!(templates[0].uri_template(), "demo://square/{number}");
        let prompts = client.request(method::PROMPTS_LIST, json!({})).await.unwrap();
        assert_eq!(page::<PromptView>(&prompts)[0].arguments().len(), 1);

        let params = json!({"uri": "demo://square/12"});
        let read = client.request(method::RESOURCES_READ, params).await.unwrap();
        assert_eq!(read["contents"][0]["text"], "144");
        let params = json!({"name": "introduce", "arguments": {"name": "Ada"}});
        let prompt = client.request(method::PROMPTS_GET, params).await.unwrap();
        assert_eq!(prompt["messages"][0]["role"], "user");
        client.close().await;
    }
}

#[tokio::test]
async fn unknown_names_are_errors_and_server_continues() {
    for mode in CONNECTION_MODES {
        let client = Client::new(mode).await;
        assert_eq!(client.expect_error("no/such", json!({})).await.code, -32601);
        assert_eq!(client.expect_error("tools/call", json!({"name": "nope"})).await.code, -32602);
        let missing = if mode.is_modern() { -32602 } else { -32002 };
        let uri = json!({"uri": "demo://nothing"});
        assert_eq!(client.expect_error("resources/read", uri).await.code, missing);
        assert_eq!(
            super::result_text(&client.call_tool("echo", json!({"text": "on"})).await),
            "on"
        );
        client.close().await;
    }
}

#[test]
fn quickstart_works_with_demo_server_alone() {
    let root = toolcrib_testkit::workspace_root().join("examples/quickstart");
    let root = root.to_str().unwrap();
    let workspace = crate::TestWorkspace::new();
    assert_eq!(workspace.run(&["check", "--root", root]).err, "5 servers in 1 file: no problems\n");
    let ran = workspace.run(&["explain", "demo", "--root", root, "--json"]);
    let shown: Value = serde_json::from_str(&ran.out).unwrap();
    let server = &shown["server"]["transport"];
    assert_eq!(server["command"], "toolcrib", "{shown:#}");
    assert_eq!(server["args"], json!(["demo-server"]));
    // The programs of the other servers are missing, and the demo server works without them.
    let folder = std::path::Path::new(super::PROGRAM).parent().unwrap().display().to_string();
    let args = ["call", "demo__add", "-a", "a=19", "-a", "b=23", "--root", root];
    let ran = workspace.run_with_env(&args, &[("PATH", &folder)]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "{\"sum\":42}\n", ""));
    let ran = workspace.run_with_env(&["tools", "--json", "--root", root], &[("PATH", &folder)]);
    let tools: Value = serde_json::from_str(&ran.out).unwrap();
    let tools = tools["tools"].as_array().unwrap();
    assert_eq!((ran.code, ran.err.as_str(), tools.len()), (0, "", 7));
    assert!(tools.iter().all(|tool| tool["server"] == "demo"));
}
