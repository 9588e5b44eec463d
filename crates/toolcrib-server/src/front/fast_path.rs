//! Fast path for POST requests to the gateway: one read, one response, one write. Any other request passes the
//! connection to hyper, with the unread input.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::body::{Body, HttpBody};
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite};
use toolcrib_http::server::response_writer::{self, BodyLength, DateCache};
use toolcrib_http::server::{
    BusyPoll, ConnectionIo, HeaderBlock, ParsedHead, PrefixedStream, ReadOutcome, RequestFraming,
    parse_head,
};
use toolcrib_http::write_batch::BatchWrite;
use toolcrib_wire::{RawJson, TextGuard};

use super::connection_limit::ConnectionState;
use super::listen::ConnectionOrigin;
use super::request_body::BodyError;
use super::response::{GatewayResponse, HttpResponse};
use super::route::{self, AuthInput};
use super::{Front, request_body, token_expiry};
use crate::body_budget::BudgetExceeded;
use crate::gateway;
use crate::identity::Principal;
use crate::shutdown::ShutdownListener;

/// Request line of the fast path.
const REQUEST_LINE: &[u8] = b"POST /mcp HTTP/1.1\r\n";

/// Serves requests of the fast path. Returns the connection when another request arrives.
pub(super) async fn serve<S>(
    front: &Arc<Front>,
    stream: S,
    (origin, state): (ConnectionOrigin, &ConnectionState),
    busy_poll: Option<BusyPoll>,
) -> Option<PrefixedStream<S>>
where
    S: AsyncRead + AsyncWrite + BatchWrite + Unpin,
{
    let read_timeout = front.limits().read;
    let io = ConnectionIo::new(stream, read_timeout, busy_poll);
    let mut connection =
        FastConnection { front, origin, state, read_timeout, io, date: DateCache::default() };
    let mut headers = HeaderBlock::for_request_line(REQUEST_LINE);
    let mut shutdown = front.shutdown.listener();
    let goes_on = loop {
        match connection.next_request(&mut headers, &mut shutdown).await {
            NextRequest::Fast(framing) => {
                match connection.handle_request(&headers, framing).await {
                    Some(()) => {}
                    None => break false,
                }
            }
            NextRequest::Other => break true,
            NextRequest::End => break false,
        }
    };
    // The last response may still be in a write batch.
    let is_written = connection.io.flush_all().await.is_ok();
    (goes_on && is_written).then(|| connection.io.into_prefixed_stream())
}

struct FastConnection<'a, S> {
    front: &'a Arc<Front>,
    origin: ConnectionOrigin,
    state: &'a ConnectionState,
    /// Timeout for a request head.
    read_timeout: Duration,
    io: ConnectionIo<S>,
    date: DateCache,
}

/// Next request on a connection.
enum NextRequest {
    Fast(RequestFraming),
    Other,
    End,
}

