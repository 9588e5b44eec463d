//! API schema of host status, problems and reload reports.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib::config::ChangeAction;
use toolcrib::{Host, HostStats, Problem, Reload, ReloadOutcome, ReloadedServer, ServerStatus};

use super::millis;

/// Warning about missing isolation, for everyone that runs servers of others.
pub const PRIVILEGES: &str =
    "servers on this machine run with the host's privileges and without a sandbox";

/// Statistics of the host.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HostStatus {
    /// Version of the program.
    pub version: String,
    /// Version of the newest snapshot.
    pub registry_version: u64,
    pub root: String,
    /// True if the first configuration is loaded.
    pub is_ready: bool,
    pub uptime_seconds: f64,
    pub servers: usize,
    /// Number of ready servers.
    pub ready: usize,
    /// Number of tools of servers, without the host's own tools.
    pub tools: usize,
    pub dialogs: usize,
    pub leases: usize,
    pub problems: usize,
    /// Removed or replaced servers that still finish work.
    pub draining: usize,
    /// Number of loaded configurations, including the first.
    pub reloads: u64,
    pub dropped_records: u64,
    pub sandbox: bool,
    pub privileges: String,
}

/// All current problems.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ProblemList {
    /// True if no problem is an error.
    pub ok: bool,
    pub problems: Vec<Problem>,
}

/// Result of a reload.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReloadReport {
    /// True if every server started and the configuration has no errors.
    pub ok: bool,
    pub version: u64,
    pub steps: Vec<ReloadStep>,
    pub problems: Vec<Problem>,
    pub duration_ms: u64,
}

/// Result for one server.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReloadStep {
    /// Key of the server.
    pub server: String,
    /// `keep`, `keep_last_good`, `start`, `replace` or `stop`.
    pub action: String,
    /// `done`, `coming` or `failed`.
    pub outcome: String,
    pub error: Option<String>,
}

impl HostStatus {
    /// Combines the statistics with the visible servers.
    pub fn new(host: &Host, figures: HostStats, visible: &[ServerStatus]) -> Self {
        let HostStats {
            version,
            uptime,
            servers,
            ready,
            tools: _,
            dialogs,
            leases,
            problems,
            draining,
            reloads,
            dropped_records,
        } = figures;
        HostStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            registry_version: version,
            root: host.root().display().to_string(),
            is_ready: host.is_ready(),
            uptime_seconds: uptime.as_secs_f64(),
            servers,
            ready,
            tools: visible.iter().map(|server| server.tools).sum(),
            dialogs,
            leases,
            problems,
            draining,
            reloads,
            dropped_records,
            sandbox: false,
            privileges: PRIVILEGES.to_owned(),
        }
    }
}

impl ProblemList {
    /// Wraps problems and derives `ok`.
    pub fn new(problems: Vec<Problem>) -> Self {
        ProblemList { ok: !problems.iter().any(Problem::is_error), problems }
    }
}

impl From<&Reload> for ReloadReport {
    fn from(reload: &Reload) -> Self {
        let has_failed = |step: &ReloadedServer| matches!(step.outcome, ReloadOutcome::Failed(_));
        let is_wrong = reload.problems.iter().any(Problem::is_error);
        ReloadReport {
            ok: !is_wrong && !reload.steps.iter().any(has_failed),
            version: reload.version,
            steps: reload.steps.iter().map(ReloadStep::from).collect(),
            problems: reload.problems.clone(),
            duration_ms: millis(reload.took),
        }
    }
}

impl From<&ReloadedServer> for ReloadStep {
    fn from(step: &ReloadedServer) -> Self {
        let error = match &step.outcome {
            ReloadOutcome::Failed(why) => Some(why.clone()),
            ReloadOutcome::Done | ReloadOutcome::Coming => None,
        };
        ReloadStep {
            server: step.server.to_string(),
            action: action(step.action).to_owned(),
            outcome: step.outcome.as_str().to_owned(),
            error,
        }
    }
}

fn action(action: ChangeAction) -> &'static str {
    match action {
        ChangeAction::Keep => "keep",
        ChangeAction::KeepLastGood => "keep_last_good",
        ChangeAction::Start => "start",
        ChangeAction::Replace => "replace",
        ChangeAction::Stop => "stop",
    }
}
