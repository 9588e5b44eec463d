//! Serves a client whose messages arrive on one stream: many concurrent requests, one writer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::abortable;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use toolcrib_upstream::conn::peer::Cancellation;
use toolcrib_wire::notification::Cancelled;
use toolcrib_wire::{
    Id, Message, Notification, ObjectWriter, RawJson, Request, RpcError, build, method,
};

use super::changes::{self, ChangeFilter};
use super::client::{ActivityGuard, Client};
use super::response_channel::{ResponseHandle, ResponseSender};
use super::{ClientIdentity, Gateway, LIMITS, QUEUE_CAPACITY};
use crate::identity::AccessDenied;
use crate::message_stream::{MessageReader, write_messages};

/// Time for the writer to send the remaining messages.
const WRITER_GRACE: Duration = Duration::from_secs(2);

/// Time for the last responses when the gateway closes. Running calls had their time before.
const LAST_RESPONSES_TIMEOUT: Duration = Duration::from_millis(500);

/// Serves one message per line until the input ends or the output fails.
pub(super) async fn serve(
    gateway: &Arc<Gateway>,
    identity: ClientIdentity,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let (out, queue) = mpsc::channel(QUEUE_CAPACITY);
    let mut writer = JoinSet::new();
    writer.spawn(write_messages(queue, output));
    let reservation = gateway.reservation(identity.may_choose_agent, &identity.agent);
    let mut stream_client = StreamClient::new(Client::new(gateway, identity), out);
    let mut messages = MessageReader::with_reservation(input, LIMITS, reservation);
    let reading = async {
        while let Some(message) = messages.next().await? {
            stream_client.handle_message(message).await;
        }
        Ok(())
    };
    let outcome = tokio::select! {
        outcome = reading => outcome,
        _ = writer.join_next() => Ok(()),
    };
    let drain_deadline = async {
        tokio::select! {
            () = sleep(gateway.drain_timeout()) => {}
            () = gateway.wait_closing() => sleep(LAST_RESPONSES_TIMEOUT).await,
        }
    };
    tokio::select! {
        // A client that has closed its input still gets its responses.
        () = stream_client.wait_answered() => {}
        _ = writer.join_next() => {}
        () = drain_deadline => {}
    }
    stream_client.close().await;
    // A client that does not read by now is disconnected.
    let _ = timeout(WRITER_GRACE, writer.join_next()).await;
    outcome
}

/// One client whose messages all arrive in one place and leave through one queue.
pub(super) struct StreamClient {
    pub(super) client: Arc<Client>,
    out: mpsc::Sender<RawJson>,
    /// Tasks that send change notifications.
    change_tasks: JoinSet<()>,
    /// Tasks of running requests.
    tasks: JoinSet<()>,
    /// True if each request counts against the rate limit, because none arrives as an HTTP request.
    is_rate_limited: bool,
    _activity: ActivityGuard,
}

impl StreamClient {
    pub(super) fn new(client: Arc<Client>, out: mpsc::Sender<RawJson>) -> Self {
        let (mut change_tasks, tasks) = (JoinSet::new(), JoinSet::new());
        let (changes_out, listener) = (out.clone(), Arc::clone(&client));
        change_tasks.spawn(async move {
            // A modern client must subscribe to get changes.
            listener.wait_for_session().await;
            changes::forward_changes(listener, ChangeFilter::All, changes_out.into()).await;
        });
        let activity = client.activity_guard();
        StreamClient {
            client,
            out,
            change_tasks,
            tasks,
            is_rate_limited: false,
            _activity: activity,
        }
    }

    /// Counts each request against the rate limit.
    pub(super) fn rate_limited(self) -> Self {
        StreamClient { is_rate_limited: true, ..self }
    }

