//! What belongs to one client: its dialog, what it was asked, and what is being done for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::AbortHandle;
use tokio::runtime::Handle;
use tokio::sync::{Notify, OnceCell, mpsc, watch};
use tokio::time::{Instant, timeout};
use toolcrib::Dialog;
use toolcrib::host::{DialogRequest, Question, Subscription};
use toolcrib_upstream::conn::peer::CallOff;
use toolcrib_wire::view::LogLevel;
use toolcrib_wire::{Id, Malformed, Message, Raw, Response, RpcError, build};

use super::Gateway;
use super::caller::{Caller, Opened};
use super::lists::{List, Listed, Prints};
use super::outlet::{Course, Outlet};
use super::parked::{Parked, Parking};
use crate::identity::namespace::dialog_id;

/// Requests of one client that are under way at once; more are refused.
const AT_ONCE: usize = 256;

/// How long a first list waits for servers that are just starting.
const FIRST_LIST: Duration = Duration::from_secs(3);

/// Whose client it is, and what it came for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Who {
    /// Whoever lets people in knows them by that.
    pub principal: Option<Arc<str>>,
    pub agent: Arc<str>,
    /// Whether the principal may be any agent.
    pub chooses: bool,
    /// The one server that it sees, under the server's own names; all where nothing is said.
    pub server: Option<Arc<str>>,
    /// The dialog that it goes on with or begins; one of its own where nothing is said.
    pub dialog: Option<Arc<str>>,
}

impl Who {
    /// One who sees everything that an agent may see.
    pub fn agent(agent: &str) -> Self {
        Who { principal: None, agent: agent.into(), chooses: true, server: None, dialog: None }
    }

    /// Whether what this one began may be used by another: by the same principal, of the same address, with the same
    /// agent unless the principal may choose it.
    pub(super) fn is_open_to(&self, other: &Who) -> bool {
        self.principal == other.principal
            && self.server == other.server
            && (other.chooses || self.agent == other.agent)
    }

    /// The id of the dialog that it names.
    fn dialog_id(&self) -> Option<String> {
        let name = self.dialog.as_deref()?;
        let principal = self.principal.as_deref().unwrap_or_default();
        Some(dialog_id(principal, &self.agent, self.chooses, name))
    }
}

/// One client.
#[derive(Debug)]
pub struct Client {
    pub(super) gateway: Arc<Gateway>,
    pub(super) who: Who,
    dialog: OnceCell<Dialog>,
    /// Told when there is a dialog.
    began: Notify,
    /// Told when it has opened a session.
    opening: Notify,
    settled: OnceCell<()>,
    parking: Parking,
    ended: watch::Sender<bool>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    opened: Option<Opened>,
    log_level: Option<LogLevel>,
    last_question: i64,
    /// Questions of the dialog that it was asked and has not answered, by the ids of the requests.
    questions: HashMap<Id, u64>,
    /// What may be called off: a client may use an id twice, and then it is the newer one.
    running: BTreeMap<Id, Run>,
    last_run: u64,
    /// Requests that are under way, whatever their ids are.
    underway: usize,
    subscriptions: HashMap<String, Subscription>,
    /// Where messages go that come on another way than the stream they are answered on.
    inbox: Option<Inbox>,
    seen: Prints,
    /// When the last of what it had open was closed.
    used: Instant,
    /// Requests and streams that it has open.
    open: usize,
}

/// A request that is being answered.
#[derive(Debug)]
struct Run {
    number: u64,
    task: AbortHandle,
    call_off: CallOff,
}

type Inbox = mpsc::Sender<Result<Message, Malformed>>;

/// While it lives, the client is not idle.
#[derive(Debug)]
pub(super) struct Open(Arc<Client>);

/// A question that the client was asked. If the question ends without an answer the client is told.
pub(super) struct AskedQuestion<'a> {
    client: &'a Client,
    dialog: &'a Dialog,
    question: &'a Question,
    id: Id,
    out: &'a Outlet,
    is_sent: bool,
}

impl Drop for AskedQuestion<'_> {
    fn drop(&mut self) {
        // Only its carrier has ended: the client may still answer it, and another call may carry it.
        if self.is_sent && self.dialog.is_asked(self.question.id) {
            return;
        }
        let is_unanswered = self.client.inner().questions.remove(&self.id).is_some();
        if self.is_sent && is_unanswered {
            let id = self.id.clone();
            self.out.offer(self.question.call_off.notification(id, "it is asked no more"));
        }
    }
}

