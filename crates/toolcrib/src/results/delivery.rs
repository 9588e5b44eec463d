//! Delivers the outcome of a call by policy: as a result, an output object or an error.

use std::time::Duration;

use toolcrib_config::model::policy::{ErrorStyle, Results};
use toolcrib_wire::view::CallToolResult;

use super::error::{CallError, ErrorKind};
use super::output_object;
use super::rendering::{Audience, RenderedResult, render_result};

/// The host's facts about a call, with any outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFacts {
    /// The server's id. Empty for native tools.
    pub server: String,
    /// The tool name that the caller used.
    pub tool: String,
    /// The duration of the call.
    pub duration: Duration,
    /// The number of attempts.
    pub attempts: u32,
    /// True if the call may have run more than once.
    pub repeated: bool,
}

/// The unchanged result of a call. A failed tool also has a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResult {
    /// The host's facts about the call.
    pub facts: CallFacts,
    /// The result.
    pub result: CallToolResult,
}

/// An outcome in the form for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveredResult {
    /// The content in the format of the policy.
    pub content: RenderedResult,
    /// True if the call failed.
    pub is_error: bool,
}

/// Delivers the outcome of a call in the error style of the policy.
pub(crate) fn deliver(
    facts: &CallFacts,
    outcome: Result<&CallToolResult, &CallError>,
    policy: &Results,
    audience: Audience,
) -> Result<DeliveredResult, CallError> {
    match policy.error_style {
        ErrorStyle::Result => Ok(deliver_as_result(outcome, policy, audience)),
        ErrorStyle::Output => deliver_as_output(facts, outcome, policy),
        ErrorStyle::Throw => deliver_or_throw(facts, outcome, policy, audience),
    }
}

fn deliver_as_result(
    outcome: Result<&CallToolResult, &CallError>,
    policy: &Results,
    audience: Audience,
) -> DeliveredResult {
    match outcome {
        Ok(result) => DeliveredResult {
            content: render_result(result, policy.format, audience),
            is_error: result.is_error(),
        },
        Err(error) => {
            DeliveredResult { content: RenderedResult::Text(error.chain()), is_error: true }
        }
    }
}

/// Delivers an output object. Unknown and denied tools are errors, because nothing was executed.
fn deliver_as_output(
    facts: &CallFacts,
    outcome: Result<&CallToolResult, &CallError>,
    policy: &Results,
) -> Result<DeliveredResult, CallError> {
    match outcome {
        Err(error) if matches!(error.kind(), ErrorKind::UnknownTool | ErrorKind::Denied) => {
            Err(error.clone())
        }
        outcome => Ok(DeliveredResult {
            content: RenderedResult::Json(output_object::output_object(facts, outcome, policy)),
            is_error: outcome.map_or(true, CallToolResult::is_error),
        }),
    }
}

fn deliver_or_throw(
    facts: &CallFacts,
    outcome: Result<&CallToolResult, &CallError>,
    policy: &Results,
    audience: Audience,
) -> Result<DeliveredResult, CallError> {
    let result = outcome.map_err(Clone::clone)?;
    if result.is_error() {
        let error = CallError::from_tool_result(result, policy.error_message);
        return Err(error.with_server(&facts.server).with_tool(&facts.tool));
    }
    Ok(DeliveredResult { content: render_result(result, policy.format, audience), is_error: false })
}
