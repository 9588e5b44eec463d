//! Native tools together with tools of servers.

use std::sync::Arc;

use serde_json::json;
use toolcrib::{
    NativeCall, NativeError, NativeTool, NativeToolDefinition, NativeToolFuture, NativeToolset,
};
use toolcrib_testkit::scripted::Script;
use toolcrib_testkit::time_limit::with_time_limit;
use toolcrib_wire::RawJson;

use super::workspace::{
    TestWorkspace, call_text, call_tool, open_dialog, raw, server_status, tool_names,
};

struct Analyzer;

impl NativeTool for Analyzer {
    fn definition(&self) -> NativeToolDefinition {
        let schema = raw(&json!({"type": "object"}));
        NativeToolDefinition::new("revenue_analyzer", &schema).description("Analyses revenue.")
    }

    fn call(&self, call: NativeCall) -> NativeToolFuture<'_> {
        Box::pin(async move {
            match call.arguments.json().get("fail") {
                Some(_) => Err(NativeError("it cannot".to_owned())),
                None => Ok(answer(call.agent.as_deref().unwrap_or_default())),
            }
        })
    }
}

fn answer(text: &str) -> RawJson {
    raw(&json!({"content": [{"type": "text", "text": text}]}))
}

fn toolset() -> NativeToolset {
    NativeToolset::new("office").with(Analyzer).unwrap()
}

#[tokio::test]
async fn min_01_native_tools_work_alike_with_and_without_servers() {
    for with_servers in [false, true] {
        let workspace = TestWorkspace::new();
        if with_servers {
            workspace
                .write_servers(&json!({"it": workspace.scripted_entry(Script::default(), "log")}));
        }
        let host = with_time_limit(workspace.builder().toolset(toolset()).start()).await.unwrap();
        with_time_limit(host.wait_until_settled()).await;
        let dialog = open_dialog(&host, "default").await;
        // MIN-03: native tools are listed and called like all others.
        let seen = tool_names(&dialog).await;
        assert_eq!(seen.len(), if with_servers { 4 } else { 1 });
        assert_eq!(seen[0], "revenue_analyzer");
        assert_eq!(call_text(&dialog, "revenue_analyzer", &json!({})).await, "default");
        let error =
            call_tool(&dialog, "revenue_analyzer", &json!({"fail": true})).await.unwrap_err();
        assert_eq!(error.to_string(), "it cannot");
        with_time_limit(host.close()).await;
    }
}

#[tokio::test]
async fn dom_19_dom_72_server_tool_never_displaces_a_native_tool() {
    let workspace = TestWorkspace::new();
    let script = Script { tools: vec!["revenue_analyzer".to_owned()], ..Script::default() };
    let mut entry = workspace.scripted_entry(script, "log");
    entry["naming"] = json!({"template": "{tool}"});
    workspace.write_servers(&json!({"it": entry}));
    let host = with_time_limit(workspace.builder().toolset(toolset()).start()).await.unwrap();
    with_time_limit(host.wait_until_settled()).await;
    let dialog = open_dialog(&host, "default").await;
    assert_eq!(call_text(&dialog, "revenue_analyzer", &json!({})).await, "default");
    assert_eq!(workspace.count_messages("log", "tools/call"), 0);
    let turn = with_time_limit(dialog.turn()).await;
    let kept = turn.tool("revenue_analyzer").unwrap();
    // MIN-68, DOM-72: the native tool stays the same whatever happens to servers.
    assert!(kept.server().is_none() && kept.native().is_some());
    workspace.write_servers(&json!({}));
    with_time_limit(host.reload()).await.unwrap();
    let turn = with_time_limit(dialog.turn()).await;
    assert!(Arc::ptr_eq(
        turn.tool("revenue_analyzer").unwrap().native().unwrap(),
        kept.native().unwrap()
    ));
    assert_eq!(turn.tools().len(), 1);
    assert!(host.servers().is_empty());
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn a_native_toolset_is_granted_like_any_other() {
    let workspace = TestWorkspace::new();
    workspace.write_native(&json!({"version": 1, "host": {"grants": {"members": {
        "ada": {"toolsets": ["office", "mcp_admin"]}, "bob": {"toolsets": []},
    }}}, "servers": {"it": workspace.scripted_entry(Script::default(), "log")}}));
    let host = with_time_limit(workspace.builder().toolset(toolset()).start()).await.unwrap();
    with_time_limit(host.wait_until_settled()).await;
    let (ada, bob) = (open_dialog(&host, "ada").await, open_dialog(&host, "bob").await);
    let of_ada = tool_names(&ada).await;
    assert_eq!(of_ada, ["revenue_analyzer", "mcp_release", "mcp_restart", "mcp_disable"]);
    assert!(tool_names(&bob).await.is_empty());
    assert!(call_tool(&bob, "mcp_restart", &json!({"serverId": "it"})).await.is_err());
    let before = server_status(&host, "it").pid;
    assert_eq!(call_text(&ada, "mcp_restart", &json!({"serverId": "it"})).await, "restarted `it`");
    let after = server_status(&host, "it").pid;
    assert!(after.is_some() && after != before);
    with_time_limit(host.close()).await;
}
