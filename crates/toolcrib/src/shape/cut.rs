//! A result within a size: what fits is handed on, the whole is kept where it can be read later.

use toolcrib_config::model::units::Size;
use toolcrib_wire::view::{CallToolResult, Content, Part};
use toolcrib_wire::{ObjectWriter, Raw};

/// What becomes of a result that may be too large.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// A result of the protocol like any other.
    pub handed_on: Raw,
    /// The whole, where something had to go.
    pub kept: Option<Kept>,
}

/// A result that is to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// `toolcrib://results/<id>`.
    pub uri: String,
    /// JSON, byte for byte as it came.
    pub whole: Raw,
}

/// Cuts a result that is larger than `max`; zero means never. Items stay whole as long as they fit, the
/// first text that does not is cut, and a note says where the whole is. The note comes on top of `max`.
pub fn cut(result: &CallToolResult, max: Size, id: impl FnOnce() -> String) -> Cut {
    let whole = result.raw();
    let max = usize::try_from(max.0).unwrap_or(usize::MAX);
    if max == 0 || whole.text().len() <= max {
        return Cut { handed_on: whole.clone(), kept: None };
    }
    let uri = format!("toolcrib://results/{}", id());
    let mut left = max;
    let mut items = fitting(result, &mut left);
    items.push(note(whole.text().len(), max, &uri));
    items.push(link(&uri));
    let handed_on = others(whole, left).array("content", items).finish();
    Cut { handed_on, kept: Some(Kept { uri, whole: whole.clone() }) }
}

/// The first items, as many as fit; the one at the edge as far as it is text.
fn fitting(result: &CallToolResult, left: &mut usize) -> Vec<Raw> {
    let mut items = Vec::new();
    for item in result.content() {
        let size = item.raw().text().len();
        if size <= *left {
            *left -= size;
            items.push(item.raw().clone());
            continue;
        }
        if let Part::Text(text) = item.part() {
            items.extend(beginning(&text, *left).map(|text| Content::text(text).raw().clone()));
        }
        // Nothing comes after the edge, however small: a result with holes would be read as a whole one.
        *left = 0;
        break;
    }
    items
}

/// As much of a text as fits, never half a character.
fn beginning(text: &str, bytes: usize) -> Option<&str> {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Some(&text[..end]).filter(|text| !text.is_empty())
}

/// Everything but the content. Whether it failed and whether it is complete always stays.
fn others(whole: &Raw, mut left: usize) -> ObjectWriter {
    let mut writer = ObjectWriter::new();
    for (key, value) in whole.json().members() {
        let size = key.len() + value.text().len();
        let stays = matches!(&*key, "isError" | "resultType");
        if key == "content" || (!stays && size > left) {
            continue;
        }
        left = left.saturating_sub(size);
        writer = writer.json(&key, value);
    }
    writer
}

fn note(size: usize, max: usize, uri: &str) -> Raw {
    let text =
        format!("[cut: {size} bytes are over the limit of {max}; read {uri} for the whole result]");
    Content::text(&text).raw().clone()
}

fn link(uri: &str) -> Raw {
    ObjectWriter::new()
        .string("type", "resource_link")
        .string("uri", uri)
        .string("name", "the whole result")
        .string("mimeType", "application/json")
        .finish()
}
