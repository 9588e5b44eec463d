//! Messages on a byte stream, as a server reads and writes them: one a line, or whatever framing the client has.

use std::collections::VecDeque;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use toolcrib_wire::{
    Decoder, Fault, Frame, FrameError, Framing, Limits, Malformed, Message, Raw, RpcError, Shape,
    build, code, parse_holding,
};

use crate::body_budget::Reservation;
use crate::front::posted::NO_ROOM;

/// What a client may send.
pub const LIMITS: Limits = Limits { size: 64 << 20, depth: 128, batch: 100 };

/// Reads messages from a stream.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    limits: Limits,
    /// Until the end of the stream.
    decoder: Option<Decoder>,
    chunk: Vec<u8>,
    ready: VecDeque<Result<Message, Raw>>,
    /// The memory of a message that is not whole yet.
    held: Reservation,
    /// Whether the message that is being skipped found no room.
    is_without_room: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub fn new(input: R, limits: Limits) -> Self {
        Self::counted(input, limits, Reservation::default())
    }

    /// The same, and the memory of messages is counted.
    pub fn counted(input: R, limits: Limits, held: Reservation) -> Self {
        Lines {
            input,
            limits,
            decoder: Some(Decoder::new(&limits)),
            chunk: vec![0; 64 << 10],
            ready: VecDeque::new(),
            held,
            is_without_room: false,
        }
    }

    /// The next message, or what is to be said to something that is none; nothing at the end.
    pub async fn next(&mut self) -> io::Result<Option<Result<Message, Raw>>> {
        loop {
            if let Some(came) = self.ready.pop_front() {
                return Ok(Some(came));
            }
            if self.decoder.is_none() {
                return Ok(None);
            }
            let count = self.input.read(&mut self.chunk).await?;
            // Only now: whoever stops waiting loses nothing.
            let Some(mut decoder) = self.decoder.take() else {
                return Ok(None);
            };
            if count == 0 {
                decoder.finish().into_iter().for_each(|found| self.take(found));
                continue;
            }
            decoder.push(self.chunk.get(..count).unwrap_or_default());
            self.take_all(&mut decoder);
            if self.held.resize(decoder.buffered()).is_err() {
                // What comes of this message is skipped, and whoever sent it is told.
                decoder.abandon();
                self.is_without_room = true;
                self.take_all(&mut decoder);
                // Less than before is always within the bound.
                let _ = self.held.resize(decoder.buffered());
            }
            self.decoder = Some(decoder);
        }
    }

    fn take_all(&mut self, decoder: &mut Decoder) {
        while let Some(found) = decoder.next() {
            self.take(found);
        }
    }

    fn take(&mut self, found: Result<Frame, FrameError>) {
        let held = found.as_ref().map_or(0, |frame| frame.bytes.len());
        let held = self.held.split(held).into_held();
        match found.map(|frame| parse_holding(frame.bytes, &self.limits, held)) {
            Ok(Ok(packet)) => {
                for message in packet.into_messages() {
                    self.hear(message);
                }
            }
            Ok(Err(malformed)) => self.hear(Err(malformed)),
            Err(FrameError::TooLarge { id, .. }) if std::mem::take(&mut self.is_without_room) => {
                let error = RpcError::internal(NO_ROOM);
                self.ready.push_back(Err(build::error(id.as_ref(), &error)));
            }
            Err(error) => self.ready.push_back(Err(unframed(&error))),
        }
    }

    fn hear(&mut self, message: Result<Message, Malformed>) {
        let came = match message {
            Ok(message) => Some(Ok(message)),
            Err(malformed) => refusal(&malformed).map(Err),
        };
        self.ready.extend(came);
    }
}

/// Writes the messages of a queue, until it ends or nobody reads them.
pub async fn write(mut queue: mpsc::Receiver<Raw>, mut output: impl AsyncWrite + Unpin) {
    let mut bytes = Vec::new();
    while let Some(message) = queue.recv().await {
        bytes.clear();
        Framing::Newline.write(message.as_bytes(), &mut bytes);
        // What waits already goes along: fewer writes, and no answer comes later for it.
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

/// What is said to a message that cannot be used; nothing to what wanted no answer.
pub fn refusal(malformed: &Malformed) -> Option<Raw> {
    let code = match (&malformed.fault, malformed.shape) {
        (_, Shape::Response | Shape::Notification) => return None,
        (Fault::Syntax { .. } | Fault::NotUtf8 { .. }, _) => code::PARSE_ERROR,
        (Fault::ParamsNotObject { .. }, _) => code::INVALID_PARAMS,
        _ => code::INVALID_REQUEST,
    };
    let error = RpcError::new(code, malformed.fault.to_string());
    Some(build::error(malformed.id.as_ref(), &error))
}

/// What is said to something that is not even a frame.
pub fn unframed(error: &FrameError) -> Raw {
    let (id, code) = match error {
        FrameError::TooLarge { id, .. } => (id.clone(), code::INVALID_REQUEST),
        _ => (None, code::PARSE_ERROR),
    };
    build::error(id.as_ref(), &RpcError::new(code, "this is no message"))
}
