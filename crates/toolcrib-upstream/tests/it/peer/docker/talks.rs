//! Conversations with a server in a container of a real engine.

use std::os::fd::OwnedFd;
use std::process::Command;

use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, UnixStream};
use tokio::task::JoinSet;
use toolcrib_config::Value as Setting;
use toolcrib_config::model::choice::Inherit;
use toolcrib_config::model::transport::{Framing, Plain};
use toolcrib_testkit::scripted::{Script, Step, program};
use toolcrib_upstream::conn::peer::{CallError, Event, NoRequests, Odd, Peer};
use toolcrib_upstream::process::Exit;
use toolcrib_upstream::transport::{CloseReason, SendError, over};
use toolcrib_wire::Framing as Spoken;

use super::super::{
    LIMIT, Served, echo, patience, raw, seen, settings, stream_settings, text, tool, within,
};
use super::{Dock, Foreign, docker_host, from_image, served};

const HELLO: &str =
    r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}"#;

/// A handshake, a call, and a call that fails: the same over whatever carries it.
async fn converse(peer: &Peer) {
    let hello: Value = serde_json::from_str(HELLO).unwrap();
    let body = within(peer.call("initialize", raw(&hello), patience(LIMIT))).await.unwrap();
    assert_eq!(body.get("protocolVersion").unwrap().as_str().unwrap(), "2025-06-18");
    echo(peer, "grüße 日本 🦀").await;
    let body = tool(peer, "fail", &json!({})).await.unwrap();
    assert_eq!(text(&body), "it failed");
}

async fn surroundings(peer: &Peer) -> Value {
    let body = tool(peer, "env", &json!({})).await.unwrap();
    serde_json::from_str(&text(&body)).unwrap()
}

#[tokio::test]
async fn dkr_01_a_server_in_a_container_is_reached_through_exec() {
    let (dock, foreign) = (Dock::new().await, Foreign::new().await);
    let (peer, _events) = dock.peer(served(foreign.target(), &Script::default())).await;
    converse(&peer).await;
    assert!(foreign.runs("scripted-server").await);
    within(peer.close(LIMIT)).await;
    assert_eq!(foreign.processes().await, ["sleep 300"]);
    dock.end().await;
}

#[tokio::test]
async fn dkr_10_the_same_conversation_goes_over_a_socket_pair_child_pipes_and_an_exec() {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let (stdin, stdout) = (OwnedFd::from(theirs.try_clone().unwrap()), OwnedFd::from(theirs));
    let mut server = Command::new(program().unwrap()).stdin(stdin).stdout(stdout).spawn().unwrap();
    let (reader, writer) = UnixStream::from_std(ours).unwrap().into_split();
    let link = over(reader, writer, stream_settings());
    let (peer, _events) = Peer::start(link, settings(NoRequests));
    converse(&peer).await;
    within(peer.close(LIMIT)).await;
    assert!(server.wait().unwrap().success());

    let child = Served::new(Script::default()).await;
    converse(&child.peer).await;
    child.end().await;

    let dock = Dock::new().await;
    let (peer, _events) = dock.peer(served(from_image(), &Script::default())).await;
    converse(&peer).await;
    within(peer.close(LIMIT)).await;
    dock.end().await;
}

#[tokio::test]
async fn dkr_03_stderr_is_a_log_and_never_protocol() {
    let forged = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"forged\":true}}\n";
    let steps = [Step::Stderr(forged.to_owned()), Step::Sleep(50), Step::Answer];
    let script = Script::default().on("tools/call loud", steps);
    let (dock, foreign) = (Dock::new().await, Foreign::new().await);
    let (peer, _events) = dock.peer(served(foreign.target(), &script)).await;
    let body = tool(&peer, "loud", &json!({"a": 1})).await.unwrap();
    assert_eq!(text(&body), "{\"a\":1}");
    let stderr = peer.facts().stderr.clone().unwrap();
    assert!(stderr.text().contains("forged"), "{}", stderr.text());
    assert_eq!(peer.oddities(), []);
    within(peer.close(LIMIT)).await;
    dock.end().await;
}

