//! Messages over any pair of byte streams: a child's pipes, an exec in a container, a socket.

use std::future::{Future, pending};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcrib_config::model::transport::Framing as FramingPolicy;
use toolcrib_wire::{Channel, Decoder, Frame, Framing, Id, Limits, method, parse};

use super::encoding::Encoding;
use super::link::{CloseReason, Ends, Facts, Incoming, Link, LinkFault, Outgoing, Outward, What};

/// How messages stand in the bytes.
#[derive(Clone, Copy, Debug)]
pub struct StreamSettings {
    /// How messages are set off when written; both ways are understood when read. `Auto` is one a line until the
    /// server does otherwise.
    pub framing: FramingPolicy,
    pub encoding: Encoding,
    pub limits: Limits,
}

/// What stands behind a pair of streams and must end with them.
pub(crate) trait Behind: Send + 'static {
    /// Waits until it ends by itself.
    fn exited(&self) -> impl Future<Output = CloseReason> + Send;

    /// Ends it; its input has been closed.
    fn stop(self) -> impl Future<Output = ()> + Send;
}

/// As much as is read at a time at least.
const CHUNK: usize = 32 * 1024;

/// Messages that are written together at most, and the size from which they are not collected any further.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 64 * 1024;

/// A process that ends closes its streams first; how it ended is worth this much waiting.
const STATUS: Duration = Duration::from_millis(50);

/// What a server wrote before it ended, or before it stopped reading, is still taken in for this long. A stream
/// that others hold open has no end.
const DRAIN: Duration = Duration::from_millis(500);

/// A link over any two streams. They are closed with it; nothing else stands behind them.
pub fn over<R, W>(reader: R, writer: W, settings: StreamSettings) -> Link
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let facts = Facts::of(Channel::Shared);
    Link::start(facts, |ends| drive(ends, reader, writer, Nothing, settings))
}

/// Runs a link over two streams until it is asked to end, they end, or what is behind them does.
pub(crate) async fn drive<R, W>(
    mut ends: Ends,
    reader: R,
    writer: W,
    behind: impl Behind,
    settings: StreamSettings,
) where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let spoken = Spoken::new(settings.framing);
    let (hush, hushed) = oneshot::channel();
    let mut hush = Some(hush);
    let mut reading = JoinSet::new();
    reading.spawn(read(reader, ends.incoming.clone(), settings, spoken.clone()));
    let mut writing = JoinSet::new();
    writing.spawn(write(writer, ends.outgoing, hushed, settings.encoding, spoken));

    let mut unsent = Vec::new();
    let reason = tokio::select! {
        Ok(grace) = &mut ends.asked => {
            // The writer is gone if nobody listens.
            let _ = hush.take().map(|hush| hush.send(()));
            let _ = timeout(grace, writing.join_next()).await;
            CloseReason::Asked
        }
        Some(ended) = reading.join_next() => {
            let seen = ended.unwrap_or(CloseReason::Ended);
            timeout(STATUS, behind.exited()).await.unwrap_or(seen)
        }
        unwritten = broken(&mut writing) => {
            unsent = unwritten.calls;
            let seen = CloseReason::Broken(unwritten.fault);
            let exited = timeout(STATUS, behind.exited()).await.unwrap_or(seen);
            let _ = timeout(DRAIN, reading.join_next()).await;
            exited
        }
        reason = behind.exited() => {
            let _ = timeout(DRAIN, reading.join_next()).await;
            reason
        }
    };
    // Calls that came after the end are still queued: they may be made again elsewhere.
    if let Some(hush) = hush.take().filter(|_| !writing.is_empty()) {
        let _ = hush.send(());
        if let Ok(Some(Ok(Err(unwritten)))) = timeout(STATUS, writing.join_next()).await {
            unsent = unwritten.calls;
        }
    }
    for request in unsent {
        let fault = LinkFault::unsent(reason.clone());
        deliver(&ends.incoming, Incoming::Failed { request, fault }).await;
    }
    Ends::say_closed(&ends.incoming, reason).await;
    writing.shutdown().await;
    // The reader runs on, so that a server which ends in order is not stuck with its last words.
    behind.stop().await;
}

struct Nothing;

impl Behind for Nothing {
    fn exited(&self) -> impl Future<Output = CloseReason> + Send {
        pending()
    }

    async fn stop(self) {}
}

/// Which framing is written: a fixed one, or that of the server's newest message.
#[derive(Clone)]
struct Spoken {
    fixed: bool,
    content_length: Arc<AtomicBool>,
}

impl Spoken {
    fn new(policy: FramingPolicy) -> Self {
        Spoken {
            fixed: policy != FramingPolicy::Auto,
            content_length: Arc::new(AtomicBool::new(policy == FramingPolicy::ContentLength)),
        }
    }

    fn get(&self) -> Framing {
        if self.content_length.load(Ordering::Relaxed) {
            Framing::ContentLength
        } else {
            Framing::Newline
        }
    }