impl Open {
    /// Goes on with something, for as long as the gateway is open.
    pub(super) fn go_on(&self, work: impl Future<Output = ()> + Send + 'static) {
        let client = Arc::clone(&self.0);
        let is_over = Handle::try_current().is_err() || client.gateway.is_closing();
        if !is_over {
            let open = client.busy();
            client.gateway.spawn(async move {
                tokio::select! {
                    () = work => {}
                    () = open.0.gone() => {}
                    () = open.0.gateway.closing() => {}
                }
            });
        }
    }
}

impl Client {
    pub(super) fn new(gateway: &Arc<Gateway>, who: Who) -> Arc<Self> {
        Arc::new(Client {
            gateway: Arc::clone(gateway),
            who,
            dialog: OnceCell::new(),
            began: Notify::new(),
            opening: Notify::new(),
            settled: OnceCell::new(),
            parking: Parking::default(),
            ended: watch::Sender::new(false),
            inner: Mutex::new(Inner {
                opened: None,
                log_level: None,
                last_question: 0,
                questions: HashMap::new(),
                running: BTreeMap::new(),
                last_run: 0,
                underway: 0,
                subscriptions: HashMap::new(),
                inbox: None,
                seen: Prints::default(),
                used: Instant::now(),
                open: 0,
            }),
        })
    }

    /// The client's dialog; it begins with the first request that needs one.
    pub(super) async fn dialog(&self, caller: &Caller) -> Result<&Dialog, RpcError> {
        let begin = || async {
            let request = DialogRequest {
                id: self.who.dialog_id(),
                agent: Some(self.who.agent.to_string()),
                principal: self.who.principal.as_deref().map(str::to_owned),
                era: Some(caller.era()),
                answers: Some(caller.answers()),
                ..DialogRequest::default()
            };
            self.gateway.host.dialog(request).await
        };
        if let Some(dialog) = self.dialog.get() {
            return Ok(dialog);
        }
        let dialog = Box::pin(self.dialog.get_or_try_init(begin)).await;
        self.began.notify_waiters();
        dialog.map_err(|error| RpcError::internal(toolcrib_upstream::signals::chain(&error)))
    }

    /// A client's first list waits a moment for servers that are just starting: many clients list but once.
    pub(super) async fn settle(&self) {
        let settled = || async {
            // Whoever comes later is told as a change.
            let _ = timeout(FIRST_LIST, self.gateway.host.settled()).await;
        };
        self.settled.get_or_init(settled).await;
    }

    /// The dialog, once there is one. For any number who wait.
    pub(super) async fn begins(&self) -> &Dialog {
        loop {
            let begins = self.began.notified();
            if let Some(dialog) = self.dialog.get() {
                return dialog;
            }
            begins.await;
        }
    }

    /// The dialog, if there is one already.
    pub(super) fn begun(&self) -> Option<&Dialog> {
        self.dialog.get()
    }

    /// Whether its dialog was ended by somebody else.
    pub(super) fn is_over(&self) -> bool {
        self.begun().is_some_and(Dialog::has_ended)
    }

    pub(super) fn opened(&self) -> Option<Opened> {
        self.inner().opened.clone()
    }

    pub(super) fn open(&self, opened: Opened) {
        self.inner().opened = Some(opened);
        self.opening.notify_waiters();
    }

    /// Waits until it has opened a session of the legacy era.
    pub(super) async fn opens(&self) {
        loop {
            let opens = self.opening.notified();
            if self.opened().is_some() {
                return;
            }
            opens.await;
        }
    }

    pub(super) fn hears(&self, inbox: Inbox) {
        self.inner().inbox = Some(inbox);
    }

    /// A message that came on another way; false if nobody takes it.
    pub(super) async fn put(&self, message: Result<Message, Malformed>) -> bool {
        let inbox = self.inner().inbox.clone();
        match inbox {
            Some(inbox) => inbox.send(message).await.is_ok(),
            None => false,
        }
    }

    /// The least severe log messages that it wants, if it said so.
    pub(super) fn log_level(&self) -> Option<LogLevel> {
        self.inner().log_level
    }

    pub(super) fn set_log_level(&self, level: LogLevel) {
        self.inner().log_level = Some(level);
    }

    /// Something is under way for it.
    pub(super) fn busy(self: &Arc<Self>) -> Open {
        self.inner().open += 1;
        Open(Arc::clone(self))
    }

