//! API schema of servers and of operations on them.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib::ServerStatus;
use toolcrib_upstream::signals::format_timestamp;

use super::error::ErrorBody;

/// All servers, in the order of the files.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ServerList {
    /// Version of the newest snapshot.
    pub version: u64,
    pub servers: Vec<ServerView>,
}

/// One server.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ServerView {
    pub id: String,
    /// Unique key `<source>#<id>`.
    pub key: String,
    pub source: String,
    pub dialect: String,
    pub transport: String,
    /// Purpose of the server, as configured.
    #[serde(default)]
    pub description: Option<String>,
    /// `disabled`, `idle`, `connecting`, `ready`, `degraded`, `reconnecting`, `backoff`, `failed`, `draining` or
    /// `stopped`.
    pub state: String,
    /// Number of offered tools.
    pub tools: usize,
    pub pid: Option<u32>,
    pub sessions: usize,
    pub calls: ServerCallCounts,
    /// Moving average; the newest call has a weight of one tenth.
    pub avg_response_seconds: Option<f64>,
    pub restarts: u32,
    /// Attempts of the current connect.
    pub attempts: u32,
    pub last_connected: Option<String>,
    /// Last error of the connection or of a call, whichever is newer.
    pub last_error: Option<String>,
    pub last_error_time: Option<String>,
    pub next_retry: Option<String>,
    /// State of the lists: `empty`, `populating`, `ready` or `stale`.
    pub cache: String,
    /// State in the vocabulary of the file's dialect.
    pub dialect_state: String,
    /// State in the registry: `loaded`, `temporarily_unavailable`, `config_invalid` or `disabled`.
    pub registered: String,
    pub leases: usize,
    /// Configured capabilities that the server lacks.
    pub missing_capabilities: Vec<String>,
    pub protocol_version: Option<String>,
}

/// Number of calls sent to a server.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ServerCallCounts {
    pub total: u64,
    pub succeeded: u64,
    pub failed: u64,
}

/// Result of an operation on a server.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OperationResult {
    pub ok: bool,
    pub server: ServerView,
    pub error: Option<ErrorBody>,
}

/// End of a server's standard error output.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ServerLog {
    pub server: String,
    pub log: Option<String>,
}

impl From<&ServerStatus> for ServerView {
    fn from(server: &ServerStatus) -> Self {
        let time = |at: Option<SystemTime>| at.map(format_timestamp);
        let spec = &server.spec;
        ServerView {
            id: spec.id.clone(),
            key: server.key.to_string(),
            source: spec.source.to_string(),
            dialect: spec.dialect.as_str().to_owned(),
            transport: spec.transport.kind().as_str().to_owned(),
            description: Some(spec.policy.description.clone()).filter(|text| !text.is_empty()),
            state: server.state.as_str().to_owned(),
            tools: server.tools,
            pid: server.pid,
            sessions: server.sessions,
            calls: ServerCallCounts {
                total: server.calls.total,
                succeeded: server.calls.succeeded,
                failed: server.calls.failed,
            },
            avg_response_seconds: server.calls.average,
            restarts: server.restarts,
            attempts: server.attempts,
            last_connected: time(server.last_connected),
            last_error: server.last_error.clone(),
            last_error_time: time(server.last_error_time),
            next_retry: time(server.next_retry),
            cache: server.cache.as_str().to_owned(),
            dialect_state: server.dialect_state.to_owned(),
            registered: server.registered.as_str().to_owned(),
            leases: server.leases,
            missing_capabilities: server.missing_capabilities.clone(),
            protocol_version: server.protocol_version.clone(),
        }
    }
}