    fn heard(&self, framing: Framing) {
        if !self.fixed {
            let content_length = framing == Framing::ContentLength;
            self.content_length.store(content_length, Ordering::Relaxed);
        }
    }
}

async fn read(
    mut reader: impl AsyncRead + Unpin,
    incoming: mpsc::Sender<Incoming>,
    settings: StreamSettings,
    spoken: Spoken,
) -> CloseReason {
    let mut decoder = Decoder::new(&settings.limits);
    let mut heard = None;
    let reason = loop {
        match reader.read_buf(decoder.room(CHUNK)).await {
            Ok(0) => break CloseReason::Ended,
            Ok(_) => {}
            Err(cause) => break CloseReason::Broken(LinkFault::io("read from the server", cause)),
        }
        while let Some(found) = decoder.next() {
            if let Ok(frame) = &found
                && heard.replace(frame.framing) != Some(frame.framing)
            {
                spoken.heard(frame.framing);
                deliver(&incoming, Incoming::Framing(frame.framing)).await;
            }
            let item = found.map_or_else(Incoming::Unframed, |frame| message(frame, &settings));
            deliver(&incoming, item).await;
        }
        if let Some(overrun) = decoder.take_overrun() {
            deliver(&incoming, Incoming::Overrun(overrun)).await;
        }
    };
    if let Some(rest) = decoder.finish() {
        let item = rest.map_or_else(Incoming::Unframed, |frame| message(frame, &settings));
        deliver(&incoming, item).await;
    }
    reason
}

/// What nobody takes any more is dropped: the stream is read to its end all the same, so that the server can end.
async fn deliver(incoming: &mpsc::Sender<Incoming>, item: Incoming) {
    let _ = incoming.send(item).await;
}

fn message(frame: Frame, settings: &StreamSettings) -> Incoming {
    match parse(settings.encoding.decode(frame.bytes), &settings.limits) {
        Ok(packet) => Incoming::Packet { packet, on: None },
        Err(fault) => Incoming::Malformed { fault, on: None },
    }
}

/// Why nothing can be written any more, and the tool calls that did not get out. Other requests are not told apart:
/// only for a call it matters whether the server may have run it.
struct Unwritten {
    fault: LinkFault,
    calls: Vec<Id>,
}

/// Writes all that is queued in one go. Once hushed it takes nothing new, writes the rest and ends.
async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut outgoing: mpsc::Receiver<Outgoing>,
    mut hushed: oneshot::Receiver<()>,
    encoding: Encoding,
    spoken: Spoken,
) -> Result<(), Unwritten> {
    let mut batch = Vec::new();
    let mut bytes = Vec::new();
    // The calls in `bytes`, each with the place where it ends.
    let mut calls: Vec<(usize, Id)> = Vec::new();
    loop {
        let count = tokio::select! {
            biased;
            Ok(()) = &mut hushed, if !outgoing.is_closed() => {
                outgoing.close();
                continue;
            }
            count = outgoing.recv_many(&mut batch, BATCH) => count,
        };
        let mut queued = batch.drain(..);
        while let Some(next) = queued.next() {
            if let Outgoing::Message(message) = &next {
                let text = encoding.encode(message.raw.text());
                spoken.get().write(&text, &mut bytes);
                calls.extend(tool_call(&next).map(|id| (bytes.len(), id)));
            }
            if bytes.len() < BATCH_BYTES && queued.len() > 0 {
                continue;
            }
            if let Err((written, cause)) = flush(&mut writer, &mut bytes).await {
                outgoing.close();
                let mut unsent: Vec<Id> =
                    calls.drain(..).filter(|(end, _)| *end > written).map(|(_, id)| id).collect();
                unsent.extend(queued.filter_map(|next| tool_call(&next)));
                while let Ok(next) = outgoing.try_recv() {
                    unsent.extend(tool_call(&next));
                }
                let fault = LinkFault::io("write to the server", cause);
                return Err(Unwritten { fault, calls: unsent });
            }
            calls.clear();
        }
        if count == 0 {
            // A half of a socket does not end by being dropped, and a server waits for this end. If it has gone
            // already, that is no fault.
            let _ = writer.shutdown().await;
            return Ok(());
        }
    }
}

fn tool_call(outgoing: &Outgoing) -> Option<Id> {
    match outgoing {
        Outgoing::Message(Outward { what: What::Request { id, method, .. }, .. })
            if &**method == method::TOOLS_CALL =>
        {
            Some(id.clone())
        }
        _ => None,
    }
}

/// Writes all of it. An error comes with the number of bytes that were written before.
async fn flush(
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
    // One large message must not stay in memory for the life of the link.
    bytes.shrink_to(BATCH_BYTES);
    Ok(())
}

/// Waits until writing fails. That it ends otherwise, because nobody is left to send anything, is no fault.
async fn broken(writing: &mut JoinSet<Result<(), Unwritten>>) -> Unwritten {
    match writing.join_next().await {
        Some(Ok(Err(unwritten))) => unwritten,
        _ => pending().await,
    }
}
