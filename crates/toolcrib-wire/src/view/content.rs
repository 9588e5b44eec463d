//! Content blocks of results, prompts and sampling messages.

use std::borrow::Cow;

use crate::json::Json;
use crate::raw_json::RawJson;
use crate::view::resource::{ResourceContents, ResourceView};

/// One content block of any type, with all members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentBlock(RawJson);

/// A content block with its members, if its type is known and its members are valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParsedContent<'a> {
    /// Text.
    Text(Cow<'a, str>),
    /// `data` is Base64.
    Image {
        /// The data.
        data: Cow<'a, str>,
        /// The media type.
        mime_type: Cow<'a, str>,
    },
    /// `data` is Base64.
    Audio {
        /// The data.
        data: Cow<'a, str>,
        /// The media type.
        mime_type: Cow<'a, str>,
    },
    /// An embedded resource.
    Resource(ResourceContents),
    /// A link to a resource.
    ResourceLink(ResourceView),
    /// An unknown type, or a known type with missing members. Holds the type's name.
    Other(Option<Cow<'a, str>>),
}

impl ContentBlock {
    /// Wraps a raw content block.
    pub fn new(raw: RawJson) -> Self {
        ContentBlock(raw)
    }

    /// Creates a text block.
    pub fn text(text: &str) -> Self {
        let raw =
            crate::object_writer::ObjectWriter::new().string("type", "text").string("text", text);
        ContentBlock(raw.finish())
    }

    /// Returns the raw JSON with all members.
    pub fn raw(&self) -> &RawJson {
        &self.0
    }

    /// Returns the type.
    pub fn kind(&self) -> Option<Cow<'_, str>> {
        self.0.json().get("type")?.as_str()
    }

    /// Parses the members of the known types.
    pub fn parse(&self) -> ParsedContent<'_> {
        let [kind, text, data, mime, resource] =
            self.0.json().pick(["type", "text", "data", "mimeType", "resource"]);
        let kind = kind.and_then(Json::as_str);
        let [text, data, mime] = [text, data, mime].map(|member| member.and_then(Json::as_str));
        let known = match (kind.as_deref(), text, data.zip(mime)) {
            (Some("text"), Some(text), _) => Some(ParsedContent::Text(text)),
            (Some("image"), _, Some((data, mime_type))) => {
                Some(ParsedContent::Image { data, mime_type })
            }
            (Some("audio"), _, Some((data, mime_type))) => {
                Some(ParsedContent::Audio { data, mime_type })
            }
            (Some("resource"), _, _) => self.resource(resource).map(ParsedContent::Resource),
            (Some("resource_link"), _, _) => self.link().map(ParsedContent::ResourceLink),
            _ => None,
        };
        known.unwrap_or(ParsedContent::Other(kind))
    }

    /// Returns the annotations.
    pub fn annotations(&self) -> Option<RawJson> {
        self.0.get("annotations")
    }

    /// Returns `_meta`.
    pub fn meta(&self) -> Option<RawJson> {
        self.0.get("_meta")
    }

    fn resource(&self, resource: Option<Json<'_>>) -> Option<ResourceContents> {
        ResourceContents::read(self.0.part(resource?)).ok()
    }

    fn link(&self) -> Option<ResourceView> {
        crate::view::page::ListItem::read(self.0.clone(), &mut Vec::new()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MessageLimits;

    #[test]
    fn known_content_types_are_parsed_and_others_kept() {
        for (text, expected) in [
            (r#"{"type":"text","text":"hi\n"}"#, "Text(\"hi\\n\")"),
            (
                r#"{"type":"image","data":"AA==","mimeType":"image/png"}"#,
                r#"Image { data: "AA==", mime_type: "image/png" }"#,
            ),
            (
                r#"{"type":"audio","data":"AA==","mimeType":"audio/wav"}"#,
                r#"Audio { data: "AA==", mime_type: "audio/wav" }"#,
            ),
            (r#"{"type":"image","data":"AA=="}"#, r#"Other(Some("image"))"#),
            (r#"{"type":"text","text":7}"#, r#"Other(Some("text"))"#),
            (r#"{"type":"hologram","x":1}"#, r#"Other(Some("hologram"))"#),
            (r#"{"text":"?"}"#, "Other(None)"),
            ("7", "Other(None)"),
        ] {
            let content =
                ContentBlock::new(RawJson::parse(text, &MessageLimits::default()).unwrap());
            assert_eq!(format!("{:?}", content.parse()), expected);
            assert_eq!(content.raw().text(), text);
        }
    }

    #[test]
    fn embedded_and_linked_resources_are_parsed() {
        let read = |text: &str| {
            ContentBlock::new(RawJson::parse(text, &MessageLimits::default()).unwrap())
        };
        let embedded = read(r#"{"type":"resource","resource":{"uri":"a:b","text":"t"}}"#);
        assert!(
            matches!(embedded.parse(), ParsedContent::Resource(resource) if resource.uri() == "a:b")
        );
        let link = read(r#"{"type":"resource_link","uri":"a:c","name":"c"}"#);
        assert!(matches!(link.parse(), ParsedContent::ResourceLink(link) if link.uri() == "a:c"));
        assert_eq!(
            read(r#"{"type":"resource"}"#).parse(),
            ParsedContent::Other(Some("resource".into()))
        );
    }
}
