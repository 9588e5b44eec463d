//! API schema of resources, resource templates and prompts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib::{Prompt, Resource, ResourceTemplate};
use toolcrib_wire::RawJson;

/// Resources and resource templates of an agent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ResourceList {
    pub version: u64,
    pub resources: Vec<ResourceListItem>,
    pub templates: Vec<ResourceTemplateListItem>,
}

/// One resource.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ResourceListItem {
    pub uri: String,
    pub name: String,
    #[serde(flatten)]
    pub rest: DocumentFields,
}

/// One resource template.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ResourceTemplateListItem {
    pub uri_template: String,
    pub name: String,
    #[serde(flatten)]
    pub rest: DocumentFields,
}

/// Fields that resources and templates share.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DocumentFields {
    pub server: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub mime_type: Option<String>,
    pub available: bool,
}

/// Prompts of an agent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PromptList {
    pub version: u64,
    pub prompts: Vec<PromptListItem>,
}

/// One prompt.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PromptListItem {
    pub name: String,
    pub server: String,
    pub original_name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    #[schemars(with = "Option<Value>")]
    pub arguments: Option<RawJson>,
    pub available: bool,
}

/// Arguments of a prompt.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptArguments {
    /// Values are passed as text, whatever they look like.
    #[serde(default)]
    pub arguments: BTreeMap<String, String>,
}

impl From<&Resource> for ResourceListItem {
    fn from(it: &Resource) -> Self {
        let rest = DocumentFields::from_definition(
            it.server().id(),
            it.item().raw(),
            it.availability().is_available(),
        );
        ResourceListItem { uri: it.uri().to_owned(), name: it.name().to_owned(), rest }
    }
}

impl From<&ResourceTemplate> for ResourceTemplateListItem {
    fn from(it: &ResourceTemplate) -> Self {
        let rest = DocumentFields::from_definition(
            it.server().id(),
            it.item().raw(),
            it.availability().is_available(),
        );
        ResourceTemplateListItem {
            uri_template: it.uri().to_owned(),
            name: it.name().to_owned(),
            rest,
        }
    }
}

impl From<&Prompt> for PromptListItem {
    fn from(prompt: &Prompt) -> Self {
        let raw = prompt.item().raw();
        PromptListItem {
            name: prompt.name().to_owned(),
            server: prompt.server().id().to_owned(),
            original_name: prompt.original_name().to_owned(),
            title: text(raw, "title"),
            description: text(raw, "description"),
            arguments: raw.get("arguments"),
            available: prompt.availability().is_available(),
        }
    }
}

impl DocumentFields {
    fn from_definition(server: &str, raw: &RawJson, available: bool) -> Self {
        DocumentFields {
            server: server.to_owned(),
            title: text(raw, "title"),
            description: text(raw, "description"),
            mime_type: text(raw, "mimeType"),
            available,
        }
    }
}

fn text(raw: &RawJson, key: &str) -> Option<String> {
    raw.json().get(key)?.as_str().map(|text| text.into_owned())
}
