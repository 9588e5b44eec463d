//! The slot of one configured server: the running server, and the successor that replaces it.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use toolcrib_config::model::policy::Connect;
use toolcrib_config::model::transport::Transport;
use toolcrib_config::{Problem, ServerSpec};
use toolcrib_upstream::conn::{
    Catalog, ConnEvent, ConnView, Failure, FailureKind, MAX_SERVERS, ServerState,
};
use toolcrib_upstream::transport::program_candidates;
use toolcrib_wire::view::ToolView;

use super::dialog_lists::SessionLists;
use super::host_snapshot::CheckedCatalog;
use super::pinning::{ChangedDefinition, SlotPins};
use super::running_server::RunningServer;
use crate::registry::{Presence, Scope};

/// The place of one configured server.
pub(super) struct ServerSlot {
    pub(super) scope: Scope,
    pub(super) key: Arc<str>,
    /// The newest definition. The running server may have an older one.
    pub(super) spec: Arc<ServerSpec>,
    pub(super) running: Arc<RunningServer>,
    /// A changed server that is not ready to take over yet.
    pub(super) successor: Option<Arc<RunningServer>>,
    /// Whether the successor starts only after the running server has ended.
    pub(super) waits_for_predecessor: bool,
    /// Whether that running server has ended completely.
    pub(super) predecessor_ended: bool,
    /// When the running server became unavailable.
    away_since: Option<Instant>,
    /// The catalog that an earlier host stored.
    stored_catalog: Option<Arc<Catalog>>,
    /// The pinned definitions of the server's tools.
    pub(super) pins: SlotPins,
    /// The lists of sessions that are not shared.
    pub(super) session_lists: SessionLists,
    /// The catalog that was last stored for later hosts.
    saved_catalog: Option<Arc<Catalog>>,
}

/// The slot's contribution to a snapshot.
pub(super) struct SlotState {
    pub(super) presence: Presence,
    pub(super) list: Option<CheckedCatalog>,
    pub(super) from_cache: bool,
}

impl ServerSlot {
    pub(super) fn new(scope: Scope, spec: Arc<ServerSpec>, running: Arc<RunningServer>) -> Self {
        ServerSlot {
            scope,
            key: spec.key().into(),
            spec,
            running,
            successor: None,
            waits_for_predecessor: false,
            predecessor_ended: false,
            away_since: None,
            stored_catalog: None,
            pins: SlotPins::default(),
            session_lists: SessionLists::default(),
            saved_catalog: None,
        }
    }

    pub(super) fn set_stored_catalog(&mut self, catalog: Option<Arc<Catalog>>) {
        self.stored_catalog = catalog;
    }

    /// Problem group of the server.
    pub(super) fn problem_group(&self) -> String {
        problem_group(&self.key)
    }

    /// Enables or disables the running server and its successor.
    pub(super) async fn set_enabled(&self, enabled: bool) {
        for running in [Some(&self.running), self.successor.as_ref()].into_iter().flatten() {
            running.set_enabled(enabled).await;
        }
    }

    /// Retries failed servers of this slot, because their cause may have been repaired (DOM-95).
    /// Returns the server that a reload waits for.
    pub(super) async fn retry_failed(&self) -> Option<&Arc<RunningServer>> {
        let servers = [self.successor.as_ref(), Some(&self.running)].into_iter().flatten();
        let failed: Vec<&Arc<RunningServer>> = servers.filter(|it| has_failed(it)).collect();
        for running in &failed {
            running.server.main().send_event(ConnEvent::Retry).await;
        }
        failed.into_iter().next()
    }

    /// Program files of the slot's failed servers. A change of one of these files retries the slot.
    pub(super) fn failed_programs(&self, host_env: &[(String, String)]) -> Vec<PathBuf> {
        let servers = [self.successor.as_ref(), Some(&self.running)].into_iter().flatten();
        let failed = servers.filter(|it| has_failed(it)).map(|it| it.server.main().setup());
        let files = failed.filter_map(|setup| match &setup.spec.transport {
            Transport::Stdio(stdio) => Some(program_candidates(stdio, host_env, &setup.cwd)),
            _ => None,
        });
        files.flatten().collect()
    }

    /// Returns the catalog if it must be stored for later hosts.
    pub(super) fn take_unsaved_catalog(&mut self) -> Option<Arc<Catalog>> {
        let catalog = self
            .running
            .server
            .main()
            .view()
            .catalog
            .filter(|_| uses_stored_catalog(&self.spec))?;
        let is_new = self
            .saved_catalog
            .as_ref()
            .is_none_or(|saved_catalog| !Arc::ptr_eq(saved_catalog, &catalog));
        is_new.then(|| Arc::clone(self.saved_catalog.insert(catalog)))
    }

    /// Whether the successor may start, because its predecessor has ended.
    pub(super) fn is_vacant(&self) -> bool {
        self.waits_for_predecessor && self.predecessor_ended
    }

