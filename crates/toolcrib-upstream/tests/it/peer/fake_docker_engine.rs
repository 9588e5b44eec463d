//! Tests API requests to a Docker engine and frame boundaries, with a fake engine.

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use toolcrib_config::Value as Setting;
use toolcrib_config::model::transport::{ContainerTarget, DisplayValue, Transport};
use toolcrib_testkit::docker_engine::{
    AttachedExec, FakeDockerEngine, STDERR, STDOUT, output_frame,
};
use toolcrib_testkit::scripted::Script;
use toolcrib_upstream::conn::peer::{Peer, PeerCallError, RefuseRequests};
use toolcrib_upstream::process::Instance;
use toolcrib_upstream::transport::CloseReason;

use super::{TIME_LIMIT, TestHost, raw, request_timeout, scripted_exec, settings, with_time_limit};

/// A session through a fake engine, and the far end of its exec.
struct FakeEngineSession {
    peer: Peer,
    server: AttachedExec,
    engine: FakeDockerEngine,
    instance: Instance,
    _folder: TempDir,
}

impl FakeEngineSession {
    async fn new(target: ContainerTarget) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = FakeDockerEngine::start(&folder.path().join("engine.sock")).unwrap();
        let instance = Instance::open(folder.path()).unwrap();
        let mut host = TestHost::new(folder.path().to_owned());
        host.permissions.docker = true;
        let mut config = scripted_exec(target, &Script::default());
        config.endpoint = Some(DisplayValue::literal(engine.endpoint()));
        config.env.set.insert("TOKEN".to_owned(), Setting::literal("s3cret"));
        let link = host.open(&Transport::DockerExec(config), &instance).await.unwrap();
        let (peer, _events) = Peer::start(link, settings(RefuseRequests));
        let server = with_time_limit(engine.next_exec()).await.unwrap();
        Self { peer, server, engine, instance, _folder: folder }
    }

    async fn existing() -> Self {
        Self::new(ContainerTarget::Existing(DisplayValue::literal("existing"))).await
    }

    /// The names of all API calls so far.
    fn calls(&self) -> Vec<String> {
        self.engine.requests().into_iter().map(|called| called.route).collect()
    }

    /// Makes a call. The server answers with these pieces of bytes.
    async fn call_with_response(
        &mut self,
        pieces: impl Fn(&str) -> Vec<Vec<u8>>,
    ) -> Result<Value, PeerCallError> {
        let params = raw(&json!({}));
        let call = self.peer.call("ping", params, request_timeout(TIME_LIMIT));
        let serve = async {
            let line = read_line(&mut self.server).await;
            let request: Value = serde_json::from_slice(&line).unwrap();
            let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": {"n": 7}});
            for piece in pieces(&answer.to_string()) {
                self.server.write_all(&piece).await.unwrap();
                self.server.flush().await.unwrap();
                // The pause makes the client read each piece separately.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let (answer, ()) = with_time_limit(async { tokio::join!(call, serve) }).await;
        answer.map(|body| serde_json::from_str(body.json().text()).unwrap())
    }

    async fn close(self) {
        drop(self.server);
        with_time_limit(self.peer.close(TIME_LIMIT)).await;
        with_time_limit(self.instance.close()).await;
    }
}

async fn read_line(server: &mut AttachedExec) -> Vec<u8> {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        line.push(with_time_limit(server.read_u8()).await.unwrap());
    }
    line
}

#[tokio::test]
async fn dkr_02_exec_attaches_three_streams_without_terminal() {
    let session = FakeEngineSession::existing().await;
    let calls = session.engine.requests();
    let create =
        calls.iter().find(|called| called.route == "POST /containers/existing/exec").unwrap();
    for (key, wanted) in
        [("AttachStdin", true), ("AttachStdout", true), ("AttachStderr", true), ("Tty", false)]
    {
        assert_eq!(create.body[key], wanted, "{key}");
    }
    assert_eq!(create.body["Cmd"][0], "scripted-server");
    let env = create.body["Env"].as_array().unwrap();
    assert!(env.contains(&json!("TOKEN=s3cret")), "{env:?}");
    assert!(!create.body["Cmd"].to_string().contains("s3cret"));
    session.close().await;
}

