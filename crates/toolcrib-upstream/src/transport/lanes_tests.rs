//! Connections against a server that does exactly what a script says.

use std::io::ErrorKind;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::*;
use crate::burst::Settled;
use crate::transport::answer::Body;
use crate::transport::http_fault::HttpFault;

const HEAD: &[u8] = b"POST /mcp HTTP/1.1\r\nhost: a\r\n";
const LIMIT: usize = 1 << 24;

/// A server of which the test is the other half.
struct Server(TcpListener);

impl Server {
    async fn start() -> (Self, Lanes) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        (Self(listener), Lanes::to(&Url::parse(&url).unwrap(), None).unwrap())
    }

    async fn accept(&self) -> TcpStream {
        self.0.accept().await.unwrap().0
    }

    /// Nobody has come besides.
    async fn is_left_alone(&self) -> bool {
        timeout(Duration::from_millis(50), self.0.accept()).await.is_err()
    }
}

async fn hear(stream: &mut TcpStream, body: &str) {
    let length = format!("content-length: {}\r\n\r\n", body.len());
    let expected = [HEAD, length.as_bytes(), body.as_bytes()].concat();
    let mut heard = vec![0; expected.len()];
    stream.read_exact(&mut heard).await.unwrap();
    assert_eq!(String::from_utf8(heard), String::from_utf8(expected));
}

async fn whole(answer: Result<Answer, Fault>) -> Result<String, HttpFault> {
    let answer = answer.map_err(|fault| HttpFault::Network(fault.into()))?;
    let body = Body::new(answer, None).whole(LIMIT, 0).await?;
    Ok(String::from_utf8(body).unwrap())
}

async fn in_chunks(answer: Answer) -> String {
    let mut body = Body::new(answer, None);
    let mut found = Vec::new();
    while let Some(chunk) = body.chunk().await.unwrap() {
        found.extend_from_slice(&chunk);
    }
    String::from_utf8(found).unwrap()
}

/// Posts, and has the server say something.
async fn exchange(lanes: &Lanes, stream: &mut TcpStream, said: &str) -> Result<String, HttpFault> {
    let answering = async {
        hear(stream, "{}").await;
        stream.write_all(said.as_bytes()).await.unwrap();
    };
    let (answer, ()) = tokio::join!(lanes.post(HEAD, b"{}"), answering);
    whole(answer).await
}

/// The first exchange, which opens the connection.
async fn begin(server: &Server, lanes: &Lanes, said: &str) -> (TcpStream, String) {
    let answering = async {
        let mut stream = server.accept().await;
        hear(&mut stream, "{}").await;
        stream.write_all(said.as_bytes()).await.unwrap();
        stream
    };
    let posting = async { whole(lanes.post(HEAD, b"{}").await).await.unwrap() };
    tokio::join!(answering, posting)
}

/// Gives the system time to tell what the other end did.
async fn settle() {
    sleep(Duration::from_millis(20)).await;
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn a_connection_is_used_again_after_every_answer_that_has_an_end() {
    let (server, lanes) = Server::start().await;
    let (mut stream, body) = begin(&server, &lanes, OK).await;
    assert_eq!(body, "ok");
    for (said, expected) in [
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
        assert_eq!(exchange(&lanes, &mut stream, said).await.unwrap(), expected, "{said}");
    }
    assert!(server.is_left_alone().await);
}

/// Whoever used a connection of another runtime would be woken from thread to thread.
#[test]
fn a_connection_is_used_again_only_where_it_was_opened() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (here, there) = (runtime(), runtime());
    let (server, lanes) = here.block_on(Server::start());
    let (mut first, _) = here.block_on(begin(&server, &lanes, OK));
    let listener = server.0.into_std().unwrap();
    let server = there.block_on(async { Server(TcpListener::from_std(listener).unwrap()) });
    assert_eq!(there.block_on(begin(&server, &lanes, OK)).1, "ok", "a second one");
    assert_eq!(here.block_on(exchange(&lanes, &mut first, OK)).unwrap(), "ok", "the first");
}

