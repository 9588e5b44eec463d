//! One place in the configuration and the servers that fill it: the one that serves, and the one that is to.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use toolcrib_config::model::policy::Connect;
use toolcrib_config::model::transport::Transport;
use toolcrib_config::{Problem, ServerSpec};
use toolcrib_upstream::conn::{Catalog, Event, Failure, FailureKind, MAX_SERVERS, State, View};
use toolcrib_upstream::transport::program_files;
use toolcrib_wire::view::Tool;

use super::own::OwnLists;
use super::pinning::{ChangedDefinition, Pinned};
use super::published::Judged;
use super::serving::Serving;
use crate::registry::{Presence, Scope};

/// A server's place.
pub(super) struct Slot {
    pub(super) scope: Scope,
    pub(super) key: Arc<str>,
    /// As it is written now; the server that serves may be of an earlier writing.
    pub(super) spec: Arc<ServerSpec>,
    pub(super) serving: Arc<Serving>,
    /// A changed server that has not proven itself yet.
    pub(super) coming: Option<Arc<Serving>>,
    /// It begins when the one that serves has ended.
    pub(super) waits_for_end: bool,
    /// That one has ended, with all that it had.
    pub(super) has_ended: bool,
    /// Since when the one that serves is away.
    away_since: Option<Instant>,
    /// What it offered when an earlier host last saw it.
    remembered: Option<Arc<Catalog>>,
    /// How its tools are known.
    pub(super) pinned: Pinned,
    /// What is listed in sessions that are not everybody's.
    pub(super) own: OwnLists,
    /// The lists that were last kept for later hosts.
    kept: Option<Arc<Catalog>>,
}

/// What a slot adds to a plan.
pub(super) struct Standing {
    pub(super) presence: Presence,
    pub(super) list: Option<Judged>,
    pub(super) from_cache: bool,
}

impl Slot {
    pub(super) fn new(scope: Scope, spec: Arc<ServerSpec>, serving: Arc<Serving>) -> Self {
        Slot {
            scope,
            key: spec.key().into(),
            spec,
            serving,
            coming: None,
            waits_for_end: false,
            has_ended: false,
            away_since: None,
            remembered: None,
            pinned: Pinned::default(),
            own: OwnLists::default(),
            kept: None,
        }
    }

    pub(super) fn remember(&mut self, catalog: Option<Arc<Catalog>>) {
        self.remembered = catalog;
    }

    /// The matter that its problems are.
    pub(super) fn matter(&self) -> String {
        matter(&self.key)
    }

    /// Lets it work, or not, whichever of its servers will serve.
    pub(super) async fn enable(&self, enabled: bool) {
        for serving in [Some(&self.serving), self.coming.as_ref()].into_iter().flatten() {
            serving.enable(enabled).await;
        }
    }

    /// Tries again now what failed, because somebody may have mended it (DOM-95): the server that serves, and the
    /// changed one that did not start. Returns the one that a reload waits for.
    pub(super) async fn retry(&self) -> Option<&Arc<Serving>> {
        let servers = [self.coming.as_ref(), Some(&self.serving)].into_iter().flatten();
        let failed: Vec<&Arc<Serving>> = servers.filter(|it| has_failed(it)).collect();
        for serving in &failed {
            serving.server.main().tell(Event::Retry).await;
        }
        failed.into_iter().next()
    }

    /// The programs of its servers that failed: the slot is tried again when one of these files changes.
    pub(super) fn programs(&self, host_env: &[(String, String)]) -> Vec<PathBuf> {
        let servers = [self.coming.as_ref(), Some(&self.serving)].into_iter().flatten();
        let failed = servers.filter(|it| has_failed(it)).map(|it| it.server.main().setup());
        let files = failed.filter_map(|setup| match &setup.spec.transport {
            Transport::Stdio(stdio) => Some(program_files(stdio, host_env, &setup.cwd)),
            _ => None,
        });
        files.flatten().collect()
    }

    /// Lists that are to be kept for later hosts.
    pub(super) fn unkept(&mut self) -> Option<Arc<Catalog>> {
        let catalog = self.serving.server.main().view().catalog.filter(|_| recalls(&self.spec))?;
        let is_new = self.kept.as_ref().is_none_or(|kept| !Arc::ptr_eq(kept, &catalog));
        is_new.then(|| Arc::clone(self.kept.insert(catalog)))
    }

    /// Whether the old one has ended that its successor waits for.
    pub(super) fn is_vacant(&self) -> bool {
        self.waits_for_end && self.has_ended
    }

