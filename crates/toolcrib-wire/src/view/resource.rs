//! Resources, templates of them, and what reading one gives.

use std::borrow::Cow;

use crate::json::{Json, Kind};
use crate::raw::Raw;
use crate::view::cache::Cache;
use crate::view::flaw::{self, Flaw, note_odd};
use crate::view::page::Item;

/// One resource, whole. It has a URI; a missing name is noted, since the URI serves as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    raw: Raw,
    uri: String,
}

/// One template of resources, whole. It has a URI template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceTemplate {
    raw: Raw,
    uri_template: String,
}

/// What a resource holds, as text or as bytes, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceContents {
    raw: Raw,
    uri: String,
}

/// The result of `resources/read`, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadResourceResult(Raw);

const OPTIONAL: [(&str, Kind); 7] = [
    ("title", Kind::String),
    ("description", Kind::String),
    ("mimeType", Kind::String),
    ("annotations", Kind::Object),
    ("icons", Kind::Array),
    ("size", Kind::Number),
    ("_meta", Kind::Object),
];

impl Item for Resource {
    const LIST: &'static str = "resources";

    fn read(raw: Raw, notes: &mut Vec<Flaw>) -> Result<Self, Flaw> {
        flaw::object(raw.json())?;
        let [uri, name] = raw.json().pick(["uri", "name"]);
        let uri = flaw::required_text(uri, "uri")?;
        notes.extend(flaw::required_text(name, "name").err());
        note_odd(raw.json(), 0, OPTIONAL, notes);
        Ok(Resource { raw, uri })
    }
}

impl Resource {
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The name, or the URI where there is none.
    pub fn name(&self) -> Cow<'_, str> {
        let name = self.raw.json().get("name").and_then(Json::as_str);
        name.filter(|name| !name.is_empty()).unwrap_or(Cow::Borrowed(&self.uri))
    }

    pub fn raw(&self) -> &Raw {
        &self.raw
    }

    pub fn title(&self) -> Option<Cow<'_, str>> {
        self.raw.json().get("title")?.as_str()
    }

    pub fn description(&self) -> Option<Cow<'_, str>> {
        self.raw.json().get("description")?.as_str()
    }

    pub fn mime_type(&self) -> Option<Cow<'_, str>> {
        self.raw.json().get("mimeType")?.as_str()
    }
}

impl Item for ResourceTemplate {
    const LIST: &'static str = "resourceTemplates";

    fn read(raw: Raw, notes: &mut Vec<Flaw>) -> Result<Self, Flaw> {
        flaw::object(raw.json())?;
        let [template, name] = raw.json().pick(["uriTemplate", "name"]);
        let uri_template = flaw::required_text(template, "uriTemplate")?;
        notes.extend(flaw::required_text(name, "name").err());
        note_odd(raw.json(), 0, OPTIONAL, notes);
        Ok(ResourceTemplate { raw, uri_template })
    }
}

impl ResourceTemplate {
    pub fn uri_template(&self) -> &str {
        &self.uri_template
    }

    /// The name, or the template where there is none.
    pub fn name(&self) -> Cow<'_, str> {
        let name = self.raw.json().get("name").and_then(Json::as_str);
        name.filter(|name| !name.is_empty()).unwrap_or(Cow::Borrowed(&self.uri_template))
    }

    pub fn raw(&self) -> &Raw {
        &self.raw
    }

    pub fn description(&self) -> Option<Cow<'_, str>> {
        self.raw.json().get("description")?.as_str()
    }

    pub fn mime_type(&self) -> Option<Cow<'_, str>> {
        self.raw.json().get("mimeType")?.as_str()
    }
}

impl ResourceContents {
    pub fn read(raw: Raw) -> Result<Self, Flaw> {
        flaw::object(raw.json())?;
        let uri = flaw::required_text(raw.json().get("uri"), "uri")?;
        Ok(ResourceContents { raw, uri })
    }

    pub fn uri(&self) -> &str {
        &self.uri
    }

    pub fn raw(&self) -> &Raw {
        &self.raw
    }

    pub fn mime_type(&self) -> Option<Cow<'_, str>> {
        self.raw.json().get("mimeType")?.as_str()
    }

    pub fn text(&self) -> Option<Cow<'_, str>> {
        self.raw.json().get("text")?.as_str()
    }

    /// Bytes in Base64.
    pub fn blob(&self) -> Option<Cow<'_, str>> {
        self.raw.json().get("blob")?.as_str()
    }
}

impl ReadResourceResult {
    pub fn read(raw: Raw) -> Result<Self, Flaw> {
        flaw::object(raw.json())?;
        flaw::required(raw.json().get("contents"), "contents", Kind::Array)?;
        Ok(ReadResourceResult(raw))
    }

    pub fn raw(&self) -> &Raw {
        &self.0
    }

    /// The contents one by one, bad ones with their reason.
    pub fn contents(&self) -> Vec<Result<ResourceContents, Flaw>> {
        let list = self.0.json().get("contents").unwrap_or(Json::NULL);
        list.items().map(|item| ResourceContents::read(self.0.part(item))).collect()
    }

    pub fn cache(&self) -> Cache {
        Cache::of(self.0.json())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::raw;

    #[test]
    fn a_resource_needs_its_uri_and_nothing_else() {
        let mut notes = Vec::new();
        let resource = Resource::read(
            raw(r#"{"uri":"a:b","mimeType":"text/plain","size":"big"}"#),
            &mut notes,
        )
        .unwrap();
        assert_eq!(
            (resource.uri(), &*resource.name(), resource.mime_type().as_deref()),
            ("a:b", "a:b", Some("text/plain"))
        );
        let notes: Vec<_> = notes.iter().map(Flaw::to_string).collect();
        assert_eq!(notes, ["`name` is missing", "`size` must be a number, found a string"]);
        assert_eq!(
            Resource::read(raw(r#"{"name":"x"}"#), &mut Vec::new()),
            Err(Flaw::Missing { field: "uri" })
        );
    }

    #[test]
    fn a_template_needs_its_template() {
        let read = |text| ResourceTemplate::read(raw(text), &mut Vec::new());
        assert_eq!(read(r#"{"uriTemplate":"a:{b}","name":"n"}"#).unwrap().name(), "n");
        assert_eq!(
            read(r#"{"uriTemplate":7}"#).unwrap_err().to_string(),
            "`uriTemplate` must be a string, found a number"
        );
    }

    #[test]
    fn contents_are_read_one_by_one() {
        let read = ReadResourceResult::read(raw(
            r#"{"contents":[{"uri":"a:b","text":"t"},{"text":"no uri"},{"uri":"a:c","blob":"AA=="}],"ttlMs":7,"cacheScope":"public"}"#,
        ))
        .unwrap();
        let contents = read.contents();
        assert_eq!(contents[0].as_ref().unwrap().text().as_deref(), Some("t"));
        assert_eq!(contents[1], Err(Flaw::Missing { field: "uri" }));
        assert_eq!(contents[2].as_ref().unwrap().blob().as_deref(), Some("AA=="));
        assert_eq!(read.cache().ttl_ms, 7);
        assert!(ReadResourceResult::read(raw("{}")).is_err());
    }
}
