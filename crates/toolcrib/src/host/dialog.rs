//! One conversation of one agent: what it may use, what it holds, and what it is asked.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use toolcrib_config::model::policy::Roots;
use toolcrib_wire::view::LogLevel;
use toolcrib_wire::{Era, Raw, RpcError, method};

use super::answers::{Answers, Declared};
use super::background::Jobs;
use super::call::{CallRequest, Execution};
use super::events::Events;
use super::handle::{Host, Waits};
use super::own::Own;
use super::questions::{Away, Question, Questions};
use super::serving::Serving;
use super::turn::Turn;
use crate::access::Switches;
use crate::lease::{Lease, Reminder, reminder};
use crate::registry::Server;
use crate::shape::{CallError, CallResult};
use crate::store::StoreError;

/// What a dialog is made of.
#[derive(Clone, Debug, Default)]
pub struct DialogRequest {
    /// A dialog that has this id is taken up again, with its switches; without one it gets an id of its own.
    pub id: Option<String>,
    /// Who asks; `default` where nothing is said.
    pub agent: Option<String>,
    /// Whose it is, in the words of whoever lets people in: to everybody else the id is taken.
    pub principal: Option<String>,
    /// The folder that it works in; the host's root where nothing is said.
    pub cwd: Option<PathBuf>,
    /// The era that whoever is behind it speaks, where that matters to servers.
    pub era: Option<Era>,
    /// What servers may ask of whoever is behind it; what the host was built with where nothing is said.
    pub answers: Option<Answers>,
}

/// A dialog. Clones are the same one; it lasts until it is ended or the host is.
#[derive(Clone, Debug)]
pub struct Dialog {
    pub(super) host: Host,
    pub(super) inner: Arc<Inner>,
}

/// What a dialog is to the host's parts.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) id: Arc<str>,
    pub(super) agent: Arc<str>,
    pub(super) principal: Option<String>,
    pub(super) cwd: PathBuf,
    pub(super) era: Option<Era>,
    pub(super) answers: Declared,
    pub(super) switches: Mutex<Arc<Switches>>,
    pub(super) own: Own,
    pub(super) questions: Questions,
    pub(super) jobs: Jobs,
    pub(super) events: Events,
    pub(super) ended: AtomicBool,
    pub(super) log_level: Mutex<Option<LogLevel>>,
}

/// A server that a dialog cannot switch, because there is none.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    #[error("there is no server `{0}` in this dialog")]
    NoServer(String),
    #[error("the switch cannot be kept")]
    Store(#[source] StoreError),
}

impl Dialog {
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    pub fn agent(&self) -> &str {
        &self.inner.agent
    }

    /// Whose it is, where that was said.
    pub fn principal(&self) -> Option<&str> {
        self.inner.principal.as_deref()
    }

    /// Whether it was ended, by whomever.
    pub fn has_ended(&self) -> bool {
        self.inner.has_ended()
    }

