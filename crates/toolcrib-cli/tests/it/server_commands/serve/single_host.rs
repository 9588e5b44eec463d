//! Tests the single host of a root: ready line, address and leftovers.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{ServeProcess, file_mode, state};
use crate::TestWorkspace;
use crate::server_commands::{PATH, demo_server, native_workspace, scripted_server};

#[tokio::test]
async fn host_is_ready_before_its_servers_and_prints_address() {
    // The start would take two minutes.
    let hangs = scripted_server(
        &Script { legacy_only: true, ..Script::default() }
            .on("initialize", [Step::Sleep(120_000), Step::Respond]),
    );
    let servers = (0..50).map(|n| (format!("s{n}"), hangs.clone()));
    let workspace = native_workspace(&Value::Object(servers.collect()));
    let started_at = std::time::Instant::now();
    let served = ServeProcess::start(&workspace).await;
    assert!(
        started_at.elapsed() < std::time::Duration::from_secs(10),
        "the start waited for servers"
    );
    assert_eq!(served.line["pid"], served.pid());
    assert_eq!(served.line["gateway"], format!("{}/mcp", served.url()));
    assert!(served.request_head("GET /healthz HTTP/1.1").await.starts_with("HTTP/1.1 204"));
    assert_eq!(served.stop(Signal::TERM).await, Some(0));
}

#[tokio::test]
async fn ready_line_is_readable_without_json_option() {
    use tokio::io::{AsyncBufReadExt, BufReader};
    let workspace = native_workspace(&json!({}));
    let mut child = super::spawn(&workspace, &["serve", "--listen", "localhost:0"], &[PATH]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line =
        workspace.redact_folder(&super::with_time_limit(lines.next_line()).await.unwrap().unwrap());
    assert!(line.starts_with("toolcrib serves TMP/ws at http://127.0.0.1:"), "{line}");
    assert!(
        line.contains("/mcp, console http://127.0.0.1:") && line.contains("/#token="),
        "{line}"
    );
}

#[tokio::test]
async fn second_host_of_root_fails_and_names_first() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let served = ServeProcess::start(&workspace).await;
    let ran = workspace.run(&["serve", "--listen", ":0"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    let expected =
        format!("error: a host of TMP/ws runs already: pid {}, {}\n", served.pid(), served.url());
    assert_eq!(ran.err, expected);
    // Another root has its own host.
    let other = ServeProcess::start(&native_workspace(&json!({}))).await;
    assert_ne!(other.url(), served.url());
}

#[tokio::test]
async fn state_folder_is_readable_by_owner_only() {
    let workspace = native_workspace(&json!({}));
    let served = ServeProcess::start(&workspace).await;
    let state = state(&workspace);
    assert_eq!(served.socket(), state.join("socket"));
    assert_eq!((file_mode(&state), file_mode(&served.socket())), (0o700, 0o600));
    assert_eq!(file_mode(&state.join("host.lock")), 0o600);
    assert_eq!(served.stop(Signal::INT).await, Some(0));
    assert!(!state.join("socket").exists());
}

#[tokio::test]
async fn long_state_path_moves_socket_to_runtime_folder() {
    let workspace = native_workspace(&json!({}));
    let long = workspace.sibling_path(&"x".repeat(120));
    let runtime = workspace.sibling_path("run");
    let env = [
        ("TOOLCRIB_STATE_DIR", long.to_str().unwrap()),
        ("XDG_RUNTIME_DIR", runtime.to_str().unwrap()),
    ];
    let started = async {
        use tokio::io::{AsyncBufReadExt, BufReader};
        let mut child = super::spawn(&workspace, &["serve", "--listen", ":0", "--json"], &env);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = super::with_time_limit(lines.next_line()).await.unwrap().unwrap();
        ServeProcess { child, line: serde_json::from_str(&line).unwrap() }
    };
    let served = started.await;
    let folder = runtime.join("toolcrib");
    assert!(served.socket().starts_with(&folder), "{:?}", served.socket());
    assert_eq!((file_mode(&folder), file_mode(&served.socket())), (0o700, 0o600));
    assert_eq!(served.stop(Signal::TERM).await, Some(0));
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
}

#[tokio::test]
async fn leftovers_of_killed_host_do_not_block_next_start() {
    let workspace = native_workspace(&json!({"s": scripted_server(&Script::default())}));
    let mut killed = ServeProcess::start(&workspace).await;
    killed.child.kill().await.unwrap();
    assert!(killed.socket().exists());
    // The command finds no running host and starts its own.
    assert_eq!(workspace.tools().len(), 3);
    let served = ServeProcess::start(&workspace).await;
    assert_eq!(served.socket(), killed.socket());
    assert_eq!(served.stop(Signal::TERM).await, Some(0));
}

#[test]
fn public_address_without_token_is_rejected() {
    let workspace = TestWorkspace::new();
    let ran = workspace.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("listen on 127.0.0.1, create a token"), "{ran:?}");
    let ran = workspace.run(&["serve", "--listen", "example.com:80"]);
    assert_eq!(ran.code, 2, "{ran:?}");
}

#[tokio::test]
async fn used_address_is_named_in_error() {
    let (workspace, other) = (native_workspace(&json!({})), native_workspace(&json!({})));
    let served = ServeProcess::start(&workspace).await;
    let address = served.url().strip_prefix("http://").unwrap();
    let ran = other.run(&["serve", "--listen", address]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains(address) && ran.err.contains("`--listen :0`"), "{ran:?}");
}
