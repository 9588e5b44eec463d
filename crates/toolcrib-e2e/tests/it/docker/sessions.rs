//! Tests sessions with a server in a container of a real engine.

use std::os::fd::OwnedFd;
use std::process::Command;

use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, UnixStream};
use tokio::task::JoinSet;
use toolcrib_config::Value as Setting;
use toolcrib_config::model::choice::InheritedEnv;
use toolcrib_config::model::transport::{DisplayValue, FramingMode};
use toolcrib_testkit::scripted::{Script, Step, server_binary};
use toolcrib_upstream::conn::peer::{Anomaly, Peer, PeerCallError, PeerEvent, RefuseRequests};
use toolcrib_upstream::process::ProcessExit;
use toolcrib_upstream::transport::{CloseReason, SendError, link_over_streams};
use toolcrib_wire::Framing as Spoken;

use super::{DockerTestHost, ForeignContainer, docker_host_variable, from_image, scripted_exec};
use crate::peer_fixture::{
    ScriptedPeer, TIME_LIMIT, call_tool, check_echo, oddity_count, raw, request_timeout,
    result_text, settings, stream_settings, with_time_limit,
};

const HELLO: &str =
    r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}"#;

/// Checks a handshake, a call and a failing call.
async fn check_session(peer: &Peer) {
    let hello: Value = serde_json::from_str(HELLO).unwrap();
    let body = with_time_limit(peer.call("initialize", raw(&hello), request_timeout(TIME_LIMIT)))
        .await
        .unwrap();
    assert_eq!(body.get("protocolVersion").unwrap().as_str().unwrap(), "2025-06-18");
    check_echo(peer, "grüße 日本 🦀").await;
    let body = call_tool(peer, "fail", &json!({})).await.unwrap();
    assert_eq!(result_text(&body), "it failed");
}

async fn server_environment(peer: &Peer) -> Value {
    let body = call_tool(peer, "env", &json!({})).await.unwrap();
    serde_json::from_str(&result_text(&body)).unwrap()
}

#[tokio::test]
async fn dkr_01_server_in_container_is_reached_through_exec() {
    let (docker_host, foreign) = (DockerTestHost::new().await, ForeignContainer::new().await);
    let (peer, _events) =
        docker_host.peer(scripted_exec(foreign.target(), &Script::default())).await;
    check_session(&peer).await;
    assert!(foreign.has_process("scripted-server").await);
    with_time_limit(peer.close(TIME_LIMIT)).await;
    assert_eq!(foreign.processes().await, ["sleep 300"]);
    docker_host.close().await;
}

#[tokio::test]
async fn dkr_10_same_session_works_over_socket_pair_pipes_and_exec() {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let (stdin, stdout) = (OwnedFd::from(theirs.try_clone().unwrap()), OwnedFd::from(theirs));
    let mut server =
        Command::new(server_binary().unwrap()).stdin(stdin).stdout(stdout).spawn().unwrap();
    let (reader, writer) = UnixStream::from_std(ours).unwrap().into_split();
    let link = link_over_streams(reader, writer, stream_settings());
    let (peer, _events) = Peer::start(link, settings(RefuseRequests));
    check_session(&peer).await;
    with_time_limit(peer.close(TIME_LIMIT)).await;
    assert!(server.wait().unwrap().success());

    let child = ScriptedPeer::new(Script::default()).await;
    check_session(&child.peer).await;
    child.close().await;

    let docker_host = DockerTestHost::new().await;
    let (peer, _events) = docker_host.peer(scripted_exec(from_image(), &Script::default())).await;
    check_session(&peer).await;
    with_time_limit(peer.close(TIME_LIMIT)).await;
    docker_host.close().await;
}

#[tokio::test]
async fn dkr_03_stderr_is_never_parsed_as_protocol() {
    let forged = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"forged\":true}}\n";
    let steps = [Step::Stderr(forged.to_owned()), Step::Sleep(50), Step::Respond];
    let script = Script::default().on("tools/call loud", steps);
    let (docker_host, foreign) = (DockerTestHost::new().await, ForeignContainer::new().await);
    let (peer, _events) = docker_host.peer(scripted_exec(foreign.target(), &script)).await;
    let body = call_tool(&peer, "loud", &json!({"a": 1})).await.unwrap();
    assert_eq!(result_text(&body), "{\"a\":1}");
    let stderr = peer.link_info().stderr.clone().unwrap();
    assert!(stderr.text().contains("forged"), "{}", stderr.text());
    assert_eq!(peer.anomalies(), []);
    with_time_limit(peer.close(TIME_LIMIT)).await;
    docker_host.close().await;
}