    pub fn cwd(&self) -> &std::path::Path {
        &self.inner.cwd
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Begins a turn: one snapshot from beginning to end. Waits for servers whose first list is still to come.
    pub async fn turn(&self) -> Turn {
        self.host.catch_up(&self.inner, Waits::ForLists).await;
        self.turn_now()
    }

    /// A turn of what is known now; nothing is started or waited for.
    pub fn turn_now(&self) -> Turn {
        Turn::new(self.clone())
    }

    /// One call, on the newest snapshot.
    pub async fn call(&self, request: CallRequest) -> Result<CallResult, CallError> {
        self.execute(request).await.result()
    }

    /// One call, on the newest snapshot; whatever becomes of it is a value.
    pub async fn execute(&self, request: CallRequest) -> Execution {
        let turn = self.turn_for(&request.tool).await;
        turn.execute_as(turn.number_of(&request), &request).await
    }

    /// A tool that is not known may be one of a server that has never been asked.
    pub(super) async fn turn_for(&self, tool: &str) -> Turn {
        let turn = self.turn_now();
        match turn.knows(tool) {
            true => turn,
            false => {
                Box::pin(self.host.catch_up(&self.inner, Waits::ForAll)).await;
                self.turn_now()
            }
        }
    }

    /// A turn for the call of a tool: where the tool's server died, it is started again and waited for.
    pub async fn turn_with(&self, tool: &str) -> Turn {
        self.turn_for(tool).await.with_restarted(tool).await
    }

    /// The servers that the dialog could have tools of, and whether it has them switched on.
    pub fn switches(&self) -> Vec<(Arc<Server>, bool)> {
        let published = self.host.core().published.load_full();
        let switches = self.inner.switches();
        let servers = published.snapshot.view(Some(&self.inner.cwd)).servers();
        servers.map(|server| (Arc::clone(server), switches.is_on(&server.key))).collect()
    }

    /// Switches a server on or off for this dialog alone. The switch is kept for as long as the dialog.
    pub async fn switch(&self, server: &str, on: bool) -> Result<(), SwitchError> {
        let key = self.key_of(server).ok_or_else(|| SwitchError::NoServer(server.to_owned()))?;
        let kept = self.host.core().store.set_switch(&self.inner.id, &key, on).await;
        kept.map_err(SwitchError::Store)?;
        let mut switches = self.inner.switches.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = Switches::clone(&switches);
        changed.set(&key, on);
        *switches = Arc::new(changed);
        Ok(())
    }

    /// The key of the server that the dialog means by an id or a key.
    pub(super) fn key_of(&self, server: &str) -> Option<Arc<str>> {
        let published = self.host.core().published.load();
        let found = published.snapshot.view(Some(&self.inner.cwd)).server(server);
        found.map(|server| Arc::clone(&server.key))
    }

    /// The leases that the dialog holds, server by server.
    pub fn leases(&self) -> Vec<Lease> {
        let held = |lease: &Lease| lease.dialog == self.inner.id;
        let published = self.host.core().published.load_full();
        let mut leases: Vec<Lease> =
            published.all_serving().flat_map(|serving| serving.leases()).filter(held).collect();
        leases.sort_by_key(|lease| lease.since);
        leases
    }

    /// Whether it has any lease. Asked for every list of every client, so all leases of all are not looked through.
    pub(super) fn has_lease(&self) -> bool {
        let published = self.host.core().published.load_full();
        published.all_serving().any(|serving| serving.has_lease(&self.inner.id))
    }

    /// Gives a lease back, by the server's id or key. False where the dialog has none.
    pub fn release(&self, server: &str) -> bool {
        let published = self.host.core().published.load_full();
        let found = published.snapshot.view(Some(&self.inner.cwd)).server(server);
        let serving = found.and_then(|server| published.serving(server));
        serving.is_some_and(|serving| serving.release(&self.inner.id))
    }

    /// What the agent is to be reminded of: one note for each lease, as long as there is the lease.
    pub fn reminders(&self) -> Vec<Reminder> {
        let published = self.host.core().published.load_full();
        let mut reminders: Vec<Reminder> = published
            .all_serving()
            .flat_map(|serving| {
                let held = serving.leases().into_iter().filter(|it| it.dialog == self.inner.id);
                let session = serving.spec().policy.session.clone();
                held.filter_map(move |lease| reminder(&lease, &session)).collect::<Vec<_>>()
            })
            .collect();
        reminders.sort_by(|a, b| a.server.cmp(&b.server));
        reminders
    }

    /// What servers want to know of whoever is behind the dialog.
    pub fn questions(&self) -> Vec<Question> {
        self.inner.questions.waiting()
    }

    /// Whether this question still waits for its answer.
    pub fn is_asked(&self, question: u64) -> bool {
        self.inner.questions.is_open(question)
    }

    /// The client of this call cannot be asked: another call carries the question. False where no other can.
    pub fn pass_over(&self, question: u64, call: u64) -> bool {
        self.inner.questions.pass_over(question, call, self.inner.answers.get())
    }

    /// Answers a question; a refusal is an error. True if the answer reaches the server's request, false if nobody
    /// waits for it any more.
    pub fn answer(&self, question: u64, answer: Result<Raw, RpcError>) -> bool {
        self.inner.questions.answer(question, answer)
    }

    /// A request says that this can be asked, too: sessions that are opened from now on are told so.
    pub fn declare(&self, answers: Answers) {
        self.inner.answers.add(answers);
    }

    /// The folders of whoever is behind the dialog are others now: servers are told that were told of such changes.
    pub fn roots_changed(&self, params: Option<&Raw>) {
        if !self.inner.answers.get().roots_changes {
            return;
        }
        let published = self.host.core().published.load_full();
        let asks = |serving: &Serving| serving.spec().policy.client.roots == Roots::Cwd;
        for serving in published.all_serving().filter(|serving| asks(serving)) {
            serving.tell(&self.inner.id, method::ROOTS_CHANGED, params);
        }
    }

    /// Nobody attends to this call for a while.
    pub fn away(&self, call: u64) -> Away {
        Away::new(&self.inner, call)
    }

    /// Sees a change whenever a question begins, ends or changes its carrier.
    pub fn asked(&self) -> watch::Receiver<u64> {
        self.inner.questions.watch()
    }

    /// The least severe log messages that servers are to send in this dialog; what the configuration says until
    /// then.
    pub fn set_log_level(&self, level: LogLevel) {
        *self.inner.log_level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
    }

    /// A number for a call that is still to be made.
    pub fn number(&self) -> u64 {
        self.host.core().next_call()
    }

    /// Starts a call and returns its number at once.
    pub fn start(&self, request: CallRequest) -> Result<u64, CallError> {
        self.inner.jobs.start(self.clone(), request)
    }

    /// How a call that was started ended; nothing while it goes on or if there is no such call.
    pub fn poll(&self, call: u64) -> Option<Execution> {
        self.inner.jobs.poll(call)
    }

    /// Whether this call, which was started, goes on.
    pub fn is_underway(&self, call: u64) -> bool {
        self.inner.jobs.is_underway(call)
    }

    /// Whether any call that was started goes on.
    pub fn is_busy(&self) -> bool {
        self.inner.jobs.is_busy()
    }

    /// How a call that was started ended, and waits for the end. Nothing if there is no such call.
    pub async fn wait(&self, call: u64) -> Option<Execution> {
        self.inner.jobs.wait(call).await
    }

    /// Cancels a call that was started. False if it has ended or there is none.
    pub fn cancel(&self, call: u64) -> bool {
        self.inner.jobs.cancel(call)
    }

    /// Ends the dialog with all that it holds; its switches are forgotten.
    pub async fn end(&self) {
        self.host.end_dialog(&self.inner.id).await;
    }
}

impl Inner {
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    pub(super) fn log_level(&self) -> Option<LogLevel> {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn switches(&self) -> Arc<Switches> {
        Arc::clone(&self.switches.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
