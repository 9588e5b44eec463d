//! Resources, resource templates, and the result of reading a resource.

use std::borrow::Cow;

use crate::json::{Json, JsonKind};
use crate::raw_json::RawJson;
use crate::view::cache_hints::CacheHints;
use crate::view::field_error::{self, FieldError, check_optional_members};
use crate::view::page::ListItem;

/// A resource with all members. It has a URI. A missing name is only a warning, because the URI can replace it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceView {
    raw: RawJson,
    uri: String,
}

/// A resource template with all members. It has a URI template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceTemplateView {
    raw: RawJson,
    uri_template: String,
}

/// Content of a resource, as text or bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceContents {
    raw: RawJson,
    uri: String,
}

/// The result of `resources/read`, with all members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadResourceResult(RawJson);

const OPTIONAL: [(&str, JsonKind); 7] = [
    ("title", JsonKind::String),
    ("description", JsonKind::String),
    ("mimeType", JsonKind::String),
    ("annotations", JsonKind::Object),
    ("icons", JsonKind::Array),
    ("size", JsonKind::Number),
    ("_meta", JsonKind::Object),
];

impl ListItem for ResourceView {
    const LIST: &'static str = "resources";

    fn read(raw: RawJson, warnings: &mut Vec<FieldError>) -> Result<Self, FieldError> {
        field_error::require_object(raw.json())?;
        let [uri, name] = raw.json().pick(["uri", "name"]);
        let uri = field_error::require_text(uri, "uri")?;
        warnings.extend(field_error::require_text(name, "name").err());
        check_optional_members(raw.json(), 0, OPTIONAL, warnings);
        Ok(ResourceView { raw, uri })
    }
}

impl ResourceView {
    /// Returns the URI.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The name, or the URI if there is none.
    pub fn name(&self) -> Cow<'_, str> {
        let name = self.raw.json().get("name").and_then(Json::as_str);
        name.filter(|name| !name.is_empty()).unwrap_or(Cow::Borrowed(&self.uri))
    }

    /// Returns the raw JSON with all members.
    pub fn raw(&self) -> &RawJson {
        &self.raw
    }

    /// Returns the display name.
    pub fn title(&self) -> Option<Cow<'_, str>> {
        self.raw.json().get("title")?.as_str()
    }

    /// Returns the description.
    pub fn description(&self) -> Option<Cow<'_, str>> {
        self.raw.json().get("description")?.as_str()
    }

    /// Returns the media type.
    pub fn mime_type(&self) -> Option<Cow<'_, str>> {
        self.raw.json().get("mimeType")?.as_str()
    }
}

impl ListItem for ResourceTemplateView {
    const LIST: &'static str = "resourceTemplates";

    fn read(raw: RawJson, warnings: &mut Vec<FieldError>) -> Result<Self, FieldError> {
        field_error::require_object(raw.json())?;
        let [template, name] = raw.json().pick(["uriTemplate", "name"]);
        let uri_template = field_error::require_text(template, "uriTemplate")?;
        warnings.extend(field_error::require_text(name, "name").err());
        check_optional_members(raw.json(), 0, OPTIONAL, warnings);
        Ok(ResourceTemplateView { raw, uri_template })
    }
}

impl ResourceTemplateView {
    /// Returns the URI template.
    pub fn uri_template(&self) -> &str {
        &self.uri_template
    }

    /// The name, or the URI template if there is none.
    pub fn name(&self) -> Cow<'_, str> {
        let name = self.raw.json().get("name").and_then(Json::as_str);
        name.filter(|name| !name.is_empty()).unwrap_or(Cow::Borrowed(&self.uri_template))
    }

    /// Returns the raw JSON with all members.
    pub fn raw(&self) -> &RawJson {
        &self.raw
    }

    /// Returns the description.
    pub fn description(&self) -> Option<Cow<'_, str>> {
        self.raw.json().get("description")?.as_str()
    }

    /// Returns the media type.
    pub fn mime_type(&self) -> Option<Cow<'_, str>> {
        self.raw.json().get("mimeType")?.as_str()
    }
}

