//! Resources, their templates, and prompts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib::registry::{Prompt, Resource, Template};
use toolcrib_wire::Raw;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Resources {
    pub version: u64,
    pub resources: Vec<ResourceShape>,
    pub templates: Vec<TemplateShape>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ResourceShape {
    pub uri: String,
    pub name: String,
    #[serde(flatten)]
    pub rest: Described,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TemplateShape {
    pub uri_template: String,
    pub name: String,
    #[serde(flatten)]
    pub rest: Described,
}

/// What resources and templates both have.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Described {
    pub server: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub mime_type: Option<String>,
    pub available: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Prompts {
    pub version: u64,
    pub prompts: Vec<PromptShape>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PromptShape {
    pub name: String,
    pub server: String,
    pub original_name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    #[schemars(with = "Option<Value>")]
    pub arguments: Option<Raw>,
    pub available: bool,
}

/// What a prompt is filled in with.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptArguments {
    /// They are text, whatever they look like.
    #[serde(default)]
    pub arguments: BTreeMap<String, String>,
}

impl From<&Resource> for ResourceShape {
    fn from(it: &Resource) -> Self {
        let rest = Described::of(it.server().id(), it.item().raw(), it.standing().is_available());
        ResourceShape { uri: it.uri().to_owned(), name: it.name().to_owned(), rest }
    }
}

impl From<&Template> for TemplateShape {
    fn from(it: &Template) -> Self {
        let rest = Described::of(it.server().id(), it.item().raw(), it.standing().is_available());
        TemplateShape { uri_template: it.uri().to_owned(), name: it.name().to_owned(), rest }
    }
}

impl From<&Prompt> for PromptShape {
    fn from(prompt: &Prompt) -> Self {
        let raw = prompt.item().raw();
        PromptShape {
            name: prompt.name().to_owned(),
            server: prompt.server().id().to_owned(),
            original_name: prompt.original_name().to_owned(),
            title: text(raw, "title"),
            description: text(raw, "description"),
            arguments: raw.get("arguments"),
            available: prompt.standing().is_available(),
        }
    }
}

impl Described {
    fn of(server: &str, raw: &Raw, available: bool) -> Self {
        Described {
            server: server.to_owned(),
            title: text(raw, "title"),
            description: text(raw, "description"),
            mime_type: text(raw, "mimeType"),
            available,
        }
    }
}

fn text(raw: &Raw, key: &str) -> Option<String> {
    raw.json().get(key)?.as_str().map(|text| text.into_owned())
}
