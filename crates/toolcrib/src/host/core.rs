//! What all parts of a host share.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use toolcrib_config::model::policy::SessionScope;
use toolcrib_config::{Config, Problem, Severity, Workspace};
use toolcrib_upstream::conn::World;
use toolcrib_upstream::schema::Checker;
use toolcrib_upstream::supervise::{Server, Supervisor};
use toolcrib_upstream::transport::Permissions;

use super::answers::Answers;
use super::desk::Desk;
use super::dialogs::Dialogs;
use super::ears::Ears;
use super::events::{Event, Events};
use super::memory::Whole;
use super::meters::Meter;
use super::problems::{Changed, Problems};
use super::published::{Ground, Published, Servers, planned};
use super::reload::Reload;
use super::serving::Serving;
use super::slot::Slot;
use super::steward::Order;
use super::tally::Tally;
use super::trust::Trust;
use super::turns::{Reading, Turns};
use crate::access::{Attached, Grants, Reach};
use crate::registry::NativeToolset;
use crate::store::{Override, Store};

/// How long a removed server waits for turns that have seen it and call nothing, where it has no limit of its own.
const LONGEST_TURN: Duration = Duration::from_secs(30);

pub(super) struct Core {
    pub(super) workspace: Workspace,
    pub(super) trust: Trust,
    pub(super) world: Arc<World>,
    pub(super) supervisor: Supervisor,
    pub(super) store: Store,
    pub(super) native: Vec<NativeToolset>,
    /// Who has each native toolset, by its name.
    pub(super) reach: HashMap<String, Reach>,
    pub(super) answers: Answers,
    /// Whether records of calls hold their arguments.
    pub(super) keeps_arguments: bool,
    pub(super) published: ArcSwap<Published>,
    /// The newest snapshot's number, for whoever waits for another.
    pub(super) version: watch::Sender<u64>,
    /// What the newest reload did; nothing before the first.
    pub(super) last_reload: ArcSwapOption<Reload>,
    pub(super) turns: Turns,
    pub(super) dialogs: Dialogs,
    pub(super) attached: ArcSwap<Attached>,
    pub(super) overrides: ArcSwap<BTreeMap<String, Override>>,
    pub(super) problems: Problems,
    pub(super) events: Events,
    pub(super) ears: Arc<Ears>,
    /// The calls of native tools.
    pub(super) meter: Arc<Meter>,
    pub(super) tally: Tally,
    pub(super) reloads: AtomicU64,
    pub(super) whole: Whole,
    pub(super) checker: Checker,
    pub(super) orders: mpsc::Sender<Order>,
    /// Whether the first configuration has been taken up.
    pub(super) first_load: watch::Sender<bool>,
    pub(super) started: Instant,
    /// What goes on beside: clerks of leases, and servers that wait for their end.
    pub(super) tasks: Mutex<JoinSet<()>>,
    /// Folders that dialogs have left; the steward has not heard of it yet.
    left: Mutex<Vec<PathBuf>>,
    last_version: AtomicU64,
    last_call: AtomicU64,
}

/// What a core is made of.
pub(super) struct Parts {
    pub(super) workspace: Workspace,
    pub(super) trust: Trust,
    pub(super) world: Arc<World>,
    pub(super) store: Store,
    pub(super) native: Vec<(NativeToolset, Reach)>,
    pub(super) answers: Answers,
    pub(super) keeps_arguments: bool,
    pub(super) overrides: BTreeMap<String, Override>,
    pub(super) orders: mpsc::Sender<Order>,
}

