//! What became of a call, as the command line and the control API write it.

use std::time::Duration;

use toolcrib_config::model::policy::ErrorMessage;
use toolcrib_upstream::signals::timestamp;
use toolcrib_wire::view::CallToolResult;
use toolcrib_wire::{Json, ObjectWriter, Raw};

use super::content;
use super::error::{CallError, Retry};
use super::outcome::Facts;
use super::view::blocks;

/// One JSON object with the same members whatever happened; `null` is what is not known.
pub fn report(
    facts: &Facts,
    outcome: Result<&CallToolResult, &CallError>,
    policy: ErrorMessage,
) -> Raw {
    let result = outcome.ok();
    let failed = match outcome {
        Err(error) => Some(error.clone()),
        Ok(result) => result.is_error().then(|| of_tool(facts, result, policy)),
    };
    let error = failed.as_ref().map(error_json);
    let text = result.map(|result| Raw::string(&content::text(result)));
    let content = result.map(blocks);
    let server = (!facts.server.is_empty()).then(|| Raw::string(&facts.server));
    ObjectWriter::new()
        .bool("ok", failed.is_none())
        .bool("is_error", result.is_some_and(CallToolResult::is_error))
        .json("text", or_null(&text))
        .json("content", or_null(&content))
        .json(
            "structured",
            or_null(&result.and_then(|result| result.structured_content().cloned())),
        )
        .json("server", or_null(&server))
        .string("tool", &facts.tool)
        .integer("duration_ms", millis(facts.duration))
        .integer("attempts", facts.attempts.into())
        .bool("repeated", facts.repeated)
        .json("error", or_null(&error))
        .json("meta", or_null(&result.and_then(|result| result.meta().cloned())))
        .finish()
}

fn of_tool(facts: &Facts, result: &CallToolResult, policy: ErrorMessage) -> CallError {
    let error = CallError::of_tool(result, policy).with_tool(&facts.tool);
    match facts.server.is_empty() {
        true => error,
        false => error.with_server(&facts.server),
    }
}

/// `cause` is what the tool said where it is the tool that failed, else the causes as text.
fn error_json(error: &CallError) -> Raw {
    let cause = error.cause_data().cloned();
    let cause = cause.or_else(|| error.cause_text().map(|text| Raw::string(&text)));
    let (retry, after) = match error.retry() {
        Retry::No => ("no", None),
        Retry::Now => ("now", None),
        Retry::After(time) => ("after", Some(time)),
    };
    let writer = ObjectWriter::new()
        .string("kind", error.kind().as_str())
        .string("code", error.code())
        .string("message", error.message())
        .string("retry", retry)
        .json("cause", or_null(&cause))
        .string_if("server", error.server())
        .string_if("tool", error.tool())
        .string_if("time", error.time().map(timestamp).as_deref())
        .string_if("timestamp", error.time().map(timestamp).as_deref())
        .string("text", &error.tagged());
    match after {
        Some(time) => writer.integer("retry_after_ms", millis(time)).finish(),
        None => writer.finish(),
    }
}

fn or_null(raw: &Option<Raw>) -> Json<'_> {
    raw.as_ref().map_or(Json::NULL, Raw::json)
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
