//! The task that keeps servers as the configuration says: one path for start, reload and repair.
//!
//! It is level-triggered. Whatever happens only wakes it; then it looks how things are, and makes them as they
//! should be.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use toolcrib_config::model::policy::{Connect, Reload as Taking};
use toolcrib_config::{Action, Config, ServerSpec, diff};

use super::catalogs;
use super::core::{Core, log_problem};
use super::events::Event;
use super::folder::Folder;
use super::ops::OpError;
use super::own::Lists;
use super::pinning::ChangedDefinition;
use super::reload::{Outcome, Reload, Step};
use super::serving::Serving;
use super::slot::Slot;
use super::watching::Watching;
use crate::registry::Scope;
use crate::store::StoreError;

/// Changes that follow each other without a pause are put off no longer than this.
const LONGEST_DEBOUNCE: Duration = Duration::from_secs(2);

/// What the steward is asked for.
pub(super) enum Order {
    /// Reads the files anew. The answer comes when what was started has settled.
    Reload(oneshot::Sender<Arc<Reload>>),
    /// Reads the files anew if one has changed. The answer comes when what was started has settled; there is none
    /// where nothing has changed.
    Recheck(oneshot::Sender<Arc<Reload>>),
    /// Looks how servers are and publishes what changed.
    Look(oneshot::Sender<()>),
    /// A dialog is in this folder; the answer comes when its servers are taken in.
    Enter(PathBuf, oneshot::Sender<()>),
    /// A server that no file names, until the host ends.
    Add(Arc<ServerSpec>, oneshot::Sender<Result<(), OpError>>),
    /// The server with this key, if no file names it.
    Remove(Arc<str>, oneshot::Sender<bool>),
    /// Lets the server with this key work, or not.
    Enable(Arc<str>, bool, oneshot::Sender<()>),
    /// The tools whose definitions have changed, of all servers.
    Changed(oneshot::Sender<Vec<ChangedDefinition>>),
    /// The same for those that are so called, or for all: they are accepted as they are now.
    Accept(Option<String>, oneshot::Sender<Result<Vec<ChangedDefinition>, StoreError>>),
    /// The changed server with this key that did not start, if there is one.
    Coming(Arc<str>, oneshot::Sender<Option<Arc<Serving>>>),
}

/// Why files are read anew, and who wants to know the outcome.
enum Cause {
    /// Somebody said so.
    Asked(Option<oneshot::Sender<Arc<Reload>>>),
    /// A file has changed.
    Noticed(Option<oneshot::Sender<Arc<Reload>>>),
}

pub(super) struct Steward {
    pub(super) core: Arc<Core>,
    orders: mpsc::Receiver<Order>,
    /// A file may have changed.
    changed: Arc<Notify>,
    /// A file has changed: since when it is known, and when it is taken up.
    noticed: Option<(Instant, Instant)>,
    watching: Watching,
    /// Those of the followed files that may hold the program of a server that failed.
    programs: BTreeSet<PathBuf>,
    /// Tells that the configuration is to be read anew, where the program wants that.
    hangups: Option<Signal>,
    /// The root first.
    pub(super) folders: Vec<Folder>,
    /// Added while the host runs.
    pub(super) added: Vec<Slot>,
    /// Those that serve no more and are to be retired once nobody is told of them.
    pub(super) leaving: Vec<Arc<Serving>>,
    /// The dialogs that see other lists than everybody, and which.
    pub(super) own: HashMap<Arc<str>, Arc<Lists>>,
    /// When sessions that were just opened are looked at.
    own_due: Option<Instant>,
    /// Those who wait for what a reload started, and for the end of what is to be replaced, by its key.
    pub(super) waiting: JoinSet<Option<Arc<str>>>,
}

type Watched = (Step, Option<Arc<Serving>>);

impl Steward {
    pub(super) fn new(
        core: Arc<Core>,
        orders: mpsc::Receiver<Order>,
        hangups: Option<Signal>,
    ) -> Self {
        let root = Folder::new(core.root());
        let changed = Arc::new(Notify::new());
        Steward {
            core,
            orders,
            watching: Watching::start(Arc::clone(&changed)),
            changed,
            programs: BTreeSet::new(),
            noticed: None,
            hangups,
            folders: vec![root],
            added: Vec::new(),
            leaving: Vec::new(),
            own: HashMap::new(),
            own_due: None,
            waiting: JoinSet::new(),
        }
    }