    /// Makes the successor the running server and returns its predecessor.
    pub(super) fn promote_successor(&mut self) -> Option<Arc<RunningServer>> {
        let new = self.successor.take()?;
        self.away_since = None;
        self.stored_catalog = None;
        self.pins.clear_list();
        self.session_lists = SessionLists::default();
        Some(std::mem::replace(&mut self.running, new))
    }

    /// The slot's servers, when the slot is removed.
    pub(super) fn into_servers(self) -> impl Iterator<Item = Arc<RunningServer>> {
        self.successor.into_iter().chain([self.running])
    }

    pub(super) fn update_state(&mut self, now: Instant) -> SlotState {
        let view = self.running.server.main().view();
        // A leased main connection is lost only for its dialog.
        let away = is_away(view.lifecycle.state()) && !self.running.server.is_lent();
        self.away_since = away.then(|| self.away_since.unwrap_or(now));
        let grace = self.running.spec().policy.availability.grace.0;
        let over = self.away_since.and_then(|since| since.checked_add(grace));
        let gone = over.is_some_and(|over| now >= over);
        let presence = match view.lifecycle.state() {
            ServerState::Disabled => Presence::Disabled,
            _ if gone => Presence::Away,
            _ => Presence::Up,
        };
        // New lists are offered after their definitions have been checked.
        let list = self.pins.checked();
        let is_stored = |it: &Arc<Catalog>| {
            self.stored_catalog.as_ref().is_some_and(|known| Arc::ptr_eq(known, it))
        };
        let from_cache = list.as_ref().is_some_and(|list| is_stored(&list.catalog));
        SlotState { presence, from_cache, list }
    }

    /// The server's catalog, or the one that an earlier host stored.
    pub(super) fn catalog(&self) -> Option<Arc<Catalog>> {
        self.running.server.main().view().catalog.or_else(|| self.stored_catalog.clone())
    }

    /// The changed tools of all lists, each tool once, those of the shared list first.
    pub(super) fn changed_definitions(
        &self,
    ) -> impl Iterator<Item = (ChangedDefinition, ToolView)> {
        let mut seen = HashSet::new();
        let lists = self.pins.checked().into_iter().chain(self.session_lists.lists());
        let changed = lists.flat_map(|list| {
            let tool = |name: &str| list.catalog.tools.iter().find(|it| it.name() == name).cloned();
            let pairs = list.changed.iter().filter_map(|it| Some((it.clone(), tool(&it.tool)?)));
            pairs.collect::<Vec<_>>()
        });
        changed.filter(move |(it, _)| seen.insert(it.tool.clone()))
    }

    /// Number of tools in all lists that exceed `limits.pins`.
    pub(super) fn unpinned_count(&self) -> usize {
        let lists: Vec<_> =
            self.pins.checked().into_iter().chain(self.session_lists.lists()).collect();
        lists.iter().flat_map(|list| list.unpinned.iter()).collect::<HashSet<_>>().len()
    }

    /// When the grace period ends.
    pub(super) fn grace_deadline(&self, now: Instant) -> Option<Instant> {
        let grace = self.running.spec().policy.availability.grace.0;
        self.away_since.and_then(|since| since.checked_add(grace)).filter(|at| *at > now)
    }

    /// Whether the successor is ready to take over.
    pub(super) fn is_successor_ready(&self) -> bool {
        self.successor.as_ref().is_some_and(|successor| match successor.state() {
            ServerState::Ready
            | ServerState::Degraded
            | ServerState::Idle
            | ServerState::Disabled => true,
            ServerState::Backoff | ServerState::Failed | ServerState::Stopped => false,
            ServerState::Connecting | ServerState::Reconnecting | ServerState::Draining => false,
        })
    }

    /// The slot's servers that were refused because of `host.max_servers`.
    pub(super) fn refused_by_limit(&self) -> impl Iterator<Item = &Arc<RunningServer>> {
        [Some(&self.running), self.successor.as_ref()].into_iter().flatten().filter(|running| {
            let view = running.server.main().view();
            let is_limit = |(_, failure): (_, &Failure)| failure.code == MAX_SERVERS;
            view.lifecycle.state() == ServerState::Failed
                && view.lifecycle.last_error().is_some_and(is_limit)
        })
    }

    /// A server that an earlier reload started and that is still starting.
    pub(super) fn starting_server(&self) -> Option<&Arc<RunningServer>> {
        let first =
            Some(&self.running).filter(|running| running.state() == ServerState::Connecting);
        self.successor.as_ref().or(first)
    }

    /// The definition of the running server, with the locations of the newest file if both
    /// definitions are equal.
    pub(super) fn displayed_spec(&self) -> &Arc<ServerSpec> {
        match self.spec.hash == self.running.spec().hash {
            true => &self.spec,
            false => self.running.spec(),
        }
    }