#[tokio::test]
async fn stderr_flood_does_not_block_and_is_truncated() {
    let flood = [Step::StderrFlood(4 << 20), Step::LargeResult(10 << 20)];
    let script = Script::default().on("tools/call flood", flood);
    let (docker_host, foreign) = (DockerTestHost::new().await, ForeignContainer::new().await);
    let (peer, _events) = docker_host.peer(scripted_exec(foreign.target(), &script)).await;
    let body = call_tool(&peer, "flood", &json!({})).await.unwrap();
    assert_eq!(result_text(&body).len(), 10 << 20);
    let stderr = peer.link_info().stderr.clone().unwrap();
    assert_eq!(stderr.text().len(), 64 << 10);
    with_time_limit(peer.close(TIME_LIMIT)).await;
    docker_host.close().await;
}

#[tokio::test]
async fn dkr_05_sending_after_close_fails_and_inbox_reports_close() {
    let (docker_host, foreign) = (DockerTestHost::new().await, ForeignContainer::new().await);
    let mut link = docker_host.open(scripted_exec(foreign.target(), &Script::default())).await;
    let outbox = link.outbox.clone();
    with_time_limit(link.closer.close(TIME_LIMIT)).await;
    let mut last = None;
    while let Some(incoming) = with_time_limit(link.inbox.recv()).await {
        last = Some(incoming);
    }
    let report = matches!(
        last,
        Some(toolcrib_upstream::transport::Incoming::Closed(CloseReason::HostClosed))
    );
    assert!(report, "{last:?}");
    let error = with_time_limit(outbox.reserve()).await.err().unwrap();
    assert_eq!((error, error.to_string().as_str()), (SendError::Closed, "Transport closed"));
    docker_host.close().await;
}

#[tokio::test]
async fn dkr_06_garbage_is_reported_and_connection_continues() {
    let garbage = Step::Raw("Welcome!\n{\"jsonrpc\":\n".to_owned());
    let script = Script::default().on("tools/call odd", [garbage, Step::Respond]);
    let (docker_host, foreign) = (DockerTestHost::new().await, ForeignContainer::new().await);
    let (peer, mut events) = docker_host.peer(scripted_exec(foreign.target(), &script)).await;
    let body = call_tool(&peer, "odd", &json!({"a": 1})).await.unwrap();
    assert_eq!(result_text(&body), "{\"a\":1}");
    let event = with_time_limit(events.next()).await;
    assert!(matches!(event, Some(PeerEvent::Anomaly(Anomaly::Noise))), "{event:?}");
    assert!(oddity_count(&peer, Anomaly::Noise) > 0);
    with_time_limit(peer.close(TIME_LIMIT)).await;
    docker_host.close().await;
}

#[tokio::test]
async fn dkr_07_server_exit_fails_calls_at_once_with_exit_code() {
    let script = Script::default().on("tools/call die", [Step::Exit(3)]);
    let (docker_host, foreign) = (DockerTestHost::new().await, ForeignContainer::new().await);
    let (peer, mut events) = docker_host.peer(scripted_exec(foreign.target(), &script)).await;
    let error = call_tool(&peer, "die", &json!({})).await.unwrap_err();
    assert!(matches!(error, PeerCallError::Closed(_)), "{error:?}");
    let event = with_time_limit(events.next()).await;
    let report =
        matches!(event, Some(PeerEvent::Closed(CloseReason::Exited(ProcessExit::Code(3)))));
    assert!(report, "{event:?}");
    with_time_limit(peer.close(TIME_LIMIT)).await;
    docker_host.close().await;
}

#[tokio::test]
async fn dkr_08_content_length_server_in_container_works() {
    let (docker_host, foreign) = (DockerTestHost::new().await, ForeignContainer::new().await);
    let script = Script { content_length: true, ..Script::default() };
    let mut config = scripted_exec(foreign.target(), &script);
    config.framing = FramingMode::ContentLength;
    let (peer, _events) = docker_host.peer(config).await;
    check_session(&peer).await;
    assert_eq!(peer.framing(), Some(Spoken::ContentLength));
    with_time_limit(peer.close(TIME_LIMIT)).await;
    docker_host.close().await;
}

