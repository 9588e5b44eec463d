//! The status of servers and of the host.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use toolcrib_config::{Dialect, ServerSpec};
use toolcrib_upstream::conn::{
    CacheState, ConnView, FailureKind, MonotonicTime, ServerState, StateVocabulary,
};
use toolcrib_upstream::supervise::missing_capabilities;

use super::call_metrics::{CallCounts, CallFailure};
use super::host_snapshot::HostSnapshot;
use super::running_server::RunningServer;
use crate::registry::{self, Scope};

/// The current status of one server.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    /// The server's definition.
    pub spec: Arc<ServerSpec>,
    /// The server's key.
    pub key: Arc<str>,
    /// The scope of the server: all folders, or one folder.
    pub scope: Scope,
    /// The state of the main connection.
    pub state: ServerState,
    /// The state in the terms of the file's dialect.
    pub dialect_state: &'static str,
    /// The server's status in the registry.
    pub registered: registry::RegistrationStatus,
    /// Number of offered tools.
    pub tools: usize,
    /// Process id of the server, if it runs as a child process.
    pub pid: Option<u32>,
    /// Number of open and opening sessions, including leased ones.
    pub sessions: usize,
    /// Number of leases.
    pub leases: usize,
    /// The metrics of the server's calls.
    pub calls: CallCounts,
    /// Number of reconnects of the main connection.
    pub restarts: u32,
    /// Attempts of the current connect.
    pub attempts: u32,
    /// When the main connection was last established.
    pub last_connected: Option<SystemTime>,
    /// The last error of the connection or of a call, whichever is newer.
    pub last_error: Option<String>,
    /// Kind of the connection's last error.
    pub last_error_kind: Option<FailureKind>,
    /// When the last error happened.
    pub last_error_time: Option<SystemTime>,
    /// When the next connection attempt starts.
    pub next_retry: Option<SystemTime>,
    /// The state of the server's lists.
    pub cache: CacheState,
    /// Capabilities that the configuration expects and the server lacks.
    pub missing_capabilities: Vec<String>,
    /// The negotiated protocol version.
    pub protocol_version: Option<String>,
    /// The end of the server's stderr.
    pub stderr: Option<String>,
}

/// The current figures of the host.
#[derive(Clone, Debug)]
pub struct HostStats {
    /// The number of the newest snapshot.
    pub version: u64,
    /// Time since the host started.
    pub uptime: Duration,
    /// Number of running servers.
    pub servers: usize,
    /// Number of servers that are ready.
    pub ready: usize,
    /// Number of offered tools.
    pub tools: usize,
    /// Number of open dialogs.
    pub dialogs: usize,
    /// Number of leases.
    pub leases: usize,
    /// Number of problems.
    pub problems: usize,
    /// Number of removed or replaced servers that have not ended yet.
    pub draining: usize,
    /// Number of loaded configurations, including the first.
    pub reloads: u64,
    /// Number of call records that were dropped because of overload.
    pub dropped_records: u64,
}

pub(super) fn server_status(
    published: &HostSnapshot,
    server: &registry::RegisteredServer,
) -> Option<ServerStatus> {
    let running = published.running_server(server)?;
    let view = running.server.main().view();
    let life = &view.lifecycle;
    let error = life.last_error();
    let (last_error, last_error_time) = last_error(&view, running.metrics.last_failure()).unzip();
    let session = view.session.as_ref();
    let cwd = match &server.scope {
        Scope::Cwd(path) => Some(path.as_path()),
        Scope::Global => None,
    };
    Some(ServerStatus {
        spec: Arc::clone(&server.spec),
        key: Arc::clone(&server.key),
        scope: server.scope.clone(),
        state: life.state(),
        dialect_state: life.state_label(state_label(server.spec.dialect)),
        registered: server.status(),
        tools: published.registry.view(cwd).tools_of(&server.key).count(),
        pid: session.and_then(|session| session.peer().link_info().pid),
        sessions: running.server.sessions(),
        leases: running.leases().len(),
        calls: running.metrics.read(),
        restarts: life.restarts(),
        attempts: life.attempts(),
        last_connected: life.last_connected().map(|at| to_system_time(&view, at)),
        last_error,
        last_error_kind: error.map(|(_, failure)| failure.kind),
        last_error_time,
        next_retry: life.next_retry().map(|at| to_system_time(&view, at)),
        cache: match life.cache() {
            // The list was read, but is not published yet.
            CacheState::Ready if !server.is_discovered => CacheState::Populating,
            cache => cache,
        },
        missing_capabilities: missing_server_capabilities(running, &view),
        protocol_version: session.map(|session| session.agreed().version.as_str().to_owned()),
        stderr: view.stderr.as_ref().map(|stderr| stderr.text()),
    })
}

/// The newest error of the connection and of calls, with its time.
fn last_error(view: &ConnView, call: Option<CallFailure>) -> Option<(String, SystemTime)> {
    let down = view.lifecycle.last_error();
    let down = down.map(|(at, failure)| (failure.message.clone(), to_system_time(view, at)));
    let call = call.map(|failure| (failure.text, failure.at));
    [down, call].into_iter().flatten().max_by_key(|(_, at)| *at)
}

fn missing_server_capabilities(running: &RunningServer, view: &ConnView) -> Vec<String> {
    let Some(session) = &view.session else { return Vec::new() };
    missing_capabilities(running.spec(), &session.agreed().capabilities)
}

/// Converts a time of a connection to wall-clock time.
fn to_system_time(view: &ConnView, at: MonotonicTime) -> SystemTime {
    let (now, then) = (Instant::now(), view.started_at + at.0);
    let wall = SystemTime::now();
    match then.checked_duration_since(now) {
        Some(ahead) => wall + ahead,
        None => wall.checked_sub(now.duration_since(then)).unwrap_or(SystemTime::UNIX_EPOCH),
    }
}

/// The dialect changes only the shown state and decides nothing.
fn state_label(dialect: Dialect) -> StateVocabulary {
    match dialect {
        Dialect::Dispatch => StateVocabulary::Dispatch,
        Dialect::Minion => StateVocabulary::Minion,
        _ => StateVocabulary::Plain,
    }
}
