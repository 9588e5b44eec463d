//! Calls: what one is made of, what became of it, and what is remembered of all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib::host::Execution;
use toolcrib::shape::{Audience, View};
use toolcrib::store::Recorded;
use toolcrib_upstream::signals::timestamp;
use toolcrib_wire::{Json, ObjectWriter, Raw};

use super::millis;

/// A call that is to be made.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCall {
    /// The tool's name, or the one that models are given.
    pub tool: String,
    /// An object; an empty one where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub arguments: Option<Raw>,
    /// Names and values as text, instead of `arguments`: they become what the tool's schema asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<(String, String)>,
    /// Instead of the server's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Whether arguments are checked against the tool's schema whatever policy says.
    #[serde(default)]
    pub check: bool,
    /// Whether the first failure to connect is the answer, instead of trying for as long as the call may take.
    #[serde(default)]
    pub once: bool,
    /// What the caller knows the call by; kept in its record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The same as part of Minion's metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<CallMetadata>,
    /// What is wanted besides the report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<Extra>,
}

/// Minion's metadata of a call. The tool's name alone decides which server is called.
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

/// What a report may hold besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Extra {
    /// `result`: what the server answered, byte for byte.
    Result,
    /// `delivered`: the form that the server's policy asks for.
    Delivered,
}

/// What became of a call: `call --json`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Reported {
    pub ok: bool,
    /// Whether it is the tool itself that says so.
    pub is_error: bool,
    pub text: Option<String>,
    #[schemars(with = "Option<Vec<Value>>")]
    pub content: Option<Raw>,
    #[schemars(with = "Option<Value>")]
    pub structured: Option<Raw>,
    pub server: Option<String>,
    pub tool: String,
    pub duration_ms: u64,
    pub attempts: u32,
    /// Whether it was made again after the server may have done it.
    pub repeated: bool,
    /// `kind`, `code`, `message`, `retry` (`no`, `now` or `after`), `cause`, `server`, `tool`, `timestamp` and `text`,
    /// which is all of it in one line.
    #[schemars(with = "Option<Value>")]
    pub error: Option<Raw>,
    #[schemars(with = "Option<Value>")]
    pub meta: Option<Raw>,
    /// The number by which events name it.
    #[serde(default)]
    pub call: Option<u64>,
    #[serde(default)]
    #[schemars(with = "Option<Value>")]
    pub result: Option<Raw>,
    #[serde(default)]
    pub delivered: Option<Delivered>,
}

/// The form that the server's policy asks for: one of the three is there.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Delivered {
    pub text: Option<String>,
    #[schemars(with = "Option<Value>")]
    pub json: Option<Raw>,
    /// Why there is nothing to hand on, with the server's name.
    pub error: Option<String>,
}

/// A call that goes on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CallStarted {
    pub call: u64,
}

/// What is remembered of calls, the newest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Calls {
    pub calls: Vec<Called>,
}

/// Who called what, how long it took and how it ended.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Called {
    pub number: u64,
    pub agent: String,
    pub dialog: Option<String>,
    /// The server's key; none for a tool of the host itself.
    pub server: Option<String>,
    pub tool: String,
    pub started: String,
    pub duration_ms: u64,
    /// `ok`, or the kind of error.
    pub ended: String,
    /// What the caller knew it by.
    #[serde(default)]
    pub request_id: Option<String>,
}

impl Reported {
    /// The report of a call, with what else was asked for.
    pub fn raw(done: &Execution, with: &[Extra]) -> Raw {
        let call = i64::try_from(done.call).unwrap_or(i64::MAX);
        let mut more =
            vec![("call", ObjectWriter::new().integer("call", call).finish().get("call"))];
        if with.contains(&Extra::Result) {
            more.push(("result", done.outcome.as_ref().ok().map(|result| result.raw().clone())));
        }
        if with.contains(&Extra::Delivered) {
            more.push(("delivered", Raw::of(&Delivered::of(done)).ok()));
        }
        let null = Raw::from(Json::NULL);
        let more =
            more.into_iter().map(|(key, raw)| (key, Some(raw.unwrap_or_else(|| null.clone()))));
        done.report().with_members(more)
    }
}

impl Delivered {
    fn of(done: &Execution) -> Self {
        let error = |error: &toolcrib::CallError| Some(error.tagged());
        match (done.deliver(Audience::Other), &done.outcome) {
            (Err(failed), _) => Delivered { error: error(&failed), ..Delivered::default() },
            (Ok(delivered), outcome) => match (delivered.view, outcome) {
                (View::Json(raw), _) => Delivered { json: Some(raw), ..Delivered::default() },
                (View::Text(_), Err(failed)) => {
                    Delivered { error: error(failed), ..Delivered::default() }
                }
                (View::Text(text), Ok(_)) => Delivered { text: Some(text), ..Delivered::default() },
            },
        }
    }
}

impl From<&Recorded> for Called {
    fn from(recorded: &Recorded) -> Self {
        let call = &recorded.call;
        Called {
            number: recorded.number,
            agent: call.agent.to_string(),
            dialog: call.dialog.as_deref().map(str::to_owned),
            server: call.server.as_deref().map(str::to_owned),
            tool: call.tool.to_string(),
            started: timestamp(call.started),
            duration_ms: millis(call.duration),
            ended: call.ended.to_string(),
            request_id: call.request_id.as_deref().map(str::to_owned),
        }
    }
}
