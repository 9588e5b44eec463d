//! `toolcrib login` and `logout`, with a real provider and a browser that consents to everything.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use toolcrib_testkit::provider::{Provider, browse, browser};

use crate::Place;
use crate::serving::{Serving, within};

fn place(url: &str) -> Place {
    let file = json!({"version": 1, "servers": {"it": {"url": url}}});
    Place::new().file("toolcrib.yaml", &file.to_string())
}

fn server(place: &Place) -> Value {
    let ran = place.run(&["servers", "--json"]);
    let told: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
    told["servers"][0].clone()
}

#[tokio::test]
async fn min_18_a_login_lets_calls_through_until_the_logout() {
    let mut provider = Provider::start(&[]).await.unwrap();
    let place = place(&provider.server);
    let refused = place.run(&["call", "it__whoami"]);
    assert_eq!(refused.code, 3, "{refused:?}");
    let problems = place.run(&["servers"]);
    assert!(problems.out.contains("failed"), "{problems:?}");
    let ran = place.run_with(&["login", "it"], &[("BROWSER", &browser().unwrap())]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.out, format!("logged in to `it` by {}\n", provider.issuer));
    assert!(ran.err.contains("log in to `it` at this address:\n  http://127.0.0.1:"), "{ran:?}");
    let called = place.run(&["call", "it__whoami"]);
    assert_eq!((called.code, called.out.as_str()), (0, "whoami as ada\n"), "{called:?}");
    let ran = place.run(&["logout", "it"]);
    assert_eq!(ran.out, "logged out of `it`; its tokens were taken back\n", "{ran:?}");
    assert_eq!(provider.order("counts").await.unwrap()["revocations"], 2);
    assert_eq!(place.run(&["call", "it__whoami"]).code, 3);
    assert_eq!(place.run(&["logout", "it"]).out, "there is no login at `it`\n");
}

#[tokio::test]
async fn a_login_wakes_the_host_that_runs() {
    let provider = Provider::start(&[]).await.unwrap();
    let serving = Serving::start(place(&provider.server)).await;
    let place = &serving.place;
    let refused = place.run(&["server", "connect", "it"]);
    assert!(refused.err.contains("needs a login"), "{refused:?}");
    assert_eq!(server(place)["state"], "failed");
    let ran = place.run_with(&["login", "it"], &[("BROWSER", &browser().unwrap())]);
    assert!(ran.err.contains("the host that runs has connected it"), "{ran:?}");
    assert_eq!(server(place)["state"], "ready");
    assert_eq!(place.run(&["logout", "it"]).code, 0);
    assert_eq!(server(place)["state"], "failed");
    serving.end().await;
}

