//! A result as items for a model. Images become artifacts with a reference in their place.

use toolcrib_wire::view::{CallToolResult, ParsedContent};
use toolcrib_wire::{ObjectWriter, RawJson, base64};

use super::content_text::block_text;

/// Image types that models accept.
const IMAGE_TYPES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// One item of a result for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelItem {
    /// Text.
    Text(String),
    /// An image.
    Image(Artifact),
}

/// Bytes to store, with the URI for reading them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// `toolcrib://artifacts/<id>/<number>`.
    pub uri: String,
    /// The media type.
    pub mime_type: String,
    /// The content.
    pub bytes: Vec<u8>,
}

/// Returns the items of a result. Images of other types become text that describes them.
pub fn model_items(result: &CallToolResult, id: &str) -> Vec<ModelItem> {
    let items = result.content().enumerate();
    items
        .map(|(number, item)| match item.parse() {
            ParsedContent::Image { data, mime_type } => {
                let image = Artifact::from_image(id, number, &data, &mime_type);
                image.map_or_else(|| ModelItem::Text(block_text(&item)), ModelItem::Image)
            }
            _ => ModelItem::Text(block_text(&item)),
        })
        .collect()
}

impl Artifact {
    fn from_image(id: &str, number: usize, data: &str, mime_type: &str) -> Option<Self> {
        let mime_type = mime_type.trim().to_ascii_lowercase();
        let bytes =
            IMAGE_TYPES.contains(&mime_type.as_str()).then(|| base64::decode(data.trim()))??;
        Some(Artifact { uri: format!("toolcrib://artifacts/{id}/{number}"), mime_type, bytes })
    }

    /// Returns the text that replaces the image.
    pub fn reference(&self) -> String {
        format!("[image: {}, {} bytes, {}]", self.mime_type, self.bytes.len(), self.uri)
    }
}

impl ModelItem {
    /// Writes the item as `input_text` or `input_image`.
    pub fn to_json(&self) -> RawJson {
        let item = ObjectWriter::new();
        match self {
            ModelItem::Text(text) => {
                item.string("type", "input_text").string("text", text).finish()
            }
            ModelItem::Image(image) => item
                .string("type", "input_image")
                .string("mimeType", &image.mime_type)
                .integer("byteLength", i64::try_from(image.bytes.len()).unwrap_or(i64::MAX))
                .string("uri", &image.uri)
                .finish(),
        }
    }
}