#[tokio::test]
async fn a_flood_of_stderr_holds_nothing_up_and_is_kept_in_part() {
    let flood = [Step::StderrFlood(4 << 20), Step::Big(10 << 20)];
    let script = Script::default().on("tools/call flood", flood);
    let (dock, foreign) = (Dock::new().await, Foreign::new().await);
    let (peer, _events) = dock.peer(served(foreign.target(), &script)).await;
    let body = tool(&peer, "flood", &json!({})).await.unwrap();
    assert_eq!(text(&body).len(), 10 << 20);
    let stderr = peer.facts().stderr.clone().unwrap();
    assert_eq!(stderr.text().len(), 64 << 10);
    within(peer.close(LIMIT)).await;
    dock.end().await;
}

#[tokio::test]
async fn dkr_05_after_the_close_sending_fails_and_the_inbox_has_told_the_end() {
    let (dock, foreign) = (Dock::new().await, Foreign::new().await);
    let mut link = dock.open(served(foreign.target(), &Script::default())).await;
    let outbox = link.outbox.clone();
    within(link.closer.close(LIMIT)).await;
    let mut last = None;
    while let Some(incoming) = within(link.inbox.recv()).await {
        last = Some(incoming);
    }
    let told =
        matches!(last, Some(toolcrib_upstream::transport::Incoming::Closed(CloseReason::Asked)));
    assert!(told, "{last:?}");
    let error = within(outbox.room()).await.err().unwrap();
    assert_eq!((error, error.to_string().as_str()), (SendError::Closed, "Transport closed"));
    dock.end().await;
}

#[tokio::test]
async fn dkr_06_garbage_is_reported_and_the_conversation_goes_on() {
    let garbage = Step::Raw("Welcome!\n{\"jsonrpc\":\n".to_owned());
    let script = Script::default().on("tools/call odd", [garbage, Step::Answer]);
    let (dock, foreign) = (Dock::new().await, Foreign::new().await);
    let (peer, mut events) = dock.peer(served(foreign.target(), &script)).await;
    let body = tool(&peer, "odd", &json!({"a": 1})).await.unwrap();
    assert_eq!(text(&body), "{\"a\":1}");
    let event = within(events.next()).await;
    assert!(matches!(event, Some(Event::Odd(Odd::Noise))), "{event:?}");
    assert!(seen(&peer, Odd::Noise) > 0);
    within(peer.close(LIMIT)).await;
    dock.end().await;
}

#[tokio::test]
async fn dkr_07_a_server_that_exits_fails_its_calls_at_once_and_says_how() {
    let script = Script::default().on("tools/call die", [Step::Exit(3)]);
    let (dock, foreign) = (Dock::new().await, Foreign::new().await);
    let (peer, mut events) = dock.peer(served(foreign.target(), &script)).await;
    let error = tool(&peer, "die", &json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::Closed(_)), "{error:?}");
    let event = within(events.next()).await;
    let told = matches!(event, Some(Event::Closed(CloseReason::Exited(Exit::Code(3)))));
    assert!(told, "{event:?}");
    within(peer.close(LIMIT)).await;
    dock.end().await;
}

#[tokio::test]
async fn dkr_08_a_server_with_content_length_framing_is_understood() {
    let (dock, foreign) = (Dock::new().await, Foreign::new().await);
    let script = Script { content_length: true, ..Script::default() };
    let mut config = served(foreign.target(), &script);
    config.framing = Framing::ContentLength;
    let (peer, _events) = dock.peer(config).await;
    converse(&peer).await;
    assert_eq!(peer.framing(), Some(Spoken::ContentLength));
    within(peer.close(LIMIT)).await;
    dock.end().await;
}

