//! What is said to an engine, and how its stream may be cut: with an engine that the test plays.

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use toolcrib_config::Value as Setting;
use toolcrib_config::model::transport::{Container, Plain, Transport};
use toolcrib_testkit::engine::{Attached, FakeEngine, STDERR, STDOUT, frame};
use toolcrib_testkit::scripted::Script;
use toolcrib_upstream::conn::peer::{CallError, NoRequests, Peer};
use toolcrib_upstream::process::Instance;
use toolcrib_upstream::transport::CloseReason;

use super::super::{LIMIT, World, patience, raw, settings, within};
use super::served;

/// A conversation through an engine that the test plays, and the far end of its exec.
struct Played {
    peer: Peer,
    server: Attached,
    engine: FakeEngine,
    instance: Instance,
    _folder: TempDir,
}

impl Played {
    async fn new(target: Container) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = FakeEngine::start(&folder.path().join("engine.sock")).unwrap();
        let instance = Instance::open(folder.path()).unwrap();
        let mut world = World::new(folder.path().to_owned());
        world.permissions.docker = true;
        let mut config = served(target, &Script::default());
        config.endpoint = Some(Plain::literal(engine.endpoint()));
        config.env.set.insert("TOKEN".to_owned(), Setting::literal("s3cret"));
        let link = world.open(&Transport::DockerExec(config), &instance).await.unwrap();
        let (peer, _events) = Peer::start(link, settings(NoRequests));
        let server = within(engine.attached()).await.unwrap();
        Self { peer, server, engine, instance, _folder: folder }
    }

    async fn existing() -> Self {
        Self::new(Container::Existing(Plain::literal("there"))).await
    }

    /// The names of all calls so far.
    fn calls(&self) -> Vec<String> {
        self.engine.calls().into_iter().map(|called| called.what).collect()
    }

    /// Makes a call; the server answers it by writing these bytes, in pieces.
    async fn ask(&mut self, pieces: impl Fn(&str) -> Vec<Vec<u8>>) -> Result<Value, CallError> {
        let params = raw(&json!({}));
        let call = self.peer.call("ping", params, patience(LIMIT));
        let serve = async {
            let line = read_line(&mut self.server).await;
            let request: Value = serde_json::from_slice(&line).unwrap();
            let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": {"n": 7}});
            for piece in pieces(&answer.to_string()) {
                self.server.write_all(&piece).await.unwrap();
                self.server.flush().await.unwrap();
                // So that each piece is read by itself.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let (answer, ()) = within(async { tokio::join!(call, serve) }).await;
        answer.map(|body| serde_json::from_str(body.json().text()).unwrap())
    }

    async fn end(self) {
        drop(self.server);
        within(self.peer.close(LIMIT)).await;
        within(self.instance.close()).await;
    }
}

async fn read_line(server: &mut Attached) -> Vec<u8> {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        line.push(within(server.read_u8()).await.unwrap());
    }
    line
}

#[tokio::test]
async fn dkr_02_the_exec_has_all_three_streams_and_no_terminal() {
    let played = Played::existing().await;
    let calls = played.engine.calls();
    let create = calls.iter().find(|called| called.what == "POST /containers/there/exec").unwrap();
    for (key, wanted) in
        [("AttachStdin", true), ("AttachStdout", true), ("AttachStderr", true), ("Tty", false)]
    {
        assert_eq!(create.body[key], wanted, "{key}");
    }
    assert_eq!(create.body["Cmd"][0], "scripted-server");
    let env = create.body["Env"].as_array().unwrap();
    assert!(env.contains(&json!("TOKEN=s3cret")), "{env:?}");
    assert!(!create.body["Cmd"].to_string().contains("s3cret"));
    played.end().await;
}

#[tokio::test]
async fn dkr_03_frames_are_told_apart_however_they_are_cut() {
    let mut played = Played::existing().await;
    let mut logged = 0;
    for size in [1, 3, 7, 8, 9, 64, usize::MAX] {
        let answer = played.ask(|answer| {
            let (one, two) = answer.split_at(answer.len() / 2);
            let forged = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"n\":8}}\n";
            let stream = [
                frame(STDERR, forged.as_bytes()),
                frame(STDOUT, one.as_bytes()),
                frame(STDERR, forged.as_bytes()),
                frame(STDOUT, b""),
                frame(STDOUT, two.as_bytes()),
                frame(STDOUT, b"\n"),
            ];
            stream.concat().chunks(size.min(1 << 20)).map(<[u8]>::to_vec).collect()
        });
        assert_eq!(answer.await.unwrap()["n"], 7, "cut after {size}");
        logged += 2;
        let stderr = played.peer.facts().stderr.clone().unwrap().text();
        assert_eq!(stderr.matches("\"n\":8").count(), logged, "cut after {size}");
    }
    assert_eq!(played.peer.oddities(), []);
    played.end().await;
}

