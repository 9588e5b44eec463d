//! The demo server on its standard streams: one message a line, many requests at once.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcrib_wire::{Decoder, Frame, FrameError, Framing, Raw, RpcError, build, code, parse};

use super::desk::Desk;
use super::hub::{Heard, Hub};
use super::{GRACE, LIMITS, QUEUE};

/// Speaks until the input ends or the hub closes. What is under way then is answered, as far as somebody reads.
pub(crate) async fn serve(
    hub: Arc<Hub>,
    mut input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let (out, queue) = mpsc::channel(QUEUE);
    let mut writer = JoinSet::new();
    writer.spawn(write(queue, output));
    let desk = Arc::new(Desk::default());
    let mut talk = Talk { hub: Arc::clone(&hub), desk, out, tasks: JoinSet::new() };
    let outcome = tokio::select! {
        outcome = talk.read(&mut input) => outcome,
        () = hub.closing() => Ok(()),
        // Nobody reads any more.
        _ = writer.join_next() => return Ok(()),
    };
    hub.close();
    let ending = async {
        while talk.tasks.join_next().await.is_some() {}
        drop(talk);
        writer.join_next().await
    };
    // Whoever does not read now will not.
    let _ = timeout(GRACE, ending).await;
    outcome
}

/// One conversation on a stream.
struct Talk {
    hub: Arc<Hub>,
    desk: Arc<Desk>,
    out: mpsc::Sender<Raw>,
    tasks: JoinSet<()>,
}

impl Talk {
    async fn read(&mut self, input: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
        let mut decoder = Decoder::new(&LIMITS);
        let mut chunk = vec![0; 64 << 10];
        loop {
            let count = input.read(&mut chunk).await?;
            if count == 0 {
                break;
            }
            decoder.push(&chunk[..count]);
            while let Some(found) = decoder.next() {
                self.hear(found).await;
            }
            while self.tasks.try_join_next().is_some() {}
        }
        if let Some(found) = decoder.finish() {
            self.hear(found).await;
        }
        Ok(())
    }

    async fn hear(&mut self, found: Result<Frame, FrameError>) {
        let packet = match found {
            Ok(frame) => parse(frame.bytes, &LIMITS),
            Err(error) => return self.say(unframed(&error)).await,
        };
        match packet {
            Ok(packet) => {
                for message in packet.into_messages() {
                    self.answer(self.hub.hear(&self.desk, message)).await;
                }
            }
            Err(malformed) => self.answer(self.hub.hear(&self.desk, Err(malformed))).await,
        }
    }

    async fn answer(&mut self, heard: Heard) {
        match heard {
            Heard::Nothing => {}
            Heard::Say(message) => self.say(message).await,
            Heard::Do(id, work) => {
                let (hub, desk) = (Arc::clone(&self.hub), Arc::clone(&self.desk));
                let doing = hub.perform(desk, id.clone(), work, self.out.clone());
                let task = self.tasks.spawn(doing);
                self.desk.started(id, task);
            }
        }
    }

    async fn say(&self, message: Raw) {
        // The writer's end ends the conversation elsewhere.
        let _ = self.out.send(message).await;
    }
}

fn unframed(error: &FrameError) -> Raw {
    let (id, code) = match error {
        FrameError::TooLarge { id, .. } => (id.clone(), code::INVALID_REQUEST),
        _ => (None, code::PARSE_ERROR),
    };
    build::error(id.as_ref(), &RpcError::new(code, "this is no message"))
}

async fn write(mut queue: mpsc::Receiver<Raw>, mut output: impl AsyncWrite + Unpin) {
    let mut bytes = Vec::new();
    while let Some(message) = queue.recv().await {
        bytes.clear();
        Framing::Newline.write(message.as_bytes(), &mut bytes);
        let written = async {
            output.write_all(&bytes).await?;
            output.flush().await
        };
        if written.await.is_err() {
            return;
        }
    }
}
