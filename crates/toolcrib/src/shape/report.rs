//! What became of a call, as the command line and the control API write it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use toolcrib_config::model::policy::ErrorMessage;
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
        Ok(result) => result.is_error().then(|| CallError::of_tool(result, policy)),
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
        .string_if("time", error.time().map(timestamp).as_deref());
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

/// RFC 3339 in UTC, to the millisecond.
fn timestamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
        since.subsec_millis()
    )
}

/// The day of the calendar, so many days after 1970-01-01; years begin in March to have leap days last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_people_read_it() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_399, "2000-02-28T23:59:59.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (1_794_787_200, "2026-11-16T00:00:00.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ] {
            let time = UNIX_EPOCH + Duration::from_millis(seconds * 1_000 + 7);
            assert_eq!(timestamp(time), expected);
        }
    }
}