impl ResourceContents {
    /// Reads contents. The URI is required.
    pub fn read(raw: RawJson) -> Result<Self, FieldError> {
        field_error::require_object(raw.json())?;
        let uri = field_error::require_text(raw.json().get("uri"), "uri")?;
        Ok(ResourceContents { raw, uri })
    }

    /// Returns the URI.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns the raw JSON with all members.
    pub fn raw(&self) -> &RawJson {
        &self.raw
    }

    /// Returns the media type.
    pub fn mime_type(&self) -> Option<Cow<'_, str>> {
        self.raw.json().get("mimeType")?.as_str()
    }

    /// Returns the text.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        self.raw.json().get("text")?.as_str()
    }

    /// The bytes in Base64.
    pub fn blob(&self) -> Option<Cow<'_, str>> {
        self.raw.json().get("blob")?.as_str()
    }
}

impl ReadResourceResult {
    /// Reads a result. It must have contents.
    pub fn read(raw: RawJson) -> Result<Self, FieldError> {
        field_error::require_object(raw.json())?;
        field_error::require_member(raw.json().get("contents"), "contents", JsonKind::Array)?;
        Ok(ReadResourceResult(raw))
    }

    /// Returns the raw JSON with all members.
    pub fn raw(&self) -> &RawJson {
        &self.0
    }

    /// Returns the contents one by one, with an error for each bad one.
    pub fn contents(&self) -> Vec<Result<ResourceContents, FieldError>> {
        let list = self.0.json().get("contents").unwrap_or(Json::NULL);
        list.items().map(|item| ResourceContents::read(self.0.part(item))).collect()
    }

    /// Returns the cache hints.
    pub fn cache(&self) -> CacheHints {
        CacheHints::from_result(self.0.json())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::raw;

    #[test]
    fn resource_requires_only_a_uri() {
        let mut warnings = Vec::new();
        let resource = ResourceView::read(
            raw(r#"{"uri":"a:b","mimeType":"text/plain","size":"big"}"#),
            &mut warnings,
        )
        .unwrap();
        assert_eq!(
            (resource.uri(), &*resource.name(), resource.mime_type().as_deref()),
            ("a:b", "a:b", Some("text/plain"))
        );
        let warnings: Vec<_> = warnings.iter().map(FieldError::to_string).collect();
        assert_eq!(warnings, ["`name` is missing", "`size` must be a number, found a string"]);
        assert_eq!(
            ResourceView::read(raw(r#"{"name":"x"}"#), &mut Vec::new()),
            Err(FieldError::Missing { field: "uri" })
        );
    }

    #[test]
    fn resource_template_requires_a_uri_template() {
        let read = |text| ResourceTemplateView::read(raw(text), &mut Vec::new());
        assert_eq!(read(r#"{"uriTemplate":"a:{b}","name":"n"}"#).unwrap().name(), "n");
        assert_eq!(
            read(r#"{"uriTemplate":7}"#).unwrap_err().to_string(),
            "`uriTemplate` must be a string, found a number"
        );
    }

    #[test]
    fn resource_contents_are_read_one_by_one() {
        let read = ReadResourceResult::read(raw(
            r#"{"contents":[{"uri":"a:b","text":"t"},{"text":"no uri"},{"uri":"a:c","blob":"AA=="}],"ttlMs":7,"cacheScope":"public"}"#,
        ))
        .unwrap();
        let contents = read.contents();
        assert_eq!(contents[0].as_ref().unwrap().text().as_deref(), Some("t"));
        assert_eq!(contents[1], Err(FieldError::Missing { field: "uri" }));
        assert_eq!(contents[2].as_ref().unwrap().blob().as_deref(), Some("AA=="));
        assert_eq!(read.cache().ttl_ms, 7);
        assert!(ReadResourceResult::read(raw("{}")).is_err());
    }
}
