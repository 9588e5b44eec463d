//! Tests connections against a server that sends scripted bytes.

use std::io::ErrorKind;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::*;
use crate::write_batch::CurrentBatchGuard;

const HEAD: &[u8] = b"POST /mcp HTTP/1.1\r\nhost: a\r\n";

const OPTIONS: PoolOptions = PoolOptions {
    user_agent: "test",
    connect_timeout: None,
    idle_timeout: Duration::from_secs(4),
    max_idle: 64,
};

/// A listener whose connections the test serves.
struct ScriptedServer(TcpListener);

impl ScriptedServer {
    async fn start() -> (Self, ConnectionPool) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        (
            Self(listener),
            ConnectionPool::for_plain_url(&Url::parse(&url).unwrap(), &OPTIONS).unwrap(),
        )
    }

    async fn accept(&self) -> TcpStream {
        self.0.accept().await.unwrap().0
    }

    /// True when no further connection arrives.
    async fn has_no_more_connections(&self) -> bool {
        timeout(Duration::from_millis(50), self.0.accept()).await.is_err()
    }
}

async fn expect_request(stream: &mut TcpStream, body: &str) {
    let length = format!("content-length: {}\r\n\r\n", body.len());
    let expected = [HEAD, length.as_bytes(), body.as_bytes()].concat();
    let mut received = vec![0; expected.len()];
    stream.read_exact(&mut received).await.unwrap();
    assert_eq!(String::from_utf8(received), String::from_utf8(expected));
}

type PoolResponse = (ResponseHead, BodyReader);

/// Reads the whole body without an intermediate copy.
async fn read_body(response: Result<PoolResponse, BoxError>) -> Result<String, BoxError> {
    let (_, mut reader) = response?;
    let mut body = Vec::new();
    while reader.copy_buffered(&mut body)?.is_pending() {
        reader.fill_into(&mut body).await?;
    }
    Ok(String::from_utf8(body)?)
}

async fn read_chunks((_, mut reader): PoolResponse) -> String {
    let mut body = Vec::new();
    loop {
        match reader.buffered_chunk() {
            Poll::Ready(chunk) => match chunk.unwrap() {
                Some(chunk) => body.extend_from_slice(&chunk),
                None => return String::from_utf8(body).unwrap(),
            },
            Poll::Pending => reader.fill().await.unwrap(),
        }
    }
}

/// Posts, and lets the server answer with the given bytes.
async fn exchange(
    pool: &ConnectionPool,
    stream: &mut TcpStream,
    output: &str,
) -> Result<String, BoxError> {
    let answering = async {
        expect_request(stream, "{}").await;
        stream.write_all(output.as_bytes()).await.unwrap();
    };
    let (response, ()) = tokio::join!(pool.post(HEAD, b"{}"), answering);
    read_body(response).await
}

/// The first exchange, which opens the connection.
async fn first_exchange(
    server: &ScriptedServer,
    pool: &ConnectionPool,
    output: &str,
) -> (TcpStream, String) {
    let answering = async {
        let mut stream = server.accept().await;
        expect_request(&mut stream, "{}").await;
        stream.write_all(output.as_bytes()).await.unwrap();
        stream
    };
    let posting = async { read_body(pool.post(HEAD, b"{}").await).await.unwrap() };
    tokio::join!(answering, posting)
}

/// Gives the kernel time to deliver the actions of the other end.
async fn let_system_settle() {
    sleep(Duration::from_millis(20)).await;
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn connection_is_reused_after_delimited_responses() {
    let (server, pool) = ScriptedServer::start().await;
    let (mut stream, body) = first_exchange(&server, &pool, OK).await;
    assert_eq!(body, "ok");
    for (output, expected) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody", "body"),
        ("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", ""),
        ("HTTP/1.1 204 No Content\r\n\r\n", ""),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", "x"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n2;x\r\ndy\r\n0\r\nA: \
             b\r\n\r\n",
            "body",
        ),
    ] {
        assert_eq!(exchange(&pool, &mut stream, output).await.unwrap(), expected, "{output}");
    }
    assert!(server.has_no_more_connections().await);
}

