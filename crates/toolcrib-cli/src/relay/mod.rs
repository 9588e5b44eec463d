//! Relay of one client to successive hosts. Messages pass unchanged. When a host has ended, the next host gets the
//! client's session state.

mod forwarding;
mod frame_reader;
mod host_requests;
mod relay_state;
#[cfg(test)]
mod relay_state_tests;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcrib_server::message_stream::LIMITS;
use toolcrib_wire::{Frame, FrameError, MessageLimits, RawJson};

use forwarding::{encode_line, forward_frame};
use frame_reader::{ClientInbox, FrameReader};
use relay_state::{RelayState, Replay};

/// Limits for messages of a host. The host limits message sizes itself; lists of many servers are combined.
const HOST_LIMITS: MessageLimits =
    MessageLimits { size: usize::MAX, depth: 2 * LIMITS.depth, batch: LIMITS.batch };

/// Maximum number of messages that wait for the client. A client that does not read stops the reading from its host.
const QUEUE_CAPACITY: usize = 16;

/// Time limit for a host's response to `initialize`. It does not include the start of servers.
const OPENING_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit for the last messages.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// One client with its streams.
#[derive(Debug)]
pub(crate) struct Relay<R> {
    inbox: ClientInbox<R>,
    to_client: mpsc::Sender<Vec<u8>>,
    writer: JoinSet<()>,
    state: RefCell<RelayState>,
}

/// The side that ended a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndedBy {
    Client,
    Host,
}

impl<R: AsyncRead + Unpin> Relay<R> {
    pub(crate) fn new(input: R, output: impl AsyncWrite + Unpin + Send + 'static) -> Self {
        let (to_client, queue) = mpsc::channel(QUEUE_CAPACITY);
        let mut writer = JoinSet::new();
        writer.spawn(write_lines(queue, output));
        Relay {
            inbox: ClientInbox::new(input, &LIMITS),
            to_client,
            writer,
            state: RefCell::default(),
        }
    }

    /// Relays to a host until either side ends.
    pub(crate) async fn relay_to(&mut self, host: impl AsyncRead + AsyncWrite + Unpin) -> EndedBy {
        self.relay_session(host, OPENING_TIMEOUT).await
    }

    /// Relays to the last host, which the client does not outlive.
    pub(crate) async fn relay_to_last(&mut self, host: impl AsyncRead + AsyncWrite + Unpin) {
        self.state.borrow_mut().set_last_host();
        // The host runs in this process, so no timeout applies.
        self.relay_session(host, Duration::MAX).await;
    }

    /// Buffers the client's messages between hosts. Returns when the client has closed and needs no host.
    pub(crate) async fn buffer_client(&mut self) {
        self.inbox.buffer().await;
    }

    /// Writes the remaining messages. A client that does not read by now is abandoned.
    pub(crate) async fn close(mut self) {
        drop(self.to_client);
        let _ = timeout(DRAIN_TIMEOUT, self.writer.join_next()).await;
    }

    async fn relay_session(
        &mut self,
        host: impl AsyncRead + AsyncWrite + Unpin,
        opening_timeout: Duration,
    ) -> EndedBy {
        let (from, mut to) = split(host);
        let mut from = FrameReader::new(from, &HOST_LIMITS);
        let Replay { opening, requests: replay } = self.state.borrow_mut().replay();
        let opened = timeout(opening_timeout, self.open_session(opening, &mut from, &mut to)).await;
        let ended_by = match opened {
            Ok(true) => self.forward_both_ways(&replay, from, &mut to).await,
            _ => EndedBy::Host,
        };
        let last = self.state.borrow_mut().on_host_end();
        self.send_to_client(&last).await;
        ended_by
    }

    /// Sends the opening request, if there is one, and waits for its response. Returns false if the host ended.
    async fn open_session(
        &self,
        opening: Option<RawJson>,
        from: &mut FrameReader<impl AsyncRead + Unpin>,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> bool {
        let Some(opening) = opening else { return true };
        if send(to, &encode_line(&opening)).await.is_err() {
            return false;
        }
        while self.state.borrow().is_opening() {
            let Some(result) = from.next().await else { return false };
            if !forward_host_frame(result, &self.to_client, &self.state).await {
                return false;
            }
        }
        true
    }

    /// Forwards both directions independently.
    async fn forward_both_ways(
        &mut self,
        replay: &[RawJson],
        from: FrameReader<impl AsyncRead + Unpin>,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> EndedBy {
        let change_notifications = self.state.borrow().change_notifications();
        self.send_to_client(&change_notifications).await;
        let Relay { inbox, to_client, state, .. } = self;
        let mut back = std::pin::pin!(forward_to_client(from, to_client, state));
        let passed = tokio::select! {
            ended_by = &mut back => return ended_by,
            passed = forward_to_host(replay, inbox, to_client, state, to) => passed,
        };
        match passed {
            // The host answers earlier requests within its own time limit and then closes the stream.
            Ok(()) => {
                back.await;
                EndedBy::Client
            }
            // The host's last messages may be unread.
            Err(_) => timeout(DRAIN_TIMEOUT, back).await.unwrap_or(EndedBy::Host),
        }
    }

    async fn send_to_client(&self, messages: &[RawJson]) {
        for message in messages {
            // A closed client ends the relay elsewhere.
            let _ = self.to_client.send(encode_line(message)).await;
        }
    }
}

/// Forwards from the client to the host until the client closes. A closed host is an error.
async fn forward_to_host(
    replay: &[RawJson],
    inbox: &mut ClientInbox<impl AsyncRead + Unpin>,
    to_client: &mpsc::Sender<Vec<u8>>,
    state: &RefCell<RelayState>,
    to: &mut (impl AsyncWrite + Unpin),
) -> std::io::Result<()> {
    for message in replay {
        send(to, &encode_line(message)).await?;
    }
    while let Some(result) = inbox.next().await {
        let forwarded =
            forward_frame(result, &LIMITS, |message| state.borrow_mut().on_client_message(message));
        if !forwarded.to_sender.is_empty() {
            // A closed client ends the relay elsewhere.
            let _ = to_client.send(forwarded.to_sender).await;
        }
        send(to, &forwarded.to_receiver).await?;
    }
    to.shutdown().await
}

/// Forwards from the host to the client until either side ends.
async fn forward_to_client(
    mut from: FrameReader<impl AsyncRead + Unpin>,
    to_client: &mpsc::Sender<Vec<u8>>,
    state: &RefCell<RelayState>,
) -> EndedBy {
    while let Some(result) = from.next().await {
        if !forward_host_frame(result, to_client, state).await {
            return EndedBy::Client;
        }
    }
    EndedBy::Host
}

/// Forwards one frame of the host. Returns false if the client no longer reads.
async fn forward_host_frame(
    result: Result<Frame, FrameError>,
    to_client: &mpsc::Sender<Vec<u8>>,
    state: &RefCell<RelayState>,
) -> bool {
    // A truncated last frame is dropped.
    let Ok(frame) = result else { return true };
    let forwarded = forward_frame(Ok(frame), &HOST_LIMITS, |message| {
        state.borrow_mut().on_host_message(message)
    });
    forwarded.to_receiver.is_empty() || to_client.send(forwarded.to_receiver).await.is_ok()
}

async fn send(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> std::io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}

/// Writes messages until the queue closes or the client stops reading.
async fn write_lines(mut queue: mpsc::Receiver<Vec<u8>>, mut output: impl AsyncWrite + Unpin) {
    while let Some(bytes) = queue.recv().await {
        if send(&mut output, &bytes).await.is_err() {
            return;
        }
    }
}
