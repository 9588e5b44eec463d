//! Tests of many processes that share one login, and of processes that are killed during a renewal.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::sleep;

use super::LoginFixture;
use crate::test_host::with_time_limit;

const PROCESSES: usize = 50;

/// Starts a process that requests the token.
fn spawn_token_process(fixture: &LoginFixture) -> Child {
    let folder = fixture.host.path().join("credentials");
    let mut command = Command::new(token_program());
    command.arg(folder).arg(&fixture.provider.server).kill_on_drop(true);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

async fn wait_for_held_requests(fixture: &mut LoginFixture, count: u64) {
    let counted = async {
        while fixture.provider.send_command("waiting").await.unwrap() != count {
            sleep(Duration::from_millis(10)).await;
        }
    };
    with_time_limit(counted).await;
}

async fn read_token(process: Child) -> String {
    let output = with_time_limit(process.wait_with_output()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The example program, which cargo builds with the tests.
fn token_program() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let program = here.ancestors().nth(2).unwrap().join("examples/token");
    assert!(program.is_file(), "run `cargo build -p toolcrib-e2e --example token`");
    program
}

#[tokio::test]
async fn fifty_processes_renew_a_token_once() {
    let mut fixture = LoginFixture::new(&["--ttl", "1"]).await;
    fixture.log_in().await;
    fixture.provider.send_command("ttl 3600").await.unwrap();
    // The token expires in real time at the issuer.
    sleep(Duration::from_secs(2)).await;
    let processes: Vec<Child> = (0..PROCESSES).map(|_| spawn_token_process(&fixture)).collect();
    let mut tokens = Vec::new();
    for process in processes {
        tokens.push(read_token(process).await);
    }
    tokens.dedup();
    assert_eq!(tokens.len(), 1);
    assert_eq!(fixture.count("refreshes").await, 1);
    fixture.close().await;
}

#[tokio::test]
async fn fifty_processes_with_expiring_tokens_keep_the_login() {
    let mut fixture = LoginFixture::new(&["--ttl", "1"]).await;
    fixture.log_in().await;
    sleep(Duration::from_secs(2)).await;
    let processes: Vec<Child> = (0..PROCESSES).map(|_| spawn_token_process(&fixture)).collect();
    for process in processes {
        read_token(process).await;
    }
    assert!(fixture.count("refreshes").await > 0);
    // Tokens that are renewed from now on outlive the use on a busy machine.
    fixture.provider.send_command("ttl 3600").await.unwrap();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(fixture.call("whoami").await.unwrap(), "whoami as ada");
    fixture.close().await;
}

#[tokio::test]
async fn process_killed_during_renewal_keeps_the_login_valid() {
    let mut fixture = LoginFixture::new(&["--ttl", "1"]).await;
    fixture.log_in().await;
    for _ in 0..3 {
        sleep(Duration::from_secs(2)).await;
        let before = fixture.refresh_token().await;
        fixture.provider.send_command("hold").await.unwrap();
        let mut killed = spawn_token_process(&fixture);
        // The process holds the lock and has sent its request, but has no response.
        wait_for_held_requests(&mut fixture, 1).await;
        killed.kill().await.unwrap();
        // The issuer has seen the disconnect. Otherwise it would respond to the dead process.
        wait_for_held_requests(&mut fixture, 0).await;
        assert_eq!(fixture.refresh_token().await, before);
        fixture.provider.send_command("free").await.unwrap();
        let next = read_token(spawn_token_process(&fixture)).await;
        assert!(!next.is_empty());
        assert_ne!(fixture.refresh_token().await, before, "the new token is stored");
    }
    assert_eq!(fixture.count("refreshes").await, 3, "killed processes made no request");
    fixture.close().await;
}

#[tokio::test]
async fn cancelled_renewal_still_stores_the_token() {
    let mut fixture = LoginFixture::new(&["--ttl", "2"]).await;
    fixture.log_in().await;
    sleep(Duration::from_secs(2)).await;
    let before = fixture.refresh_token().await;
    fixture.provider.send_command("hold").await.unwrap();
    let tokens = fixture.accounts().tokens(toolcrib_upstream::auth::ProtectedServer {
        client: toolcrib_upstream::auth::ClientSettings {
            is_configured: true,
            ..fixture.server.client.clone()
        },
        ..fixture.server.clone()
    });
    let given_up = tokio::time::timeout(Duration::from_millis(500), tokens.fetch_token()).await;
    assert!(given_up.is_err());
    fixture.provider.send_command("free").await.unwrap();
    fixture.accounts().wait_for_renewals(Duration::from_secs(20)).await;
    assert_ne!(fixture.refresh_token().await, before);
    assert_eq!(fixture.count("refreshes").await, 1);
    assert_eq!(fixture.call("whoami").await.unwrap(), "whoami as ada");
    fixture.close().await;
}
