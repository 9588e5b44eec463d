//! A host with a server that wants a login, and what it tells of that.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;
use toolcrib::shape::ErrorKind;
use toolcrib_testkit::provider::{Provider, browse};
use toolcrib_testkit::scripted::Script;
use toolcrib_testkit::time_limit::within;
use toolcrib_upstream::auth::{Accounts, Begun, ClientSettings, Protected};
use toolcrib_upstream::secrets::{Keep, Storage};
use toolcrib_upstream::transport::Tls;

use super::stage::{Stage, call, dialog, has_problem, server, text, until};

const REDIRECT: &str = "http://127.0.0.1:9/callback";

/// Logs in as another process would: all that the host has in common with it is what is kept.
async fn log_in(stage: &Stage, provider: &Provider, agent: Option<&str>) {
    let keep = Keep::open(stage.folder.path().join("credentials"), Storage::File);
    let accounts = Accounts::new(keep, Tls::default());
    let server = Protected {
        id: "locked".to_owned(),
        url: provider.server.parse().unwrap(),
        headers: Default::default(),
        is_sse: false,
        agent: agent.map(str::to_owned),
        client: ClientSettings::unconfigured(),
    };
    let Begun::Ask(login) = accounts.begin_login(&server, REDIRECT).await.unwrap() else {
        panic!("nobody was asked")
    };
    let answer = browse(login.address().as_str()).await.unwrap();
    within(login.finish(&answer)).await.unwrap();
}

#[tokio::test]
async fn a_server_that_wants_a_login_fails_with_the_command_and_holds_up_nobody() {
    let provider = Provider::start(&[]).await.unwrap();
    let stage = Stage::new();
    let open = stage.scripted(Script::default(), "open");
    stage.servers(&json!({"locked": {"url": provider.server}, "open": open}));
    let folder = stage.folder.path().join("credentials");
    let host = within(stage.builder().credentials(folder).start()).await.unwrap();
    within(host.settled()).await;
    assert_eq!(server(&host, "open").state.as_str(), "ready");
    assert_eq!(server(&host, "locked").state.as_str(), "failed");
    let problems = host.problems();
    let problem = problems.iter().find(|it| it.code == "auth.login_required").unwrap();
    assert_eq!(problem.server.as_deref(), Some("locked"));
    assert_eq!(problem.fix.as_deref(), Some("run `toolcrib login locked`"));

    log_in(&stage, &provider, None).await;
    within(host.connect("locked")).await.unwrap();
    until("the problem goes", || !has_problem(&host, "auth.login_required", "locked")).await;
    let dialog = dialog(&host, "default").await;
    assert_eq!(text(&dialog, "locked__whoami", &json!({})).await, "whoami as ada");

    // More than was given: the call fails, the server goes on, and the problem is there until a call succeeds.
    let error = call(&dialog, "locked__change", &json!({})).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Authentication, "auth.login_required"));
    assert!(error.message().contains("`mcp:write`"), "{error}");
    assert_eq!(server(&host, "locked").state.as_str(), "ready");
    assert!(has_problem(&host, "auth.login_required", "locked"));
    log_in(&stage, &provider, None).await;
    assert_eq!(text(&dialog, "locked__change", &json!({})).await, "change as ada");
    assert!(!has_problem(&host, "auth.login_required", "locked"));
    within(host.close()).await;
}

#[tokio::test]
async fn min_70_each_agent_has_its_own_account_at_a_server() {
    let mut provider = Provider::start(&[]).await.unwrap();
    let stage = Stage::new();
    let (member, own) = (json!({"toolsets": ["locked"]}), json!({"kind": "oauth"}));
    stage.native(&json!({
        "version": 1,
        "host": {"grants": {"members": {"alice": member, "bob": member, "carol": member}}},
        "servers": {"locked": {
            "url": provider.server,
            "auth_per_agent": {"alice": own, "bob": own},
        }},
    }));
    log_in(&stage, &provider, None).await;
    let folder = stage.folder.path().join("credentials");
    let host = within(stage.builder().credentials(folder).start()).await.unwrap();
    within(host.settled()).await;
    let (alice, bob) = (dialog(&host, "alice").await, dialog(&host, "bob").await);
    for (agent, dialog) in [("alice", &alice), ("bob", &bob)] {
        let error = call(dialog, "locked__whoami", &json!({})).await.unwrap_err();
        assert_eq!(error.code(), "auth.login_required", "the account of all is not {agent}'s");
    }
    let mut fixes: Vec<_> = host.problems().into_iter().map(|it| (it.agent, it.fix)).collect();
    fixes.sort();
    let command = |agent: &str| {
        (Some(agent.to_owned()), Some(format!("run `toolcrib login locked --agent {agent}`")))
    };
    assert_eq!(fixes, [command("alice"), command("bob")]);
    for agent in ["alice", "bob"] {
        provider.order(&format!("person {agent}")).await.unwrap();
        log_in(&stage, &provider, Some(agent)).await;
    }
    // What is up for all others stays up; what failed for an agent is tried again.
    assert!(within(host.connect("locked")).await.is_err());
    let carol = dialog(&host, "carol").await;
    for (person, dialog) in [("alice", &alice), ("bob", &bob), ("ada", &carol), ("alice", &alice)] {
        let said = text(dialog, "locked__whoami", &json!({})).await;
        assert_eq!(said, format!("whoami as {person}")); // MIN-70
    }
    assert!(!has_problem(&host, "auth.login_required", "locked"));
    within(host.close()).await;
}

#[tokio::test]
async fn a_call_that_opens_a_session_is_not_late_because_its_token_is_renewed() {
    for scope in ["shared", "per_conversation", "per_call"] {
        let mut provider = Provider::start(&["--ttl", "2"]).await.unwrap();
        let stage = Stage::new();
        stage.native(&json!({
            "version": 1,
            "host": {"grants": {"members": {"alice": {"toolsets": ["locked"]}}}},
            "servers": {"locked": {
                "url": provider.server,
                "protocol": "legacy",
                // Its session is opened by its first call.
                "auth_per_agent": {"alice": {"kind": "oauth"}},
                "session": {"scope": scope},
                "timeouts": {"request": "2s"},
            }},
        }));
        log_in(&stage, &provider, None).await;
        log_in(&stage, &provider, Some("alice")).await;
        let folder = stage.folder.path().join("credentials");
        let host = within(stage.builder().credentials(folder).start()).await.unwrap();
        within(host.settled()).await;
        let dialog = dialog(&host, "alice").await;
        // Tokens expire by the issuer's clock, which is a real one.
        sleep(Duration::from_secs(2)).await;
        provider.order("hold").await.unwrap();
        let free = async {
            while provider.order("waiting").await.unwrap() == 0 {
                sleep(Duration::from_millis(10)).await;
            }
            // Longer than the call may take.
            sleep(Duration::from_secs(3)).await;
            provider.order("free").await.unwrap();
        };
        let arguments = json!({});
        let call = text(&dialog, "locked__whoami", &arguments);
        let (said, ()) = tokio::join!(call, within(free));
        assert_eq!(said, "whoami as ada", "{scope}");
        within(host.close()).await;
    }
}
