//! API schema of calls, their reports, and the call history.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib::internal::{RenderedResult, StoredCall};
use toolcrib::{Audience, Execution};
use toolcrib_upstream::signals::format_timestamp;
use toolcrib_wire::{Json, ObjectWriter, RawJson};

use super::millis;

/// A call to make.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCall {
    /// Name of the tool, or its name for models.
    pub tool: String,
    /// Arguments object; empty by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub arguments: Option<RawJson>,
    /// Names and values as text, instead of `arguments`. They are converted to the types of the tool's schema.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<(String, String)>,
    /// Overrides the time limit of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// True if to check the arguments against the tool's schema, whatever the policy says.
    #[serde(default)]
    pub check: bool,
    /// True if the first connection failure ends the call, instead of retries until the call times out.
    #[serde(default)]
    pub once: bool,
    /// The caller's own id of the call; stored in its record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The same as part of Minion's metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<CallMetadata>,
    /// Additional parts of the report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<ReportExtra>,
}

/// Minion's metadata of a call. Only the tool name decides which server is called.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallMetadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// Additional parts of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportExtra {
    /// `result`: the result of the server, byte for byte.
    Result,
    /// `delivered`: the form that the server's policy selects.
    Delivered,
}

/// Report of a call: `call --json`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CallReport {
    pub ok: bool,
    /// True if the tool itself reports an error.
    pub is_error: bool,
    pub text: Option<String>,
    #[schemars(with = "Option<Vec<Value>>")]
    pub content: Option<RawJson>,
    #[schemars(with = "Option<Value>")]
    pub structured: Option<RawJson>,
    pub server: Option<String>,
    pub tool: String,
    pub duration_ms: u64,
    pub attempts: u32,
    /// True if the call was repeated after the server may already have executed it.
    pub repeated: bool,
    /// `kind`, `code`, `message`, `retry` (`no`, `now` or `after`), `cause`, `server`, `tool`, `timestamp`, and `text`
    /// with all of it in one line.
    #[schemars(with = "Option<Value>")]
    pub error: Option<RawJson>,
    #[schemars(with = "Option<Value>")]
    pub meta: Option<RawJson>,
    /// Number of the call, as in events.
    #[serde(default)]
    pub call: Option<u64>,
    #[serde(default)]
    #[schemars(with = "Option<Value>")]
    pub result: Option<RawJson>,
    #[serde(default)]
    pub delivered: Option<DeliveredOutput>,
}

/// The form that the server's policy selects; exactly one field is set.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeliveredOutput {
    pub text: Option<String>,
    #[schemars(with = "Option<Value>")]
    pub json: Option<RawJson>,
    /// Why there is no output, with the server's name.
    pub error: Option<String>,
}

/// A call that continues in the background.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CallStarted {
    pub call: u64,
}

/// Finished calls, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CallHistory {
    pub calls: Vec<CallHistoryEntry>,
}

/// One finished call: caller, tool, duration and outcome.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CallHistoryEntry {
    pub number: u64,
    pub agent: String,
    pub dialog: Option<String>,
    /// Key of the server; `null` for a tool of the host itself.
    pub server: Option<String>,
    pub tool: String,
    pub started: String,
    pub duration_ms: u64,
    /// `ok`, or the kind of error.
    pub ended: String,
    /// The caller's own id of the call.
    #[serde(default)]
    pub request_id: Option<String>,
}

impl CallReport {
    /// Renders the report of a call with the additional parts.
    pub fn to_json(done: &Execution, with: &[ReportExtra]) -> RawJson {
        let call = i64::try_from(done.call).unwrap_or(i64::MAX);
        let mut more =
            vec![("call", ObjectWriter::new().integer("call", call).finish().get("call"))];
        if with.contains(&ReportExtra::Result) {
            more.push(("result", done.outcome.as_ref().ok().map(|result| result.raw().clone())));
        }
        if with.contains(&ReportExtra::Delivered) {
            more.push((
                "delivered",
                RawJson::from_value(&DeliveredOutput::for_execution(done)).ok(),
            ));
        }
        let null = RawJson::from(Json::NULL);
        let more =
            more.into_iter().map(|(key, raw)| (key, Some(raw.unwrap_or_else(|| null.clone()))));
        done.report().with_members(more)
    }
}

impl DeliveredOutput {
    fn for_execution(done: &Execution) -> Self {
        let error = |error: &toolcrib::CallError| Some(error.tagged_text());
        match (done.deliver(Audience::Other), &done.outcome) {
            (Err(failed), _) => {
                DeliveredOutput { error: error(&failed), ..DeliveredOutput::default() }
            }
            (Ok(delivered), outcome) => match (delivered.content, outcome) {
                (RenderedResult::Json(raw), _) => {
                    DeliveredOutput { json: Some(raw), ..DeliveredOutput::default() }
                }
                (RenderedResult::Text(_), Err(failed)) => {
                    DeliveredOutput { error: error(failed), ..DeliveredOutput::default() }
                }
                (RenderedResult::Text(text), Ok(_)) => {
                    DeliveredOutput { text: Some(text), ..DeliveredOutput::default() }
                }
            },
        }
    }
}

impl From<&StoredCall> for CallHistoryEntry {
    fn from(recorded: &StoredCall) -> Self {
        let call = &recorded.call;
        CallHistoryEntry {
            number: recorded.number,
            agent: call.agent.to_string(),
            dialog: call.dialog.as_deref().map(str::to_owned),
            server: call.server.as_deref().map(str::to_owned),
            tool: call.tool.to_string(),
            started: format_timestamp(call.started),
            duration_ms: millis(call.duration),
            ended: call.ended.to_string(),
            request_id: call.request_id.as_deref().map(str::to_owned),
        }
    }
}
