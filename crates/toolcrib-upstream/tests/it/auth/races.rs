//! Many processes with one login, and processes that are killed while they renew it.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::sleep;

use super::Stage;
use crate::scene::within;

const CROWD: usize = 50;

/// A process that needs the token.
fn process(stage: &Stage) -> Child {
    let folder = stage.scene.path().join("credentials");
    let mut command = Command::new(program());
    command.arg(folder).arg(&stage.provider.server).kill_on_drop(true);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

async fn waiting(stage: &mut Stage, count: u64) {
    let counted = async {
        while stage.provider.order("waiting").await.unwrap() != count {
            sleep(Duration::from_millis(10)).await;
        }
    };
    within(counted).await;
}

async fn token(process: Child) -> String {
    let output = within(process.wait_with_output()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The driver, which cargo builds along with the tests.
fn program() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let program = here.ancestors().nth(2).unwrap().join("examples/token");
    assert!(program.is_file(), "run `cargo build -p toolcrib-upstream --example token`");
    program
}

#[tokio::test]
async fn fifty_processes_renew_a_token_once_and_all_have_it() {
    let mut stage = Stage::new(&["--ttl", "1"]).await;
    stage.log_in().await;
    stage.provider.order("ttl 3600").await.unwrap();
    // It expires by the issuer's clock, which is a real one.
    sleep(Duration::from_secs(2)).await;
    let crowd: Vec<Child> = (0..CROWD).map(|_| process(&stage)).collect();
    let mut tokens = Vec::new();
    for process in crowd {
        tokens.push(token(process).await);
    }
    tokens.dedup();
    assert_eq!(tokens.len(), 1);
    assert_eq!(stage.count("refreshes").await, 1);
    stage.close().await;
}

#[tokio::test]
async fn fifty_processes_whose_tokens_expire_at_once_never_lose_the_login() {
    let mut stage = Stage::new(&["--ttl", "1"]).await;
    stage.log_in().await;
    sleep(Duration::from_secs(2)).await;
    let crowd: Vec<Child> = (0..CROWD).map(|_| process(&stage)).collect();
    for process in crowd {
        token(process).await;
    }
    assert!(stage.count("refreshes").await > 0);
    // What is renewed from now on lives for longer than a busy machine takes to use it.
    stage.provider.order("ttl 3600").await.unwrap();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(stage.call("whoami").await.unwrap(), "whoami as ada");
    stage.close().await;
}

#[tokio::test]
async fn a_process_that_is_killed_while_it_renews_takes_nothing_along() {
    let mut stage = Stage::new(&["--ttl", "1"]).await;
    stage.log_in().await;
    for _ in 0..3 {
        sleep(Duration::from_secs(2)).await;
        let before = stage.refresh_token().await;
        stage.provider.order("hold").await.unwrap();
        let mut killed = process(&stage);
        // It holds the lock and has asked, but has no answer yet.
        waiting(&mut stage, 1).await;
        killed.kill().await.unwrap();
        // The issuer has seen its end; otherwise it would answer the dead.
        waiting(&mut stage, 0).await;
        assert_eq!(stage.refresh_token().await, before);
        stage.provider.order("free").await.unwrap();
        let next = token(process(&stage)).await;
        assert!(!next.is_empty());
        assert_ne!(stage.refresh_token().await, before, "what it was given is kept already");
    }
    assert_eq!(stage.count("refreshes").await, 3, "the killed ones have asked for nothing");
    stage.close().await;
}

#[tokio::test]
async fn whoever_gives_up_waiting_loses_nothing_that_the_issuer_gave() {
    let mut stage = Stage::new(&["--ttl", "2"]).await;
    stage.log_in().await;
    sleep(Duration::from_secs(2)).await;
    let before = stage.refresh_token().await;
    stage.provider.order("hold").await.unwrap();
    let tokens = stage.accounts().tokens(toolcrib_upstream::auth::Protected {
        client: toolcrib_upstream::auth::ClientSettings {
            is_configured: true,
            ..stage.server.client.clone()
        },
        ..stage.server.clone()
    });
    let given_up = tokio::time::timeout(Duration::from_millis(500), tokens.token()).await;
    assert!(given_up.is_err());
    stage.provider.order("free").await.unwrap();
    stage.accounts().settled(Duration::from_secs(20)).await;
    assert_ne!(stage.refresh_token().await, before);
    assert_eq!(stage.count("refreshes").await, 1);
    assert_eq!(stage.call("whoami").await.unwrap(), "whoami as ada");
    stage.close().await;
}