#[tokio::test]
async fn of_too_many_idle_connections_the_oldest_is_closed() {
    let (server, lanes) = Server::start().await;
    let mut streams = Vec::new();
    for _ in 0..=IDLE_CONNECTIONS {
        let stream = TcpStream::connect(server.0.local_addr().unwrap()).await.unwrap();
        streams.push(server.accept().await);
        lanes.idle.put(Lane::over(stream));
    }
    assert_eq!(lanes.idle.lanes().len(), IDLE_CONNECTIONS);
    assert_eq!(streams[0].read(&mut [0]).await.unwrap(), 0, "the first has gone");
    let last = streams.last_mut().unwrap();
    assert_eq!(exchange(&lanes, last, OK).await.unwrap(), "ok", "the newest is used first");
}

#[tokio::test]
async fn a_connection_that_may_not_be_used_again_is_not() {
    for said in [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokstray",
        "HTTP/1.1 204 No Content\r\n\r\nstray",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: \
         chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ] {
        let (server, lanes) = Server::start().await;
        let (mut stream, _) = begin(&server, &lanes, said).await;
        assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0, "{said}");
        assert_eq!(begin(&server, &lanes, OK).await.1, "ok", "{said}");
    }
}

#[tokio::test]
async fn an_answer_without_a_length_lasts_until_the_connection_is_closed() {
    let (server, lanes) = Server::start().await;
    let answering = async {
        let mut stream = server.accept().await;
        hear(&mut stream, "{}").await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nsome").await.unwrap();
        settle().await;
        stream.write_all(b"thing").await.unwrap();
    };
    let posting = async { whole(lanes.post(HEAD, b"{}").await).await.unwrap() };
    assert_eq!(tokio::join!(posting, answering).0, "something");
    assert_eq!(begin(&server, &lanes, OK).await.1, "ok");
}

#[tokio::test]
async fn an_idle_connection_that_the_server_closed_or_spoke_on_is_left() {
    for stray in ["", "HTTP/1.1 408 Request Timeout\r\n\r\n"] {
        let (server, lanes) = Server::start().await;
        let (mut stream, _) = begin(&server, &lanes, OK).await;
        stream.write_all(stray.as_bytes()).await.unwrap();
        let kept = (!stray.is_empty()).then_some(stream);
        settle().await;
        assert_eq!(begin(&server, &lanes, OK).await.1, "ok", "{stray}");
        drop(kept);
    }
}

