//! Tools of the program itself beside those of servers.

use std::sync::Arc;

use serde_json::json;
use toolcrib::registry::{Answer, Definition, NativeCall, NativeError, NativeTool, NativeToolset};
use toolcrib_testkit::scripted::Script;
use toolcrib_testkit::time_limit::within;
use toolcrib_wire::Raw;

use super::stage::{Stage, call, dialog, names, raw, server, text};

struct Analyzer;

impl NativeTool for Analyzer {
    fn definition(&self) -> Definition {
        let schema = raw(&json!({"type": "object"}));
        Definition::new("revenue_analyzer", &schema).description("Analyses revenue.")
    }

    fn call(&self, call: NativeCall) -> Answer<'_> {
        Box::pin(async move {
            match call.arguments.json().get("fail") {
                Some(_) => Err(NativeError("it cannot".to_owned())),
                None => Ok(answer(call.agent.as_deref().unwrap_or_default())),
            }
        })
    }
}

fn answer(text: &str) -> Raw {
    raw(&json!({"content": [{"type": "text", "text": text}]}))
}

fn toolset() -> NativeToolset {
    NativeToolset::new("office").with(Analyzer).unwrap()
}

#[tokio::test]
async fn min_01_native_tools_work_alike_with_and_without_servers() {
    for with_servers in [false, true] {
        let stage = Stage::new();
        if with_servers {
            stage.servers(&json!({"it": stage.scripted(Script::default(), "log")}));
        }
        let host = within(stage.builder().toolset(toolset()).start()).await.unwrap();
        within(host.settled()).await;
        let dialog = dialog(&host, "default").await;
        // MIN-03: listed and called like any other.
        let seen = names(&dialog).await;
        assert_eq!(seen.len(), if with_servers { 4 } else { 1 });
        assert_eq!(seen[0], "revenue_analyzer");
        assert_eq!(text(&dialog, "revenue_analyzer", &json!({})).await, "default");
        let error = call(&dialog, "revenue_analyzer", &json!({"fail": true})).await.unwrap_err();
        assert_eq!(error.to_string(), "it cannot");
        within(host.close()).await;
    }
}

#[tokio::test]
async fn dom_19_dom_72_a_servers_tool_never_displaces_a_native_one() {
    let stage = Stage::new();
    let script = Script { tools: vec!["revenue_analyzer".to_owned()], ..Script::default() };
    let mut entry = stage.scripted(script, "log");
    entry["naming"] = json!({"template": "{tool}"});
    stage.servers(&json!({"it": entry}));
    let host = within(stage.builder().toolset(toolset()).start()).await.unwrap();
    within(host.settled()).await;
    let dialog = dialog(&host, "default").await;
    assert_eq!(text(&dialog, "revenue_analyzer", &json!({})).await, "default");
    assert_eq!(stage.count("log", "tools/call"), 0);
    let turn = within(dialog.turn()).await;
    let kept = turn.tool("revenue_analyzer").unwrap();
    // MIN-68, and DOM-72: whatever happens to servers, it is the same tool.
    assert!(kept.server().is_none() && kept.native().is_some());
    stage.servers(&json!({}));
    within(host.reload()).await.unwrap();
    let turn = within(dialog.turn()).await;
    assert!(Arc::ptr_eq(
        turn.tool("revenue_analyzer").unwrap().native().unwrap(),
        kept.native().unwrap()
    ));
    assert_eq!(turn.tools().len(), 1);
    assert!(host.servers().is_empty());
    within(host.close()).await;
}

#[tokio::test]
async fn a_native_toolset_is_granted_like_any_other() {
    let stage = Stage::new();
    stage.native(&json!({"version": 1, "host": {"grants": {"members": {
        "ada": {"toolsets": ["office", "mcp_admin"]}, "bob": {"toolsets": []},
    }}}, "servers": {"it": stage.scripted(Script::default(), "log")}}));
    let host = within(stage.builder().toolset(toolset()).start()).await.unwrap();
    within(host.settled()).await;
    let (ada, bob) = (dialog(&host, "ada").await, dialog(&host, "bob").await);
    let of_ada = names(&ada).await;
    assert_eq!(of_ada, ["revenue_analyzer", "mcp_release", "mcp_restart", "mcp_disable"]);
    assert!(names(&bob).await.is_empty());
    assert!(call(&bob, "mcp_restart", &json!({"serverId": "it"})).await.is_err());
    let before = server(&host, "it").pid;
    assert_eq!(text(&ada, "mcp_restart", &json!({"serverId": "it"})).await, "restarted `it`");
    let after = server(&host, "it").pid;
    assert!(after.is_some() && after != before);
    within(host.close()).await;
}