    /// Another server serves from now on; the one before is given back.
    pub(super) fn take_over(&mut self) -> Option<Arc<Serving>> {
        let new = self.coming.take()?;
        self.away_since = None;
        self.remembered = None;
        self.pinned.forget_list();
        self.own = OwnLists::default();
        Some(std::mem::replace(&mut self.serving, new))
    }

    /// Its servers, of which none is wanted any more.
    pub(super) fn end(self) -> impl Iterator<Item = Arc<Serving>> {
        self.coming.into_iter().chain([self.serving])
    }

    pub(super) fn standing(&mut self, now: Instant) -> Standing {
        let view = self.serving.server.main().view();
        // Whoever has its connection for himself loses it for himself.
        let away = is_away(view.life.state()) && !self.serving.server.is_lent();
        self.away_since = away.then(|| self.away_since.unwrap_or(now));
        let grace = self.serving.spec().policy.availability.grace.0;
        let over = self.away_since.and_then(|since| since.checked_add(grace));
        let gone = over.is_some_and(|over| now >= over);
        let presence = match view.life.state() {
            State::Disabled => Presence::Disabled,
            _ if gone => Presence::Away,
            _ => Presence::Up,
        };
        // What came in the meantime is offered when it has been looked at.
        let list = self.pinned.judged();
        let is_remembered = |it: &Arc<Catalog>| {
            self.remembered.as_ref().is_some_and(|known| Arc::ptr_eq(known, it))
        };
        let from_cache = list.as_ref().is_some_and(|list| is_remembered(&list.catalog));
        Standing { presence, from_cache, list }
    }

    /// What it offers, or offered when an earlier host last saw it.
    pub(super) fn catalog(&self) -> Option<Arc<Catalog>> {
        self.serving.server.main().view().catalog.or_else(|| self.remembered.clone())
    }

    /// The tools of all its lists that are not as they were accepted, each once, everybody's first.
    pub(super) fn changed(&self) -> impl Iterator<Item = (ChangedDefinition, Tool)> {
        let mut seen = HashSet::new();
        let lists = self.pinned.judged().into_iter().chain(self.own.lists());
        let changed = lists.flat_map(|list| {
            let tool = |name: &str| list.catalog.tools.iter().find(|it| it.name() == name).cloned();
            let pairs = list.changed.iter().filter_map(|it| Some((it.clone(), tool(&it.tool)?)));
            pairs.collect::<Vec<_>>()
        });
        changed.filter(move |(it, _)| seen.insert(it.tool.clone()))
    }

    /// The number of tools in all its lists that `limits.pins` leaves no room to remember.
    pub(super) fn unpinned(&self) -> usize {
        let lists: Vec<_> = self.pinned.judged().into_iter().chain(self.own.lists()).collect();
        lists.iter().flat_map(|list| list.unpinned.iter()).collect::<HashSet<_>>().len()
    }

    /// When its time of grace is over.
    pub(super) fn wake(&self, now: Instant) -> Option<Instant> {
        let grace = self.serving.spec().policy.availability.grace.0;
        self.away_since.and_then(|since| since.checked_add(grace)).filter(|at| *at > now)
    }

    /// Whether the server that is to take over is good.
    pub(super) fn is_proven(&self) -> bool {
        self.coming.as_ref().is_some_and(|coming| match coming.state() {
            State::Ready | State::Degraded | State::Idle | State::Disabled => true,
            State::Backoff | State::Failed | State::Stopped => false,
            State::Connecting | State::Reconnecting | State::Draining => false,
        })
    }

    /// Its servers that were refused because the host had as many connected servers as it may have.
    pub(super) fn refused_by_limit(&self) -> impl Iterator<Item = &Arc<Serving>> {
        [Some(&self.serving), self.coming.as_ref()].into_iter().flatten().filter(|serving| {
            let view = serving.server.main().view();
            let is_limit = |(_, failure): (_, &Failure)| failure.code == MAX_SERVERS;
            view.life.state() == State::Failed && view.life.last_error().is_some_and(is_limit)
        })
    }

    /// A server of it that an earlier reload started and that has not shown yet what it can.
    pub(super) fn starting(&self) -> Option<&Arc<Serving>> {
        let first = Some(&self.serving).filter(|serving| serving.state() == State::Connecting);
        self.coming.as_ref().or(first)
    }

    /// The definition of the server that serves, with its places in the newest file where that says the same.
    pub(super) fn shown(&self) -> &Arc<ServerSpec> {
        match self.spec.hash == self.serving.spec().hash {
            true => &self.spec,
            false => self.serving.spec(),
        }
    }