    pub(super) async fn run(mut self) {
        self.reload(Cause::Asked(None)).await;
        loop {
            let wake = self.look_after().await;
            let due = self.noticed.map(|(_, due)| due);
            let ears = Arc::clone(&self.core.ears);
            tokio::select! {
                order = self.orders.recv() => match order {
                    Some(order) => self.take(order).await,
                    None => return,
                },
                () = ears.news.notified() => {}
                () = self.changed.notified() => self.notice(),
                () = until(due), if due.is_some() => self.reload(Cause::Noticed(None)).await,
                () = hangup(&mut self.hangups) => self.reload(Cause::Asked(None)).await,
                Some(done) = self.waiting.join_next() => self.has_ended(done.ok().flatten()),
                () = until(wake) => {}
            }
        }
    }

    async fn take(&mut self, order: Order) {
        match order {
            Order::Reload(reply) => self.reload(Cause::Asked(Some(reply))).await,
            Order::Recheck(reply) => {
                if self.watching.has_changed() {
                    self.reload(Cause::Noticed(Some(reply))).await;
                }
            }
            Order::Look(reply) => {
                self.look_after().await;
                // Whoever asked may have gone; that is so for all answers.
                let _ = reply.send(());
            }
            Order::Enter(path, reply) => {
                self.enter(path.clone()).await;
                if reply.send(()).is_err() {
                    self.leave(&path).await;
                }
            }
            Order::Add(spec, reply) => {
                let _ = reply.send(self.add(spec).await);
            }
            Order::Remove(key, reply) => {
                let gone = self.added.iter().position(|slot| slot.key == key);
                if let Some(place) = gone {
                    let slot = self.added.remove(place);
                    self.dismiss(slot);
                    self.publish(true).await;
                }
                let _ = reply.send(gone.is_some());
            }
            Order::Enable(key, enabled, reply) => {
                let all = slots(&self.folders, &self.added);
                for slot in all.filter(|slot| slot.key == key) {
                    slot.enable(enabled && !slot.spec.is_withheld()).await;
                }
                self.look_after().await;
                let _ = reply.send(());
            }
            Order::Changed(reply) => {
                let _ = reply.send(self.changed_definitions());
            }
            Order::Accept(tool, reply) => {
                let accepted = self.accept(tool.as_deref()).await;
                self.look_after().await;
                let _ = reply.send(accepted);
            }
            Order::Coming(key, reply) => {
                let mut all = slots(&self.folders, &self.added);
                let coming = all.find(|slot| slot.key == key).and_then(|slot| slot.coming.clone());
                let _ = reply.send(coming);
            }
        }
    }

    async fn add(&mut self, spec: Arc<ServerSpec>) -> Result<(), OpError> {
        if slots(&self.folders, &self.added).any(|slot| slot.spec.id == spec.id) {
            return Err(OpError::AlreadyConnected(spec.id.clone()));
        }
        let root = self.core.root();
        let serving = self.start(&self.effective(&spec), &root, Arc::default()).await;
        self.added.push(Slot::new(Scope::Global, spec, serving));
        self.publish(true).await;
        Ok(())
    }

    /// What changed is taken up when the writer has paused, or has gone on for too long.
    fn notice(&mut self) {
        let settings = &self.root().config.host.reload;
        if settings.mode != Taking::Watch {
            return;
        }
        let now = Instant::now();
        let since = self.noticed.map_or(now, |(since, _)| since);
        let due = (now + settings.debounce.0).min(since + LONGEST_DEBOUNCE);
        self.noticed = Some((since, due));
    }

