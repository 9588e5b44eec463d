//! How servers and the host are, for people and programs.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use toolcrib_config::{Dialect, ServerSpec};
use toolcrib_upstream::conn::{CacheState, FailureKind, Moment, State, View, Words};
use toolcrib_upstream::supervise::missing_capabilities;

use super::meters::{CallFailure, Counts};
use super::published::Published;
use super::serving::Serving;
use crate::registry::{self, Scope};

/// One server as it is now.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    pub spec: Arc<ServerSpec>,
    pub key: Arc<str>,
    pub scope: Scope,
    pub state: State,
    /// The state in the words of the file's design.
    pub dialect_state: &'static str,
    /// How the registry has it, in one word.
    pub registered: registry::Status,
    /// Tools that are offered.
    pub tools: usize,
    pub pid: Option<u32>,
    /// Sessions that are up or coming, leased ones too.
    pub sessions: usize,
    pub leases: usize,
    pub calls: Counts,
    pub restarts: u32,
    /// Tries of the connect that goes on now.
    pub attempts: u32,
    pub last_connected: Option<SystemTime>,
    /// Of its connection or of a call, whichever is newer.
    pub last_error: Option<String>,
    /// Of its connection's last error.
    pub last_error_kind: Option<FailureKind>,
    pub last_error_time: Option<SystemTime>,
    pub next_retry: Option<SystemTime>,
    pub cache: CacheState,
    /// Capabilities that its configuration expects and that it does not have.
    pub missing_capabilities: Vec<String>,
    pub protocol_version: Option<String>,
    /// The end of what it wrote to its stderr.
    pub stderr: Option<String>,
}

/// The host as it is now.
#[derive(Clone, Debug)]
pub struct Status {
    /// The number of the newest snapshot.
    pub version: u64,
    pub uptime: Duration,
    pub servers: usize,
    pub ready: usize,
    pub tools: usize,
    pub dialogs: usize,
    pub leases: usize,
    pub problems: usize,
    /// Servers that were removed or replaced and still have something to end.
    pub draining: usize,
    /// Configurations that were taken up, the first one too.
    pub reloads: u64,
    /// Records of calls that were dropped because they came too fast.
    pub dropped_records: u64,
}

pub(super) fn server_status(
    published: &Published,
    server: &registry::Server,
) -> Option<ServerStatus> {
    let serving = published.serving(server)?;
    let view = serving.server.main().view();
    let life = &view.life;
    let error = life.last_error();
    let (last_error, last_error_time) = last_error(&view, serving.meter.last_failure()).unzip();
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
        dialect_state: life.word(words(server.spec.dialect)),
        registered: server.status(),
        tools: published.snapshot.view(cwd).tools_of(&server.key).count(),
        pid: session.and_then(|session| session.peer().facts().pid),
        sessions: serving.server.sessions(),
        leases: serving.leases().len(),
        calls: serving.meter.read(),
        restarts: life.restarts(),
        attempts: life.attempts(),
        last_connected: life.last_connected().map(|at| time(&view, at)),
        last_error,
        last_error_kind: error.map(|(_, failure)| failure.kind),
        last_error_time,
        next_retry: life.next_retry().map(|at| time(&view, at)),
        cache: match life.cache() {
            // Its list was read, and is not offered yet.
            CacheState::Ready if !server.is_discovered => CacheState::Populating,
            cache => cache,
        },
        missing_capabilities: missing(serving, &view),
        protocol_version: session.map(|session| session.agreed().version.as_str().to_owned()),
        stderr: view.stderr.as_ref().map(|stderr| stderr.text()),
    })
}

/// The newest of what went wrong with the connection and with calls, and when that was.
fn last_error(view: &View, call: Option<CallFailure>) -> Option<(String, SystemTime)> {
    let down = view.life.last_error();
    let down = down.map(|(at, failure)| (failure.message.clone(), time(view, at)));
    let call = call.map(|failure| (failure.text, failure.at));
    [down, call].into_iter().flatten().max_by_key(|(_, at)| *at)
}

fn missing(serving: &Serving, view: &View) -> Vec<String> {
    let Some(session) = &view.session else { return Vec::new() };
    missing_capabilities(serving.spec(), &session.agreed().capabilities)
}

/// A moment of a connection's life on the clock on the wall.
fn time(view: &View, at: Moment) -> SystemTime {
    let (now, then) = (Instant::now(), view.began + at.0);
    let wall = SystemTime::now();
    match then.checked_duration_since(now) {
        Some(ahead) => wall + ahead,
        None => wall.checked_sub(now.duration_since(then)).unwrap_or(SystemTime::UNIX_EPOCH),
    }
}

/// Only what is shown differs by design; nothing is decided by it.
fn words(dialect: Dialect) -> Words {
    match dialect {
        Dialect::Dispatch => Words::Dispatch,
        Dialect::Minion => Words::Minion,
        _ => Words::Plain,
    }
}
