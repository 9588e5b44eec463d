//! The host as a whole: its figures, its problems, and what a reload did.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib::config::Action;
use toolcrib::host::{Outcome, Status, Step};
use toolcrib::{Host, Problem, Reload, ServerStatus};

use super::millis;

/// What everybody must know who lets others' programs run.
pub const PRIVILEGES: &str =
    "servers on this machine run with the host's privileges: there is no sandbox around them";

/// The host in figures.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HostStatus {
    /// Of the program.
    pub version: String,
    /// The number of the newest snapshot.
    pub registry_version: u64,
    pub root: String,
    /// Whether the first configuration is taken up.
    pub is_ready: bool,
    pub uptime_seconds: f64,
    pub servers: usize,
    /// Servers that are ready.
    pub ready: usize,
    /// Tools of servers; what is the host's own is not counted.
    pub tools: usize,
    pub dialogs: usize,
    pub leases: usize,
    pub problems: usize,
    /// Servers that were removed or replaced and still have something to end.
    pub draining: usize,
    /// Configurations that were taken up, the first one too.
    pub reloads: u64,
    pub dropped_records: u64,
    pub sandbox: bool,
    pub privileges: String,
}

/// Everything that is wrong now.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Problems {
    /// Whether none of them is an error.
    pub ok: bool,
    pub problems: Vec<Problem>,
}

/// What a reload did.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Reloaded {
    /// Whether every server started and nothing is wrong with the configuration.
    pub ok: bool,
    pub version: u64,
    pub steps: Vec<ReloadStep>,
    pub problems: Vec<Problem>,
    pub duration_ms: u64,
}

/// What became of one server.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReloadStep {
    /// Its key.
    pub server: String,
    /// `keep`, `keep_last_good`, `start`, `replace` or `stop`.
    pub action: String,
    /// `done`, `coming` or `failed`.
    pub outcome: String,
    pub error: Option<String>,
}

impl HostStatus {
    pub fn of(host: &Host, figures: Status, visible: &[ServerStatus]) -> Self {
        let Status {
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

impl Problems {
    pub fn of(problems: Vec<Problem>) -> Self {
        Problems { ok: !problems.iter().any(Problem::is_error), problems }
    }
}

impl From<&Reload> for Reloaded {
    fn from(reload: &Reload) -> Self {
        let has_failed = |step: &Step| matches!(step.outcome, Outcome::Failed(_));
        let is_wrong = reload.problems.iter().any(Problem::is_error);
        Reloaded {
            ok: !is_wrong && !reload.steps.iter().any(has_failed),
            version: reload.version,
            steps: reload.steps.iter().map(ReloadStep::from).collect(),
            problems: reload.problems.clone(),
            duration_ms: millis(reload.took),
        }
    }
}

impl From<&Step> for ReloadStep {
    fn from(step: &Step) -> Self {
        let error = match &step.outcome {
            Outcome::Failed(why) => Some(why.clone()),
            Outcome::Done | Outcome::Coming => None,
        };
        ReloadStep {
            server: step.server.to_string(),
            action: action(step.action).to_owned(),
            outcome: step.outcome.as_str().to_owned(),
            error,
        }
    }
}

fn action(action: Action) -> &'static str {
    match action {
        Action::Keep => "keep",
        Action::KeepLastGood => "keep_last_good",
        Action::Start => "start",
        Action::Replace => "replace",
        Action::Stop => "stop",
    }
}
