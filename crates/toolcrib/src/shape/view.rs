//! The forms in which a result is handed on. The result itself stays whole; what a form leaves out, only it does.

use serde_json::Value;
use toolcrib_config::model::policy::ResultFormat;
use toolcrib_config::to_yaml;
use toolcrib_wire::view::CallToolResult;
use toolcrib_wire::{Json, Kind, Limits, Raw};

use super::content;

/// Who a result is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// It reads results of the protocol.
    McpClient,
    /// A model, a program, a person.
    Other,
}

/// A result in one form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum View {
    Text(String),
    Json(Raw),
}

impl View {
    /// For whoever takes nothing but text.
    pub fn into_text(self) -> String {
        match self {
            View::Text(text) => text,
            View::Json(raw) => raw.text().to_owned(),
        }
    }

    /// For whoever takes nothing but JSON.
    pub fn into_json(self) -> Raw {
        match self {
            View::Text(text) => Raw::string(&text),
            View::Json(raw) => raw,
        }
    }
}

/// A result in the form that policy asks for.
pub fn view(result: &CallToolResult, format: ResultFormat, audience: Audience) -> View {
    match format {
        ResultFormat::Auto if audience == Audience::McpClient => View::Json(result.raw().clone()),
        ResultFormat::Auto | ResultFormat::Text => View::Text(content::text(result)),
        ResultFormat::Flatten => View::Text(content::flatten(result)),
        ResultFormat::Blocks => View::Json(blocks(result)),
        ResultFormat::FirstJson => first_json(result),
        ResultFormat::Yaml => View::Text(yaml(result)),
        ResultFormat::Json => {
            View::Json(result.structured_content().cloned().unwrap_or_else(|| blocks(result)))
        }
        ResultFormat::Raw => View::Json(result.raw().clone()),
    }
}

/// The items as the server typed them.
pub(super) fn blocks(result: &CallToolResult) -> Raw {
    let content =
        result.raw().get("content").filter(|content| content.json().kind() == Kind::Array);
    content.unwrap_or_else(empty_list)
}

/// The first item: data where its text is JSON, else its text, else the item itself.
pub(super) fn first_json(result: &CallToolResult) -> View {
    let Some(item) = result.content().next() else { return View::Json(Raw::from(Json::NULL)) };
    match item_text(item.raw()) {
        Some(text) => match Raw::parse(text.as_bytes(), &Limits::default()) {
            Ok(data) => View::Json(data),
            Err(_) => View::Text(text),
        },
        None => View::Json(item.raw().clone()),
    }
}

/// Text that an item has, whatever its type says.
pub(super) fn item_text(item: &Raw) -> Option<String> {
    let own = item.json().as_str();
    own.or_else(|| item.json().get("text")?.as_str()).map(|text| text.into_owned())
}

fn yaml(result: &CallToolResult) -> String {
    let Some(structured) = result.structured_content() else { return content::flatten(result) };
    match structured.json().read::<Value>() {
        Ok(value) => to_yaml(&value),
        // Deeper than a tree may be; JSON is YAML, too.
        Err(_) => structured.text().to_owned(),
    }
}

fn empty_list() -> Raw {
    let none: [Raw; 0] = [];
    Raw::of(&none).unwrap_or_else(|_| Raw::from(Json::NULL))
}
