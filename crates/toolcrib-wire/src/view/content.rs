//! Content blocks of results, prompts and sampling messages.

use std::borrow::Cow;

use crate::json::Json;
use crate::raw::Raw;
use crate::view::resource::{Resource, ResourceContents};

/// One block of content, whole, of whatever type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content(Raw);

/// A block as far as its type is known and its members are as they should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part<'a> {
    Text(Cow<'a, str>),
    /// `data` is Base64.
    Image {
        data: Cow<'a, str>,
        mime_type: Cow<'a, str>,
    },
    /// `data` is Base64.
    Audio {
        data: Cow<'a, str>,
        mime_type: Cow<'a, str>,
    },
    Resource(ResourceContents),
    ResourceLink(Resource),
    /// A type that is not known, or a known one without what it needs; the type as it was written.
    Other(Option<Cow<'a, str>>),
}

impl Content {
    pub fn new(raw: Raw) -> Self {
        Content(raw)
    }

    pub fn text(text: &str) -> Self {
        let raw = crate::object::ObjectWriter::new().string("type", "text").string("text", text);
        Content(raw.finish())
    }

    pub fn raw(&self) -> &Raw {
        &self.0
    }

    pub fn kind(&self) -> Option<Cow<'_, str>> {
        self.0.json().get("type")?.as_str()
    }

    pub fn part(&self) -> Part<'_> {
        let [kind, text, data, mime, resource] =
            self.0.json().pick(["type", "text", "data", "mimeType", "resource"]);
        let kind = kind.and_then(Json::as_str);
        let [text, data, mime] = [text, data, mime].map(|member| member.and_then(Json::as_str));
        let known = match (kind.as_deref(), text, data.zip(mime)) {
            (Some("text"), Some(text), _) => Some(Part::Text(text)),
            (Some("image"), _, Some((data, mime_type))) => Some(Part::Image { data, mime_type }),
            (Some("audio"), _, Some((data, mime_type))) => Some(Part::Audio { data, mime_type }),
            (Some("resource"), _, _) => self.resource(resource).map(Part::Resource),
            (Some("resource_link"), _, _) => self.link().map(Part::ResourceLink),
            _ => None,
        };
        known.unwrap_or(Part::Other(kind))
    }

    pub fn annotations(&self) -> Option<Raw> {
        self.0.get("annotations")
    }

    pub fn meta(&self) -> Option<Raw> {
        self.0.get("_meta")
    }

    fn resource(&self, resource: Option<Json<'_>>) -> Option<ResourceContents> {
        ResourceContents::read(self.0.part(resource?)).ok()
    }

    fn link(&self) -> Option<Resource> {
        crate::view::page::Item::read(self.0.clone(), &mut Vec::new()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    #[test]
    fn known_types_are_read_and_all_others_are_kept() {
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
            let content = Content::new(Raw::parse(text, &Limits::default()).unwrap());
            assert_eq!(format!("{:?}", content.part()), expected);
            assert_eq!(content.raw().text(), text);
        }
    }

    #[test]
    fn embedded_and_linked_resources_are_resources() {
        let read = |text: &str| Content::new(Raw::parse(text, &Limits::default()).unwrap());
        let embedded = read(r#"{"type":"resource","resource":{"uri":"a:b","text":"t"}}"#);
        assert!(matches!(embedded.part(), Part::Resource(resource) if resource.uri() == "a:b"));
        let link = read(r#"{"type":"resource_link","uri":"a:c","name":"c"}"#);
        assert!(matches!(link.part(), Part::ResourceLink(link) if link.uri() == "a:c"));
        assert_eq!(read(r#"{"type":"resource"}"#).part(), Part::Other(Some("resource".into())));
    }
}
