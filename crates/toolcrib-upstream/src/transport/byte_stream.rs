//! Exchanges messages over a pair of byte streams: the pipes of a child, an exec in a container, or a socket.

use std::future::{Future, pending};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcrib_config::model::transport::FramingMode;
use toolcrib_wire::{Channel, Frame, FrameDecoder, Framing, Id, MessageLimits, method, parse};

use super::encoding::Encoding;
use super::link::{
    CloseReason, Incoming, Link, LinkFault, LinkInfo, Outgoing, OutgoingKind, OutgoingMessage,
    TransportSide,
};

/// Format of the messages on a byte stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamSettings {
    /// Framing of written messages. Both framings are accepted when reading. `Auto` writes one message per line
    /// until the server uses `Content-Length`.
    pub framing: FramingMode,
    /// Text encoding of the messages.
    pub encoding: Encoding,
    /// Limits of received messages.
    pub limits: MessageLimits,
}

/// The process or exec behind a pair of streams. It must end with them.
pub(crate) trait StreamBackend: Send + 'static {
    /// Waits until the backend ends by itself.
    fn exited(&self) -> impl Future<Output = CloseReason> + Send;

    /// Ends the backend. Its input is closed already.
    fn stop(self) -> impl Future<Output = ()> + Send;
}

/// Smallest read.
const READ_CHUNK: usize = 32 * 1024;

/// Most messages per write, and the size at which a batch is written.
const MAX_BATCH_MESSAGES: usize = 64;
const MAX_BATCH_BYTES: usize = 64 * 1024;

/// A process closes its streams before its exit status is known. The link waits this long for the status.
const EXIT_STATUS_WAIT: Duration = Duration::from_millis(50);

/// Time limit for reading the output of an ended server. A stream that other processes hold open has no end.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// Creates a link over two streams. Both are closed with the link.
pub fn link_over_streams<R, W>(reader: R, writer: W, settings: StreamSettings) -> Link
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let info = LinkInfo::new(Channel::Shared);
    Link::start(info, |ends| run_link(ends, reader, writer, NoBackend, settings))
}

/// Runs a link until the host closes it, the streams end, or the backend ends.
pub(crate) async fn run_link<R, W>(
    mut ends: TransportSide,
    reader: R,
    writer: W,
    backend: impl StreamBackend,
    settings: StreamSettings,
) where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let framing = WriteFraming::new(settings.framing);
    let (stop_tx, stop_rx) = oneshot::channel();
    let mut stop_tx = Some(stop_tx);
    let mut reading = JoinSet::new();
    reading.spawn(read_messages(reader, ends.incoming.clone(), settings, framing.clone()));
    let mut writing = JoinSet::new();
    writing.spawn(write_messages(writer, ends.outgoing, stop_rx, settings.encoding, framing));

    let mut unsent = Vec::new();
    let reason = tokio::select! {
        Ok(grace) = &mut ends.close_requested => {
            // Fails only if the writer has ended, which needs no signal.
            let _ = stop_tx.take().map(|stop_tx| stop_tx.send(()));
            let _ = timeout(grace, writing.join_next()).await;
            CloseReason::HostClosed
        }
        Some(ended) = reading.join_next() => {
            let seen = ended.unwrap_or(CloseReason::StreamEnded);
            timeout(EXIT_STATUS_WAIT, backend.exited()).await.unwrap_or(seen)
        }
        failure = write_failure(&mut writing) => {
            unsent = failure.unsent_calls;
            let seen = CloseReason::Broken(failure.fault);
            let exited = timeout(EXIT_STATUS_WAIT, backend.exited()).await.unwrap_or(seen);
            let _ = timeout(DRAIN_TIMEOUT, reading.join_next()).await;
            exited
        }
        reason = backend.exited() => {
            let _ = timeout(DRAIN_TIMEOUT, reading.join_next()).await;
            reason
        }
    };
    // Calls that were queued after the end were never sent. Reporting them as unsent allows a retry on another link.
    if let Some(stop_tx) = stop_tx.take().filter(|_| !writing.is_empty()) {
        let _ = stop_tx.send(());
        if let Ok(Some(Ok(Err(failure)))) = timeout(EXIT_STATUS_WAIT, writing.join_next()).await {
            unsent = failure.unsent_calls;
        }
    }
    for request in unsent {
        let fault = LinkFault::unsent(reason.clone());
        forward(&ends.incoming, Incoming::Failed { request, fault }).await;
    }
    TransportSide::report_closed(&ends.incoming, reason).await;
    writing.shutdown().await;
    // The reader keeps running, so that a server that shuts down cleanly is not blocked on its last output.
    backend.stop().await;
}

struct NoBackend;

impl StreamBackend for NoBackend {
    fn exited(&self) -> impl Future<Output = CloseReason> + Send {
        pending()
    }

    async fn stop(self) {}
}

/// The framing of written messages: fixed, or that of the server's newest message.
#[derive(Clone)]
struct WriteFraming {
    fixed: bool,
    content_length: Arc<AtomicBool>,
}

impl WriteFraming {
    fn new(policy: FramingMode) -> Self {
        WriteFraming {
            fixed: policy != FramingMode::Auto,
            content_length: Arc::new(AtomicBool::new(policy == FramingMode::ContentLength)),
        }
    }

    fn current(&self) -> Framing {
        if self.content_length.load(Ordering::Relaxed) {
            Framing::ContentLength
        } else {
            Framing::Newline
        }
    }

    fn observe(&self, framing: Framing) {
        if !self.fixed {
            let content_length = framing == Framing::ContentLength;
            self.content_length.store(content_length, Ordering::Relaxed);
        }
    }
}

