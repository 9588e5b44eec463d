//! Dialogs: who has which servers, leases and questions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib::host::Question;
use toolcrib::lease::Reminder;
use toolcrib::{Dialog, Lease, ServerStatus};
use toolcrib_wire::Raw;

use super::{millis, past};

/// A dialog that is to be.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewDialog {
    /// Taken up again, with its switches, if there was one; without an id it gets one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Who asks, where the principal may choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The folder that it works in; the host's root where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// What servers may ask of it: somebody has to look at its `requests` then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Answers>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answers {
    #[serde(default)]
    pub elicitation: bool,
    #[serde(default)]
    pub sampling: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Dialogs {
    pub dialogs: Vec<DialogStatus>,
}

/// A dialog, and the servers that it can have tools of.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DialogStatus {
    pub id: String,
    pub agent: String,
    pub cwd: String,
    /// Whose it is.
    pub principal: Option<String>,
    pub servers: Vec<DialogServer>,
    pub leases: usize,
    /// Questions that wait for an answer.
    pub requests: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DialogServer {
    pub id: String,
    pub key: String,
    /// The file that it is of.
    pub source: String,
    /// Whether this dialog has it switched on.
    pub enabled: bool,
    pub state: String,
    /// The state in the words of the file's design.
    pub dialect_state: String,
    pub error: Option<String>,
    pub tools: usize,
}

/// A server switched on or off for one dialog.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    pub enabled: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Switched {
    pub server: DialogServer,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Leases {
    pub leases: Vec<Leased>,
}

/// A dialog's right to a session.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Leased {
    pub server: String,
    pub dialog: String,
    pub since: String,
    pub last_use: String,
    /// When it ends if it is not used.
    pub idle_after_ms: Option<u64>,
    pub in_flight: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Reminders {
    pub reminders: Vec<Reminded>,
}

/// What an agent is to be reminded of for as long as it holds a lease.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Reminded {
    pub server: String,
    pub text: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Requests {
    pub requests: Vec<Requested>,
}

/// What a server wants to know of whoever is behind a dialog.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Requested {
    pub id: u64,
    /// The call that caused it; `null` where several may have.
    pub call: Option<u64>,
    /// The open calls that may have caused it.
    pub calls: Vec<u64>,
    pub server: String,
    /// `elicitation/create` or `sampling/createMessage`.
    pub method: String,
    #[schemars(with = "Value")]
    pub params: Raw,
}

/// The answer to such a request: one of the two.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// What the method's result is: `{"action":"accept","content":{…}}`, or a message of a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub result: Option<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<AnswerError>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerError {
    pub code: i64,
    pub message: String,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Answered {
    pub ok: bool,
}

impl DialogStatus {
    /// `servers` are those that whoever asks may see.
    pub fn of(dialog: &Dialog, servers: &[ServerStatus]) -> Self {
        let of = dialog.switches().into_iter().filter_map(|(server, enabled)| {
            let status = servers.iter().find(|status| status.key == server.key)?;
            Some(DialogServer::of(status, enabled))
        });
        DialogStatus {
            id: dialog.id().to_owned(),
            agent: dialog.agent().to_owned(),
            cwd: dialog.cwd().display().to_string(),
            principal: dialog.principal().map(str::to_owned),
            servers: of.collect(),
            leases: dialog.leases().len(),
            requests: dialog.questions().len(),
        }
    }
}

impl DialogServer {
    fn of(status: &ServerStatus, enabled: bool) -> Self {
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

impl From<&Lease> for Leased {
    fn from(lease: &Lease) -> Self {
        Leased {
            server: lease.server.to_string(),
            dialog: lease.dialog.to_string(),
            since: past(lease.since),
            last_use: past(lease.last_use),
            idle_after_ms: lease.idle_after.map(millis),
            in_flight: lease.in_flight,
        }
    }
}

impl From<Reminder> for Reminded {
    fn from(Reminder { server, text }: Reminder) -> Self {
        Reminded { server, text }
    }
}

impl From<Question> for Requested {
    fn from(question: Question) -> Self {
        Requested {
            id: question.id,
            call: question.call,
            calls: question.calls,
            server: question.server.to_string(),
            method: question.method,
            params: question.params,
        }
    }
}
