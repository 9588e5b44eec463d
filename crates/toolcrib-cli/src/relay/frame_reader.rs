//! Frame reader for byte streams, and a buffer for clients without a host.

use std::collections::VecDeque;

use tokio::io::{AsyncRead, AsyncReadExt};
use toolcrib_server::message_stream::LIMITS;
use toolcrib_wire::{Frame, FrameDecoder, FrameError, Message, MessageLimits, parse};

/// Bytes per read.
const READ_SIZE: usize = 64 << 10;

/// Buffer limits for a client without a host, in bytes and in messages. Beyond them the client is not read until it has
/// a host.
const MAX_BUFFERED_BYTES: usize = 1 << 20;
const MAX_BUFFERED_MESSAGES: usize = 1024;

type FrameResult = Result<Frame, FrameError>;

/// Reads frames from a stream.
#[derive(Debug)]
pub(crate) struct FrameReader<R> {
    input: R,
    /// `None` at the end of the stream.
    decoder: Option<FrameDecoder>,
}

/// The frames of a client, buffered while it has no host.
#[derive(Debug)]
pub(crate) struct ClientInbox<R> {
    frames: FrameReader<R>,
    buffered: VecDeque<FrameResult>,
    is_ended: bool,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(crate) fn new(input: R, limits: &MessageLimits) -> Self {
        FrameReader { input, decoder: Some(FrameDecoder::new(limits)) }
    }

    /// Returns the next frame or frame error, or `None` at the end. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<FrameResult> {
        loop {
            let decoder = self.decoder.as_mut()?;
            if let Some(result) = decoder.next() {
                return Some(result);
            }
            let read = self.input.read_buf(decoder.reserve(READ_SIZE)).await;
            // A read error ends the stream.
            if !read.is_ok_and(|count| count > 0) {
                return self.decoder.take()?.finish();
            }
        }
    }
}

impl<R: AsyncRead + Unpin> ClientInbox<R> {
    pub(crate) fn new(input: R, limits: &MessageLimits) -> Self {
        ClientInbox {
            frames: FrameReader::new(input, limits),
            buffered: VecDeque::new(),
            is_ended: false,
        }
    }

    /// Returns the next buffered or new frame, or `None` at the end. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<FrameResult> {
        match self.buffered.pop_front() {
            Some(result) => Some(result),
            None => self.read_frame().await,
        }
    }

    /// Buffers frames until the client has closed without a pending request.
    pub(crate) async fn buffer(&mut self) {
        while !self.is_ended {
            if self.is_full() {
                return std::future::pending().await;
            }
            let result = self.read_frame().await;
            self.buffered.extend(result);
        }
        if self.buffered.iter().any(needs_response) {
            std::future::pending().await
        }
    }

    async fn read_frame(&mut self) -> Option<FrameResult> {
        if self.is_ended {
            return None;
        }
        let result = self.frames.next().await;
        self.is_ended = result.is_none();
        result
    }

    fn is_full(&self) -> bool {
        let bytes = |result: &FrameResult| result.as_ref().map_or(0, |frame| frame.bytes.len());
        self.buffered.len() >= MAX_BUFFERED_MESSAGES
            || self.buffered.iter().map(bytes).sum::<usize>() >= MAX_BUFFERED_BYTES
    }
}

/// Returns whether a frame needs a response. A client that closed after notifications needs no further host.
fn needs_response(result: &FrameResult) -> bool {
    let Ok(Ok(packet)) = result.as_ref().map(|frame| parse(frame.bytes.clone(), &LIMITS)) else {
        return true;
    };
    packet.into_messages().any(|it| matches!(it, Err(_) | Ok(Message::Request(_))))
}
