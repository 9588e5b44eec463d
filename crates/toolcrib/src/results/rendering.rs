//! Renders results in the format of the policy. The result itself stays unchanged.

use serde_json::Value;
use toolcrib_config::model::policy::ResultFormat;
use toolcrib_config::to_yaml;
use toolcrib_wire::view::CallToolResult;
use toolcrib_wire::{Json, JsonKind, MessageLimits, RawJson};

use super::content_text;

/// The receiver of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// A client that reads MCP results.
    McpClient,
    /// A model, a program or a person.
    Other,
}

/// A result in one format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RenderedResult {
    /// Text.
    Text(String),
    /// JSON.
    Json(RawJson),
}

impl RenderedResult {
    /// Returns text for receivers that accept only text.
    pub fn into_text(self) -> String {
        match self {
            RenderedResult::Text(text) => text,
            RenderedResult::Json(raw) => raw.text().to_owned(),
        }
    }

    /// Returns JSON for receivers that accept only JSON.
    pub fn into_json(self) -> RawJson {
        match self {
            RenderedResult::Text(text) => RawJson::string(&text),
            RenderedResult::Json(raw) => raw,
        }
    }
}

/// Renders a result in the format of the policy.
pub(crate) fn render_result(
    result: &CallToolResult,
    format: ResultFormat,
    audience: Audience,
) -> RenderedResult {
    match format {
        ResultFormat::Auto if audience == Audience::McpClient => {
            RenderedResult::Json(result.raw().clone())
        }
        ResultFormat::Auto | ResultFormat::Text => {
            RenderedResult::Text(content_text::result_text(result))
        }
        ResultFormat::Flatten => RenderedResult::Text(content_text::flatten(result)),
        ResultFormat::Blocks => RenderedResult::Json(blocks(result)),
        ResultFormat::FirstJson => first_json(result),
        ResultFormat::Yaml => RenderedResult::Text(yaml(result)),
        ResultFormat::Json => RenderedResult::Json(
            result.structured_content().cloned().unwrap_or_else(|| blocks(result)),
        ),
        ResultFormat::Raw => RenderedResult::Json(result.raw().clone()),
    }
}

/// Returns the content blocks as the server sent them.
pub(super) fn blocks(result: &CallToolResult) -> RawJson {
    let content =
        result.raw().get("content").filter(|content| content.json().kind() == JsonKind::Array);
    content.unwrap_or_else(empty_list)
}

/// Renders the first block: parsed JSON if its text is JSON, otherwise its text, otherwise the block.
pub(super) fn first_json(result: &CallToolResult) -> RenderedResult {
    let Some(item) = result.content().next() else {
        return RenderedResult::Json(RawJson::from(Json::NULL));
    };
    match item_text(item.raw()) {
        Some(text) => match RawJson::parse(text.as_bytes(), &MessageLimits::default()) {
            Ok(data) => RenderedResult::Json(data),
            Err(_) => RenderedResult::Text(text),
        },
        None => RenderedResult::Json(item.raw().clone()),
    }
}

/// Returns the text of a block of any type.
pub(super) fn item_text(item: &RawJson) -> Option<String> {
    let own = item.json().as_str();
    own.or_else(|| item.json().get("text")?.as_str()).map(|text| text.into_owned())
}

fn yaml(result: &CallToolResult) -> String {
    let Some(structured) = result.structured_content() else {
        return content_text::flatten(result);
    };
    match structured.json().read::<Value>() {
        Ok(value) => to_yaml(&value),
        // The value is too deep for a tree. JSON is also valid YAML.
        Err(_) => structured.text().to_owned(),
    }
}

fn empty_list() -> RawJson {
    let none: [RawJson; 0] = [];
    RawJson::from_value(&none).unwrap_or_else(|_| RawJson::from(Json::NULL))
}
