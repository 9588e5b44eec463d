//! The output object: what an execution gives whose failures are values.

use toolcrib_config::model::policy::Results;
use toolcrib_wire::view::CallToolResult;
use toolcrib_wire::{Json, ObjectWriter, Raw};

use super::error::CallError;
use super::message::message;
use super::outcome::Facts;
use super::view::{Audience, View, first_json, item_text, view};

/// `ToolName`, `Success`, `Result`, `Error`, and `mcp` with where it came from and how long it took.
pub(super) fn output(
    facts: &Facts,
    outcome: Result<&CallToolResult, &CallError>,
    policy: &Results,
) -> Raw {
    let (result, error) = match outcome {
        Err(error) => (None, failure(error)),
        Ok(result) if result.is_error() => (None, message(result, policy.error_message)),
        Ok(result) => {
            (Some(view(result, policy.format, Audience::Other).into_json()), String::new())
        }
    };
    let kind = outcome.ok().and_then(content_type);
    ObjectWriter::new()
        .string("ToolName", &facts.tool)
        .bool("Success", result.is_some())
        .json("Result", result.as_ref().map_or(Json::NULL, Raw::json))
        .string("Error", &error)
        .json("mcp", metadata(facts, kind).json())
        .finish()
}

fn failure(error: &CallError) -> String {
    let words =
        if error.is_not_connected() { "Server not connected" } else { "Tool execution failed" };
    format!("{words}: {}", error.chain())
}

fn metadata(facts: &Facts, content_type: Option<&str>) -> Raw {
    // Nanoseconds, which is how Go writes a duration.
    let time = i64::try_from(facts.duration.as_nanos()).unwrap_or(i64::MAX);
    ObjectWriter::new()
        .string("server_name", &facts.server)
        .integer("response_time", time)
        .string_if("content_type", content_type)
        .finish()
}

/// Of the first item, since the result is of it.
fn content_type(result: &CallToolResult) -> Option<&'static str> {
    let first = result.content().next()?;
    Some(match (item_text(first.raw()), first_json(result)) {
        (None, _) => "binary",
        (Some(_), View::Json(_)) => "json",
        (Some(_), View::Text(_)) => "text",
    })
}