    /// Compute, compare, start beside, swap: nothing is stopped before what replaces it is good.
    async fn reload(&mut self, cause: Cause) {
        let begun = Instant::now();
        self.noticed = None;
        // Before anything is read: what changes while it is being read has changed since.
        self.watching.look();
        let mut steps = Vec::new();
        let (mut problems, mut logged) = (Vec::new(), Vec::new());
        let mut is_good = true;
        for place in 0..self.folders.len() {
            let Some(folder) = self.folders.get(place) else { break };
            let is_noticed = matches!(cause, Cause::Noticed(_));
            let config = folder.read(&self.core, is_noticed).await;
            let matter = folder.matter();
            is_good &= !config.keeps_last_good();
            problems.extend(config.problems.iter().cloned());
            logged.extend(self.core.tell_reload_problems(&matter, &config.problems));
            if place == 0 {
                self.core.settle(&config);
            }
            steps.extend(self.apply(place, config).await);
        }
        for slot in &self.added {
            slot.retry().await;
        }
        self.follow_files();
        logged.iter().for_each(log_problem);
        let changes = steps.iter().any(|(step, _)| !is_kept(step.action));
        let version = self.publish(is_good || changes).await;
        let core = Arc::clone(&self.core);
        self.waiting.spawn(async move {
            let eager = steps.iter().filter_map(|(_, serving)| serving.as_ref());
            let eager = eager.filter(|it| it.spec().policy.lifecycle.connect == Connect::Eager);
            futures_util::future::join_all(eager.map(|serving| serving.settled())).await;
            core.listed().await;
            core.first_load.send_replace(true);
            let steps = settled(steps).await;
            // What has settled by now is published before anybody is told that it has.
            core.listed().await;
            let reload = Arc::new(Reload { version, steps, problems, took: begun.elapsed() });
            tracing::info!(version, took = ?reload.took, "configuration loaded");
            core.reloads.fetch_add(1, Ordering::Relaxed);
            core.last_reload.store(Some(Arc::clone(&reload)));
            core.events.tell(Event::Reloaded(Arc::clone(&reload)));
            let (Cause::Asked(reply) | Cause::Noticed(reply)) = cause;
            if let Some(reply) = reply {
                let _ = reply.send(reload);
            }
            None
        });
    }

    /// Makes a folder's servers those of its new configuration.
    async fn apply(&mut self, place: usize, config: Arc<Config>) -> Vec<Watched> {
        let Some(folder) = self.folders.get_mut(place) else { return Vec::new() };
        let plan = diff(&folder.config, &config);
        let path = folder.path.clone();
        folder.config = Arc::clone(&config);
        let mut done = Vec::with_capacity(plan.steps.len());
        for step in plan.steps {
            // Every slot has its step: it leaves its old place and stands behind those before it. So all are
            // counted all the time.
            let before = self.folders.get_mut(place).and_then(|folder| folder.take(&step.key));
            let now =
                config.servers.iter().find(|spec| spec.key() == step.key).cloned().map(Arc::new);
            let (slot, watched) = self.change(step.action, before, now, &path).await;
            let is_late = slot.as_ref().is_some_and(|slot| slot.waits_for_end);
            if let Some(folder) = self.folders.get_mut(place) {
                folder.slots.extend(slot);
            }
            let outcome = if is_late { Outcome::Coming } else { Outcome::Done };
            done.push((Step { server: step.key.into(), action: step.action, outcome }, watched));
        }
        if let Some(folder) = self.folders.get_mut(place) {
            // What goes on although it cannot be read any more is still what is to be compared with.
            let kept = folder.slots.iter().filter(|slot| config.server(&slot.key).is_none());
            let kept: Vec<ServerSpec> = kept.map(|slot| (*slot.spec).clone()).collect();
            if !kept.is_empty() {
                Arc::make_mut(&mut folder.config).servers.extend(kept);
            }
        }
        done
    }

    /// Looks how servers are: swaps those that are good, publishes what changed, tells what is wrong. When to
    /// look again without being woken.
    async fn look_after(&mut self) -> Option<Instant> {
        for path in self.core.take_left() {
            self.leave(&path).await;
        }
        self.fill_vacancies().await;
        self.use_room();
        let before = self.leaving.len();
        let mut kept = Vec::new();
        for slot in slots_mut(&mut self.folders, &mut self.added) {
            if slot.is_proven() {
                self.leaving.extend(slot.take_over());
            }
            kept.extend(slot.unkept().map(|catalog| (Arc::clone(slot.serving.spec()), catalog)));
        }
        for (spec, catalog) in kept {
            let store = self.core.store.clone();
            self.core.beside(async move { catalogs::keep(&store, &spec, &catalog).await });
        }
        self.publish(self.leaving.len() > before).await;
        if self.programs_of_failed() != self.programs {
            self.follow_files();
        }
        // After that: whoever hears that something is right again finds it so.
        for slot in slots(&self.folders, &self.added) {
            self.core.tell_problems(&slot.matter(), slot.problems());
        }
        let now = Instant::now();
        let slots = slots_mut(&mut self.folders, &mut self.added);
        slots.filter_map(|slot| slot.wake(now)).chain(self.own_due).min()
    }