    /// The current problems of the slot's servers.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let view = self.running.server.main().view();
        let mut problems = outage_problems(&self.spec, &view);
        problems.extend(protocol_problems(&self.spec, &view));
        let link = view.link_problems().iter();
        problems.extend(link.map(|problem| with_location(problem.clone(), &self.spec)));
        if let Some(successor) = &self.successor {
            problems.extend(successor_problem(&self.spec, &successor.server.main().view()));
        }
        problems
    }
}

/// Whether a successor must be ready before it takes over. A server without a catalog has nothing
/// to lose and is replaced immediately.
pub(super) fn must_start_before_takeover(old: &RunningServer, new: &ServerSpec) -> bool {
    new.policy.enabled && old.server.main().view().catalog.is_some()
}

/// Whether the server may be listed from a stored catalog before it runs.
pub(super) fn uses_stored_catalog(spec: &ServerSpec) -> bool {
    matches!(spec.policy.lifecycle.connect, Connect::OnFirstCall | Connect::Background)
}

/// Problem group of a server.
pub(super) fn problem_group(key: &str) -> String {
    format!("server {key:?}")
}

fn has_failed(running: &RunningServer) -> bool {
    matches!(running.state(), ServerState::Failed | ServerState::Backoff)
        && !running.server.is_lent()
}

pub(super) fn is_away(state: ServerState) -> bool {
    match state {
        ServerState::Reconnecting
        | ServerState::Backoff
        | ServerState::Failed
        | ServerState::Draining
        | ServerState::Stopped => true,
        ServerState::Disabled
        | ServerState::Idle
        | ServerState::Connecting
        | ServerState::Ready
        | ServerState::Degraded => false,
    }
}

/// An outage is information for the user. It is an error only if the user can repair it.
fn outage_problems(spec: &ServerSpec, view: &ConnView) -> Vec<Problem> {
    let reported =
        is_away(view.lifecycle.state()) || view.lifecycle.state() == ServerState::Degraded;
    let Some((_, failure)) = view.lifecycle.last_error().filter(|_| reported) else {
        return Vec::new();
    };
    let text =
        format!("server `{}` is {}: {}", spec.id, view.lifecycle.state().as_str(), failure.message);
    let mut problem = match failure.kind {
        FailureKind::Resource if failure.code == MAX_SERVERS => Problem::error(failure.code, text),
        FailureKind::Connection | FailureKind::Timeout | FailureKind::Resource => {
            Problem::new(toolcrib_config::Severity::Info, failure.code, text)
        }
        FailureKind::Config | FailureKind::Authentication | FailureKind::Protocol => {
            Problem::error(failure.code, text)
        }
    };
    problem = with_location(problem, spec);
    if let Some(tool) = &failure.tool {
        problem = problem.tool(tool);
    }
    if let Some(fix) = &failure.fix {
        problem = problem.fix(fix.clone());
    }
    vec![problem]
}

fn successor_problem(spec: &ServerSpec, view: &ConnView) -> Option<Problem> {
    let (_, failure) = view.lifecycle.last_error()?;
    let text = format!(
        "the changed server `{}` did not start, so its predecessor keeps running: {}",
        spec.id, failure.message
    );
    let next = match view.lifecycle.next_retry() {
        Some(_) => "the host retries by the server's policy; correct the entry, or wait",
        None => "correct the entry and save it, or restart the server",
    };
    let problem = with_location(Problem::error("reload.kept_last_good", text), spec).fix(next);
    Some(match &failure.tool {
        Some(tool) => problem.tool(tool),
        None => problem,
    })
}

/// The protocol violations of the server, each kind once.
fn protocol_problems(spec: &ServerSpec, view: &ConnView) -> Vec<Problem> {
    let reported = view.anomalies().into_iter().map(|oddity| {
        // Without the count: a problem that changed with every message would flood listeners and
        // the log.
        let text = format!("server `{}`: {}", spec.id, oddity.anomaly);
        with_location(Problem::warning(oddity.anomaly.code(), text), spec)
    });
    let listed = view.catalog.iter().flat_map(|catalog| &catalog.defects).map(|oddity| {
        let name = oddity.name.as_deref().unwrap_or("?");
        let text = format!(
            "server `{}`, {} `{name}`: {}",
            spec.id,
            oddity.list,
            toolcrib_upstream::signals::chain(&oddity.kind)
        );
        let mut problem = with_location(Problem::warning("list.item", text), spec);
        problem.id = format!("{}:{}:{name}", problem.id, oddity.list);
        problem
    });
    reported.chain(listed).collect()
}

pub(super) fn with_location(problem: Problem, spec: &ServerSpec) -> Problem {
    problem.at(&spec.source, spec.location, &format!("servers.{}", spec.id)).server(&spec.id)
}

/// Maximum time that a reload waits for a starting server.
pub(super) fn startup_timeout(spec: &ServerSpec) -> Duration {
    spec.policy.timeouts.startup.0.saturating_add(Duration::from_secs(1))
}
