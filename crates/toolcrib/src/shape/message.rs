//! What a failed tool has to say for itself, in one line.

use toolcrib_config::model::policy::ErrorMessage;
use toolcrib_wire::view::{CallToolResult, Part};
use toolcrib_wire::{Json, Kind};

use super::view::item_text;

/// Characters of a raw result that a message may hold.
const RAW: usize = 2_000;

/// The message of a result that is an error.
pub fn message(result: &CallToolResult, policy: ErrorMessage) -> String {
    match policy {
        ErrorMessage::FirstText => first_text(result),
        ErrorMessage::Structured => structured(result),
    }
}

/// Whether the tool says that trying again may help.
pub(super) fn retriable(result: &CallToolResult) -> Option<bool> {
    let levels = levels(result);
    pick(&levels, ["retriable", "retryable"], truth)
}

/// What the first item says.
fn first_text(result: &CallToolResult) -> String {
    match result.content().next() {
        None => "Unknown error".to_owned(),
        Some(item) => item_text(item.raw()).unwrap_or_else(|| item.raw().text().to_owned()),
    }
}

fn structured(result: &CallToolResult) -> String {
    let levels = levels(result);
    let message = said(&levels).or_else(|| texts(result)).unwrap_or_else(|| raw(result));
    message + &suffix(&levels)
}

/// The structured part and the error within it, as far as they are objects.
fn levels(result: &CallToolResult) -> Vec<Json<'_>> {
    let top = result.structured_content().map(|raw| raw.json()).filter(|json| json.is_object());
    let nested = top.and_then(|top| top.get("error")).filter(|json| json.is_object());
    top.into_iter().chain(nested).collect()
}

fn said(levels: &[Json<'_>]) -> Option<String> {
    let top = levels.first()?;
    let nested = levels.get(1).and_then(|error| error.get("message"));
    let places = [top.get("message"), top.get("error"), nested, top.get("detail")];
    let mut said = places.into_iter().flatten().filter_map(Json::as_str);
    said.find(|text| !text.is_empty()).map(|text| text.into_owned())
}

fn texts(result: &CallToolResult) -> Option<String> {
    let texts: Vec<String> = result
        .content()
        .filter_map(|item| match item.part() {
            Part::Text(text) => Some(text.into_owned()),
            _ => None,
        })
        .collect();
    Some(texts.join("\n")).filter(|text| !text.is_empty())
}

fn raw(result: &CallToolResult) -> String {
    result.raw().text().chars().take(RAW).collect()
}

/// ` (code=… retriable=…)`, as much of it as there is.
fn suffix(levels: &[Json<'_>]) -> String {
    let code = pick(levels, ["code", "errorCode", "statusCode"], code);
    let retriable = pick(levels, ["retriable", "retryable"], truth);
    let parts: Vec<String> = [
        code.map(|code| format!("code={code}")),
        retriable.map(|retriable| format!("retriable={retriable}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(" ")) }
}

/// The first usable one of several members, the outer level first.
fn pick<T, const N: usize>(
    levels: &[Json<'_>],
    keys: [&str; N],
    read: impl Fn(Json<'_>) -> Option<T>,
) -> Option<T> {
    levels.iter().find_map(|level| level.pick(keys).into_iter().flatten().find_map(&read))
}

fn code(json: Json<'_>) -> Option<String> {
    match json.kind() {
        Kind::String => json.as_str().map(|text| text.into_owned()).filter(|code| !code.is_empty()),
        Kind::Number => Some(json.text().to_owned()),
        _ => None,
    }
}

fn truth(json: Json<'_>) -> Option<bool> {
    let word = json.as_str().map(|word| word.trim().to_ascii_lowercase());
    match word.as_deref() {
        Some("true" | "yes" | "1") => Some(true),
        Some("false" | "no" | "0") => Some(false),
        Some(_) => None,
        None => json.as_bool().or_else(|| json.as_f64().map(|number| number != 0.0)),
    }
}