    /// Publishes a snapshot if it would differ from the newest, or in any case; then nobody new is told of those
    /// that leave, and they are retired when nobody old is. The newest one's number.
    async fn publish(&mut self, in_any_case: bool) -> u64 {
        self.judge().await;
        let core = Arc::clone(&self.core);
        let config = Arc::clone(&self.root().config);
        let mut slots: Vec<&mut Slot> = slots_mut(&mut self.folders, &mut self.added).collect();
        let in_any_case = in_any_case || !self.leaving.is_empty();
        let version = core.publish(&mut slots, &config, in_any_case);
        for serving in self.leaving.drain(..) {
            core.retire(serving, version);
        }
        self.own_due = self.look_at_own().await;
        self.tell_changed();
        version
    }

    /// Its servers are not wanted any more, and what was wrong with them is nobody's problem.
    pub(super) fn dismiss(&mut self, slot: Slot) {
        self.core.forget_problems(&slot.matter());
        self.leaving.extend(slot.end());
    }

    /// Follows the files of the configuration, and the programs of servers that failed.
    fn follow_files(&mut self) {
        let read = self.folders.iter().flat_map(|folder| &folder.config.depends);
        let trust = self.core.trust.file().map(Path::to_owned);
        let programs = self.programs_of_failed();
        let files = read.cloned().chain(trust).chain(programs.iter().cloned());
        let files: BTreeSet<PathBuf> = files.collect();
        self.programs = programs;
        let settings = &self.root().config.host.reload;
        let poll = (settings.mode == Taking::Watch).then_some(settings.poll.0);
        self.watching.follow(&files, poll);
    }

    /// The files that may hold the program of a server that failed.
    fn programs_of_failed(&self) -> BTreeSet<PathBuf> {
        let all = slots(&self.folders, &self.added);
        all.flat_map(|slot| slot.programs(&self.core.world.env)).collect()
    }

    async fn enter(&mut self, path: PathBuf) {
        if let Some(folder) = self.folders.iter_mut().find(|folder| folder.path == path) {
            folder.users += 1;
            return;
        }
        let folder = Folder::new(path);
        let config = folder.read(&self.core, false).await;
        self.core.tell_problems(&folder.matter(), config.problems.clone());
        self.folders.push(folder);
        self.apply(self.folders.len() - 1, config).await;
        self.follow_files();
        self.publish(true).await;
    }

    async fn leave(&mut self, path: &Path) {
        let Some(place) = self.folders.iter().position(|folder| folder.path == path) else {
            return;
        };
        if let Some(folder) = self.folders.get_mut(place) {
            folder.users = folder.users.saturating_sub(1);
            // The root stays whoever leaves.
            if folder.users > 0 || place == 0 {
                return;
            }
        }
        let folder = self.folders.remove(place);
        self.core.tell_problems(&folder.matter(), Vec::new());
        folder.slots.into_iter().for_each(|slot| self.dismiss(slot));
        self.follow_files();
        self.publish(true).await;
    }

    pub(super) fn root(&self) -> &Folder {
        // There is always a root: it is made first and never removed.
        &self.folders[0]
    }
}

pub(super) fn slots<'a>(
    folders: &'a [Folder],
    added: &'a [Slot],
) -> impl Iterator<Item = &'a Slot> {
    folders.iter().flat_map(|folder| &folder.slots).chain(added)
}

pub(super) fn slots_mut<'a>(
    folders: &'a mut [Folder],
    added: &'a mut [Slot],
) -> impl Iterator<Item = &'a mut Slot> {
    folders.iter_mut().flat_map(|folder| &mut folder.slots).chain(added)
}

fn is_kept(action: Action) -> bool {
    matches!(action, Action::Keep | Action::KeepLastGood)
}

/// Waits for each server that was started until it is up, has failed once, or its time is over.
async fn settled(steps: Vec<Watched>) -> Vec<Step> {
    let each = steps.into_iter().map(|(mut step, serving)| async move {
        if let Some(serving) = serving {
            step.outcome = serving.settled().await;
        }
        step
    });
    futures_util::future::join_all(each).await
}

async fn hangup(hangups: &mut Option<Signal>) {
    match hangups {
        Some(hangups) => {
            if hangups.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
        }
        None => std::future::pending().await,
    }
}

async fn until(wake: Option<Instant>) {
    match wake {
        Some(at) => sleep_until(at).await,
        // Nothing is due; a look now and then costs little, and no wake-up is ever lost for good.
        None => sleep(Duration::from_secs(60)).await,
    }
}