    /// Handles a message, or sends the error response to an invalid one.
    pub(super) async fn handle_message(&mut self, message: Result<Message, RawJson>) {
        match message {
            Ok(Message::Request(request)) => self.start_request(request).await,
            Ok(Message::Notification(notification)) => {
                self.client.handle_notification(&notification)
            }
            // A response without a waiting request needs no error.
            Ok(Message::Response(response)) => {
                self.client.deliver_response(response);
            }
            Err(refusal) => self.send(refusal).await,
        }
        while self.tasks.try_join_next().is_some() {}
        while self.change_tasks.try_join_next().is_some() {}
    }

    /// Waits until all requests are answered.
    async fn wait_answered(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    pub(super) async fn close(mut self) {
        self.client.close().await;
        self.tasks.shutdown().await;
        self.change_tasks.shutdown().await;
    }

    async fn start_request(&mut self, request: Request) {
        if !self.client.has_capacity() {
            return self.send(build::error(Some(&request.id), &too_many_requests_error())).await;
        }
        if self.is_rate_limited
            && let Err(refused) = self.client.gateway.count_request(&self.client.identity)
        {
            return self.send(build::error(Some(&request.id), &rate_limit_error(&refused))).await;
        }
        let (client, out) = (Arc::clone(&self.client), self.out.clone());
        let tasks = match &*request.method {
            method::SUBSCRIPTIONS_LISTEN => &mut self.change_tasks,
            _ => &mut self.tasks,
        };
        let response = self.client.response_future(request, out.clone().into());
        tasks.spawn(async move {
            if let Some(message) = response.await {
                // A failure means that the client has disconnected, which ends this task elsewhere.
                let _ = out.send(message).await;
            }
            drop(client);
        });
    }

    async fn send(&self, message: RawJson) {
        // A failure means that the writer has ended, which ends the session elsewhere.
        let _ = self.out.send(message).await;
    }
}

impl Client {
    /// The response to a request; `None` if the client cancels it. Messages that precede it go to `out`.
    pub(super) fn response_future(
        self: &Arc<Self>,
        request: Request,
        out: ResponseSender,
    ) -> impl Future<Output = Option<RawJson>> + Send + 'static + use<> {
        let client = Arc::clone(self);
        let id = request.id.clone();
        let handle = ResponseHandle { out, cancellation: Cancellation::default() };
        let going = handle.clone();
        // Boxed, because the large future moves several times before its first poll.
        let (answer, abort) = abortable(Box::pin(async move {
            match client.handle_request(&request, &going).await {
                Ok(result) => build::response(&request.id, result),
                Err(error) => build::error(Some(&request.id), &error),
            }
        }));
        let run = self.register_request(id.clone(), abort, &handle);
        let running = RequestGuard { client: Arc::clone(self), id, run };
        async move {
            let answer = answer.await.ok();
            drop(running);
            answer
        }
    }

    pub(super) fn handle_notification(&self, notification: &Notification) {
        let params = || notification.params.raw();
        match notification.method.as_str() {
            method::CANCELLED => {
                if let Ok(cancelled) = Cancelled::read(notification.params.json()) {
                    self.cancel(&cancelled.request, params());
                }
            }
            method::ROOTS_CHANGED => {
                if let Some(dialog) = self.begun_dialog() {
                    dialog.notify_roots_changed(params().as_ref());
                }
            }
            _ => {}
        }
    }
}

/// Registration of a running request, until it is dropped.
struct RequestGuard {
    client: Arc<Client>,
    id: Id,
    run: u64,
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.client.unregister_request(&self.id, self.run);
    }
}

/// Tells programs when to retry.
fn rate_limit_error(refused: &AccessDenied) -> RpcError {
    let error = RpcError::internal(refused.to_string());
    let AccessDenied::RateLimited { wait, .. } = refused else { return error };
    let millis = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX).saturating_add(1);
    error.with_data(ObjectWriter::new().integer("retryAfterMs", millis).finish())
}

pub(super) fn too_many_requests_error() -> RpcError {
    RpcError::internal("too many concurrent requests")
}
