//! Truncates a result to a size limit and keeps the full result for later reading.

use toolcrib_config::model::units::Size;
use toolcrib_wire::view::{CallToolResult, ContentBlock, ParsedContent};
use toolcrib_wire::{ObjectWriter, RawJson};

/// A result within the size limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TruncatedResult {
    /// A valid MCP result.
    pub delivered: RawJson,
    /// The full result, if something was cut.
    pub stored: Option<StoredResult>,
}

/// A full result to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredResult {
    /// `toolcrib://results/<id>`.
    pub uri: String,
    /// The JSON of the result, byte for byte.
    pub full_result: RawJson,
}

/// Truncates a result that is larger than `max`; zero means no limit. Blocks that fit stay unchanged, the first text
/// that does not fit is cut, and a note has the URI of the full result. The note is added on top of `max`.
pub(crate) fn truncate_result(
    result: &CallToolResult,
    max: Size,
    id: impl FnOnce() -> String,
) -> TruncatedResult {
    let full = result.raw();
    let max = usize::try_from(max.0).unwrap_or(usize::MAX);
    if max == 0 || full.text().len() <= max {
        return TruncatedResult { delivered: full.clone(), stored: None };
    }
    let uri = format!("toolcrib://results/{}", id());
    let mut remaining = max;
    let mut items = fitting_blocks(result, &mut remaining);
    items.push(truncation_note(full.text().len(), max, &uri));
    items.push(result_link(&uri));
    let delivered = other_members(full, remaining).array("content", items).finish();
    TruncatedResult { delivered, stored: Some(StoredResult { uri, full_result: full.clone() }) }
}

/// Returns the first blocks that fit, with a prefix of the next one if it is text.
fn fitting_blocks(result: &CallToolResult, remaining: &mut usize) -> Vec<RawJson> {
    let mut items = Vec::new();
    for item in result.content() {
        let size = item.raw().text().len();
        if size <= *remaining {
            *remaining -= size;
            items.push(item.raw().clone());
            continue;
        }
        if let ParsedContent::Text(text) = item.parse() {
            items.extend(
                text_prefix(&text, *remaining).map(|text| ContentBlock::text(text).raw().clone()),
            );
        }
        // Later blocks are dropped even if they fit, because a result with holes would look complete.
        *remaining = 0;
        break;
    }
    items
}

/// Returns the longest prefix within `bytes` that ends at a character boundary.
fn text_prefix(text: &str, bytes: usize) -> Option<&str> {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Some(&text[..end]).filter(|text| !text.is_empty())
}

/// Returns all members except the content. `isError` and `resultType` always stay.
fn other_members(full: &RawJson, mut remaining: usize) -> ObjectWriter {
    let mut writer = ObjectWriter::new();
    for (key, value) in full.json().members() {
        let size = key.len() + value.text().len();
        let stays = matches!(&*key, "isError" | "resultType");
        if key == "content" || (!stays && size > remaining) {
            continue;
        }
        remaining = remaining.saturating_sub(size);
        writer = writer.json(&key, value);
    }
    writer
}

fn truncation_note(size: usize, max: usize, uri: &str) -> RawJson {
    let text =
        format!("[cut: {size} bytes are over the limit of {max}; read {uri} for the whole result]");
    ContentBlock::text(&text).raw().clone()
}

fn result_link(uri: &str) -> RawJson {
    ObjectWriter::new()
        .string("type", "resource_link")
        .string("uri", uri)
        .string("name", "the whole result")
        .string("mimeType", "application/json")
        .finish()
}
