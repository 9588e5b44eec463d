//! Agents with credentials of their own for a server.

use serde_json::json;
use toolcrib_testkit::time_limit::with_time_limit;
use toolcrib_upstream::conn::ServerState;

use super::http_tool_server::HttpToolServer;
use super::workspace::{TestWorkspace, call_text, open_dialog, server_status};

const AGENTS: [(&str, &str); 3] =
    [("alice", "Bearer of-alice"), ("bob", "of-bob"), ("carol", "Bearer of-all")];

#[tokio::test]
async fn min_70_each_agent_uses_its_own_credentials_and_session() {
    for (scope, protocol) in [
        ("shared", "legacy"),
        ("shared", "auto"),
        ("per_conversation", "legacy"),
        ("per_conversation", "auto"),
        ("per_call", "legacy"),
    ] {
        let http_server =
            HttpToolServer::start(json!([{"name": "t", "inputSchema": {"type": "object"}}])).await;
        let workspace = TestWorkspace::new();
        let member = json!({"toolsets": ["s"]});
        workspace.write_native(&json!({
            "version": 1,
            "host": {"grants": {"members": {"alice": member, "bob": member, "carol": member}}},
            "servers": {"s": {
                "url": http_server.url(),
                "protocol": protocol,
                "auth": {"kind": "bearer", "token": "of-all"},
                "auth_per_agent": {
                    "alice": {"kind": "bearer", "token": "${ALICE}"},
                    "bob": {"kind": "api_key", "key": "of-bob"},
                },
                "session": {"scope": scope},
            }},
        }));
        let env = [("ALICE".to_owned(), "of-alice".to_owned())];
        let host = with_time_limit(workspace.builder().env(env).start()).await.unwrap();
        with_time_limit(host.wait_until_settled()).await;
        let mut dialogs = Vec::new();
        for (agent, _) in AGENTS {
            dialogs.push((agent, open_dialog(&host, agent).await));
            dialogs.push((agent, open_dialog(&host, agent).await));
        }
        let calls = dialogs.iter().cycle().take(12).map(|(agent, dialog)| async move {
            assert_eq!(call_text(dialog, "s__t", &json!({"who": agent})).await, "done");
        });
        futures_util::future::join_all(calls).await;
        let called = http_server.requests_of("tools/call");
        assert_eq!(called.len(), 12, "{scope} {protocol}");
        for (message, shown) in &called {
            let who = message["params"]["arguments"]["who"].as_str().unwrap();
            let (_, expected) = AGENTS.iter().find(|(agent, _)| *agent == who).unwrap();
            assert_eq!(shown, expected, "{scope} {protocol} {who}"); // MIN-70
        }
        for (session, shown) in http_server.sessions() {
            assert_eq!(shown.len(), 1, "{scope} {protocol} {session} {shown:?}");
        }
        // The lists are read once, with the server's own credentials.
        let listed: Vec<_> =
            http_server.requests_of("tools/list").into_iter().map(|(_, by)| by).collect();
        assert_eq!(listed.first().map(String::as_str), Some("Bearer of-all"));
        if (scope, protocol) == ("shared", "legacy") {
            let mut opened: Vec<_> =
                http_server.requests_of("initialize").into_iter().map(|(_, by)| by).collect();
            opened.sort();
            assert_eq!(opened, ["Bearer of-alice", "Bearer of-all", "of-bob"]);
        }
        // Disabling a server disables it for every agent.
        with_time_limit(host.disable_server("s", "me")).await.unwrap();
        assert_eq!(server_status(&host, "s").state, ServerState::Disabled);
        for (_, dialog) in &dialogs {
            assert!(super::workspace::call_tool(dialog, "s__t", &json!({})).await.is_err());
        }
        assert_eq!(http_server.requests_of("tools/call").len(), 12);
        with_time_limit(host.close()).await;
    }
}