#[tokio::test]
async fn dkr_03_multiplexed_frames_are_split_at_any_boundary() {
    let mut session = FakeEngineSession::existing().await;
    let mut logged = 0;
    for size in [1, 3, 7, 8, 9, 64, usize::MAX] {
        let answer = session.call_with_response(|answer| {
            let (one, two) = answer.split_at(answer.len() / 2);
            let forged = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"n\":8}}\n";
            let stream = [
                output_frame(STDERR, forged.as_bytes()),
                output_frame(STDOUT, one.as_bytes()),
                output_frame(STDERR, forged.as_bytes()),
                output_frame(STDOUT, b""),
                output_frame(STDOUT, two.as_bytes()),
                output_frame(STDOUT, b"\n"),
            ];
            stream.concat().chunks(size.min(1 << 20)).map(<[u8]>::to_vec).collect()
        });
        assert_eq!(answer.await.unwrap()["n"], 7, "cut after {size}");
        logged += 2;
        let stderr = session.peer.link_info().stderr.clone().unwrap().text();
        assert_eq!(stderr.matches("\"n\":8").count(), logged, "cut after {size}");
    }
    assert_eq!(session.peer.anomalies(), []);
    session.close().await;
}

#[tokio::test]
async fn dkr_04_messages_are_lines_and_carriage_return_is_accepted() {
    let mut session = FakeEngineSession::existing().await;
    let params = raw(&json!({"text": "two\nlines"}));
    let (line, call) = {
        let call = session.peer.call("ping", params, request_timeout(TIME_LIMIT));
        let serve = async {
            let line = read_line(&mut session.server).await;
            let request: Value = serde_json::from_slice(&line).unwrap();
            let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": {}});
            let bytes = output_frame(STDOUT, format!("{answer}\r\n").as_bytes());
            session.server.write_all(&bytes).await.unwrap();
            line
        };
        with_time_limit(async { tokio::join!(serve, call) }).await
    };
    call.unwrap();
    assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
    assert!(line.starts_with(b"{") && line.ends_with(b"}\n"));

    // One message in three frames, each in its own chunk.
    let answer = session.call_with_response(|answer| {
        let third = answer.len() / 3;
        let parts = [&answer[..third], &answer[third..2 * third], &answer[2 * third..], "\r\n"];
        parts.iter().map(|part| output_frame(STDOUT, part.as_bytes())).collect()
    });
    assert_eq!(answer.await.unwrap()["n"], 7);
    assert_eq!(session.peer.anomalies(), []);
    session.close().await;
}

#[tokio::test]
async fn dkr_07_end_of_stream_fails_call_at_once() {
    let FakeEngineSession { peer, mut server, engine, instance, _folder } =
        FakeEngineSession::existing().await;
    let params = raw(&json!({}));
    let call = peer.call("ping", params, request_timeout(TIME_LIMIT));
    let serve = async {
        read_line(&mut server).await;
        // Half a frame, then the end of the stream.
        server.write_all(&output_frame(STDOUT, b"{\"jsonrpc\"")[..12]).await.unwrap();
        drop(server);
    };
    let (outcome, ()) = with_time_limit(async { tokio::join!(call, serve) }).await;
    let ended = matches!(
        outcome,
        Err(PeerCallError::Closed(CloseReason::StreamEnded | CloseReason::Exited(_)))
    );
    assert!(ended, "{outcome:?}");
    with_time_limit(peer.close(TIME_LIMIT)).await;
    with_time_limit(instance.close()).await;
    drop(engine);
}

#[tokio::test]
async fn dkr_12_existing_container_is_used_and_missing_one_is_created() {
    let session = FakeEngineSession::existing().await;
    let calls = session.calls();
    assert_eq!(
        calls.iter().filter(|call| !call.starts_with("HEAD")).take(4).collect::<Vec<_>>(),
        [
            "GET /version",
            "GET /containers/existing/json",
            "POST /containers/existing/exec",
            "POST /exec/0/start"
        ]
    );
    session.close().await;

    let mut session =
        FakeEngineSession::new(ContainerTarget::FromImage(DisplayValue::literal("tools:1"))).await;
    assert_eq!(
        session.calls()[..5],
        [
            "GET /version",
            "POST /containers/create",
            "POST /containers/created/start",
            "POST /containers/created/exec",
            "POST /exec/0/start"
        ]
    );
    let create = &session.engine.requests()[1];
    assert_eq!(create.body["Image"], "tools:1");
    let owner = session.instance.id().to_string();
    assert_eq!(create.body["Labels"]["toolcrib.owner"], owner.as_str());
    // Variables are set in the exec, not in the container.
    assert!(!create.body.to_string().contains("s3cret"));
    let params = raw(&json!({}));
    let hello =
        session.peer.call("initialize", params, request_timeout(Duration::from_millis(200)));
    let (line, _) =
        with_time_limit(async { tokio::join!(read_line(&mut session.server), hello) }).await;
    assert_eq!(serde_json::from_slice::<Value>(&line).unwrap()["method"], "initialize");
    let FakeEngineSession { peer, server, engine, instance, _folder } = session;
    drop(server);
    with_time_limit(peer.close(TIME_LIMIT)).await;
    assert_eq!(engine.requests().last().unwrap().route, "DELETE /containers/created");
    with_time_limit(instance.close()).await;
}