#[tokio::test]
async fn dkr_40_server_has_only_configured_and_container_variables() {
    let (mut docker_host, foreign) = (DockerTestHost::new().await, ForeignContainer::new().await);
    docker_host.config.env.push(("CANARY".to_owned(), "host".to_owned()));
    docker_host.config.env.push(("HOME".to_owned(), "/nowhere".to_owned()));
    for (inherit, canary) in [
        (InheritedEnv::None, Value::Null),
        (InheritedEnv::Minimal, Value::Null),
        (InheritedEnv::These(vec!["CANARY".to_owned()]), json!("host")),
    ] {
        let mut config = scripted_exec(foreign.target(), &Script::default());
        config.env.inherit = inherit.clone();
        config.env.set.insert("TOKEN".to_owned(), Setting::literal("s3cret"));
        config.env.unset.push("UNWANTED".to_owned());
        let (peer, _events) = docker_host.peer(config).await;
        let found = server_environment(&peer).await;
        let env = &found["env"];
        assert_eq!(env["CANARY"], canary, "{inherit:?}");
        assert_eq!((&env["TOKEN"], &env["OF_CONTAINER"]), (&json!("s3cret"), &json!("yes")));
        assert_eq!((&env["UNWANTED"], &env["PATH"]), (&Value::Null, &json!("/bin")));
        assert_ne!(env["HOME"], "/nowhere");
        let owner = format!("{}:", docker_host.instance.id());
        assert!(env["TOOLCRIB_OWNER"].as_str().unwrap().starts_with(&owner));
        // Command lines are readable by all users.
        assert!(!foreign.processes().await.concat().contains("s3cret"));
        with_time_limit(peer.close(TIME_LIMIT)).await;
    }
    docker_host.close().await;
}

#[tokio::test]
async fn shell_runs_command_in_workdir_with_literal_arguments() {
    let (docker_host, foreign) = (DockerTestHost::new().await, ForeignContainer::new().await);
    let mut config = scripted_exec(foreign.target(), &Script::default());
    config.shell = Some("sh -c".to_owned());
    config.command = DisplayValue::literal("FROM_SHELL=$((1 + 1)) exec scripted-server");
    config.args.extend(["$HOME", "; exit 1"].map(DisplayValue::literal));
    config.workdir = Some(DisplayValue::literal("/tmp"));
    let (peer, _events) = docker_host.peer(config).await;
    let found = server_environment(&peer).await;
    assert_eq!((&found["env"]["FROM_SHELL"], &found["cwd"]), (&json!("2"), &json!("/tmp")));
    assert_eq!(found["args"].as_array().unwrap()[1..], ["$HOME", "; exit 1"]);
    with_time_limit(peer.close(TIME_LIMIT)).await;
    docker_host.close().await;
}

#[tokio::test]
async fn remote_engine_is_reached_by_endpoint_or_docker_host() {
    let (mut docker_host, foreign) = (DockerTestHost::new().await, ForeignContainer::new().await);
    let proxy = TcpEngineProxy::start().await;
    let mut config = scripted_exec(foreign.target(), &Script::default());
    config.endpoint = Some(DisplayValue::literal(&proxy.address));
    let (peer, _events) = docker_host.peer(config).await;
    check_session(&peer).await;
    with_time_limit(peer.close(TIME_LIMIT)).await;

    docker_host.config.env.retain(|(name, _)| name != "DOCKER_HOST");
    docker_host.config.env.push(("DOCKER_HOST".to_owned(), proxy.address.clone()));
    let (peer, _events) =
        docker_host.peer(scripted_exec(foreign.target(), &Script::default())).await;
    check_session(&peer).await;
    assert!(docker_host.ledger().contains(&proxy.address), "{}", docker_host.ledger());
    with_time_limit(peer.close(TIME_LIMIT)).await;
    assert_eq!(foreign.processes().await, ["sleep 300"]);
    docker_host.close().await;
}

/// Forwards a TCP port to the local engine, as a remote engine would appear.
struct TcpEngineProxy {
    address: String,
    _passing: JoinSet<()>,
}

impl TcpEngineProxy {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("tcp://{}", listener.local_addr().unwrap());
        let mut passing = JoinSet::new();
        passing.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                connections.spawn(async move {
                    let socket = docker_host_variable()
                        .unwrap_or_else(|| super::DEFAULT_ENDPOINT.to_owned());
                    let mut far = UnixStream::connect(&socket["unix://".len()..]).await.unwrap();
                    let _ = copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        Self { address, _passing: passing }
    }
}
