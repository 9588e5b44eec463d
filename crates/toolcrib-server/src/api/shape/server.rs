//! Servers: how each one is, and what became of an operation.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib::ServerStatus;
use toolcrib_upstream::signals::timestamp;

use super::fault::Fault;

/// Every server, in the order of the files.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Servers {
    /// The number of the newest snapshot.
    pub version: u64,
    pub servers: Vec<ServerShape>,
}

/// One server.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ServerShape {
    pub id: String,
    /// `<source>#<id>`, which is unique.
    pub key: String,
    pub source: String,
    pub dialect: String,
    pub transport: String,
    /// What the server is for, as its configuration says.
    #[serde(default)]
    pub description: Option<String>,
    /// `disabled`, `idle`, `connecting`, `ready`, `degraded`, `reconnecting`, `backoff`, `failed`, `draining` or
    /// `stopped`.
    pub state: String,
    /// Tools that are offered.
    pub tools: usize,
    pub pid: Option<u32>,
    pub sessions: usize,
    pub calls: ServerCalls,
    /// A moving average; the newest call counts for a tenth.
    pub avg_response_seconds: Option<f64>,
    pub restarts: u32,
    /// Tries of the connect that goes on now.
    pub attempts: u32,
    pub last_connected: Option<String>,
    /// Of its connection or of a call, whichever is newer.
    pub last_error: Option<String>,
    pub last_error_time: Option<String>,
    pub next_retry: Option<String>,
    /// Of the lists: `empty`, `populating`, `ready` or `stale`.
    pub cache: String,
    /// The state in the words of the file's design.
    pub dialect_state: String,
    /// How the registry has it: `loaded`, `temporarily_unavailable`, `config_invalid` or `disabled`.
    pub registered: String,
    pub leases: usize,
    /// Capabilities that its configuration expects and that it does not have.
    pub missing_capabilities: Vec<String>,
    pub protocol_version: Option<String>,
}

/// How many calls a server was sent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ServerCalls {
    pub total: u64,
    pub succeeded: u64,
    pub failed: u64,
}

/// What became of an operation on a server.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Operated {
    pub ok: bool,
    pub server: ServerShape,
    pub error: Option<Fault>,
}

/// The end of what a server wrote to its standard error.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Log {
    pub server: String,
    pub log: Option<String>,
}

impl From<&ServerStatus> for ServerShape {
    fn from(server: &ServerStatus) -> Self {
        let time = |at: Option<SystemTime>| at.map(timestamp);
        let spec = &server.spec;
        ServerShape {
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
            calls: ServerCalls {
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