    /// How long nothing was under way for it.
    pub(super) fn idle(&self) -> Duration {
        let inner = self.inner();
        match inner.open {
            0 => inner.used.elapsed(),
            _ => Duration::ZERO,
        }
    }

    /// Whether one more request may be under way.
    pub(super) fn has_room(&self) -> bool {
        self.inner().underway < AT_ONCE
    }

    /// The number that it has to be finished with.
    pub(super) fn started(&self, id: Id, task: AbortHandle, course: &Course) -> u64 {
        let mut inner = self.inner();
        inner.underway += 1;
        inner.last_run += 1;
        let (number, call_off) = (inner.last_run, course.call_off.clone());
        inner.running.insert(id, Run { number, task, call_off });
        number
    }

    pub(super) fn finished(&self, id: &Id, run: u64) {
        let mut inner = self.inner();
        inner.underway = inner.underway.saturating_sub(1);
        if inner.running.get(id).is_some_and(|newest| newest.number == run) {
            inner.running.remove(id);
        }
    }

    /// Calls off a request; the words are for whoever works on it.
    pub(super) fn cancel(&self, id: &Id, words: Option<Raw>) {
        let Some(run) = self.inner().running.remove(id) else { return };
        if let Some(words) = words {
            run.call_off.say(words);
        }
        run.task.abort();
    }

    /// Asks the client a question on the stream of one of its requests, once: a question that was asked on the stream
    /// of another request keeps its id. `None` where the client has gone.
    pub(super) async fn ask<'a>(
        &'a self,
        dialog: &'a Dialog,
        question: &'a Question,
        out: &'a Outlet,
    ) -> Option<AskedQuestion<'a>> {
        let (id, is_sent) = {
            let mut inner = self.inner();
            inner.questions.retain(|_, asked| dialog.is_asked(*asked));
            let known = inner.questions.iter().find(|(_, asked)| **asked == question.id);
            match known.map(|(id, _)| id.clone()) {
                Some(id) => (id, true),
                None => {
                    inner.last_question += 1;
                    let id = Id::Number(inner.last_question);
                    inner.questions.insert(id.clone(), question.id);
                    (id, false)
                }
            }
        };
        let mut asked = AskedQuestion { client: self, dialog, question, id, out, is_sent };
        if !asked.is_sent {
            let message = build::request(&asked.id, &question.method, Some(question.params.json()));
            out.send(message).await.ok()?;
            asked.is_sent = true;
        }
        Some(asked)
    }

    /// Delivers the client's answer to the server that asked. False if nobody waits for it any more.
    pub(super) fn answered(&self, response: Response) -> bool {
        let asked = response.id.as_ref().and_then(|id| self.inner().questions.remove(id));
        let asked = asked.zip(self.begun());
        asked.is_some_and(|(question, dialog)| dialog.answer(question, response.into_answer()))
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

    /// What it was last given of its lists.
    pub(super) fn seen(&self) -> Prints {
        self.inner().seen
    }

    pub(super) fn saw(&self, list: List, listed: &Listed) {
        self.inner().seen.set(list, listed.print);
    }

    /// Keeps what the client is to come back for; the state that it can be had with.
    pub(super) fn park(&self, what: Parked) -> Result<String, RpcError> {
        self.gateway.parkings.add(&self.parking);
        let state = self.parking.park(what)?;
        if self.gateway.is_closing() {
            self.parking.end_calls();
        }
        Ok(state)
    }

    /// What was parked with this state; once.
    pub(super) fn parked(&self, state: &str) -> Option<Parked> {
        self.parking.take(state)
    }

    /// Waits until the client has ended.
    pub(super) async fn gone(&self) {
        let mut ended = self.ended.subscribe();
        // The sender is in the client itself.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    /// Ends all that is the client's.
    pub(super) async fn end(&self) {
        self.ended.send_replace(true);
        self.let_go();
        self.parking.clear();
        if let Some(dialog) = self.dialog.get() {
            dialog.end().await;
        }
    }

    fn let_go(&self) {
        let mut inner = self.inner();
        inner.inbox = None;
        let running = std::mem::take(&mut inner.running);
        let left = (std::mem::take(&mut inner.questions), std::mem::take(&mut inner.subscriptions));
        drop(inner);
        running.into_values().for_each(|run| run.task.abort());
        drop(left);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut inner = self.0.inner();
        inner.open = inner.open.saturating_sub(1);
        inner.used = Instant::now();
    }
}
