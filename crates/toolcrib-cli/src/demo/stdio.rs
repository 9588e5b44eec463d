//! The demo server on standard streams: one message a line, many concurrent requests.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcrib_server::message_stream::{MessageReader, write_messages};
use toolcrib_wire::RawJson;

use super::client_session::ClientSession;
use super::server::{DemoServer, MessageOutcome};
use super::{LIMITS, QUEUE_CAPACITY, SHUTDOWN_TIMEOUT};

/// Serves until the input ends or the server closes. Requests in flight then get a response, as far as the client
/// reads.
pub(crate) async fn serve(
    server: Arc<DemoServer>,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let (out, queue) = mpsc::channel(QUEUE_CAPACITY);
    let mut writer = JoinSet::new();
    writer.spawn(write_messages(queue, output));
    let session = Arc::new(ClientSession::default());
    let mut connection =
        StreamConnection { server: Arc::clone(&server), session, out, tasks: JoinSet::new() };
    let outcome = tokio::select! {
        outcome = connection.read_messages(input) => outcome,
        () = server.closed() => Ok(()),
        // The client no longer reads.
        _ = writer.join_next() => return Ok(()),
    };
    server.close();
    let ending = async {
        while connection.tasks.join_next().await.is_some() {}
        drop(connection);
        writer.join_next().await
    };
    // A client that does not read by now is abandoned.
    let _ = timeout(SHUTDOWN_TIMEOUT, ending).await;
    outcome
}

/// One client on a pair of streams.
struct StreamConnection {
    server: Arc<DemoServer>,
    session: Arc<ClientSession>,
    out: mpsc::Sender<RawJson>,
    tasks: JoinSet<()>,
}

impl StreamConnection {
    async fn read_messages(&mut self, input: impl AsyncRead + Unpin) -> io::Result<()> {
        let mut lines = MessageReader::new(input, LIMITS);
        while let Some(result) = lines.next().await? {
            match result {
                Ok(message) => {
                    self.handle_outcome(self.server.handle_message(&self.session, Ok(message)))
                        .await
                }
                Err(refusal) => self.send(refusal).await,
            }
            while self.tasks.try_join_next().is_some() {}
        }
        Ok(())
    }

    async fn handle_outcome(&mut self, outcome: MessageOutcome) {
        match outcome {
            MessageOutcome::None => {}
            MessageOutcome::Reply(message) => self.send(message).await,
            MessageOutcome::Run(id, action) => {
                let (server, session) = (Arc::clone(&self.server), Arc::clone(&self.session));
                let action_future =
                    server.run_action(session, id.clone(), action, self.out.clone());
                let task = self.tasks.spawn(action_future);
                self.session.track_task(id, task);
            }
        }
    }

    async fn send(&self, message: RawJson) {
        // A closed writer ends the connection elsewhere.
        let _ = self.out.send(message).await;
    }
}
