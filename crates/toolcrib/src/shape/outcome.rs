//! A call that was made: the result as it came, what the host knows of it, and how policy hands it on.

use std::time::Duration;

use toolcrib_config::model::policy::{ErrorStyle, Results};
use toolcrib_wire::view::CallToolResult;

use super::error::{CallError, ErrorKind};
use super::output;
use super::view::{Audience, View, view};

/// What the host knows of a call, however it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub server: String,
    /// The name that the caller knows.
    pub tool: String,
    pub duration: Duration,
    pub attempts: u32,
    /// The call may have run more than once.
    pub repeated: bool,
}

/// The result of a call, lossless. That a tool failed is a result, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResult {
    pub facts: Facts,
    pub result: CallToolResult,
}

/// What is handed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    pub view: View,
    pub is_error: bool,
}

/// Hands on what became of a call, or throws where the error style says so.
pub fn deliver(
    facts: &Facts,
    outcome: Result<&CallToolResult, &CallError>,
    policy: &Results,
    audience: Audience,
) -> Result<Delivered, CallError> {
    match policy.error_style {
        ErrorStyle::Result => Ok(as_result(outcome, policy, audience)),
        ErrorStyle::Output => as_output(facts, outcome, policy),
        ErrorStyle::Throw => or_throw(facts, outcome, policy, audience),
    }
}

fn as_result(
    outcome: Result<&CallToolResult, &CallError>,
    policy: &Results,
    audience: Audience,
) -> Delivered {
    match outcome {
        Ok(result) => {
            Delivered { view: view(result, policy.format, audience), is_error: result.is_error() }
        }
        Err(error) => Delivered { view: View::Text(error.chain()), is_error: true },
    }
}

/// A name that nobody knows is no call, so it has no output.
fn as_output(
    facts: &Facts,
    outcome: Result<&CallToolResult, &CallError>,
    policy: &Results,
) -> Result<Delivered, CallError> {
    match outcome {
        Err(error) if matches!(error.kind(), ErrorKind::UnknownTool | ErrorKind::Denied) => {
            Err(error.clone())
        }
        outcome => Ok(Delivered {
            view: View::Json(output::output(facts, outcome, policy)),
            is_error: outcome.map_or(true, CallToolResult::is_error),
        }),
    }
}

fn or_throw(
    facts: &Facts,
    outcome: Result<&CallToolResult, &CallError>,
    policy: &Results,
    audience: Audience,
) -> Result<Delivered, CallError> {
    let result = outcome.map_err(Clone::clone)?;
    if result.is_error() {
        let error = CallError::of_tool(result, policy.error_message);
        return Err(error.with_server(&facts.server).with_tool(&facts.tool));
    }
    Ok(Delivered { view: view(result, policy.format, audience), is_error: false })
}