/// Methods return `None` when the connection must close.
impl<S: AsyncRead + AsyncWrite + BatchWrite + Unpin> FastConnection<'_, S> {
    async fn next_request(
        &mut self,
        headers: &mut HeaderBlock,
        shutdown: &mut ShutdownListener<'_>,
    ) -> NextRequest {
        self.io.start_request(self.read_timeout);
        let mut scanned = 0;
        loop {
            match parse_head(&mut self.io.input, scanned, headers) {
                ParsedHead::Complete(framing) => return NextRequest::Fast(framing),
                ParsedHead::Unsupported => return NextRequest::Other,
                ParsedHead::Partial => scanned = self.io.input.len(),
            }
            tokio::select! {
                biased;
                outcome = self.io.read_more() => match outcome {
                    ReadOutcome::Data => {}
                    ReadOutcome::End | ReadOutcome::TimedOut => return NextRequest::End,
                },
                // A partially received request is still answered.
                () = poll_fn(|cx| shutdown.poll(cx)), if scanned == 0 => return NextRequest::End,
            }
        }
    }

    async fn handle_request(
        &mut self,
        headers: &HeaderBlock,
        framing: RequestFraming,
    ) -> Option<()> {
        let input = AuthInput::new(headers, gateway::PATH, self.origin);
        let admitting = pin!(route::admit(self.front, input));
        let principal = match self.io.run_while_connected(admitting).await? {
            Ok(principal) => principal,
            Err(refused) => return self.send_rejection(*refused, framing).await,
        };
        self.state.mark_admitted();
        let (body, guard) = match self.read_body(headers, framing.body_length, &principal).await {
            Ok(body) => body,
            Err(refused) => return self.send_rejection(*refused, framing).await,
        };
        let (entry_point, _) = self.origin;
        let serving =
            gateway::serve_whole(self.front, &principal, entry_point, headers, (body, guard));
        let answering = pin!(serving);
        match self.io.run_while_connected(answering).await? {
            GatewayResponse::Message(status, message) => {
                self.send_message(status, &message, framing.closes).await
            }
            GatewayResponse::Http(response) => {
                let expiry = Some(self.state.expiry_sender());
                let response = token_expiry::expire_with_token(
                    self.front,
                    headers,
                    entry_point,
                    &principal,
                    expiry,
                    response,
                );
                self.send_response(response, framing.closes).await
            }
        }
    }

    /// Reads the body, which usually has already arrived.
    async fn read_body(
        &mut self,
        headers: &HeaderBlock,
        length: usize,
        principal: &Principal,
    ) -> Result<(Bytes, TextGuard), Box<HttpResponse>> {
        if self.io.input.len() >= length {
            return Ok((self.io.take_input(length), None));
        }
        let (limits, read_timeout) = self.front.gateway.message_limits();
        request_body::check_body(headers, length, &limits)?;
        let mut reservation =
            self.front.gateway.reservation(principal.may_choose_agent, &principal.agent);
        let count =
            |size| reservation.resize(size).map_err(|BudgetExceeded| BodyError::BudgetExceeded);
        self.io
            .read_at_least(length, read_timeout, count)
            .await
            .map_err(request_body::body_error_response)?;
        Ok((self.io.take_input(length), reservation.into_held()))
    }

    /// Sends a response to a request whose body may be incomplete, and then never completes.
    async fn send_rejection(
        &mut self,
        response: HttpResponse,
        framing: RequestFraming,
    ) -> Option<()> {
        let is_whole = self.io.input.len() >= framing.body_length;
        match is_whole {
            true => drop(self.io.take_input(framing.body_length)),
            // The rest of the body is not used.
            false => self.io.input = BytesMut::new(),
        }
        let sent = self.send_response(response, framing.closes || !is_whole).await;
        if !is_whole {
            self.io.linger().await;
        }
        sent
    }

    /// Sends one JSON-RPC message, the usual response.
    async fn send_message(
        &mut self,
        status: StatusCode,
        message: &RawJson,
        closes: bool,
    ) -> Option<()> {
        let closes = closes || self.front.is_closing();
        let size = BodyLength::Known(message.as_bytes().len() as u64);
        response_writer::write_status_line(&mut self.io.output, status);
        response_writer::write_header(&mut self.io.output, "content-type", b"application/json");
        response_writer::write_head_end(
            &mut self.io.output,
            size,
            closes,
            self.date.format_at(SystemTime::now()),
        );
        self.io.write_buffered(message.as_bytes()).await.ok()?;
        self.finish_response(closes).await
    }

    async fn send_response(&mut self, response: HttpResponse, closes: bool) -> Option<()> {
        let closes = closes || self.front.is_closing();
        let (head, body) = response.into_parts();
        let size = BodyLength::for_response(head.status, body.size_hint().exact());
        let date = self.date.format_at(SystemTime::now());
        response_writer::write_head(&mut self.io.output, &head, size, closes, date);
        if size != BodyLength::Absent {
            // Boxed, so that the common future stays small.
            Box::pin(self.send_body(body, size)).await?;
        }
        self.finish_response(closes || self.state.has_expired()).await
    }

    /// Flushes the response, and closes the connection if it was the last one.
    async fn finish_response(&mut self, closes: bool) -> Option<()> {
        self.io.flush().await.ok()?;
        if closes {
            self.io.shutdown().await;
        }
        (!closes).then_some(())
    }

    async fn send_body(&mut self, mut body: Body, size: BodyLength) -> Option<()> {
        while let Some(bytes) = self.next_chunk(&mut body).await? {
            // An empty chunk would end the body.
            if !bytes.is_empty() {
                size.write_chunk_start(&mut self.io.output, bytes.len());
                self.io.write_buffered(&bytes).await.ok()?;
                size.write_chunk_end(&mut self.io.output);
            }
        }
        size.write_last_chunk(&mut self.io.output);
        Some(())
    }

    /// Reads the next part of a response body, after flushing what was written before.
    async fn next_chunk(&mut self, body: &mut Body) -> Option<Option<Bytes>> {
        let frame = match body.frame().now_or_never() {
            Some(frame) => frame,
            None => {
                self.io.flush().await.ok()?;
                self.io.run_while_connected(pin!(body.frame())).await?
            }
        };
        match frame {
            Some(frame) => Some(Some(frame.ok()?.into_data().unwrap_or_default())),
            None => Some(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tempfile::TempDir;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinSet;
    use toolcrib::Host;
    use toolcrib_http::write_batch::{BatchedStream, WriteBatch};

    use super::*;
    use crate::front::listen::PeerAddress;
    use crate::identity::{EntryPoint, Identity};

    const NOTIFICATION: &[u8] =
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
        Mcp-Protocol-Version: 2026-07-28\r\nContent-Length: 39\r\n\r\n\
        {\"jsonrpc\":\"2.0\",\"method\":\"heard/this\"}";

    async fn send_notification(client: &mut TcpStream) {
        client.write_all(NOTIFICATION).await.unwrap();
        let mut answer = [0; 1000];
        let length = client.read(&mut answer).await.unwrap();
        let answer = str::from_utf8(&answer[..length]).unwrap();
        assert!(answer.starts_with("HTTP/1.1 202 ") && answer.ends_with("\r\n\r\n"), "{answer}");
    }

    /// A host without servers, and a connection to it.
    async fn connected() -> (TempDir, Arc<Front>, TcpStream, BatchedStream<TcpStream>) {
        let folder = tempfile::tempdir().unwrap();
        let [root, state] = ["root", "state"].map(|name| folder.path().join(name));
        std::fs::create_dir(&root).unwrap();
        let host = Host::builder(root, state).start().await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        (folder, Front::new(host, Identity::default()), client, BatchedStream::new(stream))
    }

    /// Counts the polls of a connection for `requests` notifications.
    async fn polls(requests: usize) -> usize {
        let (_folder, front, mut client, stream) = connected().await;
        let polls = Arc::new(AtomicUsize::new(0));
        let (mut tasks, counted) = (JoinSet::new(), Arc::clone(&polls));
        let host = front.host.clone();
        tasks.spawn(async move {
            let (origin, state) =
                ((EntryPoint::Loopback, PeerAddress(None)), ConnectionState::default());
            let mut serving = pin!(serve(&front, stream, (origin, &state), None));
            let counting = poll_fn(|cx| {
                counted.fetch_add(1, Ordering::Relaxed);
                serving.as_mut().poll(cx)
            });
            counting.await.is_none()
        });
        // The first write also waits for writability.
        send_notification(&mut client).await;
        let before = polls.load(Ordering::Relaxed);
        for _ in 0..requests {
            send_notification(&mut client).await;
        }
        let after = polls.load(Ordering::Relaxed);
        drop(client);
        assert!(tasks.join_next().await.unwrap().unwrap(), "the connection has closed");
        host.close().await;
        after - before
    }

    /// Each additional poll of the connection future costs time on every request.
    #[tokio::test]
    async fn simple_request_polls_its_connection_twice() {
        assert_eq!(polls(20).await, 2 * 20);
    }

    #[tokio::test]
    async fn batched_response_polls_its_connection_once() {
        let (batch, mut writing) = (WriteBatch::default(), JoinSet::new());
        let _guard = batch.set_current();
        writing.spawn(batch.run());
        assert_eq!(polls(20).await, 20);
    }

    /// A batched response must not be lost when the connection closes.
    #[tokio::test]
    async fn half_closed_client_still_gets_its_response() {
        let (batch, mut writing) = (WriteBatch::default(), JoinSet::new());
        let _guard = batch.set_current();
        writing.spawn(batch.run());
        let (_folder, front, mut client, stream) = connected().await;
        let host = front.host.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let (origin, state) =
                ((EntryPoint::Loopback, PeerAddress(None)), ConnectionState::default());
            serve(&front, stream, (origin, &state), None).await.is_none()
        });
        send_notification(&mut client).await;
        client.write_all(NOTIFICATION).await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
        assert!(tasks.join_next().await.unwrap().unwrap(), "the connection has closed");
        host.close().await;
    }
}
