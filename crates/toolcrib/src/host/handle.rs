//! The host as a program uses it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcrib_config::model::policy::{Connect, Reload as Taking};
use toolcrib_config::{Config, Problem};
use toolcrib_upstream::conn::{Event, Want};

use super::answers::Declared;
use super::background::Jobs;
use super::builder::HostBuilder;
use super::core::Core;
use super::dialog::{Dialog, DialogRequest, Inner};
use super::events::Listening;
use super::own::Own;
use super::questions::Questions;
use super::reload::Reload;
use super::serving::Serving;
use super::slot::{is_away, patience};
use super::status::{ServerStatus, Status, server_status};
use super::steward::Order;
use super::tally::Tallied;
use super::visibility::Visibility;
use crate::access::{DEFAULT_AGENT, Pass, Toolset};
use crate::store::{Store, StoreError};

/// What is left to write is written within this time when the host ends.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// A token that an issuer is about to give may be the only one of its kind, so it is waited for and kept.
const LAST_TOKENS: Duration = Duration::from_secs(10);

/// A running host. Clones are the same one; when the last one is dropped, everything ends at once.
/// [`Host::close`] ends it in good order.
#[derive(Clone, Debug)]
pub struct Host(Arc<Shell>);

#[derive(Debug)]
pub(super) struct Shell {
    core: Arc<Core>,
    steward: Mutex<JoinSet<()>>,
}

/// Whom somebody waits for who wants to know what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// Those that start with a list.
    ForLists,
    /// Those that come up beside, too: the tool that is wanted may be theirs.
    ForAll,
}

/// Why there is no such dialog.
#[derive(Debug, thiserror::Error)]
pub enum DialogError {
    #[error("`{}` is not a folder", .0.display())]
    NoFolder(PathBuf),
    #[error("the dialog's switches cannot be read")]
    Store(#[source] StoreError),
    #[error("a dialog of that id is somebody else's")]
    Taken,
    #[error("the host is ending")]
    Ending,
}

impl Host {
    /// A host for a workspace, which keeps its state in a folder of its own.
    pub fn builder(root: impl Into<PathBuf>, state: impl Into<PathBuf>) -> HostBuilder {
        HostBuilder::new(root, state)
    }

    pub(super) fn new(core: Arc<Core>, steward: JoinSet<()>) -> Self {
        Host(Arc::new(Shell { core, steward: Mutex::new(steward) }))
    }

    pub(super) fn of(shell: Arc<Shell>) -> Self {
        Host(shell)
    }

    pub(super) fn shell(&self) -> &Arc<Shell> {
        &self.0
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.0.core
    }

    /// Waits until the first configuration is taken up: every eager server is ready or has failed.
    pub async fn ready(&self) {
        let mut loaded = self.core().first_load.subscribe();
        // An error means that the host has ended, and then there is nothing to wait for.
        let _ = loaded.wait_for(|loaded| *loaded).await;
    }

    /// Waits until the configuration was read once: before that nobody knows what it says.
    pub async fn configured(&self) {
        let core = self.core();
        let (mut version, mut loaded) = (core.version.subscribe(), core.first_load.subscribe());
        tokio::select! {
            _ = version.wait_for(|version| *version > 0) => {}
            // Where it could not be read at all, or the host has ended.
            _ = loaded.wait_for(|loaded| *loaded) => {}
        }
    }

    /// Whether the first configuration is taken up.
    pub fn is_ready(&self) -> bool {
        *self.core().first_load.borrow()
    }

    /// Waits until every server that is starting is up or has failed, or its time is over, and what they offer is
    /// published.
    pub async fn settled(&self) {
        self.ready().await;
        let published = self.core().published.load_full();
        join_all(published.all_serving().map(|serving| serving.settled())).await;
        self.core().listed().await;
    }

    /// Reads the configuration anew and takes up what changed. The answer comes when what was started is up or
    /// has failed; nothing if the host is ending.
    pub async fn reload(&self) -> Option<Arc<Reload>> {
        self.order(Order::Reload).await
    }

