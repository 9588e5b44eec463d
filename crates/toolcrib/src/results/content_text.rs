//! Text forms of content blocks for people and models.

use toolcrib_wire::view::{CallToolResult, ContentBlock, ParsedContent};
use toolcrib_wire::{Json, RawJson};

/// Joins the text of all blocks with line feeds.
pub(super) fn flatten(result: &CallToolResult) -> String {
    let items: Vec<String> = result.content().map(|item| block_text(&item)).collect();
    items.join("\n")
}

/// Like [`flatten`], but falls back to the structured content of a result without blocks.
pub(super) fn result_text(result: &CallToolResult) -> String {
    match (result.content().next(), result.structured_content()) {
        (None, Some(structured)) => structured.text().to_owned(),
        _ => flatten(result),
    }
}

/// Returns the text of a block. Other blocks give their type and size, never their data.
pub(super) fn block_text(item: &ContentBlock) -> String {
    match item.parse() {
        ParsedContent::Text(text) => text.into_owned(),
        ParsedContent::Image { data, mime_type } => data_text("image", &mime_type, &data),
        ParsedContent::Audio { data, mime_type } => data_text("audio", &mime_type, &data),
        ParsedContent::Resource(resource) => match resource.text() {
            Some(text) => text.into_owned(),
            None => format!("[resource: {}]", resource.uri()),
        },
        ParsedContent::ResourceLink(link) => format!("[resource: {}]", link.uri()),
        ParsedContent::Other(kind) => unknown_block_text(item.raw(), kind.as_deref()),
    }
}

/// Returns the number of bytes that a Base64 text encodes.
pub(super) fn decoded_len(data: &str) -> usize {
    data.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=').count() * 3 / 4
}

fn data_text(kind: &str, mime_type: &str, data: &str) -> String {
    format!("[{kind}: {mime_type}, {} bytes]", decoded_len(data))
}

/// Handles a known type with missing members, or an unknown type.
fn unknown_block_text(item: &RawJson, kind: Option<&str>) -> String {
    let [data, mime] =
        item.json().pick(["data", "mimeType"]).map(|json| json.and_then(Json::as_str));
    match (kind, data) {
        (Some(kind @ ("image" | "audio")), data) => {
            data_text(kind, mime.as_deref().unwrap_or("unknown"), data.as_deref().unwrap_or(""))
        }
        _ => item.text().to_owned(),
    }
}
