//! What belongs to one client: its dialog, what it was asked, and what is being done for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OnceCell, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use toolcrib::Dialog;
use toolcrib::host::{DialogRequest, Subscription};
use toolcrib_wire::subscription::SubscriptionFilter;
use toolcrib_wire::{Id, Raw, Response, RpcError, build};

use super::Gateway;
use super::caller::{Caller, Opened};

/// Requests of one client that are under way at once; more are refused.
const AT_ONCE: usize = 256;

/// Calls that wait for an answer of the client; beyond, the oldest are given up.
const PARKED: usize = 64;

/// How long a first list waits for servers that are just starting.
const FIRST_LIST: Duration = Duration::from_secs(3);

/// One client.
#[derive(Debug)]
pub struct Client {
    pub(super) gateway: Arc<Gateway>,
    agent: String,
    dialog: OnceCell<Dialog>,
    /// Told when there is a dialog.
    began: Notify,
    settled: OnceCell<()>,
    /// What it is told besides answers.
    pub(super) out: mpsc::Sender<Raw>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    opened: Option<Opened>,
    last_question: i64,
    questions: HashMap<Id, oneshot::Sender<Response>>,
    running: HashMap<Id, AbortHandle>,
    /// Calls under way whose client was asked something, by the state that it gives back; the oldest first.
    parked: Vec<(String, u64)>,
    listeners: Vec<(Id, SubscriptionFilter)>,
    subscriptions: HashMap<String, Subscription>,
}

impl Client {
    pub(super) fn new(gateway: &Arc<Gateway>, agent: &str, out: mpsc::Sender<Raw>) -> Arc<Self> {
        Arc::new(Client {
            gateway: Arc::clone(gateway),
            agent: agent.to_owned(),
            dialog: OnceCell::new(),
            began: Notify::new(),
            settled: OnceCell::new(),
            out,
            inner: Mutex::default(),
        })
    }

    /// The client's dialog; it begins with the first request that needs one.
    pub(super) async fn dialog(&self, caller: &Caller) -> Result<&Dialog, RpcError> {
        let begin = || async {
            let request = DialogRequest {
                agent: Some(self.agent.clone()),
                era: Some(caller.era()),
                answers: Some(caller.answers()),
                ..DialogRequest::default()
            };
            self.gateway.host.dialog(request).await
        };
        let dialog = self.dialog.get_or_try_init(begin).await;
        self.began.notify_one();
        dialog.map_err(|error| RpcError::internal(toolcrib::signals::chain(&error)))
    }

    /// A client's first list waits a moment for servers that are just starting: many clients list but once.
    pub(super) async fn settle(&self) {
        let settled = || async {
            // Whoever comes later is told as a change.
            let _ = timeout(FIRST_LIST, self.gateway.host.settled()).await;
        };
        self.settled.get_or_init(settled).await;
    }

    /// The dialog, once there is one. For one who waits.
    pub(super) async fn begins(&self) -> &Dialog {
        loop {
            if let Some(dialog) = self.begun() {
                return dialog;
            }
            self.began.notified().await;
        }
    }

    /// The dialog, if there is one already.
    pub(super) fn begun(&self) -> Option<&Dialog> {
        self.dialog.get()
    }

    pub(super) fn opened(&self) -> Option<Opened> {
        self.inner().opened.clone()
    }

    pub(super) fn open(&self, opened: Opened) {
        self.inner().opened = Some(opened);
    }

    /// Whether one more request may be under way.
    pub(super) fn has_room(&self) -> bool {
        let running = &mut self.inner().running;
        running.retain(|_, task| !task.is_finished());
        running.len() < AT_ONCE
    }

    pub(super) fn started(&self, id: Id, task: AbortHandle) {
        self.inner().running.insert(id, task);
    }

    pub(super) fn cancel(&self, id: &Id) {
        if let Some(task) = self.inner().running.remove(id) {
            task.abort();
        }
    }

    /// Asks the client something on the stream of one of its requests.
    pub(super) async fn ask(
        &self,
        method: &str,
        params: &Raw,
        out: &mpsc::Sender<Raw>,
    ) -> Option<Result<Raw, RpcError>> {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut inner = self.inner();
            inner.questions.retain(|_, asked| !asked.is_closed());
            inner.last_question += 1;
            let id = Id::Number(inner.last_question);
            inner.questions.insert(id.clone(), sender);
            id
        };
        out.send(build::request(&id, method, Some(params.json()))).await.ok()?;
        answer.await.ok().map(Response::into_answer)
    }

    pub(super) fn answered(&self, response: Response) {
        let asked = response.id.as_ref().and_then(|id| self.inner().questions.remove(id));
        if let Some(asked) = asked {
            // Whoever asked may have been cancelled since.
            let _ = asked.send(response);
        }
    }

    /// Keeps a call open until the client comes back with this state, which nobody can guess.
    pub(super) fn park(&self, call: u64) -> Result<String, RpcError> {
        let chance = [getrandom::u64(), getrandom::u64()].map(|part| part.ok());
        let [Some(a), Some(b)] = chance else {
            return Err(RpcError::internal("no randomness to be had"));
        };
        let state = format!("{a:016x}{b:016x}");
        let mut inner = self.inner();
        inner.parked.push((state.clone(), call));
        let over = inner.parked.len().saturating_sub(PARKED);
        let given_up: Vec<u64> = inner.parked.drain(..over).map(|(_, call)| call).collect();
        drop(inner);
        if let Some(dialog) = self.begun() {
            for call in given_up {
                dialog.cancel(call);
            }
        }
        Ok(state)
    }

    /// The call that was parked with this state; once.
    pub(super) fn unpark(&self, state: &str) -> Option<u64> {
        let mut inner = self.inner();
        let place = inner.parked.iter().position(|(known, _)| known == state)?;
        Some(inner.parked.remove(place).1)
    }

    pub(super) fn listen(&self, id: Id, filter: SubscriptionFilter) {
        self.inner().listeners.push((id, filter));
    }

    pub(super) fn unlisten(&self, id: &Id) {
        self.inner().listeners.retain(|(known, _)| known != id);
    }

    pub(super) fn listeners(&self) -> Vec<(Id, SubscriptionFilter)> {
        self.inner().listeners.clone()
    }

    pub(super) fn subscribe(&self, uri: &str, subscription: Subscription) {
        self.inner().subscriptions.insert(uri.to_owned(), subscription);
    }

    pub(super) fn unsubscribe(&self, uri: &str) -> Option<Subscription> {
        self.inner().subscriptions.remove(uri)
    }

    pub(super) fn is_subscribed(&self, uri: &str) -> bool {
        self.inner().subscriptions.contains_key(uri)
    }

    /// Ends all that is the client's.
    pub(super) async fn end(&self) {
        let inner = std::mem::take(&mut *self.inner());
        drop(inner);
        if let Some(dialog) = self.begun() {
            dialog.end().await;
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