    /// What the newest reload did. Starting is one, too, and its end is waited for; nothing if the host ends
    /// before.
    pub async fn last_reload(&self) -> Option<Arc<Reload>> {
        let mut events = self.listen();
        loop {
            if let Some(reload) = self.core().last_reload.load_full() {
                return Some(reload);
            }
            if events.next().await.is_none() {
                // Too slow to hear all, or the host has ended.
                events = self.listen();
                if events.is_over() {
                    return None;
                }
            }
        }
    }

    /// The number of the newest snapshot.
    pub fn version(&self) -> u64 {
        *self.core().version.borrow()
    }

    /// The configuration that the newest snapshot is of.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.core().published.load().config)
    }

    /// A dialog: a new one, or the one of that id.
    pub async fn dialog(&self, request: DialogRequest) -> Result<Dialog, DialogError> {
        let core = self.core();
        let id: Arc<str> = request.id.unwrap_or_else(fresh_id).into();
        let agent: Arc<str> = request.agent.as_deref().unwrap_or(DEFAULT_AGENT).into();
        let principal = request.principal;
        let own = |inner: Arc<Inner>| match inner.agent == agent && inner.principal == principal {
            true => Ok(Dialog { host: self.clone(), inner }),
            false => Err(DialogError::Taken),
        };
        if let Some(inner) = core.dialogs.get(&id) {
            return own(inner);
        }
        let cwd = self.folder(request.cwd)?;
        let switches = core.store.switches(&id).await.map_err(DialogError::Store)?;
        let inner = Arc::new(Inner {
            agent: Arc::clone(&agent),
            principal: principal.clone(),
            era: request.era,
            answers: Declared::new(request.answers.unwrap_or(core.answers)),
            switches: Mutex::new(Arc::new(switches.into_iter().collect())),
            own: Own::default(),
            questions: Questions::default(),
            jobs: Jobs::default(),
            events: core.events.clone(),
            ended: AtomicBool::new(false),
            log_level: Mutex::default(),
            cwd,
            id,
        });
        own(self.enter(inner).await?)
    }

    /// A folder other than the root has a configuration of its own.
    async fn enter(&self, new: Arc<Inner>) -> Result<Arc<Inner>, DialogError> {
        let core = self.core();
        if new.cwd != core.workspace.root {
            let entered = self.order(|reply| Order::Enter(new.cwd.clone(), reply)).await;
            entered.ok_or(DialogError::Ending)?;
        }
        let inner = core.dialogs.get_or_add(Arc::clone(&new));
        if !Arc::ptr_eq(&inner, &new) {
            self.leave(&new);
        }
        Ok(inner)
    }

    fn leave(&self, inner: &Inner) {
        if inner.cwd != self.core().workspace.root {
            self.core().leave(inner.cwd.clone());
        }
    }

    /// The dialog of that id, if there is one.
    pub fn dialog_of(&self, id: &str) -> Option<Dialog> {
        self.core().dialogs.get(id).map(|inner| Dialog { host: self.clone(), inner })
    }

    pub fn dialogs(&self) -> Vec<Dialog> {
        let all = self.core().dialogs.list().into_iter();
        all.map(|inner| Dialog { host: self.clone(), inner }).collect()
    }

    pub(super) async fn end_dialog(&self, id: &str) {
        let core = self.core();
        let Some(inner) = core.dialogs.remove(id) else { return };
        // First: whoever takes a lease after the leases have ended sees it.
        inner.ended.store(true, Ordering::SeqCst);
        inner.jobs.close();
        inner.questions.close();
        core.whole.forget(id);
        for serving in core.published.load().all_serving() {
            serving.dialog_ended(&inner.id);
        }
        self.leave(&inner);
        // Last: whoever asked for the end may not wait for this.
        if let Err(error) = core.store.forget_dialog(id).await {
            tracing::warn!(dialog = id, %error, "a dialog's switches are still there");
        }
    }

    /// Every server, in the order of the files.
    pub fn servers(&self) -> Vec<ServerStatus> {
        let published = self.core().published.load_full();
        let all = published.snapshot.servers();
        all.filter_map(|server| server_status(&published, server)).collect()
    }

    /// One server, by its id or key.
    pub fn server(&self, name: &str) -> Result<ServerStatus, super::ops::OpError> {
        let key = Arc::clone(&self.find(name)?.key);
        let gone = || super::ops::OpError::NoServer { name: name.to_owned(), known: Vec::new() };
        self.servers().into_iter().find(|server| server.key == key).ok_or_else(gone)
    }

