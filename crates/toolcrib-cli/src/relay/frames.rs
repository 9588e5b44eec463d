//! The messages of a byte stream, each whole and as it was written.

use std::collections::VecDeque;

use tokio::io::{AsyncRead, AsyncReadExt};
use toolcrib_server::lines::LIMITS;
use toolcrib_wire::{Decoder, Frame, FrameError, Limits, Message, parse};

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// What may wait for a host, in bytes and in messages. A client that says more is not read until there is one.
const ROOM: usize = 1 << 20;
const WAITING: usize = 1024;

type Found = Result<Frame, FrameError>;

/// What is read of a stream.
#[derive(Debug)]
pub(crate) struct Frames<R> {
    input: R,
    /// Until the end of the stream.
    decoder: Option<Decoder>,
}

/// What comes of a client, whether there is a host for it or not.
#[derive(Debug)]
pub(crate) struct Inbox<R> {
    frames: Frames<R>,
    waiting: VecDeque<Found>,
    is_over: bool,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(crate) fn new(input: R, limits: &Limits) -> Self {
        Frames { input, decoder: Some(Decoder::new(limits)) }
    }

    /// The next message, or what stood in its place; nothing at the end. Whoever stops waiting loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Found> {
        loop {
            let decoder = self.decoder.as_mut()?;
            if let Some(found) = decoder.next() {
                return Some(found);
            }
            let read = self.input.read_buf(decoder.room(CHUNK)).await;
            // A stream that breaks has ended.
            if !read.is_ok_and(|count| count > 0) {
                return self.decoder.take()?.finish();
            }
        }
    }
}

impl<R: AsyncRead + Unpin> Inbox<R> {
    pub(crate) fn new(input: R, limits: &Limits) -> Self {
        Inbox { frames: Frames::new(input, limits), waiting: VecDeque::new(), is_over: false }
    }

    /// What waits, then what comes; nothing at the end. Whoever stops waiting loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Found> {
        match self.waiting.pop_front() {
            Some(found) => Some(found),
            None => self.read().await,
        }
    }

    /// Keeps what comes, until the client has ended and waits for nothing.
    pub(crate) async fn keep(&mut self) {
        while !self.is_over {
            if self.is_full() {
                return std::future::pending().await;
            }
            let found = self.read().await;
            self.waiting.extend(found);
        }
        if self.waiting.iter().any(wants_answer) {
            std::future::pending().await
        }
    }

    async fn read(&mut self) -> Option<Found> {
        if self.is_over {
            return None;
        }
        let found = self.frames.next().await;
        self.is_over = found.is_none();
        found
    }

    fn is_full(&self) -> bool {
        let bytes = |found: &Found| found.as_ref().map_or(0, |frame| frame.bytes.len());
        self.waiting.len() >= WAITING || self.waiting.iter().map(bytes).sum::<usize>() >= ROOM
    }
}

/// Whether anything is to come back for it. Of a client that only tells something and goes, no host has to be told.
fn wants_answer(found: &Found) -> bool {
    let Ok(Ok(packet)) = found.as_ref().map(|frame| parse(frame.bytes.clone(), &LIMITS)) else {
        return true;
    };
    packet.into_messages().any(|it| matches!(it, Err(_) | Ok(Message::Request(_))))
}