impl Core {
    pub(super) fn new(parts: Parts) -> Self {
        let events = Events::default();
        let ears = Arc::new(Ears::new(events.clone()));
        let supervisor = Supervisor::new(Arc::clone(&parts.world), Arc::clone(&ears) as _);
        let reach = parts.native.iter().map(|(toolset, to)| (toolset.name().to_owned(), *to));
        // Nothing is in it, but it can be read.
        let turns = Turns::default();
        let newest = turns.begin(0);
        let first = Published { reading: Arc::downgrade(&newest), ..Published::default() };
        turns.keep(newest);
        Core {
            reach: reach.collect(),
            native: parts.native.into_iter().map(|(toolset, _)| toolset).collect(),
            workspace: parts.workspace,
            trust: parts.trust,
            world: parts.world,
            supervisor,
            store: parts.store,
            answers: parts.answers,
            keeps_arguments: parts.keeps_arguments,
            published: ArcSwap::from_pointee(first),
            version: watch::Sender::new(0),
            last_reload: ArcSwapOption::default(),
            turns,
            dialogs: Dialogs::default(),
            attached: ArcSwap::default(),
            overrides: ArcSwap::from_pointee(parts.overrides),
            problems: Problems::default(),
            events,
            ears,
            meter: Arc::default(),
            tally: Tally::default(),
            reloads: AtomicU64::new(0),
            whole: Whole::default(),
            checker: Checker::new(),
            orders: parts.orders,
            first_load: watch::Sender::new(false),
            started: Instant::now(),
            tasks: Mutex::default(),
            left: Mutex::default(),
            last_version: AtomicU64::new(0),
            last_call: AtomicU64::new(0),
        }
    }

