//! A client on a stream: one message a line, many requests at once, one writer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcrib_wire::notice::Cancelled;
use toolcrib_wire::{
    Decoder, Fault, Frame, FrameError, Framing, Malformed, Message, Raw, Request, RpcError, Shape,
    build, code, method, parse, recover_id,
};

use super::client::Client;
use super::{Gateway, LIMITS, QUEUE, changes};

/// How long what is under way may take to say goodbye.
const GRACE: Duration = Duration::from_secs(2);

/// Speaks until the input ends or nobody reads the output any more.
pub(super) async fn serve(
    gateway: &Arc<Gateway>,
    mut input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let (out, queue) = mpsc::channel(QUEUE);
    let mut writer = JoinSet::new();
    writer.spawn(write(queue, output));
    let client = Client::new(gateway, out.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(changes::tell(Arc::clone(&client), gateway.host.listen()));
    let mut talk = Talk { client: Arc::clone(&client), out, tasks };
    let outcome = tokio::select! {
        outcome = talk.read(&mut input) => outcome,
        _ = writer.join_next() => Ok(()),
    };
    client.end().await;
    talk.tasks.shutdown().await;
    drop((talk, client));
    // Whoever does not read now will not.
    let _ = timeout(GRACE, writer.join_next()).await;
    outcome
}

/// One conversation on a stream.
struct Talk {
    client: Arc<Client>,
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
                    self.take(message).await;
                }
            }
            Err(malformed) => self.take(Err(malformed)).await,
        }
    }

    async fn take(&mut self, message: Result<Message, Malformed>) {
        match message {
            Ok(Message::Request(request)) => self.begin(request).await,
            Ok(Message::Notification(told)) => {
                let cancelled = Cancelled::read(told.params.json());
                if let (method::CANCELLED, Ok(cancelled)) = (told.method.as_str(), cancelled) {
                    self.client.cancel(&cancelled.request);
                }
            }
            Ok(Message::Response(response)) => self.client.answered(response),
            Err(malformed) => {
                if let Some(said) = refusal(&malformed) {
                    self.say(said).await;
                }
            }
        }
    }

    async fn begin(&mut self, request: Request) {
        if !self.client.has_room() {
            let refusal = RpcError::internal("too many requests at once");
            return self.say(build::error(Some(&request.id), &refusal)).await;
        }
        let (client, out, id) = (Arc::clone(&self.client), self.out.clone(), request.id.clone());
        let task = self.tasks.spawn(async move {
            let message = match client.answer(&request, &out).await {
                Ok(result) => build::response(&request.id, result.json()),
                Err(error) => build::error(Some(&request.id), &error),
            };
            // A client that has gone ends this elsewhere.
            let _ = out.send(message).await;
        });
        self.client.started(id, task);
    }

    async fn say(&self, message: Raw) {
        // The writer's end ends the conversation elsewhere.
        let _ = self.out.send(message).await;
    }
}

/// What is said to a message that cannot be used; nothing to what wanted no answer.
fn refusal(malformed: &Malformed) -> Option<Raw> {
    let code = match (&malformed.fault, malformed.shape) {
        (_, Shape::Response | Shape::Notification) => return None,
        (Fault::Syntax { .. } | Fault::NotUtf8 { .. }, _) => code::PARSE_ERROR,
        (Fault::ParamsNotObject { .. }, _) => code::INVALID_PARAMS,
        _ => code::INVALID_REQUEST,
    };
    let error = RpcError::new(code, malformed.fault.to_string());
    Some(build::error(malformed.id.as_ref(), &error))
}

fn unframed(error: &FrameError) -> Raw {
    let (id, code) = match error {
        FrameError::TooLarge { head, .. } => (recover_id(head), code::INVALID_REQUEST),
        _ => (None, code::PARSE_ERROR),
    };
    build::error(id.as_ref(), &RpcError::new(code, "this is no message"))
}

async fn write(mut queue: mpsc::Receiver<Raw>, mut output: impl AsyncWrite + Unpin) {
    let mut bytes = Vec::new();
    while let Some(message) = queue.recv().await {
        bytes.clear();
        Framing::Newline.write(message.as_bytes(), &mut bytes);
        // What waits already goes along: fewer writes, no later answer.
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