/// A connection of another runtime would wake its user on another thread.
#[test]
fn connection_is_reused_only_on_its_runtime() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (here, there) = (runtime(), runtime());
    let (server, pool) = here.block_on(ScriptedServer::start());
    let (mut first, _) = here.block_on(first_exchange(&server, &pool, OK));
    let listener = server.0.into_std().unwrap();
    let server = there.block_on(async { ScriptedServer(TcpListener::from_std(listener).unwrap()) });
    assert_eq!(
        there.block_on(first_exchange(&server, &pool, OK)).1,
        "ok",
        "the second runtime opens its own connection"
    );
    assert_eq!(
        here.block_on(exchange(&pool, &mut first, OK)).unwrap(),
        "ok",
        "the first runtime reuses its connection"
    );
}

#[tokio::test]
async fn oldest_idle_connection_is_closed_at_limit() {
    let (server, pool) = ScriptedServer::start().await;
    let mut streams = Vec::new();
    for _ in 0..=OPTIONS.max_idle {
        let stream = TcpStream::connect(server.0.local_addr().unwrap()).await.unwrap();
        streams.push(server.accept().await);
        pool.idle.insert(HttpConnection::new(stream));
    }
    assert_eq!(pool.idle.lock().len(), OPTIONS.max_idle);
    assert_eq!(streams[0].read(&mut [0]).await.unwrap(), 0, "the oldest connection is closed");
    let last = streams.last_mut().unwrap();
    assert_eq!(exchange(&pool, last, OK).await.unwrap(), "ok", "the newest is used first");
}

#[tokio::test]
async fn connection_is_not_reused_after_close_or_stray_bytes() {
    for output in [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokstray",
        "HTTP/1.1 204 No Content\r\n\r\nstray",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: \
         chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ] {
        let (server, pool) = ScriptedServer::start().await;
        let (mut stream, _) = first_exchange(&server, &pool, output).await;
        assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0, "{output}");
        assert_eq!(first_exchange(&server, &pool, OK).await.1, "ok", "{output}");
    }
}

#[tokio::test]
async fn response_without_length_ends_at_close() {
    let (server, pool) = ScriptedServer::start().await;
    let answering = async {
        let mut stream = server.accept().await;
        expect_request(&mut stream, "{}").await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nsome").await.unwrap();
        let_system_settle().await;
        stream.write_all(b"thing").await.unwrap();
    };
    let posting = async { read_body(pool.post(HEAD, b"{}").await).await.unwrap() };
    assert_eq!(tokio::join!(posting, answering).0, "something");
    assert_eq!(first_exchange(&server, &pool, OK).await.1, "ok");
}

#[tokio::test]
async fn closed_or_unsolicited_idle_connection_is_dropped() {
    for stray in ["", "HTTP/1.1 408 Request Timeout\r\n\r\n"] {
        let (server, pool) = ScriptedServer::start().await;
        let (mut stream, _) = first_exchange(&server, &pool, OK).await;
        stream.write_all(stray.as_bytes()).await.unwrap();
        let kept = (!stray.is_empty()).then_some(stream);
        let_system_settle().await;
        assert_eq!(first_exchange(&server, &pool, OK).await.1, "ok", "{stray}");
        drop(kept);
    }
}

#[tokio::test]
async fn sent_request_is_never_resent() {
    for output in ["", "HTTP/1.1 200 O", "nonsense\r\n\r\n"] {
        let (server, pool) = ScriptedServer::start().await;
        let (mut stream, _) = first_exchange(&server, &pool, OK).await;
        let answering = async {
            expect_request(&mut stream, "{}").await;
            stream.write_all(output.as_bytes()).await.unwrap();
            drop(stream);
        };
        let (response, ()) = tokio::join!(pool.post(HEAD, b"{}"), answering);
        assert!(response.is_err(), "{output}");
        assert!(server.has_no_more_connections().await, "{output}");
    }
}

#[tokio::test]
async fn truncated_response_is_error() {
    for output in [
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
    ] {
        let (server, pool) = ScriptedServer::start().await;
        let answering = async {
            let mut stream = server.accept().await;
            expect_request(&mut stream, "{}").await;
            stream.write_all(output.as_bytes()).await.unwrap();
        };
        let (response, ()) = tokio::join!(pool.post(HEAD, b"{}"), answering);
        let cause = read_body(response).await.unwrap_err();
        assert!(cause.to_string().contains("before the end"), "{output}: {cause}");
    }
}