    /// The servers that an agent may know of; with no agent, those that the owner may know of.
    pub fn visibility(&self, agent: Option<&str>) -> Visibility {
        let core = self.core();
        Visibility::new(core.published.load_full(), core.attached.load_full(), agent)
    }

    /// Whether there is one server of that id or key.
    pub fn has_server(&self, name: &str) -> bool {
        self.find(name).is_ok()
    }

    /// Whether an agent may use anything of any server.
    pub fn has_grants(&self, agent: &str) -> bool {
        let (published, attached) = (self.core().published.load(), self.core().attached.load());
        published.snapshot.servers().any(|server| {
            let toolset = Toolset::Server(&server.spec);
            !Pass::of(&published.grants, agent, &attached, toolset).is_empty()
        })
    }

    /// The folder that the host is of.
    pub fn root(&self) -> &std::path::Path {
        &self.core().workspace.root
    }

    /// Everything that is wrong now.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = self.core().problems.all();
        problems.extend(self.core().store.problems());
        problems.extend(self.core().world.sources.keep().problem());
        problems
    }

    /// Hears everything that changes from now on.
    pub fn listen(&self) -> Listening {
        self.core().events.listen()
    }

    pub fn status(&self) -> Status {
        let core = self.core();
        let published = core.published.load_full();
        let serving = || published.all_serving();
        Status {
            version: published.snapshot.version(),
            uptime: core.started.elapsed(),
            servers: serving().count(),
            ready: serving().filter(|it| it.is_ready()).count(),
            tools: published.snapshot.tool_count(),
            dialogs: core.dialogs.count(),
            leases: serving().map(|it| it.leases().len()).sum(),
            problems: self.problems().len(),
            draining: core.supervisor.draining(),
            reloads: core.reloads.load(Ordering::Relaxed),
            dropped_records: core.store.dropped_records(),
        }
    }

    /// How calls ended since the host began, tool by tool.
    pub fn tally(&self) -> Vec<Tallied> {
        self.core().tally.read()
    }

    /// What the host remembers: records of calls among other things.
    pub fn store(&self) -> &Store {
        &self.core().store
    }

    /// Lets an agent use a server whose access is by attachment. False where it is attached already, or where
    /// there is no such server.
    pub fn attach(&self, agent: &str, server: &str) -> bool {
        self.attachment(server, |attached, key| attached.attach(agent, key))
    }

    /// Takes that back. False where it was not attached.
    pub fn detach(&self, agent: &str, server: &str) -> bool {
        self.attachment(server, |attached, key| attached.detach(agent, key))
    }

    fn attachment(
        &self,
        server: &str,
        change: impl Fn(&mut crate::access::Attached, &str) -> bool,
    ) -> bool {
        let Ok(serving) = self.find(server) else { return false };
        let mut changed = false;
        self.core().attached.rcu(|attached| {
            let mut attached = crate::access::Attached::clone(attached);
            changed = change(&mut attached, &serving.key);
            attached
        });
        changed
    }

    /// Ends everything in good order: dialogs, servers and their processes, and what is left to write.
    pub async fn close(&self) {
        let core = self.core();
        // Nobody needs to wait for what will not come any more.
        core.first_load.send_replace(true);
        for dialog in core.dialogs.list() {
            dialog.ended.store(true, Ordering::SeqCst);
            dialog.jobs.close();
            dialog.questions.close();
            core.dialogs.remove(&dialog.id);
        }
        let mut steward =
            std::mem::take(&mut *self.0.steward.lock().unwrap_or_else(PoisonError::into_inner));
        steward.shutdown().await;
        core.published.load().all_serving().for_each(|serving| serving.end_leases());
        let limit = core.published.load().config.host.reload.shutdown_limit();
        core.supervisor.close(limit).await;
        let mut tasks =
            std::mem::take(&mut *core.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.shutdown().await;
        core.world.accounts.settled(LAST_TOKENS).await;
        core.world.instance.close().await;
        core.store.close(LAST_WRITES).await;
        core.events.close();
    }

    /// What a list waits for: the first load, a file that changed, servers that start with the first list. A server
    /// that died is started again and not waited for (DOM-94, DIS-32).
    pub(super) async fn catch_up(&self, dialog: &Inner, waits: Waits) {
        self.ready().await;
        if self.is_per_turn(dialog) {
            // Nothing comes where nothing has changed.
            let _ = self.order(Order::Recheck).await;
        }
        let (unlisted, away) = self.unlisted(dialog, waits);
        for serving in away {
            // A full inbox is harmless: the next list wants it again.
            serving.server.main().nudge(Event::Wanted(Want::List));
        }
        let starts = unlisted.iter().map(|serving| async move {
            let ready = serving.server.main().first_try(Want::List);
            // A server that fails does not keep the others from being listed.
            let _ = timeout(patience(serving.spec()), ready).await;
        });
        join_all(starts).await;
        if !unlisted.is_empty() {
            self.core().listed().await;
        }
    }

    /// The servers whose lists are read now, because nobody knows them yet or they may be old; and those that are
    /// away.
    fn unlisted(&self, dialog: &Inner, waits: Waits) -> (Vec<Arc<Serving>>, Vec<Arc<Serving>>) {
        let published = self.core().published.load_full();
        let switches = dialog.switches();
        let seen = published.snapshot.view(Some(&dialog.cwd)).servers();
        let (mut wanted, mut away) = (Vec::new(), Vec::new());
        for server in seen.filter(|server| switches.is_on(&server.key)) {
            let Some(serving) = published.serving(server) else { continue };
            if is_away(serving.state()) {
                // A dialog that has the connection for itself starts it again by its next call.
                let is_shared = !serving.server.is_lent();
                away.extend(is_shared.then(|| Arc::clone(serving)));
                continue;
            }
            let is_wanted = match server.spec.policy.lifecycle.connect {
                Connect::OnFirstList | Connect::OnFirstCall => !server.is_discovered,
                Connect::Background => !server.is_discovered && waits == Waits::ForAll,
                Connect::Eager => false,
            };
            let may_be_old = !server.spec.policy.discovery.ttl.0.is_zero();
            wanted.extend((is_wanted || may_be_old).then(|| Arc::clone(serving)));
        }
        (wanted, away)
    }

    /// Whether files are looked at before each turn.
    fn is_per_turn(&self, dialog: &Inner) -> bool {
        let published = self.core().published.load();
        let mut seen = published.snapshot.view(Some(&dialog.cwd)).servers();
        published.config.host.reload.mode == Taking::PerTurn
            || seen.any(|server| server.spec.policy.reload == Taking::PerTurn)
    }

    /// A server by its id or key, whoever sees it.
    pub(super) fn find(&self, name: &str) -> Result<Arc<Serving>, super::ops::OpError> {
        let published = self.core().published.load_full();
        let mut found = published.snapshot.servers().filter(|server| server.is_called(name));
        match (found.next(), found.next()) {
            (Some(server), None) => published.serving(server).cloned(),
            (Some(first), Some(_)) if &*first.key == name => published.serving(first).cloned(),
            _ => None,
        }
        .ok_or_else(|| {
            let known = published.snapshot.servers().map(|server| server.id().to_owned());
            super::ops::OpError::NoServer { name: name.to_owned(), known: known.collect() }
        })
    }

    /// Asks the steward for something and waits for the answer; nothing if the host is ending.
    pub(super) async fn order<T>(
        &self,
        order: impl FnOnce(oneshot::Sender<T>) -> Order,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.core().orders.send(order(reply)).await.ok()?;
        answer.await.ok()
    }
}

fn fresh_id() -> String {
    // Without chance there is still the time.
    let chance = getrandom::u64().unwrap_or_default();
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{:012x}{chance:016x}", time.as_micros())
}

impl Host {
    fn folder(&self, cwd: Option<PathBuf>) -> Result<PathBuf, DialogError> {
        let root = &self.core().workspace.root;
        let Some(cwd) = cwd else { return Ok(root.clone()) };
        let real = cwd.canonicalize().ok().filter(|folder| folder.is_dir());
        let real = real.ok_or(DialogError::NoFolder(cwd))?;
        // The root is known by the name that it was given.
        let is_root = root.canonicalize().is_ok_and(|root| root == real);
        Ok(if is_root { root.clone() } else { real })
    }
}