#[tokio::test]
async fn where_there_is_no_browser_the_address_is_pasted() {
    let provider = Provider::start(&[]).await.unwrap();
    let place = place(&provider.server);
    let mut command = Command::from(place.command(&["login", "it", "--no-browser"]));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = loop {
        let line = within(said.next_line()).await.unwrap().unwrap();
        if line.trim().starts_with("http") {
            break line.trim().to_owned();
        }
    };
    let answer = browse(&address).await.unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
    let output = within(child.wait_with_output()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(place.run(&["call", "it__whoami"]).out, "whoami as ada\n");
}

#[tokio::test]
async fn a_login_that_is_not_finished_changes_nothing() {
    let provider = Provider::start(&[]).await.unwrap();
    let place = place(&provider.server);
    // The end of standard input is that nobody pastes anything.
    let ran = place.run(&["login", "it", "--no-browser"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("nothing has changed"), "{ran:?}");
    assert_eq!(place.run(&["logout", "it"]).out, "there is no login at `it`\n");
}

#[tokio::test]
async fn a_server_without_a_lock_needs_no_login() {
    let place = Place::new().file(
        "toolcrib.yaml",
        r#"{"version": 1, "servers": {"local": {"command": "true"}, "key": {"url": "http://127.0.0.1:9/mcp", "auth": {"kind": "bearer", "token": "t"}}}}"#,
    );
    for id in ["local", "key"] {
        let ran = place.run(&["login", id]);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.err.contains(&format!("`{id}` takes no login")), "{ran:?}");
    }
    let ran = place.run(&["login", "nobody"]);
    assert!(ran.err.contains("there is no server `nobody`"), "{ran:?}");
    let mut command = Command::from(place.command(&["demo-server", "--http", "0"]));
    command.stdout(Stdio::piped()).kill_on_drop(true);
    let mut demo = command.spawn().unwrap();
    let mut said = BufReader::new(demo.stdout.take().unwrap()).lines();
    let line = within(said.next_line()).await.unwrap().unwrap();
    let url = line.split_whitespace().find(|word| word.starts_with("http")).unwrap();
    let place = self::place(url);
    let ran = place.run(&["login", "it"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "`it` needs no login\n"), "{ran:?}");
}

#[tokio::test]
async fn min_70_an_agent_logs_in_and_out_by_itself_and_the_host_that_runs_knows() {
    let mut provider = Provider::start(&[]).await.unwrap();
    let file = json!({
        "version": 1,
        "host": {"grants": {"members": {"alice": {"toolsets": ["it"]}, "default": {"toolsets": ["it"]}}}},
        "servers": {"it": {"url": provider.server, "auth_per_agent": {"alice": {"kind": "oauth"}}}},
    });
    let place = Place::new().file("toolcrib.yaml", &file.to_string());
    let browser = browser().unwrap();
    let login = |args: &[&str], place: &Place| {
        place.run_with(&[&["login", "it"], args].concat(), &[("BROWSER", &browser)])
    };
    assert_eq!(login(&[], &place).code, 0);
    let serving = Serving::start(place).await;
    let place = &serving.place;
    let whoami = |agent: &str| place.run(&["call", "it__whoami", "--agent", agent]);
    let refused = whoami("alice");
    assert!(refused.err.contains("needs a login"), "{refused:?}");
    provider.order("person alice").await.unwrap();
    let ran = login(&["--agent", "alice"], place);
    let expected = format!("logged in to `it` as agent `alice` by {}\n", provider.issuer);
    assert_eq!((ran.code, ran.out.as_str()), (0, expected.as_str()), "{ran:?}");
    assert_eq!(whoami("alice").out, "whoami as alice\n");
    assert_eq!(whoami("default").out, "whoami as ada\n");
    let ran = place.run(&["logout", "it", "--agent", "alice"]);
    assert!(ran.out.starts_with("logged out of `it` as agent `alice`"), "{ran:?}");
    assert!(whoami("alice").err.contains("needs a login"));
    assert_eq!(whoami("default").out, "whoami as ada\n");
    let ran = login(&["--agent", "bob"], place);
    assert!(ran.err.contains("agent `bob` has no credentials of its own"), "{ran:?}");
    serving.end().await;
}

#[tokio::test]
async fn a_host_without_the_network_asks_no_issuer() {
    let mut provider = Provider::start(&[]).await.unwrap();
    let place = place(&provider.server);
    let browser = browser().unwrap();
    let run = |command: &str| place.run_with(&[command, "it"], &[("BROWSER", &browser)]);
    assert_eq!(run("login").code, 0);
    let file = json!({
        "version": 1, "host": {"permissions": {"network": false}},
        "servers": {"it": {"url": provider.server}},
    });
    std::fs::write(place.root().join("toolcrib.yaml"), file.to_string()).unwrap();
    let before = provider.order("counts").await.unwrap();
    let ran = run("login");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("this host may not use the network"), "{ran:?}");
    // What is kept is forgotten all the same, and nobody says that it was taken back.
    let ran = run("logout");
    assert_eq!((ran.code, ran.out.as_str()), (0, "logged out of `it`\n"), "{ran:?}");
    assert!(ran.err.contains("good until they expire"), "{ran:?}");
    assert_eq!(provider.order("counts").await.unwrap(), before);
}
