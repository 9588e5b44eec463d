//! Reads and writes JSON-RPC messages on a byte stream.

use std::collections::VecDeque;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use toolcrib_wire::{
    Frame, FrameDecoder, FrameError, Framing, MalformedMessage, Message, MessageKind,
    MessageLimits, ParseError, RawJson, RpcError, build, code, parse_with_guard,
};

use crate::body_budget::Reservation;
use crate::front::request_body::BODY_BUDGET_EXCEEDED;

/// Limits for messages from clients.
pub const LIMITS: MessageLimits = MessageLimits { size: 64 << 20, depth: 128, batch: 100 };

/// Reads messages from a byte stream, one per line or in the framing that the client uses.
#[derive(Debug)]
pub struct MessageReader<R> {
    input: R,
    limits: MessageLimits,
    /// `None` after the end of the stream.
    decoder: Option<FrameDecoder>,
    chunk: Vec<u8>,
    ready: VecDeque<Result<Message, RawJson>>,
    /// Memory of the incomplete message.
    reservation: Reservation,
    /// True if the message that is being skipped exceeded the body budget.
    is_over_budget: bool,
}

impl<R: AsyncRead + Unpin> MessageReader<R> {
    /// Reads from `input` without counting memory.
    pub fn new(input: R, limits: MessageLimits) -> Self {
        Self::with_reservation(input, limits, Reservation::default())
    }

    /// Like [`MessageReader::new`], and counts the memory of messages in `reservation`.
    pub fn with_reservation(input: R, limits: MessageLimits, reservation: Reservation) -> Self {
        MessageReader {
            input,
            limits,
            decoder: Some(FrameDecoder::new(&limits)),
            chunk: vec![0; 64 << 10],
            ready: VecDeque::new(),
            reservation,
            is_over_budget: false,
        }
    }

    /// The next message, or the error response to an invalid one; `None` at the end of the stream.
    pub async fn next(&mut self) -> io::Result<Option<Result<Message, RawJson>>> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(Some(message));
            }
            if self.decoder.is_none() {
                return Ok(None);
            }
            let count = self.input.read(&mut self.chunk).await?;
            // The decoder is taken after the await, so that a cancelled read loses nothing.
            let Some(mut decoder) = self.decoder.take() else {
                return Ok(None);
            };
            if count == 0 {
                decoder.finish().into_iter().for_each(|frame| self.push_frame(frame));
                continue;
            }
            decoder.push(self.chunk.get(..count).unwrap_or_default());
            self.drain_decoder(&mut decoder);
            if self.reservation.resize(decoder.buffered()).is_err() {
                // The decoder skips the rest of this message, and the sender gets an error.
                decoder.abandon();
                self.is_over_budget = true;
                self.drain_decoder(&mut decoder);
                // A smaller size never exceeds the budget.
                let _ = self.reservation.resize(decoder.buffered());
            }
            self.decoder = Some(decoder);
        }
    }

    fn drain_decoder(&mut self, decoder: &mut FrameDecoder) {
        while let Some(frame) = decoder.next() {
            self.push_frame(frame);
        }
    }

    fn push_frame(&mut self, frame: Result<Frame, FrameError>) {
        let size = frame.as_ref().map_or(0, |frame| frame.bytes.len());
        let guard = self.reservation.split(size).into_held();
        match frame.map(|frame| parse_with_guard(frame.bytes, &self.limits, guard)) {
            Ok(Ok(packet)) => {
                for message in packet.into_messages() {
                    self.push_message(message);
                }
            }
            Ok(Err(malformed)) => self.push_message(Err(malformed)),
            Err(FrameError::TooLarge { id, .. }) if std::mem::take(&mut self.is_over_budget) => {
                let error = RpcError::internal(BODY_BUDGET_EXCEEDED);
                self.ready.push_back(Err(build::error(id.as_ref(), &error)));
            }
            Err(error) => self.ready.push_back(Err(frame_error(&error))),
        }
    }

    fn push_message(&mut self, message: Result<Message, MalformedMessage>) {
        let message = match message {
            Ok(message) => Some(Ok(message)),
            Err(malformed) => malformed_error(&malformed).map(Err),
        };
        self.ready.extend(message);
    }
}

/// Writes the messages of a queue, until the queue closes or a write fails.
pub async fn write_messages(
    mut queue: mpsc::Receiver<RawJson>,
    mut output: impl AsyncWrite + Unpin,
) {
    let mut bytes = Vec::new();
    while let Some(message) = queue.recv().await {
        bytes.clear();
        Framing::Newline.write(message.as_bytes(), &mut bytes);
        // Writes waiting messages together: this saves writes and delays no message.
        while let Ok(message) = queue.try_recv() {
            Framing::Newline.write(message.as_bytes(), &mut bytes);
        }
        let written = async {
            output.write_all(&bytes).await?;
            output.flush().await
        };
        if written.await.is_err() {
            return;
        }
    }
}

/// The error response to a malformed message; `None` if the sender expects no response.
pub fn malformed_error(malformed: &MalformedMessage) -> Option<RawJson> {
    let code = match (&malformed.error, malformed.kind) {
        (_, MessageKind::Response | MessageKind::Notification) => return None,
        (ParseError::Syntax { .. } | ParseError::NotUtf8 { .. }, _) => code::PARSE_ERROR,
        (ParseError::ParamsNotObject { .. }, _) => code::INVALID_PARAMS,
        _ => code::INVALID_REQUEST,
    };
    let error = RpcError::new(code, malformed.error.to_string());
    Some(build::error(malformed.id.as_ref(), &error))
}

/// The error response to input that is not a frame.
pub fn frame_error(error: &FrameError) -> RawJson {
    let (id, code) = match error {
        FrameError::TooLarge { id, .. } => (id.clone(), code::INVALID_REQUEST),
        _ => (None, code::PARSE_ERROR),
    };
    build::error(id.as_ref(), &RpcError::new(code, "invalid message frame"))
}
