//! A result as items for a model, its images set aside as files with a reference in their place.

use toolcrib_wire::view::{CallToolResult, Part};
use toolcrib_wire::{ObjectWriter, Raw, base64};

use super::content::plain;

/// Images that models take.
const IMAGES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// One item of a result as a model takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    Text(String),
    Image(Artifact),
}

/// Bytes that are to be kept, and where they will be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// `toolcrib://artifacts/<id>/<number>`.
    pub uri: String,
    pub mime_type: String,
    pub bytes: Vec<u8>,
}

/// The items of a result; an image of a type that models do not take is text that says what it is.
pub fn items(result: &CallToolResult, id: &str) -> Vec<Item> {
    let items = result.content().enumerate();
    items
        .map(|(number, item)| match item.part() {
            Part::Image { data, mime_type } => {
                let image = Artifact::of(id, number, &data, &mime_type);
                image.map_or_else(|| Item::Text(plain(&item)), Item::Image)
            }
            _ => Item::Text(plain(&item)),
        })
        .collect()
}

impl Artifact {
    fn of(id: &str, number: usize, data: &str, mime_type: &str) -> Option<Self> {
        let mime_type = mime_type.trim().to_ascii_lowercase();
        let bytes = IMAGES.contains(&mime_type.as_str()).then(|| base64::decode(data.trim()))??;
        Some(Artifact { uri: format!("toolcrib://artifacts/{id}/{number}"), mime_type, bytes })
    }

    /// What stands for it where only text can stand.
    pub fn reference(&self) -> String {
        format!("[image: {}, {} bytes, {}]", self.mime_type, self.bytes.len(), self.uri)
    }
}

impl Item {
    /// `input_text` or `input_image`.
    pub fn to_json(&self) -> Raw {
        let item = ObjectWriter::new();
        match self {
            Item::Text(text) => item.string("type", "input_text").string("text", text).finish(),
            Item::Image(image) => item
                .string("type", "input_image")
                .string("mimeType", &image.mime_type)
                .integer("byteLength", i64::try_from(image.bytes.len()).unwrap_or(i64::MAX))
                .string("uri", &image.uri)
                .finish(),
        }
    }
}
