//! A client that outlives its hosts: what it says and hears is passed on as it was written, and when its host has
//! ended, the next one is told what it has to know.

mod frames;
mod memory;
#[cfg(test)]
mod memory_tests;
mod passing;
mod questions;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcrib_server::lines::LIMITS;
use toolcrib_wire::{Frame, FrameError, Limits, Raw};

use frames::{Frames, Inbox};
use memory::{Memory, Replay};
use passing::{line, pass};

/// What a host may say. It holds its messages whole, too, and they are no larger than what it was let to read; lists of
/// many servers are together.
const OF_HOST: Limits = Limits { size: usize::MAX, depth: 2 * LIMITS.depth, batch: LIMITS.batch };

/// Messages that wait for the client. While it does not read, nothing is read of its host.
const QUEUE: usize = 16;

/// How long a host may take to open a conversation. No server is waited for.
const OPENING: Duration = Duration::from_secs(30);

/// How long the last of what was said may take to come.
const LAST: Duration = Duration::from_secs(2);

/// One client with its streams.
#[derive(Debug)]
pub(crate) struct Relay<R> {
    inbox: Inbox<R>,
    said: mpsc::Sender<Vec<u8>>,
    writer: JoinSet<()>,
    memory: RefCell<Memory>,
}

/// Who ended a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Client,
    Host,
}

impl<R: AsyncRead + Unpin> Relay<R> {
    pub(crate) fn new(input: R, output: impl AsyncWrite + Unpin + Send + 'static) -> Self {
        let (said, queue) = mpsc::channel(QUEUE);
        let mut writer = JoinSet::new();
        writer.spawn(write(queue, output));
        Relay { inbox: Inbox::new(input, &LIMITS), said, writer, memory: RefCell::default() }
    }

    /// Speaks with a host until one of both ends.
    pub(crate) async fn through(&mut self, host: impl AsyncRead + AsyncWrite + Unpin) -> Left {
        self.speak(host, OPENING).await
    }

    /// Speaks with a host that the client ends with.
    pub(crate) async fn last(&mut self, host: impl AsyncRead + AsyncWrite + Unpin) {
        self.memory.borrow_mut().settle();
        // It is of this process, whose end is its end.
        self.speak(host, Duration::MAX).await;
    }

    /// Hears the client while it has no host, until it has ended and wants nothing of one.
    pub(crate) async fn hear(&mut self) {
        self.inbox.keep().await;
    }

    /// What was said is written. Whoever does not read now will not.
    pub(crate) async fn end(mut self) {
        drop(self.said);
        let _ = timeout(LAST, self.writer.join_next()).await;
    }

    async fn speak(
        &mut self,
        host: impl AsyncRead + AsyncWrite + Unpin,
        longest: Duration,
    ) -> Left {
        let (from, mut to) = split(host);
        let mut from = Frames::new(from, &OF_HOST);
        let Replay { first, then } = self.memory.borrow_mut().replay();
        let opened = timeout(longest, self.open(first, &mut from, &mut to)).await;
        let left = match opened {
            Ok(true) => self.converse(&then, from, &mut to).await,
            _ => Left::Host,
        };
        let last = self.memory.borrow_mut().host_ended();
        self.tell(&last).await;
        left
    }

    /// Whether the host has answered what opens the conversation, if anything does.
    async fn open(
        &self,
        first: Option<Raw>,
        from: &mut Frames<impl AsyncRead + Unpin>,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> bool {
        let Some(first) = first else { return true };
        if send(to, &line(&first)).await.is_err() {
            return false;
        }
        while self.memory.borrow().is_opening() {
            let Some(found) = from.next().await else { return false };
            if !bring(found, &self.said, &self.memory).await {
                return false;
            }
        }
        true
    }

    /// Both directions, each at its own pace.
    async fn converse(
        &mut self,
        then: &[Raw],
        from: Frames<impl AsyncRead + Unpin>,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Left {
        let news = self.memory.borrow().news();
        self.tell(&news).await;
        let Relay { inbox, said, memory, .. } = self;
        let mut back = std::pin::pin!(back(from, said, memory));
        let passed = tokio::select! {
            left = &mut back => return left,
            passed = there(then, inbox, said, memory, to) => passed,
        };
        match passed {
            // The host answers what it was asked before this, gives itself a time for that, and then ends the stream.
            Ok(()) => {
                back.await;
                Left::Client
            }
            // Its last words may not have been read yet.
            Err(_) => timeout(LAST, back).await.unwrap_or(Left::Host),
        }
    }

    async fn tell(&self, messages: &[Raw]) {
        for message in messages {
            // A client that has gone ends this elsewhere.
            let _ = self.said.send(line(message)).await;
        }
    }
}

/// From the client to the host, until the client ends; the host's end is an error.
async fn there(
    first: &[Raw],
    inbox: &mut Inbox<impl AsyncRead + Unpin>,
    said: &mpsc::Sender<Vec<u8>>,
    memory: &RefCell<Memory>,
    to: &mut (impl AsyncWrite + Unpin),
) -> std::io::Result<()> {
    for message in first {
        send(to, &line(message)).await?;
    }
    while let Some(found) = inbox.next().await {
        let passed = pass(found, &LIMITS, |message| memory.borrow_mut().of_client(message));
        if !passed.back.is_empty() {
            // A client that has gone ends this elsewhere.
            let _ = said.send(passed.back).await;
        }
        send(to, &passed.on).await?;
    }
    to.shutdown().await
}

/// From the host to the client, until one of them has ended.
async fn back(
    mut from: Frames<impl AsyncRead + Unpin>,
    said: &mpsc::Sender<Vec<u8>>,
    memory: &RefCell<Memory>,
) -> Left {
    while let Some(found) = from.next().await {
        if !bring(found, said, memory).await {
            return Left::Client;
        }
    }
    Left::Host
}

/// One message of the host; false if the client does not read any more.
async fn bring(
    found: Result<Frame, FrameError>,
    said: &mpsc::Sender<Vec<u8>>,
    memory: &RefCell<Memory>,
) -> bool {
    // What it had no time to finish is nobody's.
    let Ok(frame) = found else { return true };
    let passed = pass(Ok(frame), &OF_HOST, |message| memory.borrow_mut().of_host(message));
    passed.on.is_empty() || said.send(passed.on).await.is_ok()
}

async fn send(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> std::io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}

/// Writes what is said, until that ends or nobody reads it.
async fn write(mut queue: mpsc::Receiver<Vec<u8>>, mut output: impl AsyncWrite + Unpin) {
    while let Some(bytes) = queue.recv().await {
        if send(&mut output, &bytes).await.is_err() {
            return;
        }
    }
}