#[tokio::test]
async fn response_is_read_while_request_is_being_written() {
    let (server, pool) = ScriptedServer::start().await;
    let large = vec![b'x'; 1 << 24];
    let answering = async {
        let mut stream = server.accept().await;
        let output = "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno";
        stream.write_all(output.as_bytes()).await.unwrap();
        stream
    };
    let (response, stream) = tokio::join!(pool.post(HEAD, &large), answering);
    assert_eq!(response.as_ref().map_or(0, |(head, _)| head.status.as_u16()), 413);
    assert_eq!(read_body(response).await.unwrap(), "no");
    drop(stream);
    assert_eq!(first_exchange(&server, &pool, OK).await.1, "ok");
}

#[tokio::test]
async fn request_is_written_completely_after_response_began() {
    let (server, pool) = ScriptedServer::start().await;
    let large = "x".repeat(1 << 24);
    let answering = async {
        let mut stream = server.accept().await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n").await.unwrap();
        let_system_settle().await;
        expect_request(&mut stream, &large).await;
        stream.write_all(b"ok").await.unwrap();
    };
    let posting = async { read_body(pool.post(HEAD, large.as_bytes()).await).await.unwrap() };
    assert_eq!(tokio::join!(posting, answering).0, "ok");
}

#[tokio::test]
async fn large_responses_are_read_with_every_framing() {
    let large = "0123456789abcdef".repeat(1 << 16);
    let with_length = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{large}", large.len());
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{large}\r\n3\r\nend\r\n0\r\n\r\n",
        large.len()
    );
    let (server, pool) = ScriptedServer::start().await;
    let (mut stream, _) = first_exchange(&server, &pool, OK).await;
    for (output, end) in [(with_length, ""), (chunked, "end")] {
        for is_whole in [true, false] {
            let answering = async {
                expect_request(&mut stream, "{}").await;
                stream.write_all(output.as_bytes()).await.unwrap();
            };
            let posting = async {
                let response = pool.post(HEAD, b"{}").await;
                if is_whole {
                    read_body(response).await.unwrap()
                } else {
                    read_chunks(response.unwrap()).await
                }
            };
            let (body, ()) = tokio::join!(posting, answering);
            assert!(body == format!("{large}{end}"), "{end}");
        }
    }
    assert!(server.has_no_more_connections().await);
}

#[tokio::test]
async fn dropped_response_closes_connection() {
    let (server, pool) = ScriptedServer::start().await;
    let answering = async {
        let mut stream = server.accept().await;
        expect_request(&mut stream, "{}").await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok").await.unwrap();
        stream
    };
    let (response, mut stream) = tokio::join!(pool.post(HEAD, b"{}"), answering);
    drop(response.unwrap());
    assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn connection_refused_is_reported() {
    let (server, pool) = ScriptedServer::start().await;
    drop(server);
    let fault = pool.post(HEAD, b"{}").await.err().unwrap();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&*fault);
    let mut kinds = Vec::new();
    while let Some(next) = cause {
        kinds.extend(next.downcast_ref::<std::io::Error>().map(std::io::Error::kind));
        cause = next.source();
    }
    assert_eq!(kinds, [ErrorKind::ConnectionRefused]);
}

#[tokio::test]
async fn call_needs_one_poll_to_send_and_one_for_response() {
    let (server, pool) = ScriptedServer::start().await;
    let (mut stream, _) = first_exchange(&server, &pool, OK).await;
    let mut posting =
        std::pin::pin!(async { read_body(pool.post(HEAD, b"{}").await).await.unwrap() });
    let mut idly = Context::from_waker(Waker::noop());
    assert!(posting.as_mut().poll(&mut idly).is_pending());
    expect_request(&mut stream, "{}").await;
    stream.write_all(OK.as_bytes()).await.unwrap();
    let_system_settle().await;
    assert_eq!(posting.as_mut().poll(&mut idly), Poll::Ready("ok".to_owned()));
}

