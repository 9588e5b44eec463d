//! Extracts the error message of a failed tool, in one line.

use toolcrib_config::model::policy::ErrorMessage;
use toolcrib_wire::view::{CallToolResult, ParsedContent};
use toolcrib_wire::{Json, JsonKind};

use super::rendering::item_text;

/// Maximum characters of a raw result in a message.
const MAX_RAW_CHARS: usize = 2_000;

/// Returns the message of a result with `isError`.
pub(crate) fn error_message(result: &CallToolResult, policy: ErrorMessage) -> String {
    match policy {
        ErrorMessage::FirstText => first_text(result),
        ErrorMessage::Structured => structured(result),
    }
}

/// Returns the tool's own statement on whether a retry may help.
pub(super) fn retriable(result: &CallToolResult) -> Option<bool> {
    let levels = error_levels(result);
    pick(&levels, ["retriable", "retryable"], parse_bool)
}

/// Returns the text of the first block.
fn first_text(result: &CallToolResult) -> String {
    match result.content().next() {
        None => "Unknown error".to_owned(),
        Some(item) => item_text(item.raw()).unwrap_or_else(|| item.raw().text().to_owned()),
    }
}

fn structured(result: &CallToolResult) -> String {
    let levels = error_levels(result);
    let message = structured_message(&levels)
        .or_else(|| joined_text(result))
        .unwrap_or_else(|| raw_excerpt(result));
    message + &suffix(&levels)
}

/// Returns the structured content and its `error` member, as far as they are objects.
fn error_levels(result: &CallToolResult) -> Vec<Json<'_>> {
    let top = result.structured_content().map(|raw| raw.json()).filter(|json| json.is_object());
    let nested = top.and_then(|top| top.get("error")).filter(|json| json.is_object());
    top.into_iter().chain(nested).collect()
}

fn structured_message(levels: &[Json<'_>]) -> Option<String> {
    let top = levels.first()?;
    let nested = levels.get(1).and_then(|error| error.get("message"));
    let places = [top.get("message"), top.get("error"), nested, top.get("detail")];
    let mut texts = places.into_iter().flatten().filter_map(Json::as_str);
    texts.find(|text| !text.is_empty()).map(|text| text.into_owned())
}

fn joined_text(result: &CallToolResult) -> Option<String> {
    let texts: Vec<String> = result
        .content()
        .filter_map(|item| match item.parse() {
            ParsedContent::Text(text) => Some(text.into_owned()),
            _ => None,
        })
        .collect();
    Some(texts.join("\n")).filter(|text| !text.is_empty())
}

fn raw_excerpt(result: &CallToolResult) -> String {
    result.raw().text().chars().take(MAX_RAW_CHARS).collect()
}

/// Returns ` (code=… retriable=…)` with the known parts.
fn suffix(levels: &[Json<'_>]) -> String {
    let code = pick(levels, ["code", "errorCode", "statusCode"], parse_code);
    let retriable = pick(levels, ["retriable", "retryable"], parse_bool);
    let parts: Vec<String> = [
        code.map(|code| format!("code={code}")),
        retriable.map(|retriable| format!("retriable={retriable}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(" ")) }
}

/// Returns the first usable member, outer level first.
fn pick<T, const N: usize>(
    levels: &[Json<'_>],
    keys: [&str; N],
    read: impl Fn(Json<'_>) -> Option<T>,
) -> Option<T> {
    levels.iter().find_map(|level| level.pick(keys).into_iter().flatten().find_map(&read))
}

fn parse_code(json: Json<'_>) -> Option<String> {
    match json.kind() {
        JsonKind::String => {
            json.as_str().map(|text| text.into_owned()).filter(|code| !code.is_empty())
        }
        JsonKind::Number => Some(json.text().to_owned()),
        _ => None,
    }
}

fn parse_bool(json: Json<'_>) -> Option<bool> {
    let word = json.as_str().map(|word| word.trim().to_ascii_lowercase());
    match word.as_deref() {
        Some("true" | "yes" | "1") => Some(true),
        Some("false" | "no" | "0") => Some(false),
        Some(_) => None,
        None => json.as_bool().or_else(|| json.as_f64().map(|number| number != 0.0)),
    }
}
