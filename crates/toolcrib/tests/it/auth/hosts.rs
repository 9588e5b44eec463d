//! A host with a server that wants a login, and what it tells of that.

use serde_json::json;
use toolcrib::auth::{Accounts, Begun, ClientSettings, Protected};
use toolcrib::secrets::{Keep, Storage};
use toolcrib::shape::ErrorKind;
use toolcrib::transport::Tls;
use toolcrib_testkit::provider::{Provider, browse};
use toolcrib_testkit::scripted::Script;

use super::REDIRECT;
use crate::host::stage::{Stage, call, dialog, has_problem, server, text, until};
use crate::scene::within;

/// Logs in as another process would: all that the host has in common with it is what is kept.
async fn log_in(stage: &Stage, provider: &Provider) {
    let keep = Keep::open(stage.folder.path().join("credentials"), Storage::File);
    let accounts = Accounts::new(keep, Tls::default());
    let server = Protected {
        id: "locked".to_owned(),
        url: provider.server.parse().unwrap(),
        headers: Default::default(),
        is_sse: false,
        agent: None,
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

    log_in(&stage, &provider).await;
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
    log_in(&stage, &provider).await;
    assert_eq!(text(&dialog, "locked__change", &json!({})).await, "change as ada");
    assert!(!has_problem(&host, "auth.login_required", "locked"));
    within(host.close()).await;
}