#[tokio::test]
async fn a_request_that_was_sent_is_never_sent_again() {
    for said in ["", "HTTP/1.1 200 O", "nonsense\r\n\r\n"] {
        let (server, lanes) = Server::start().await;
        let (mut stream, _) = begin(&server, &lanes, OK).await;
        let answering = async {
            hear(&mut stream, "{}").await;
            stream.write_all(said.as_bytes()).await.unwrap();
            drop(stream);
        };
        let (answer, ()) = tokio::join!(lanes.post(HEAD, b"{}"), answering);
        assert!(answer.is_err(), "{said}");
        assert!(server.is_left_alone().await, "{said}");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_a_fault() {
    for said in [
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
    ] {
        let (server, lanes) = Server::start().await;
        let answering = async {
            let mut stream = server.accept().await;
            hear(&mut stream, "{}").await;
            stream.write_all(said.as_bytes()).await.unwrap();
        };
        let (answer, ()) = tokio::join!(lanes.post(HEAD, b"{}"), answering);
        let fault = whole(answer).await.unwrap_err();
        let HttpFault::Network(cause) = fault else { panic!("{fault}") };
        assert!(cause.to_string().contains("before the end"), "{said}: {cause}");
    }
}

#[tokio::test]
async fn an_answer_is_taken_though_the_request_is_still_being_written() {
    let (server, lanes) = Server::start().await;
    let large = vec![b'x'; 1 << 24];
    let answering = async {
        let mut stream = server.accept().await;
        let said = "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno";
        stream.write_all(said.as_bytes()).await.unwrap();
        stream
    };
    let (answer, stream) = tokio::join!(lanes.post(HEAD, &large), answering);
    assert_eq!(answer.as_ref().map_or(0, |answer| answer.status().as_u16()), 413);
    assert_eq!(whole(answer).await.unwrap(), "no");
    drop(stream);
    assert_eq!(begin(&server, &lanes, OK).await.1, "ok");
}

#[tokio::test]
async fn a_request_is_written_to_its_end_though_its_answer_has_begun() {
    let (server, lanes) = Server::start().await;
    let large = "x".repeat(1 << 24);
    let answering = async {
        let mut stream = server.accept().await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n").await.unwrap();
        settle().await;
        hear(&mut stream, &large).await;
        stream.write_all(b"ok").await.unwrap();
    };
    let posting = async { whole(lanes.post(HEAD, large.as_bytes()).await).await.unwrap() };
    assert_eq!(tokio::join!(posting, answering).0, "ok");
}

#[tokio::test]
async fn large_answers_come_whole_however_they_are_framed() {
    let large = "0123456789abcdef".repeat(1 << 16);
    let with_length = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{large}", large.len());
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{large}\r\n3\r\nend\r\n0\r\n\r\n",
        large.len()
    );
    let (server, lanes) = Server::start().await;
    let (mut stream, _) = begin(&server, &lanes, OK).await;
    for (said, end) in [(with_length, ""), (chunked, "end")] {
        for is_whole in [true, false] {
            let answering = async {
                hear(&mut stream, "{}").await;
                stream.write_all(said.as_bytes()).await.unwrap();
            };
            let posting = async {
                let answer = lanes.post(HEAD, b"{}").await;
                if is_whole {
                    whole(answer).await.unwrap()
                } else {
                    in_chunks(answer.unwrap()).await
                }
            };
            let (body, ()) = tokio::join!(posting, answering);
            assert!(body == format!("{large}{end}"), "{end}");
        }
    }
    assert!(server.is_left_alone().await);
}

#[tokio::test]
async fn no_answer_is_larger_than_it_may_be_however_it_comes() {
    for said in [OK, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"] {
        let (server, lanes) = Server::start().await;
        let answering = async {
            let mut stream = server.accept().await;
            stream.write_all(said.as_bytes()).await.unwrap();
            stream
        };
        let (answer, _stream) = tokio::join!(lanes.post(HEAD, b"{}"), answering);
        let read = Body::new(answer.unwrap(), None).whole(1, 0).await;
        assert!(matches!(read, Err(HttpFault::TooLarge { limit: 1 })), "{said}");
    }
}

#[tokio::test]
async fn an_answer_that_is_dropped_closes_its_connection() {
    let (server, lanes) = Server::start().await;
    let answering = async {
        let mut stream = server.accept().await;
        hear(&mut stream, "{}").await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok").await.unwrap();
        stream
    };
    let (answer, mut stream) = tokio::join!(lanes.post(HEAD, b"{}"), answering);
    drop(answer.unwrap());
    assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn nobody_there_is_told_as_such() {
    let (server, lanes) = Server::start().await;
    drop(server);
    let fault = lanes.post(HEAD, b"{}").await.err().unwrap();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&*fault);
    let mut kinds = Vec::new();
    while let Some(next) = cause {
        kinds.extend(next.downcast_ref::<std::io::Error>().map(std::io::Error::kind));
        cause = next.source();
    }
    assert_eq!(kinds, [ErrorKind::ConnectionRefused]);
}

#[tokio::test]
async fn a_call_is_polled_once_to_send_it_and_once_for_its_answer() {
    let (server, lanes) = Server::start().await;
    let (mut stream, _) = begin(&server, &lanes, OK).await;
    let mut posting = std::pin::pin!(async { whole(lanes.post(HEAD, b"{}").await).await.unwrap() });
    let mut idly = Context::from_waker(Waker::noop());
    assert!(posting.as_mut().poll(&mut idly).is_pending());
    hear(&mut stream, "{}").await;
    stream.write_all(OK.as_bytes()).await.unwrap();
    settle().await;
    assert_eq!(posting.as_mut().poll(&mut idly), Poll::Ready("ok".to_owned()));
}

/// What is said on this thread goes out together for as long as this lives.
fn together() -> (Settled, JoinSet<()>) {
    let (burst, mut writing) = (Burst::default(), JoinSet::new());
    let settled = burst.settle();
    writing.spawn(burst.run());
    (settled, writing)
}

#[tokio::test]
async fn requests_that_go_out_together_are_answered_each() {
    let _together = together();
    let (server, lanes) = Server::start().await;
    let (mut first, _) = begin(&server, &lanes, OK).await;
    let mut posting = std::pin::pin!(async { whole(lanes.post(HEAD, b"{}").await).await.unwrap() });
    let mut idly = Context::from_waker(Waker::noop());
    assert!(posting.as_mut().poll(&mut idly).is_pending());
    let (second, body) = begin(&server, &lanes, OK).await;
    assert_eq!(body, "ok", "another one meanwhile");
    hear(&mut first, "{}").await;
    first.write_all(OK.as_bytes()).await.unwrap();
    settle().await;
    assert_eq!(posting.as_mut().poll(&mut idly), Poll::Ready("ok".to_owned()));
    let large = "x".repeat(1 << 20);
    let answering = async {
        hear(&mut first, &large).await;
        first.write_all(OK.as_bytes()).await.unwrap();
    };
    let (answer, ()) = tokio::join!(lanes.post(HEAD, large.as_bytes()), answering);
    assert_eq!(whole(answer).await.unwrap(), "ok", "what is large goes alone");
    drop(second);
}

#[tokio::test]
async fn a_request_that_could_not_go_out_together_is_sent_on_another_connection() {
    let _together = together();
    let (server, lanes) = Server::start().await;
    let broken = TcpStream::connect(server.0.local_addr().unwrap()).await.unwrap();
    let other_end = server.accept().await;
    let broken = broken.into_std().unwrap();
    // It cannot be written to, and nothing tells so before.
    broken.shutdown(std::net::Shutdown::Write).unwrap();
    lanes.idle.put(Lane::over(TcpStream::from_std(broken).unwrap()));
    assert_eq!(begin(&server, &lanes, OK).await.1, "ok");
    drop(other_end);
}

#[tokio::test]
async fn what_comes_before_a_request_went_out_is_not_its_answer() {
    let (server, lanes) = Server::start().await;
    let stream = TcpStream::connect(server.0.local_addr().unwrap()).await.unwrap();
    let mut hasty = server.accept().await;
    // Nobody writes what is put there.
    let never = Burst::default();
    let settled = never.settle();
    lanes.idle.put(Lane::over(stream));
    drop(settled);
    let _together = together();
    let answering = async {
        hasty
            .write_all(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
            .await
            .unwrap();
        let mut stream = server.accept().await;
        hear(&mut stream, "{}").await;
        stream.write_all(OK.as_bytes()).await.unwrap();
        assert_eq!(hasty.read(&mut [0]).await.unwrap_or(0), 0, "nothing was said there");
    };
    let (answer, ()) = tokio::join!(lanes.post(HEAD, b"{}"), answering);
    assert_eq!(whole(answer).await.unwrap(), "ok");
}

#[tokio::test]
async fn a_request_is_sent_though_nobody_is_left_who_would_send_it_with_others() {
    let (settled, writing) = together();
    let (server, lanes) = Server::start().await;
    let (mut stream, _) = begin(&server, &lanes, OK).await;
    drop(writing);
    tokio::task::yield_now().await;
    assert_eq!(exchange(&lanes, &mut stream, OK).await.unwrap(), "ok");
    drop(settled);
    assert_eq!(exchange(&lanes, &mut stream, OK).await.unwrap(), "ok");
}

#[tokio::test]
async fn a_request_that_is_given_up_before_it_goes_out_is_never_sent() {
    let _together = together();
    let (server, lanes) = Server::start().await;
    let (mut stream, _) = begin(&server, &lanes, OK).await;
    let mut idly = Context::from_waker(Waker::noop());
    let mut posting = Box::pin(lanes.post(HEAD, b"{}"));
    assert!(posting.as_mut().poll(&mut idly).is_pending());
    drop(posting);
    assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0, "closed, and nothing was said");
}
