//! The output object of the `output` error style, in which failures are values.

use toolcrib_config::model::policy::Results;
use toolcrib_wire::view::CallToolResult;
use toolcrib_wire::{Json, ObjectWriter, RawJson};

use super::delivery::CallFacts;
use super::error::CallError;
use super::error_message::error_message;
use super::rendering::{Audience, RenderedResult, first_json, item_text, render_result};

/// Builds `ToolName`, `Success`, `Result`, `Error`, and `mcp` with server and duration.
pub(super) fn output_object(
    facts: &CallFacts,
    outcome: Result<&CallToolResult, &CallError>,
    policy: &Results,
) -> RawJson {
    let (result, error) = match outcome {
        Err(error) => (None, failure_text(error)),
        Ok(result) if result.is_error() => (None, error_message(result, policy.error_message)),
        Ok(result) => {
            (Some(render_result(result, policy.format, Audience::Other).into_json()), String::new())
        }
    };
    let kind = outcome.ok().and_then(content_type);
    ObjectWriter::new()
        .string("ToolName", &facts.tool)
        .bool("Success", result.is_some())
        .json("Result", result.as_ref().map_or(Json::NULL, RawJson::json))
        .string("Error", &error)
        .json("mcp", metadata(facts, kind).json())
        .finish()
}

fn failure_text(error: &CallError) -> String {
    let prefix =
        if error.is_not_connected() { "Server not connected" } else { "Tool execution failed" };
    format!("{prefix}: {}", error.chain())
}

fn metadata(facts: &CallFacts, content_type: Option<&str>) -> RawJson {
    // Nanoseconds, as Go writes durations.
    let time = i64::try_from(facts.duration.as_nanos()).unwrap_or(i64::MAX);
    ObjectWriter::new()
        .string("server_name", &facts.server)
        .integer("response_time", time)
        .string_if("content_type", content_type)
        .finish()
}

/// Returns the type of the first block, because the result is made from it.
fn content_type(result: &CallToolResult) -> Option<&'static str> {
    let first = result.content().next()?;
    Some(match (item_text(first.raw()), first_json(result)) {
        (None, _) => "binary",
        (Some(_), RenderedResult::Json(_)) => "json",
        (Some(_), RenderedResult::Text(_)) => "text",
    })
}