    /// What is wrong with its servers now.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let view = self.serving.server.main().view();
        let mut problems = outage(&self.spec, &view);
        problems.extend(oddities(&self.spec, &view));
        let link = view.link_problems().iter();
        problems.extend(link.map(|problem| placed(problem.clone(), &self.spec)));
        if let Some(coming) = &self.coming {
            problems.extend(kept(&self.spec, &coming.server.main().view()));
        }
        problems
    }
}

/// Whether a replacement must show what it can before it takes over: where nothing ever came of the one before, there
/// is nothing to go on with.
pub(super) fn must_prove_itself(old: &Serving, new: &ServerSpec) -> bool {
    new.policy.enabled && old.server.main().view().catalog.is_some()
}

/// Whether it may be listed before it runs, as an earlier host saw it.
pub(super) fn recalls(spec: &ServerSpec) -> bool {
    matches!(spec.policy.lifecycle.connect, Connect::OnFirstCall | Connect::Background)
}

/// The matter that the problems of a server are.
pub(super) fn matter(key: &str) -> String {
    format!("server {key:?}")
}

fn has_failed(serving: &Serving) -> bool {
    matches!(serving.state(), State::Failed | State::Backoff) && !serving.server.is_lent()
}

pub(super) fn is_away(state: State) -> bool {
    match state {
        State::Reconnecting | State::Backoff | State::Failed | State::Draining | State::Stopped => {
            true
        }
        State::Disabled | State::Idle | State::Connecting | State::Ready | State::Degraded => false,
    }
}

/// A server that is away is news for people, not an error of theirs, unless they can mend it.
fn outage(spec: &ServerSpec, view: &View) -> Vec<Problem> {
    let told = is_away(view.life.state()) || view.life.state() == State::Degraded;
    let Some((_, failure)) = view.life.last_error().filter(|_| told) else {
        return Vec::new();
    };
    let text =
        format!("server `{}` is {}: {}", spec.id, view.life.state().as_str(), failure.message);
    let mut problem = match failure.kind {
        FailureKind::Resource if failure.code == MAX_SERVERS => Problem::error(failure.code, text),
        FailureKind::Connection | FailureKind::Timeout | FailureKind::Resource => {
            Problem::new(toolcrib_config::Severity::Info, failure.code, text)
        }
        FailureKind::Config | FailureKind::Authentication | FailureKind::Protocol => {
            Problem::error(failure.code, text)
        }
    };
    problem = placed(problem, spec);
    if let Some(tool) = &failure.tool {
        problem = problem.tool(tool);
    }
    if let Some(fix) = &failure.fix {
        problem = problem.fix(fix.clone());
    }
    vec![problem]
}

fn kept(spec: &ServerSpec, view: &View) -> Option<Problem> {
    let (_, failure) = view.life.last_error()?;
    let text = format!(
        "the changed server `{}` did not start, so the one before it goes on: {}",
        spec.id, failure.message
    );
    let next = match view.life.next_retry() {
        Some(_) => "it is tried again by its policy; correct the entry, or wait",
        None => "correct the entry and save it, or restart the server",
    };
    let problem = placed(Problem::error("reload.kept_last_good", text), spec).fix(next);
    Some(match &failure.tool {
        Some(tool) => problem.tool(tool),
        None => problem,
    })
}

/// What the server did that it should not: each kind once.
fn oddities(spec: &ServerSpec, view: &View) -> Vec<Problem> {
    let told = view.oddities().into_iter().map(|oddity| {
        // Not how often: a problem that is told anew with each message would be one itself.
        let text = format!("server `{}`: {}", spec.id, oddity.odd);
        placed(Problem::warning(oddity.odd.code(), text), spec)
    });
    let listed = view.catalog.iter().flat_map(|catalog| &catalog.oddities).map(|oddity| {
        let name = oddity.name.as_deref().unwrap_or("?");
        let text = format!(
            "server `{}`, {} `{name}`: {}",
            spec.id,
            oddity.list,
            toolcrib_upstream::signals::chain(&oddity.what)
        );
        let mut problem = placed(Problem::warning("list.item", text), spec);
        problem.id = format!("{}:{}:{name}", problem.id, oddity.list);
        problem
    });
    told.chain(listed).collect()
}

pub(super) fn placed(problem: Problem, spec: &ServerSpec) -> Problem {
    problem.at(&spec.source, spec.place, &format!("servers.{}", spec.id)).server(&spec.id)
}

/// How long a reload waits for a server that it started before it says that it is still coming.
pub(super) fn patience(spec: &ServerSpec) -> Duration {
    spec.policy.timeouts.startup.0.saturating_add(Duration::from_secs(1))
}
