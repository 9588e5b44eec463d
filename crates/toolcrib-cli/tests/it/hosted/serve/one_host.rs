//! One host for a root: its line, its place, and what is left of it.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{Served, mode, state};
use crate::Place;
use crate::hosted::{PATH, demo, native, scripted};

#[tokio::test]
async fn it_is_ready_before_its_servers_are_and_says_where() {
    // Each would take two minutes to start.
    let hangs = scripted(
        &Script { legacy_only: true, ..Script::default() }
            .on("initialize", [Step::Sleep(120_000), Step::Answer]),
    );
    let servers = (0..50).map(|n| (format!("s{n}"), hangs.clone()));
    let place = native(&Value::Object(servers.collect()));
    let begun = std::time::Instant::now();
    let served = Served::start(&place).await;
    assert!(begun.elapsed() < std::time::Duration::from_secs(10), "it waited for servers");
    assert_eq!(served.line["pid"], served.pid());
    assert_eq!(served.line["gateway"], format!("{}/mcp", served.url()));
    assert!(served.ask("GET /healthz HTTP/1.1").await.starts_with("HTTP/1.1 204"));
    assert_eq!(served.end(Signal::TERM).await, Some(0));
}

#[tokio::test]
async fn the_line_is_for_people_where_nothing_else_is_asked_for() {
    use tokio::io::{AsyncBufReadExt, BufReader};
    let place = native(&json!({}));
    let mut child = super::spawn(&place, &["serve", "--listen", "localhost:0"], &[PATH]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = place.plain(&super::within(lines.next_line()).await.unwrap().unwrap());
    assert!(line.starts_with("toolcrib serves TMP/ws at http://127.0.0.1:"), "{line}");
    assert!(
        line.contains("/mcp, console http://127.0.0.1:") && line.contains("/#token="),
        "{line}"
    );
}

#[tokio::test]
async fn a_second_one_of_the_same_root_names_the_first() {
    let place = native(&json!({"demo": demo()}));
    let served = Served::start(&place).await;
    let ran = place.run(&["serve", "--listen", ":0"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    let expected =
        format!("error: a host of TMP/ws runs already: pid {}, {}\n", served.pid(), served.url());
    assert_eq!(ran.err, expected);
    // Another root has a host of its own.
    let other = Served::start(&native(&json!({}))).await;
    assert_ne!(other.url(), served.url());
}

#[tokio::test]
async fn only_the_owner_can_open_what_is_in_the_state_folder() {
    let place = native(&json!({}));
    let served = Served::start(&place).await;
    let state = state(&place);
    assert_eq!(served.socket(), state.join("socket"));
    assert_eq!((mode(&state), mode(&served.socket())), (0o700, 0o600));
    assert_eq!(mode(&state.join("host.lock")), 0o600);
    assert_eq!(served.end(Signal::INT).await, Some(0));
    assert!(!state.join("socket").exists());
}

#[tokio::test]
async fn a_socket_whose_name_would_be_too_long_is_elsewhere() {
    let place = native(&json!({}));
    let long = place.beside(&"x".repeat(120));
    let runtime = place.beside("run");
    let env = [
        ("TOOLCRIB_STATE_DIR", long.to_str().unwrap()),
        ("XDG_RUNTIME_DIR", runtime.to_str().unwrap()),
    ];
    let started = async {
        use tokio::io::{AsyncBufReadExt, BufReader};
        let mut child = super::spawn(&place, &["serve", "--listen", ":0", "--json"], &env);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = super::within(lines.next_line()).await.unwrap().unwrap();
        Served { child, line: serde_json::from_str(&line).unwrap() }
    };
    let served = started.await;
    let folder = runtime.join("toolcrib");
    assert!(served.socket().starts_with(&folder), "{:?}", served.socket());
    assert_eq!((mode(&folder), mode(&served.socket())), (0o700, 0o600));
    assert_eq!(served.end(Signal::TERM).await, Some(0));
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
}

#[tokio::test]
async fn what_a_killed_one_left_is_in_nobodys_way() {
    let place = native(&json!({"s": scripted(&Script::default())}));
    let mut killed = Served::start(&place).await;
    killed.child.kill().await.unwrap();
    assert!(killed.socket().exists());
    // A command finds nobody and does its work itself.
    assert_eq!(place.tools().len(), 3);
    let served = Served::start(&place).await;
    assert_eq!(served.socket(), killed.socket());
    assert_eq!(served.end(Signal::TERM).await, Some(0));
}

#[test]
fn an_address_that_others_can_reach_is_refused() {
    let place = Place::new();
    let ran = place.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("listen on 127.0.0.1, make a token"), "{ran:?}");
    let ran = place.run(&["serve", "--listen", "example.com:80"]);
    assert_eq!(ran.code, 2, "{ran:?}");
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let (place, other) = (native(&json!({})), native(&json!({})));
    let served = Served::start(&place).await;
    let address = served.url().strip_prefix("http://").unwrap();
    let ran = other.run(&["serve", "--listen", address]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains(address) && ran.err.contains("`--listen :0`"), "{ran:?}");
}
