//! Tests the shutdown of the demo server: end of input, signals, calls in flight.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::net::TcpStream;
use toolcrib_wire::method;

use super::stdio::StdioSession;
use super::{CONNECTION_MODES, Client, HttpServer, with_time_limit};

fn terminate(pid: u32) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), Signal::TERM).unwrap();
}

/// A slow call with the id 1.
const SLOW: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{"seconds":600}}}"#;

#[tokio::test]
async fn end_of_stdin_ends_server_and_stdout_has_only_messages() {
    let mut session = StdioSession::start();
    session.initialize().await;
    session.write(&format!("{SLOW}\n")).await;
    // The last message has no line break.
    session.write(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#).await;
    session.stdin = None;
    assert_eq!(session.next().await.unwrap()["id"], 2);
    let ended = session.next().await.unwrap();
    assert_eq!((&ended["id"], &ended["error"]["code"]), (&json!(1), &json!(-32603)));
    assert_eq!(session.next().await, None);
    assert_eq!(with_time_limit(session.child.wait()).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn sigterm_ends_stdio_server_while_stdin_is_open() {
    let mut session = StdioSession::start();
    session.initialize().await;
    session.write(&format!("{SLOW}\n")).await;
    // This response shows that the call before it has started.
    session.write("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n").await;
    assert_eq!(session.next().await.unwrap()["id"], 2);
    terminate(session.child.id().unwrap());
    assert_eq!(session.next().await.unwrap()["id"], 1);
    assert_eq!(with_time_limit(session.child.wait()).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn sigterm_ends_http_server() {
    let mut server = HttpServer::start().await;
    let address = server.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    // An idle connection must not delay the shutdown.
    let _idle = with_time_limit(TcpStream::connect(address)).await.unwrap();
    terminate(server.child.id().unwrap());
    assert_eq!(with_time_limit(server.child.wait()).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn subscription_completes_on_shutdown() {
    for mode in CONNECTION_MODES.into_iter().filter(|mode| mode.is_modern()) {
        let mut client = Client::new(mode).await;
        let mut events = client.events.take().unwrap();
        let pid = match &client.server {
            Some(server) => server.child.id(),
            None => client.peer.link_info().pid,
        };
        let listening = client.request(method::SUBSCRIPTIONS_LISTEN, json!({"notifications": {}}));
        let ending = async {
            with_time_limit(events.next()).await.unwrap();
            terminate(pid.unwrap());
        };
        let (answer, ()) = tokio::join!(listening, ending);
        assert_eq!(answer.unwrap()["resultType"], "complete", "{mode:?}");
        with_time_limit(client.peer.close(Duration::from_secs(5))).await;
        with_time_limit(client.instance.close()).await;
    }
}
