//! A client on a stream of messages both ways: many requests at once, one writer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::abortable;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use toolcrib_upstream::conn::peer::CallOff;
use toolcrib_wire::notice::Cancelled;
use toolcrib_wire::{
    Id, Message, Notification, ObjectWriter, Raw, Request, RpcError, build, method,
};

use super::changes::{self, Wants};
use super::client::{Client, Open};
use super::outlet::{Course, Outlet};
use super::{Gateway, LIMITS, QUEUE, Who};
use crate::identity::Refused;
use crate::lines::{Lines, write};

/// How long what is under way may take to say goodbye.
const GRACE: Duration = Duration::from_secs(2);

/// How long the last answers may take when the gateway closes: calls have had their time before.
const LAST: Duration = Duration::from_millis(500);

/// Speaks, one message a line, until the input ends or nobody reads the output any more.
pub(super) async fn serve(
    gateway: &Arc<Gateway>,
    who: Who,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let (out, queue) = mpsc::channel(QUEUE);
    let mut writer = JoinSet::new();
    writer.spawn(write(queue, output));
    let held = gateway.reservation(who.chooses, &who.agent);
    let mut talk = Talk::new(Client::new(gateway, who), out);
    let mut lines = Lines::counted(input, LIMITS, held);
    let reading = async {
        while let Some(came) = lines.next().await? {
            talk.hear(came).await;
        }
        Ok(())
    };
    let outcome = tokio::select! {
        outcome = reading => outcome,
        _ = writer.join_next() => Ok(()),
    };
    let late = async {
        tokio::select! {
            () = sleep(gateway.patience()) => {}
            () = gateway.closing() => sleep(LAST).await,
        }
    };
    tokio::select! {
        // Whoever has said all that he wants to ask still reads what he is answered.
        () = talk.quiet() => {}
        _ = writer.join_next() => {}
        () = late => {}
    }
    talk.end().await;
    // Whoever does not read now will not.
    let _ = timeout(GRACE, writer.join_next()).await;
    outcome
}

/// One conversation in which every message of the client comes on one way, and everything goes back on one.
pub(super) struct Talk {
    pub(super) client: Arc<Client>,
    out: mpsc::Sender<Raw>,
    /// What is told without an end.
    telling: JoinSet<()>,
    /// Requests that are being answered.
    tasks: JoinSet<()>,
    /// Whether each request counts by itself: none of them came as a request of HTTP.
    is_paced: bool,
    _open: Open,
}

impl Talk {
    pub(super) fn new(client: Arc<Client>, out: mpsc::Sender<Raw>) -> Self {
        let (mut telling, tasks) = (JoinSet::new(), JoinSet::new());
        let (told, listener) = (out.clone(), Arc::clone(&client));
        telling.spawn(async move {
            // In the modern era whoever wants to be told has to ask.
            listener.opens().await;
            changes::tell(listener, Wants::All, told.into()).await;
        });
        let open = client.busy();
        Talk { client, out, telling, tasks, is_paced: false, _open: open }
    }

    /// The same, and each request counts.
    pub(super) fn paced(self) -> Self {
        Talk { is_paced: true, ..self }
    }

    /// A message, or what is to be said to something that is none.
    pub(super) async fn hear(&mut self, came: Result<Message, Raw>) {
        match came {
            Ok(Message::Request(request)) => self.begin(request).await,
            Ok(Message::Notification(told)) => self.client.heed(&told),
            // Nothing can be said to an answer that nobody waits for.
            Ok(Message::Response(response)) => {
                self.client.answered(response);
            }
            Err(refusal) => self.say(refusal).await,
        }
        while self.tasks.try_join_next().is_some() {}
        while self.telling.try_join_next().is_some() {}
    }

    /// Waits until all that was asked is answered.
    async fn quiet(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    pub(super) async fn end(mut self) {
        self.client.end().await;
        self.tasks.shutdown().await;
        self.telling.shutdown().await;
    }

    async fn begin(&mut self, request: Request) {
        if !self.client.has_room() {
            return self.say(build::error(Some(&request.id), &too_many())).await;
        }
        if self.is_paced
            && let Err(refused) = self.client.gateway.count(&self.client.who)
        {
            return self.say(build::error(Some(&request.id), &too_fast(&refused))).await;
        }
        let (client, out) = (Arc::clone(&self.client), self.out.clone());
        let tasks = match &*request.method {
            method::SUBSCRIPTIONS_LISTEN => &mut self.telling,
            _ => &mut self.tasks,
        };
        let answering = self.client.answering(request, out.clone().into());
        tasks.spawn(async move {
            if let Some(message) = answering.await {
                // A client that has gone ends this elsewhere.
                let _ = out.send(message).await;
            }
            drop(client);
        });
    }

    async fn say(&self, message: Raw) {
        // The writer's end ends the conversation elsewhere.
        let _ = self.out.send(message).await;
    }
}

impl Client {
    /// The answer to a request as a message; none if the client calls it off. What belongs to it comes on `out`
    /// before.
    pub(super) fn answering(
        self: &Arc<Self>,
        request: Request,
        out: Outlet,
    ) -> impl Future<Output = Option<Raw>> + Send + 'static + use<> {
        let client = Arc::clone(self);
        let id = request.id.clone();
        let course = Course { out, call_off: CallOff::default() };
        let going = course.clone();
        // It is large, and handed on several times before it is first polled.
        let (answer, handle) = abortable(Box::pin(async move {
            match client.answer(&request, &going).await {
                Ok(result) => build::response(&request.id, result),
                Err(error) => build::error(Some(&request.id), &error),
            }
        }));
        let run = self.started(id.clone(), handle, &course);
        let running = Running { client: Arc::clone(self), id, run };
        async move {
            let answer = answer.await.ok();
            drop(running);
            answer
        }
    }

    pub(super) fn heed(&self, told: &Notification) {
        let params = || told.params.raw();
        match told.method.as_str() {
            method::CANCELLED => {
                if let Ok(cancelled) = Cancelled::read(told.params.json()) {
                    self.cancel(&cancelled.request, params());
                }
            }
            method::ROOTS_CHANGED => {
                if let Some(dialog) = self.begun() {
                    dialog.roots_changed(params().as_ref());
                }
            }
            _ => {}
        }
    }
}

/// A request that is known to be under way.
struct Running {
    client: Arc<Client>,
    id: Id,
    run: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.client.finished(&self.id, self.run);
    }
}

/// Says when to try again, for programs too.
fn too_fast(refused: &Refused) -> RpcError {
    let error = RpcError::internal(refused.to_string());
    let Refused::TooFast { wait, .. } = refused else { return error };
    let millis = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX).saturating_add(1);
    error.with_data(ObjectWriter::new().integer("retryAfterMs", millis).finish())
}

pub(super) fn too_many() -> RpcError {
    RpcError::internal("too many requests at once")
}