#[tokio::test]
async fn dkr_04_messages_are_lines_both_ways_and_a_carriage_return_is_tolerated() {
    let mut played = Played::existing().await;
    let params = raw(&json!({"text": "two\nlines"}));
    let (line, call) = {
        let call = played.peer.call("ping", params, patience(LIMIT));
        let serve = async {
            let line = read_line(&mut played.server).await;
            let request: Value = serde_json::from_slice(&line).unwrap();
            let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": {}});
            let bytes = frame(STDOUT, format!("{answer}\r\n").as_bytes());
            played.server.write_all(&bytes).await.unwrap();
            line
        };
        within(async { tokio::join!(serve, call) }).await
    };
    call.unwrap();
    assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
    assert!(line.starts_with(b"{") && line.ends_with(b"}\n"));

    // One message in three frames, each of them a chunk of its own.
    let answer = played.ask(|answer| {
        let third = answer.len() / 3;
        let parts = [&answer[..third], &answer[third..2 * third], &answer[2 * third..], "\r\n"];
        parts.iter().map(|part| frame(STDOUT, part.as_bytes())).collect()
    });
    assert_eq!(answer.await.unwrap()["n"], 7);
    assert_eq!(played.peer.oddities(), []);
    played.end().await;
}

#[tokio::test]
async fn dkr_07_the_end_of_the_stream_fails_the_call_at_once() {
    let Played { peer, mut server, engine, instance, _folder } = Played::existing().await;
    let params = raw(&json!({}));
    let call = peer.call("ping", params, patience(LIMIT));
    let serve = async {
        read_line(&mut server).await;
        // Half a frame, and the end.
        server.write_all(&frame(STDOUT, b"{\"jsonrpc\"")[..12]).await.unwrap();
        drop(server);
    };
    let (outcome, ()) = within(async { tokio::join!(call, serve) }).await;
    let ended =
        matches!(outcome, Err(CallError::Closed(CloseReason::Ended | CloseReason::Exited(_))));
    assert!(ended, "{outcome:?}");
    within(peer.close(LIMIT)).await;
    within(instance.close()).await;
    drop(engine);
}

#[tokio::test]
async fn dkr_12_what_is_there_is_used_and_what_is_not_is_made_and_started_first() {
    let played = Played::existing().await;
    let calls = played.calls();
    assert_eq!(
        calls.iter().filter(|call| !call.starts_with("HEAD")).take(4).collect::<Vec<_>>(),
        [
            "GET /version",
            "GET /containers/there/json",
            "POST /containers/there/exec",
            "POST /exec/0/start"
        ]
    );
    played.end().await;

    let mut played = Played::new(Container::FromImage(Plain::literal("tools:1"))).await;
    assert_eq!(
        played.calls()[..5],
        [
            "GET /version",
            "POST /containers/create",
            "POST /containers/made/start",
            "POST /containers/made/exec",
            "POST /exec/0/start"
        ]
    );
    let create = &played.engine.calls()[1];
    assert_eq!(create.body["Image"], "tools:1");
    let owner = played.instance.id().to_string();
    assert_eq!(create.body["Labels"]["toolcrib.owner"], owner.as_str());
    // Variables are the exec's alone.
    assert!(!create.body.to_string().contains("s3cret"));
    let params = raw(&json!({}));
    let hello = played.peer.call("initialize", params, patience(Duration::from_millis(200)));
    let (line, _) = within(async { tokio::join!(read_line(&mut played.server), hello) }).await;
    assert_eq!(serde_json::from_slice::<Value>(&line).unwrap()["method"], "initialize");
    let Played { peer, server, engine, instance, _folder } = played;
    drop(server);
    within(peer.close(LIMIT)).await;
    assert_eq!(engine.calls().last().unwrap().what, "DELETE /containers/made");
    within(instance.close()).await;
}
