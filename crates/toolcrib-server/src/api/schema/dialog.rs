//! API schema of dialogs, their servers, leases and pending requests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib::{Dialog, Lease, PendingRequest, Reminder, ServerStatus};
use toolcrib_wire::RawJson;

use super::{millis, wall_clock_time};

/// A dialog to create.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewDialog {
    /// A dialog with this id is resumed with its switches; without an id a new one is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The agent, if the principal may choose it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Working folder of the dialog; the host's root by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Requests of servers that the client answers. The client must then poll `requests`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<AnswerableRequests>,
}

/// Kinds of server requests that a client answers.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerableRequests {
    #[serde(default)]
    pub elicitation: bool,
    #[serde(default)]
    pub sampling: bool,
}

/// Dialogs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DialogList {
    pub dialogs: Vec<DialogStatus>,
}

/// A dialog and the servers whose tools it may use.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DialogStatus {
    pub id: String,
    pub agent: String,
    pub cwd: String,
    /// The principal that owns the dialog.
    pub principal: Option<String>,
    pub servers: Vec<DialogServer>,
    pub leases: usize,
    /// Number of pending server requests.
    pub requests: usize,
}

/// Status of a server in one dialog.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DialogServer {
    pub id: String,
    pub key: String,
    /// Configuration file of the server.
    pub source: String,
    /// True if the server is enabled for this dialog.
    pub enabled: bool,
    pub state: String,
    /// State in the vocabulary of the file's dialect.
    pub dialect_state: String,
    pub error: Option<String>,
    pub tools: usize,
}

/// Enables or disables a server for one dialog.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerSwitch {
    pub enabled: bool,
}

/// Status of a server after it was switched.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ServerSwitchResult {
    pub server: DialogServer,
}

/// Leases of a dialog.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LeaseList {
    pub leases: Vec<LeaseView>,
}

/// A dialog's lease of a session.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LeaseView {
    pub server: String,
    pub dialog: String,
    pub since: String,
    pub last_use: String,
    /// Time until an unused lease ends.
    pub idle_after_ms: Option<u64>,
    pub in_flight: u32,
}

/// Reminders of a dialog.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReminderList {
    pub reminders: Vec<ReminderView>,
}

/// Reminder for an agent that holds a lease.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReminderView {
    pub server: String,
    pub text: String,
}

/// Pending server requests of a dialog.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PendingRequestList {
    pub requests: Vec<PendingRequestView>,
}

/// A server's request to the client behind a dialog.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PendingRequestView {
    pub id: u64,
    /// The call that caused it; `null` if several may have.
    pub call: Option<u64>,
    /// Open calls that may have caused it.
    pub calls: Vec<u64>,
    pub server: String,
    /// `elicitation/create` or `sampling/createMessage`.
    pub method: String,
    #[schemars(with = "Value")]
    pub params: RawJson,
}

/// Response to a server request: exactly one field is set.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestAnswer {
    /// Result of the method: `{"action":"accept","content":{…}}`, or a message of a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub result: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RequestAnswerError>,
}

/// Error response to a server request.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestAnswerError {
    pub code: i64,
    pub message: String,
}

/// Confirms that a response was delivered.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AnswerReceipt {
    pub ok: bool,
}

impl DialogStatus {
    /// `servers` are the servers visible to the caller.
    pub fn for_dialog(dialog: &Dialog, servers: &[ServerStatus]) -> Self {
        let of = dialog.switches().into_iter().filter_map(|(server, enabled)| {
            let status = servers.iter().find(|status| status.key == server.key)?;
            Some(DialogServer::for_server(status, enabled))
        });
        DialogStatus {
            id: dialog.id().to_owned(),
            agent: dialog.agent().to_owned(),
            cwd: dialog.cwd().display().to_string(),
            principal: dialog.principal().map(str::to_owned),
            servers: of.collect(),
            leases: dialog.leases().len(),
            requests: dialog.pending_requests().len(),
        }
    }
}

impl DialogServer {
    fn for_server(status: &ServerStatus, enabled: bool) -> Self {
        DialogServer {
            id: status.spec.id.clone(),
            key: status.key.to_string(),
            source: status.spec.source.to_string(),
            enabled,
            state: status.state.as_str().to_owned(),
            dialect_state: status.dialect_state.to_owned(),
            error: status.last_error.clone(),
            tools: status.tools,
        }
    }
}

impl From<&Lease> for LeaseView {
    fn from(lease: &Lease) -> Self {
        LeaseView {
            server: lease.server.to_string(),
            dialog: lease.dialog.to_string(),
            since: wall_clock_time(lease.since),
            last_use: wall_clock_time(lease.last_use),
            idle_after_ms: lease.idle_after.map(millis),
            in_flight: lease.in_flight,
        }
    }
}

impl From<Reminder> for ReminderView {
    fn from(Reminder { server, text }: Reminder) -> Self {
        ReminderView { server, text }
    }
}

impl From<PendingRequest> for PendingRequestView {
    fn from(request: PendingRequest) -> Self {
        PendingRequestView {
            id: request.id,
            call: request.call,
            calls: request.calls,
            server: request.server.to_string(),
            method: request.method,
            params: request.params,
        }
    }
}
