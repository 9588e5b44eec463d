//! Servers that need a login, and the resulting problems.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;
use toolcrib::ErrorKind;
use toolcrib_testkit::openid_provider::{OpenIdProvider, open_in_browser};
use toolcrib_testkit::scripted::Script;
use toolcrib_testkit::time_limit::with_time_limit;
use toolcrib_upstream::auth::{Accounts, ClientSettings, LoginStart, ProtectedServer};
use toolcrib_upstream::secrets::{CredentialStore, StorageMode};
use toolcrib_upstream::transport::Tls;

use crate::workspace::{
    TestWorkspace, call_text, call_tool, has_problem, open_dialog, server_status, wait_until,
};

const REDIRECT: &str = "http://127.0.0.1:9/callback";

/// Logs in like another process, which shares only the stored credentials with the host.
async fn log_in(workspace: &TestWorkspace, provider: &OpenIdProvider, agent: Option<&str>) {
    let keep =
        CredentialStore::open(workspace.folder.path().join("credentials"), StorageMode::File);
    let accounts = Accounts::new(keep, Tls::default());
    let server = ProtectedServer {
        id: "locked".to_owned(),
        url: provider.server.parse().unwrap(),
        headers: Default::default(),
        is_sse: false,
        agent: agent.map(str::to_owned),
        client: ClientSettings::unconfigured(),
    };
    let LoginStart::Browser(login) = accounts.start_login(&server, REDIRECT).await.unwrap() else {
        panic!("the login did not start in the browser")
    };
    let answer = open_in_browser(login.authorization_url().as_str()).await.unwrap();
    with_time_limit(login.finish(&answer)).await.unwrap();
}

#[tokio::test]
async fn server_without_login_fails_with_the_login_command_and_blocks_no_other() {
    let provider = OpenIdProvider::start(&[]).await.unwrap();
    let workspace = TestWorkspace::new();
    let open = workspace.scripted_entry(Script::default(), "open");
    workspace.write_servers(&json!({"locked": {"url": provider.server}, "open": open}));
    let folder = workspace.folder.path().join("credentials");
    let host = with_time_limit(workspace.builder().credentials(folder).start()).await.unwrap();
    with_time_limit(host.wait_until_settled()).await;
    assert_eq!(server_status(&host, "open").state.as_str(), "ready");
    assert_eq!(server_status(&host, "locked").state.as_str(), "failed");
    let problems = host.problems();
    let problem = problems.iter().find(|it| it.code == "auth.login_required").unwrap();
    assert_eq!(problem.server.as_deref(), Some("locked"));
    assert_eq!(problem.fix.as_deref(), Some("run `toolcrib login locked`"));

    log_in(&workspace, &provider, None).await;
    with_time_limit(host.connect_server("locked")).await.unwrap();
    wait_until("the problem ends", || !has_problem(&host, "auth.login_required", "locked")).await;
    let dialog = open_dialog(&host, "default").await;
    assert_eq!(call_text(&dialog, "locked__whoami", &json!({})).await, "whoami as ada");

    // A missing scope fails the call. The server stays ready, and the problem persists until a call
    // succeeds.
    let error = call_tool(&dialog, "locked__change", &json!({})).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Authentication, "auth.login_required"));
    assert!(error.message().contains("`mcp:write`"), "{error}");
    assert_eq!(server_status(&host, "locked").state.as_str(), "ready");
    assert!(has_problem(&host, "auth.login_required", "locked"));
    log_in(&workspace, &provider, None).await;
    assert_eq!(call_text(&dialog, "locked__change", &json!({})).await, "change as ada");
    assert!(!has_problem(&host, "auth.login_required", "locked"));
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn min_70_each_agent_has_its_own_account_at_a_server() {
    let mut provider = OpenIdProvider::start(&[]).await.unwrap();
    let workspace = TestWorkspace::new();
    let (member, own) = (json!({"toolsets": ["locked"]}), json!({"kind": "oauth"}));
    workspace.write_native(&json!({
        "version": 1,
        "host": {"grants": {"members": {"alice": member, "bob": member, "carol": member}}},
        "servers": {"locked": {
            "url": provider.server,
            "auth_per_agent": {"alice": own, "bob": own},
        }},
    }));
    log_in(&workspace, &provider, None).await;
    let folder = workspace.folder.path().join("credentials");
    let host = with_time_limit(workspace.builder().credentials(folder).start()).await.unwrap();
    with_time_limit(host.wait_until_settled()).await;
    let (alice, bob) = (open_dialog(&host, "alice").await, open_dialog(&host, "bob").await);
    for (agent, dialog) in [("alice", &alice), ("bob", &bob)] {
        let error = call_tool(dialog, "locked__whoami", &json!({})).await.unwrap_err();
        assert_eq!(error.code(), "auth.login_required", "the account of all is not {agent}'s");
    }
    let mut fixes: Vec<_> = host.problems().into_iter().map(|it| (it.agent, it.fix)).collect();
    fixes.sort();
    let command = |agent: &str| {
        (Some(agent.to_owned()), Some(format!("run `toolcrib login locked --agent {agent}`")))
    };
    assert_eq!(fixes, [command("alice"), command("bob")]);
    for agent in ["alice", "bob"] {
        provider.send_command(&format!("person {agent}")).await.unwrap();
        log_in(&workspace, &provider, Some(agent)).await;
    }
    // The main connection is up already; the failed sessions of single agents are retried.
    assert!(with_time_limit(host.connect_server("locked")).await.is_err());
    let carol = open_dialog(&host, "carol").await;
    for (person, dialog) in [("alice", &alice), ("bob", &bob), ("ada", &carol), ("alice", &alice)] {
        let said = call_text(dialog, "locked__whoami", &json!({})).await;
        assert_eq!(said, format!("whoami as {person}")); // MIN-70
    }
    assert!(!has_problem(&host, "auth.login_required", "locked"));
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn token_renewal_does_not_count_toward_the_call_timeout() {
    for scope in ["shared", "per_conversation", "per_call"] {
        let mut provider = OpenIdProvider::start(&["--ttl", "2"]).await.unwrap();
        let workspace = TestWorkspace::new();
        workspace.write_native(&json!({
            "version": 1,
            "host": {"grants": {"members": {"alice": {"toolsets": ["locked"]}}}},
            "servers": {"locked": {
                "url": provider.server,
                "protocol": "legacy",
                // The agent's session is opened by its first call.
                "auth_per_agent": {"alice": {"kind": "oauth"}},
                "session": {"scope": scope},
                "timeouts": {"request": "2s"},
            }},
        }));
        log_in(&workspace, &provider, None).await;
        log_in(&workspace, &provider, Some("alice")).await;
        let folder = workspace.folder.path().join("credentials");
        let host = with_time_limit(workspace.builder().credentials(folder).start()).await.unwrap();
        with_time_limit(host.wait_until_settled()).await;
        let dialog = open_dialog(&host, "alice").await;
        // Tokens expire by the issuer's real clock.
        sleep(Duration::from_secs(2)).await;
        provider.send_command("hold").await.unwrap();
        let free = async {
            while provider.send_command("waiting").await.unwrap() == 0 {
                sleep(Duration::from_millis(10)).await;
            }
            // Longer than the call's time limit.
            sleep(Duration::from_secs(3)).await;
            provider.send_command("free").await.unwrap();
        };
        let arguments = json!({});
        let call = call_text(&dialog, "locked__whoami", &arguments);
        let (said, ()) = tokio::join!(call, with_time_limit(free));
        assert_eq!(said, "whoami as ada", "{scope}");
        with_time_limit(host.close()).await;
    }
}