/// Makes a write batch current until the guard is dropped.
fn start_batch() -> (CurrentBatchGuard, JoinSet<()>) {
    let (batch, mut writing) = (WriteBatch::default(), JoinSet::new());
    let settled = batch.set_current();
    writing.spawn(batch.run());
    (settled, writing)
}

#[tokio::test]
async fn batched_requests_are_answered_individually() {
    let _batch = start_batch();
    let (server, pool) = ScriptedServer::start().await;
    let (mut first, _) = first_exchange(&server, &pool, OK).await;
    let mut posting =
        std::pin::pin!(async { read_body(pool.post(HEAD, b"{}").await).await.unwrap() });
    let mut idly = Context::from_waker(Waker::noop());
    assert!(posting.as_mut().poll(&mut idly).is_pending());
    let (second, body) = first_exchange(&server, &pool, OK).await;
    assert_eq!(body, "ok", "a second request on another connection");
    expect_request(&mut first, "{}").await;
    first.write_all(OK.as_bytes()).await.unwrap();
    let_system_settle().await;
    assert_eq!(posting.as_mut().poll(&mut idly), Poll::Ready("ok".to_owned()));
    let large = "x".repeat(1 << 20);
    let answering = async {
        expect_request(&mut first, &large).await;
        first.write_all(OK.as_bytes()).await.unwrap();
    };
    let (response, ()) = tokio::join!(pool.post(HEAD, large.as_bytes()), answering);
    assert_eq!(read_body(response).await.unwrap(), "ok", "a large request bypasses the batch");
    drop(second);
}

#[tokio::test]
async fn failed_batched_request_is_resent_on_new_connection() {
    let _batch = start_batch();
    let (server, pool) = ScriptedServer::start().await;
    let broken = TcpStream::connect(server.0.local_addr().unwrap()).await.unwrap();
    let other_end = server.accept().await;
    let broken = broken.into_std().unwrap();
    // The socket is not writable any more, and no check before the write shows that.
    broken.shutdown(std::net::Shutdown::Write).unwrap();
    pool.idle.insert(HttpConnection::new(TcpStream::from_std(broken).unwrap()));
    assert_eq!(first_exchange(&server, &pool, OK).await.1, "ok");
    drop(other_end);
}

#[tokio::test]
async fn bytes_before_request_are_not_its_response() {
    let (server, pool) = ScriptedServer::start().await;
    let stream = TcpStream::connect(server.0.local_addr().unwrap()).await.unwrap();
    let mut hasty = server.accept().await;
    // This batch is never run.
    let never = WriteBatch::default();
    let settled = never.set_current();
    pool.idle.insert(HttpConnection::new(stream));
    drop(settled);
    let _batch = start_batch();
    let answering = async {
        hasty
            .write_all(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
            .await
            .unwrap();
        let mut stream = server.accept().await;
        expect_request(&mut stream, "{}").await;
        stream.write_all(OK.as_bytes()).await.unwrap();
        assert_eq!(
            hasty.read(&mut [0]).await.unwrap_or(0),
            0,
            "no byte was sent on the first connection"
        );
    };
    let (response, ()) = tokio::join!(pool.post(HEAD, b"{}"), answering);
    assert_eq!(read_body(response).await.unwrap(), "ok");
}

#[tokio::test]
async fn request_is_sent_directly_when_batch_has_ended() {
    let (settled, writing) = start_batch();
    let (server, pool) = ScriptedServer::start().await;
    let (mut stream, _) = first_exchange(&server, &pool, OK).await;
    drop(writing);
    tokio::task::yield_now().await;
    assert_eq!(exchange(&pool, &mut stream, OK).await.unwrap(), "ok");
    drop(settled);
    assert_eq!(exchange(&pool, &mut stream, OK).await.unwrap(), "ok");
}

#[tokio::test]
async fn dropped_queued_request_is_never_sent() {
    let _batch = start_batch();
    let (server, pool) = ScriptedServer::start().await;
    let (mut stream, _) = first_exchange(&server, &pool, OK).await;
    let mut idly = Context::from_waker(Waker::noop());
    let mut posting = Box::pin(pool.post(HEAD, b"{}"));
    assert!(posting.as_mut().poll(&mut idly).is_pending());
    drop(posting);
    assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0, "closed without a byte");
}
