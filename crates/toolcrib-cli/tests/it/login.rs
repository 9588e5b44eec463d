//! Tests `toolcrib login` and `logout` with a real provider and a browser that always consents.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use toolcrib_testkit::openid_provider::{OpenIdProvider, browser_command, open_in_browser};

use crate::TestWorkspace;
use crate::test_gateway::{TestGateway, with_time_limit};

fn workspace(url: &str) -> TestWorkspace {
    let file = json!({"version": 1, "servers": {"it": {"url": url}}});
    TestWorkspace::new().with_file("toolcrib.yaml", &file.to_string())
}

fn first_server(workspace: &TestWorkspace) -> Value {
    let ran = workspace.run(&["servers", "--json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
    report["servers"][0].clone()
}

#[tokio::test]
async fn min_18_login_allows_calls_until_logout() {
    let mut provider = OpenIdProvider::start(&[]).await.unwrap();
    let workspace = workspace(&provider.server);
    let refused = workspace.run(&["call", "it__whoami"]);
    assert_eq!(refused.code, 3, "{refused:?}");
    let problems = workspace.run(&["servers"]);
    assert!(problems.out.contains("failed"), "{problems:?}");
    let ran = workspace.run_with_env(&["login", "it"], &[("BROWSER", &browser_command().unwrap())]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.out, format!("logged in to `it` by {}\n", provider.issuer));
    assert!(ran.err.contains("log in to `it` at this address:\n  http://127.0.0.1:"), "{ran:?}");
    let called = workspace.run(&["call", "it__whoami"]);
    assert_eq!((called.code, called.out.as_str()), (0, "whoami as ada\n"), "{called:?}");
    let ran = workspace.run(&["logout", "it"]);
    assert_eq!(ran.out, "logged out of `it`; its tokens were revoked\n", "{ran:?}");
    assert_eq!(provider.send_command("counts").await.unwrap()["revocations"], 2);
    assert_eq!(workspace.run(&["call", "it__whoami"]).code, 3);
    assert_eq!(workspace.run(&["logout", "it"]).out, "there is no login at `it`\n");
}

#[tokio::test]
async fn login_reconnects_server_in_running_host() {
    let provider = OpenIdProvider::start(&[]).await.unwrap();
    let gateway = TestGateway::start(workspace(&provider.server)).await;
    let workspace = &gateway.workspace;
    let refused = workspace.run(&["server", "connect", "it"]);
    assert!(refused.err.contains("needs a login"), "{refused:?}");
    assert_eq!(first_server(workspace)["state"], "failed");
    let ran = workspace.run_with_env(&["login", "it"], &[("BROWSER", &browser_command().unwrap())]);
    assert!(ran.err.contains("the running host has connected the server"), "{ran:?}");
    assert_eq!(first_server(workspace)["state"], "ready");
    assert_eq!(workspace.run(&["logout", "it"]).code, 0);
    assert_eq!(first_server(workspace)["state"], "failed");
    gateway.stop().await;
}

#[tokio::test]
async fn login_without_browser_reads_pasted_address() {
    let provider = OpenIdProvider::start(&[]).await.unwrap();
    let workspace = workspace(&provider.server);
    let mut command = Command::from(workspace.command(&["login", "it", "--no-browser"]));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut printed = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = loop {
        let line = with_time_limit(printed.next_line()).await.unwrap().unwrap();
        if line.trim().starts_with("http") {
            break line.trim().to_owned();
        }
    };
    let answer = open_in_browser(&address).await.unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
    let output = with_time_limit(child.wait_with_output()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(workspace.run(&["call", "it__whoami"]).out, "whoami as ada\n");
}

#[tokio::test]
async fn unfinished_login_changes_nothing() {
    let provider = OpenIdProvider::start(&[]).await.unwrap();
    let workspace = workspace(&provider.server);
    // End of input means that no address is pasted.
    let ran = workspace.run(&["login", "it", "--no-browser"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("nothing has changed"), "{ran:?}");
    assert_eq!(workspace.run(&["logout", "it"]).out, "there is no login at `it`\n");
}

#[tokio::test]
async fn server_without_oauth_needs_no_login() {
    let workspace = TestWorkspace::new().with_file(
        "toolcrib.yaml",
        r#"{"version": 1, "servers": {"local": {"command": "true"}, "key": {"url": "http://127.0.0.1:9/mcp", "auth": {"kind": "bearer", "token": "t"}}}}"#,
    );
    for id in ["local", "key"] {
        let ran = workspace.run(&["login", id]);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.err.contains(&format!("`{id}` does not support a login: ")), "{ran:?}");
    }
    let ran = workspace.run(&["login", "nobody"]);
    assert!(ran.err.contains("there is no server `nobody`"), "{ran:?}");
    let mut command = Command::from(workspace.command(&["demo-server", "--http", "0"]));
    command.stdout(Stdio::piped()).kill_on_drop(true);
    let mut demo = command.spawn().unwrap();
    let mut printed = BufReader::new(demo.stdout.take().unwrap()).lines();
    let line = with_time_limit(printed.next_line()).await.unwrap().unwrap();
    let url = line.split_whitespace().find(|word| word.starts_with("http")).unwrap();
    let workspace = self::workspace(url);
    let ran = workspace.run(&["login", "it"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "`it` needs no login\n"), "{ran:?}");
}

#[tokio::test]
async fn min_70_agent_login_and_logout_apply_to_running_host() {
    let mut provider = OpenIdProvider::start(&[]).await.unwrap();
    let file = json!({
        "version": 1,
        "host": {"grants": {"members": {"alice": {"toolsets": ["it"]}, "default": {"toolsets": ["it"]}}}},
        "servers": {"it": {"url": provider.server, "auth_per_agent": {"alice": {"kind": "oauth"}}}},
    });
    let workspace = TestWorkspace::new().with_file("toolcrib.yaml", &file.to_string());
    let browser = browser_command().unwrap();
    let login = |args: &[&str], workspace: &TestWorkspace| {
        workspace.run_with_env(&[&["login", "it"], args].concat(), &[("BROWSER", &browser)])
    };
    assert_eq!(login(&[], &workspace).code, 0);
    let gateway = TestGateway::start(workspace).await;
    let workspace = &gateway.workspace;
    let whoami = |agent: &str| workspace.run(&["call", "it__whoami", "--agent", agent]);
    let refused = whoami("alice");
    assert!(refused.err.contains("needs a login"), "{refused:?}");
    provider.send_command("person alice").await.unwrap();
    let ran = login(&["--agent", "alice"], workspace);
    let expected = format!("logged in to `it` as agent `alice` by {}\n", provider.issuer);
    assert_eq!((ran.code, ran.out.as_str()), (0, expected.as_str()), "{ran:?}");
    assert_eq!(whoami("alice").out, "whoami as alice\n");
    assert_eq!(whoami("default").out, "whoami as ada\n");
    let ran = workspace.run(&["logout", "it", "--agent", "alice"]);
    assert!(ran.out.starts_with("logged out of `it` as agent `alice`"), "{ran:?}");
    assert!(whoami("alice").err.contains("needs a login"));
    assert_eq!(whoami("default").out, "whoami as ada\n");
    let ran = login(&["--agent", "bob"], workspace);
    assert!(ran.err.contains("agent `bob` has no credentials of its own"), "{ran:?}");
    gateway.stop().await;
}

#[tokio::test]
async fn host_without_network_permission_does_not_contact_issuer() {
    let mut provider = OpenIdProvider::start(&[]).await.unwrap();
    let workspace = workspace(&provider.server);
    let browser = browser_command().unwrap();
    let run = |command: &str| workspace.run_with_env(&[command, "it"], &[("BROWSER", &browser)]);
    assert_eq!(run("login").code, 0);
    let file = json!({
        "version": 1, "host": {"permissions": {"network": false}},
        "servers": {"it": {"url": provider.server}},
    });
    std::fs::write(workspace.root().join("toolcrib.yaml"), file.to_string()).unwrap();
    let before = provider.send_command("counts").await.unwrap();
    let ran = run("login");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("this host may not use the network"), "{ran:?}");
    // The stored tokens are deleted, and the message does not claim that they were revoked.
    let ran = run("logout");
    assert_eq!((ran.code, ran.out.as_str()), (0, "logged out of `it`\n"), "{ran:?}");
    assert!(ran.err.contains("valid until they expire"), "{ran:?}");
    assert_eq!(provider.send_command("counts").await.unwrap(), before);
}
