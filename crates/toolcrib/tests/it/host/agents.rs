//! Agents that have credentials of their own for a server.

use serde_json::json;
use toolcrib_testkit::time_limit::within;
use toolcrib_upstream::conn::State;

use super::address::Address;
use super::stage::{Stage, dialog, server, text};

const AGENTS: [(&str, &str); 3] =
    [("alice", "Bearer of-alice"), ("bob", "of-bob"), ("carol", "Bearer of-all")];

#[tokio::test]
async fn min_70_each_agent_shows_its_own_credentials_and_shares_no_session_with_others() {
    for (scope, protocol) in [
        ("shared", "legacy"),
        ("shared", "auto"),
        ("per_conversation", "legacy"),
        ("per_conversation", "auto"),
        ("per_call", "legacy"),
    ] {
        let address =
            Address::start(json!([{"name": "t", "inputSchema": {"type": "object"}}])).await;
        let stage = Stage::new();
        let member = json!({"toolsets": ["s"]});
        stage.native(&json!({
            "version": 1,
            "host": {"grants": {"members": {"alice": member, "bob": member, "carol": member}}},
            "servers": {"s": {
                "url": address.url(),
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
        let host = within(stage.builder().env(env).start()).await.unwrap();
        within(host.settled()).await;
        let mut dialogs = Vec::new();
        for (agent, _) in AGENTS {
            dialogs.push((agent, dialog(&host, agent).await));
            dialogs.push((agent, dialog(&host, agent).await));
        }
        let calls = dialogs.iter().cycle().take(12).map(|(agent, dialog)| async move {
            assert_eq!(text(dialog, "s__t", &json!({"who": agent})).await, "done");
        });
        futures_util::future::join_all(calls).await;
        let called = address.asked("tools/call");
        assert_eq!(called.len(), 12, "{scope} {protocol}");
        for (message, shown) in &called {
            let who = message["params"]["arguments"]["who"].as_str().unwrap();
            let (_, expected) = AGENTS.iter().find(|(agent, _)| *agent == who).unwrap();
            assert_eq!(shown, expected, "{scope} {protocol} {who}"); // MIN-70
        }
        for (session, shown) in address.sessions() {
            assert_eq!(shown.len(), 1, "{scope} {protocol} {session} {shown:?}");
        }
        // The lists are read with the server's own credentials, and once.
        let listed: Vec<_> = address.asked("tools/list").into_iter().map(|(_, by)| by).collect();
        assert_eq!(listed.first().map(String::as_str), Some("Bearer of-all"));
        if (scope, protocol) == ("shared", "legacy") {
            let mut opened: Vec<_> =
                address.asked("initialize").into_iter().map(|(_, by)| by).collect();
            opened.sort();
            assert_eq!(opened, ["Bearer of-alice", "Bearer of-all", "of-bob"]);
        }
        // What is switched off is so for all.
        within(host.disable("s", "me")).await.unwrap();
        assert_eq!(server(&host, "s").state, State::Disabled);
        for (_, dialog) in &dialogs {
            assert!(super::stage::call(dialog, "s__t", &json!({})).await.is_err());
        }
        assert_eq!(address.asked("tools/call").len(), 12);
        within(host.close()).await;
    }
}