    /// A number that no other call of this host has.
    pub(super) fn next_call(&self) -> u64 {
        self.last_call.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn root(&self) -> PathBuf {
        self.workspace.root.clone()
    }

    /// What is started from now on may do this, and has its secrets from there.
    pub(super) fn settle(&self, config: &Config) {
        let host = &config.host;
        let toolcrib_config::model::host::Permissions { spawn, network, docker } = host.permissions;
        self.world.permissions.set(Permissions { spawn, network, docker });
        self.world.connections.set_max(host.max_servers);
        self.world.sources.configure(config);
        self.world.sources.keep().choose(host.credentials.into());
    }

    /// Publishes a snapshot of how things are, if it would differ from the newest, or in any case. The newest
    /// one's number.
    pub(super) fn publish(
        &self,
        slots: &mut [&mut Slot],
        config: &Arc<Config>,
        in_any_case: bool,
    ) -> u64 {
        let now = Instant::now();
        let grounds = slots.iter_mut().map(|slot| {
            let standing = slot.standing(now);
            Ground::of(slot, standing)
        });
        let grounds: Vec<Ground> = grounds.collect();
        let newest = self.last_version.load(Ordering::SeqCst);
        // The first one is published whatever is in it: native tools need no server.
        let before = self.published.load_full();
        let is_as_before = before.config.host == config.host
            && before.config.gateway == config.gateway
            && before.config.security == config.security
            && *before.grounds == grounds;
        if !in_any_case && newest > 0 && is_as_before {
            return newest;
        }
        let version = self.last_version.fetch_add(1, Ordering::SeqCst) + 1;
        let (snapshot, problems) = planned(version, &self.native, config, &grounds);
        let grants = Arc::new(Grants::of(config));
        // Reserved toolsets belong to another program: they exist, although nothing here offers them.
        let is_reserved = |name: &str| config.host.reserved_toolsets.iter().any(|it| it == name);
        let exists = |name: &str| snapshot.has_toolset(name) || is_reserved(name);
        let missing = grants.problems(exists);
        let mut servers = Servers::new();
        for slot in slots.iter() {
            let serving = Arc::clone(&slot.serving);
            servers.entry(slot.scope.clone()).or_default().insert(Arc::clone(&slot.key), serving);
        }
        let (config, servers, grounds) = (Arc::clone(config), Arc::new(servers), Arc::new(grounds));
        let newest = self.turns.begin(version);
        let reading = Arc::downgrade(&newest);
        let published = Published { snapshot, config, grants, servers, grounds, reading };
        self.published.store(Arc::new(published));
        self.turns.keep(newest);
        self.tell_problems("plan", problems);
        self.tell_problems("grants", missing);
        self.version.send_replace(version);
        self.events.tell(Event::Published { version });
        version
    }

    /// A server that was just taken in begins to serve.
    pub(super) fn take_in(
        self: &Arc<Self>,
        server: Arc<Server>,
        desk: Arc<Desk>,
        meter: Arc<Meter>,
    ) -> Arc<Serving> {
        self.ears.learn(server.number(), server.spec().key().into(), &server.main().view());
        let (serving, clerks) = Serving::new(self, server, desk, meter);
        clerks.into_iter().for_each(|clerk| self.beside(clerk));
        for changes in serving.lease_changes() {
            self.beside(tell_leases(
                Arc::clone(&self.ears),
                self.events.clone(),
                &serving,
                changes,
            ));
        }
        serving
    }

    /// Ends a server that no snapshot from this one on names: when turns that began before have ended, or its time
    /// to drain is over. Calls in flight have that time once more, or their own deadlines where there is none.
    pub(super) fn retire(&self, serving: Arc<Serving>, version: u64) {
        let (turns, supervisor) = (self.turns.clone(), self.supervisor.clone());
        let ears = Arc::clone(&self.ears);
        self.beside(async move {
            let limit = serving.server.main().setup().settings.drain_kill.unwrap_or(LONGEST_TURN);
            turns.over_before(version, limit).await;
            serving.retire_leases();
            supervisor.retire(&serving.server);
            ears.forget(serving.server.number());
        });
    }

    /// Waits until what servers have listed by now is published.
    pub(super) async fn listed(&self) {
        let (reply, done) = oneshot::channel();
        if self.orders.send(Order::Look(reply)).await.is_ok() {
            // An error means that the host is ending.
            let _ = done.await;
        }
    }

    /// All that is wrong in one matter now. A problem is logged once while it stays the same, wherever it moves to in
    /// its file.
    pub(super) fn tell_problems(&self, matter: &str, problems: Vec<Problem>) {
        let come = self.tell_changed_problems(matter, problems);
        come.iter().for_each(log_problem);
    }

    /// The same for what a reload found. Errors are logged each time, since a reload that fails as the one before it did
    /// is a failure of its own. Returns what the reload has to log.
    pub(super) fn tell_reload_problems(&self, matter: &str, problems: &[Problem]) -> Vec<Problem> {
        let come = self.tell_changed_problems(matter, problems.to_vec());
        let is_logged = |problem: &&Problem| problem.is_error() || come.contains(problem);
        problems.iter().filter(is_logged).cloned().collect()
    }

    /// Tells listeners what has changed. Returns what is new.
    fn tell_changed_problems(&self, matter: &str, problems: Vec<Problem>) -> Vec<Problem> {
        let Changed { come, moved, gone } = self.problems.set(matter, problems);
        self.solved(gone);
        let changed = come.iter().chain(&moved);
        changed.for_each(|problem| self.events.tell(Event::Problem(problem.clone())));
        come
    }

    /// A matter is closed, with all that is part of it.
    pub(super) fn forget_problems(&self, matter: &str) {
        self.solved(self.problems.forget(matter));
    }

    fn solved(&self, ids: Vec<String>) {
        ids.into_iter().for_each(|id| self.events.tell(Event::Solved(id)));
    }

    /// A dialog has left its folder.
    pub(super) fn leave(&self, folder: PathBuf) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).push(folder);
        self.ears.news.notify_one();
    }

    pub(super) fn take_left(&self) -> Vec<PathBuf> {
        std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The newest snapshot, and that it is being read. One that was replaced before that was known may have lost servers
    /// already, so then it is another one's turn.
    pub(super) fn read_newest(&self) -> (Arc<Published>, Arc<Reading>) {
        loop {
            let published = self.published.load_full();
            if let Some(reading) = published.reading.upgrade() {
                return (published, reading);
            }
        }
    }

    /// Does something beside, for as long as the host lives.
    pub(super) fn beside(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(work);
    }
}

/// Logs a problem at the level of its severity.
pub(super) fn log_problem(problem: &Problem) {
    let (code, line) = (&problem.code, problem.line());
    match problem.severity {
        Severity::Error => tracing::error!(%code, "{line}"),
        Severity::Warning => tracing::warn!(%code, "{line}"),
        Severity::Info => tracing::info!(%code, "{line}"),
    }
}

/// Tells who holds leases of a server whenever that changes, for as long as it serves.
fn tell_leases(
    ears: Arc<Ears>,
    events: Events,
    serving: &Arc<Serving>,
    mut changes: watch::Receiver<u64>,
) -> impl Future<Output = ()> + Send + 'static + use<> {
    let serving = Arc::downgrade(serving);
    async move {
        while changes.changed().await.is_ok() {
            let Some(serving) = serving.upgrade() else { return };
            let (server, leases) = (Arc::clone(&serving.key), serving.leases());
            events.tell(Event::Leases { server, leases });
            if serving.spec().policy.session.scope == SessionScope::PerConversation {
                // Whoever has a session sees what is listed there, and who has lost it what everybody sees.
                ears.news.notify_one();
            }
        }
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("root", &self.workspace.root).finish_non_exhaustive()
    }
}
