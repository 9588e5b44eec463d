//! A client on a stream: one message a line, many requests at once, one writer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcrib_wire::notice::Cancelled;
use toolcrib_wire::{Message, Notification, Raw, Request, RpcError, build, method};

use super::client::Client;
use super::{Gateway, LIMITS, QUEUE, changes};
use crate::lines::{Lines, write};

/// How long what is under way may take to say goodbye.
const GRACE: Duration = Duration::from_secs(2);

/// Speaks until the input ends or nobody reads the output any more.
pub(super) async fn serve(
    gateway: &Arc<Gateway>,
    agent: &str,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let (out, queue) = mpsc::channel(QUEUE);
    let mut writer = JoinSet::new();
    writer.spawn(write(queue, output));
    let client = Client::new(gateway, agent, out.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(changes::tell(Arc::clone(&client)));
    let mut talk = Talk { client: Arc::clone(&client), out, tasks };
    let outcome = tokio::select! {
        outcome = talk.read(input) => outcome,
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
    async fn read(&mut self, input: impl AsyncRead + Unpin) -> io::Result<()> {
        let mut lines = Lines::new(input, LIMITS);
        while let Some(came) = lines.next().await? {
            match came {
                Ok(Message::Request(request)) => self.begin(request).await,
                Ok(Message::Notification(told)) => self.heed(&told),
                Ok(Message::Response(response)) => self.client.answered(response),
                Err(refusal) => self.say(refusal).await,
            }
            while self.tasks.try_join_next().is_some() {}
        }
        Ok(())
    }

    fn heed(&self, told: &Notification) {
        let cancelled = Cancelled::read(told.params.json());
        if let (method::CANCELLED, Ok(cancelled)) = (told.method.as_str(), cancelled) {
            self.client.cancel(&cancelled.request);
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
