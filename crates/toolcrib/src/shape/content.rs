//! The items of a result as text for people and models.

use toolcrib_wire::view::{CallToolResult, Content, Part};
use toolcrib_wire::{Json, Raw};

/// All items, one below the other; nothing for none.
pub(super) fn flatten(result: &CallToolResult) -> String {
    let items: Vec<String> = result.content().map(|item| plain(&item)).collect();
    items.join("\n")
}

/// Like [`flatten`], but a result that says everything in its structured part is not silent.
pub(super) fn text(result: &CallToolResult) -> String {
    match (result.content().next(), result.structured_content()) {
        (None, Some(structured)) => structured.text().to_owned(),
        _ => flatten(result),
    }
}

/// Text as it is; of what is no text, what it is and how large. Data is never part of it.
pub(super) fn plain(item: &Content) -> String {
    match item.part() {
        Part::Text(text) => text.into_owned(),
        Part::Image { data, mime_type } => data_text("image", &mime_type, &data),
        Part::Audio { data, mime_type } => data_text("audio", &mime_type, &data),
        Part::Resource(resource) => match resource.text() {
            Some(text) => text.into_owned(),
            None => format!("[resource: {}]", resource.uri()),
        },
        Part::ResourceLink(link) => format!("[resource: {}]", link.uri()),
        Part::Other(kind) => other(item.raw(), kind.as_deref()),
    }
}

/// Bytes that Base64 text stands for.
pub(super) fn decoded_len(data: &str) -> usize {
    data.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=').count() * 3 / 4
}

fn data_text(kind: &str, mime_type: &str, data: &str) -> String {
    format!("[{kind}: {mime_type}, {} bytes]", decoded_len(data))
}

/// A known type that lacks something, or a type that nobody here knows.
fn other(item: &Raw, kind: Option<&str>) -> String {
    let [data, mime] =
        item.json().pick(["data", "mimeType"]).map(|json| json.and_then(Json::as_str));
    match (kind, data) {
        (Some(kind @ ("image" | "audio")), data) => {
            data_text(kind, mime.as_deref().unwrap_or("unknown"), data.as_deref().unwrap_or(""))
        }
        _ => item.text().to_owned(),
    }
}
