//! The report of a call for the command line and the control API.

use std::time::Duration;

use toolcrib_config::model::policy::ErrorMessage;
use toolcrib_upstream::signals::format_timestamp;
use toolcrib_wire::view::CallToolResult;
use toolcrib_wire::{Json, ObjectWriter, RawJson};

use super::content_text;
use super::delivery::CallFacts;
use super::error::{CallError, RetryAdvice};
use super::rendering::blocks;

/// Builds one JSON object with the same members for every outcome. Unknown members are `null`.
pub(crate) fn call_report(
    facts: &CallFacts,
    outcome: Result<&CallToolResult, &CallError>,
    policy: ErrorMessage,
) -> RawJson {
    let result = outcome.ok();
    let failed = match outcome {
        Err(error) => Some(error.clone()),
        Ok(result) => result.is_error().then(|| tool_error(facts, result, policy)),
    };
    let error = failed.as_ref().map(error_json);
    let text = result.map(|result| RawJson::string(&content_text::result_text(result)));
    let content = result.map(blocks);
    let server = (!facts.server.is_empty()).then(|| RawJson::string(&facts.server));
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

fn tool_error(facts: &CallFacts, result: &CallToolResult, policy: ErrorMessage) -> CallError {
    let error = CallError::from_tool_result(result, policy).with_tool(&facts.tool);
    match facts.server.is_empty() {
        true => error,
        false => error.with_server(&facts.server),
    }
}

/// Writes the error. `cause` is the tool's structured content if the tool failed, otherwise the error chain as text.
fn error_json(error: &CallError) -> RawJson {
    let cause = error.cause_data().cloned();
    let cause = cause.or_else(|| error.cause_text().map(|text| RawJson::string(&text)));
    let (retry, after) = match error.retry() {
        RetryAdvice::No => ("no", None),
        RetryAdvice::Now => ("now", None),
        RetryAdvice::After(time) => ("after", Some(time)),
    };
    let writer = ObjectWriter::new()
        .string("kind", error.kind().as_str())
        .string("code", error.code())
        .string("message", error.message())
        .string("retry", retry)
        .json("cause", or_null(&cause))
        .string_if("server", error.server())
        .string_if("tool", error.tool())
        .string_if("time", error.time().map(format_timestamp).as_deref())
        .string_if("timestamp", error.time().map(format_timestamp).as_deref())
        .string("text", &error.tagged_text());
    match after {
        Some(time) => writer.integer("retry_after_ms", millis(time)).finish(),
        None => writer.finish(),
    }
}

fn or_null(raw: &Option<RawJson>) -> Json<'_> {
    raw.as_ref().map_or(Json::NULL, RawJson::json)
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