async fn read_messages(
    mut reader: impl AsyncRead + Unpin,
    incoming: mpsc::Sender<Incoming>,
    settings: StreamSettings,
    framing: WriteFraming,
) -> CloseReason {
    let mut decoder = FrameDecoder::new(&settings.limits);
    let mut last_framing = None;
    let reason = loop {
        match reader.read_buf(decoder.reserve(READ_CHUNK)).await {
            Ok(0) => break CloseReason::StreamEnded,
            Ok(_) => {}
            Err(cause) => {
                break CloseReason::Broken(LinkFault::from_io("read from the server", cause));
            }
        }
        while let Some(found) = decoder.next() {
            if let Ok(frame) = &found
                && last_framing.replace(frame.framing) != Some(frame.framing)
            {
                framing.observe(frame.framing);
                forward(&incoming, Incoming::Framing(frame.framing)).await;
            }
            let item = found.map_or_else(Incoming::Unframed, |frame| parse_frame(frame, &settings));
            forward(&incoming, item).await;
        }
        if let Some(overrun) = decoder.take_too_large() {
            forward(&incoming, Incoming::Overrun(overrun)).await;
        }
    };
    if let Some(rest) = decoder.finish() {
        let item = rest.map_or_else(Incoming::Unframed, |frame| parse_frame(frame, &settings));
        forward(&incoming, item).await;
    }
    reason
}

/// Drops the item if the inbox is gone. The stream is read to its end even then, so that the server can end.
async fn forward(incoming: &mpsc::Sender<Incoming>, item: Incoming) {
    let _ = incoming.send(item).await;
}

fn parse_frame(frame: Frame, settings: &StreamSettings) -> Incoming {
    match parse(settings.encoding.decode(frame.bytes), &settings.limits) {
        Ok(packet) => Incoming::Packet { packet, on: None },
        Err(fault) => Incoming::Malformed { fault, on: None },
    }
}

/// A failed write, and the tool calls that were not sent. Other requests are not listed: only for a tool call it
/// matters whether the server may have run it.
struct WriteFailure {
    fault: LinkFault,
    unsent_calls: Vec<Id>,
}

/// Writes queued messages in batches. After the stop signal it accepts no new messages, writes the queued ones and
/// returns.
async fn write_messages(
    mut writer: impl AsyncWrite + Unpin,
    mut outgoing: mpsc::Receiver<Outgoing>,
    mut stop_rx: oneshot::Receiver<()>,
    encoding: Encoding,
    framing: WriteFraming,
) -> Result<(), WriteFailure> {
    let mut batch = Vec::new();
    let mut bytes = Vec::new();
    // The calls in `bytes`, each with the offset of its end.
    let mut calls: Vec<(usize, Id)> = Vec::new();
    loop {
        let count = tokio::select! {
            biased;
            Ok(()) = &mut stop_rx, if !outgoing.is_closed() => {
                outgoing.close();
                continue;
            }
            count = outgoing.recv_many(&mut batch, MAX_BATCH_MESSAGES) => count,
        };
        let mut queued = batch.drain(..);
        while let Some(next) = queued.next() {
            if let Outgoing::Message(message) = &next {
                let text = encoding.encode(message.raw.text());
                framing.current().write(&text, &mut bytes);
                calls.extend(tool_call_id(&next).map(|id| (bytes.len(), id)));
            }
            if bytes.len() < MAX_BATCH_BYTES && queued.len() > 0 {
                continue;
            }
            if let Err((written, cause)) = write_all(&mut writer, &mut bytes).await {
                outgoing.close();
                let mut unsent: Vec<Id> =
                    calls.drain(..).filter(|(end, _)| *end > written).map(|(_, id)| id).collect();
                unsent.extend(queued.filter_map(|next| tool_call_id(&next)));
                while let Ok(next) = outgoing.try_recv() {
                    unsent.extend(tool_call_id(&next));
                }
                let fault = LinkFault::from_io("write to the server", cause);
                return Err(WriteFailure { fault, unsent_calls: unsent });
            }
            calls.clear();
        }
        if count == 0 {
            // Dropping one half of a socket does not close it, and the server waits for the end of its input. A server
            // that has gone already is no error.
            let _ = writer.shutdown().await;
            return Ok(());
        }
    }
}

fn tool_call_id(outgoing: &Outgoing) -> Option<Id> {
    match outgoing {
        Outgoing::Message(OutgoingMessage {
            kind: OutgoingKind::Request { id, method, .. },
            ..
        }) if &**method == method::TOOLS_CALL => Some(id.clone()),
        _ => None,
    }
}

/// Writes all bytes. An error carries the number of bytes that were written.
async fn write_all(
    writer: &mut (impl AsyncWrite + Unpin),
    bytes: &mut Vec<u8>,
) -> Result<(), (usize, io::Error)> {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match writer.write(rest).await {
            Ok(0) => return Err((written, io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(cause) => return Err((written, cause)),
        }
    }
    writer.flush().await.map_err(|cause| (written, cause))?;
    bytes.clear();
    // Frees the memory of a large message, which would otherwise be kept as long as the link.
    bytes.shrink_to(MAX_BATCH_BYTES);
    Ok(())
}

/// Waits until a write fails. The end of the writer because all senders are gone is no failure.
async fn write_failure(writing: &mut JoinSet<Result<(), WriteFailure>>) -> WriteFailure {
    match writing.join_next().await {
        Some(Ok(Err(failure))) => failure,
        _ => pending().await,
    }
}