#[tokio::test]
async fn dkr_40_the_server_has_the_configured_variables_and_the_container_s_and_no_others() {
    let (mut dock, foreign) = (Dock::new().await, Foreign::new().await);
    dock.world.env.push(("CANARY".to_owned(), "host".to_owned()));
    dock.world.env.push(("HOME".to_owned(), "/nowhere".to_owned()));
    for (inherit, canary) in [
        (Inherit::None, Value::Null),
        (Inherit::Minimal, Value::Null),
        (Inherit::These(vec!["CANARY".to_owned()]), json!("host")),
    ] {
        let mut config = served(foreign.target(), &Script::default());
        config.env.inherit = inherit.clone();
        config.env.set.insert("TOKEN".to_owned(), Setting::literal("s3cret"));
        config.env.unset.push("UNWANTED".to_owned());
        let (peer, _events) = dock.peer(config).await;
        let found = surroundings(&peer).await;
        let env = &found["env"];
        assert_eq!(env["CANARY"], canary, "{inherit:?}");
        assert_eq!((&env["TOKEN"], &env["OF_CONTAINER"]), (&json!("s3cret"), &json!("yes")));
        assert_eq!((&env["UNWANTED"], &env["PATH"]), (&Value::Null, &json!("/bin")));
        assert_ne!(env["HOME"], "/nowhere");
        let owner = format!("{}:", dock.instance.id());
        assert!(env["TOOLCRIB_OWNER"].as_str().unwrap().starts_with(&owner));
        // Everybody may read a command line.
        assert!(!foreign.processes().await.concat().contains("s3cret"));
        within(peer.close(LIMIT)).await;
    }
    dock.end().await;
}

#[tokio::test]
async fn a_shell_runs_the_command_in_the_working_directory_and_leaves_arguments_alone() {
    let (dock, foreign) = (Dock::new().await, Foreign::new().await);
    let mut config = served(foreign.target(), &Script::default());
    config.shell = Some("sh -c".to_owned());
    config.command = Plain::literal("FROM_SHELL=$((1 + 1)) exec scripted-server");
    config.args.extend(["$HOME", "; exit 1"].map(Plain::literal));
    config.workdir = Some(Plain::literal("/tmp"));
    let (peer, _events) = dock.peer(config).await;
    let found = surroundings(&peer).await;
    assert_eq!((&found["env"]["FROM_SHELL"], &found["cwd"]), (&json!("2"), &json!("/tmp")));
    assert_eq!(found["args"].as_array().unwrap()[1..], ["$HOME", "; exit 1"]);
    within(peer.close(LIMIT)).await;
    dock.end().await;
}

#[tokio::test]
async fn an_engine_elsewhere_is_reached_by_its_endpoint_or_by_docker_host() {
    let (mut dock, foreign) = (Dock::new().await, Foreign::new().await);
    let elsewhere = Elsewhere::start().await;
    let mut config = served(foreign.target(), &Script::default());
    config.endpoint = Some(Plain::literal(&elsewhere.address));
    let (peer, _events) = dock.peer(config).await;
    converse(&peer).await;
    within(peer.close(LIMIT)).await;

    dock.world.env.retain(|(name, _)| name != "DOCKER_HOST");
    dock.world.env.push(("DOCKER_HOST".to_owned(), elsewhere.address.clone()));
    let (peer, _events) = dock.peer(served(foreign.target(), &Script::default())).await;
    converse(&peer).await;
    assert!(dock.ledger().contains(&elsewhere.address), "{}", dock.ledger());
    within(peer.close(LIMIT)).await;
    assert_eq!(foreign.processes().await, ["sleep 300"]);
    dock.end().await;
}

/// The machine's engine under an address of its own, as a remote one would be.
struct Elsewhere {
    address: String,
    _passing: JoinSet<()>,
}

impl Elsewhere {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("tcp://{}", listener.local_addr().unwrap());
        let mut passing = JoinSet::new();
        passing.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                connections.spawn(async move {
                    let socket = docker_host().unwrap_or_else(|| super::USUAL.to_owned());
                    let mut far = UnixStream::connect(&socket["unix://".len()..]).await.unwrap();
                    let _ = copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        Self { address, _passing: passing }
    }
}
