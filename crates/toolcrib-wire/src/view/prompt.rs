//! Prompts and the result of getting one.

use std::borrow::Cow;

use crate::json::{Json, JsonKind};
use crate::raw_json::RawJson;
use crate::view::content::ContentBlock;
use crate::view::field_error::{self, FieldError, check_optional_members};
use crate::view::page::ListItem;

/// A prompt with all members. It has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptView {
    raw: RawJson,
    name: String,
}

/// One argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptArgument {
    /// The name.
    pub name: String,
    /// The description for people.
    pub description: Option<String>,
    /// True if the argument is required.
    pub required: bool,
}

/// The result of `prompts/get`, with all members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetPromptResult(RawJson);

/// A role and its content, in prompts and in sampling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptMessage(RawJson);

impl ListItem for PromptView {
    const LIST: &'static str = "prompts";

    fn read(raw: RawJson, warnings: &mut Vec<FieldError>) -> Result<Self, FieldError> {
        field_error::require_object(raw.json())?;
        let name = field_error::require_text(raw.json().get("name"), "name")?;
        let optional = [
            ("title", JsonKind::String),
            ("description", JsonKind::String),
            ("arguments", JsonKind::Array),
            ("icons", JsonKind::Array),
            ("_meta", JsonKind::Object),
        ];
        check_optional_members(raw.json(), 0, optional, warnings);
        Ok(PromptView { raw, name })
    }
}

impl PromptView {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
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

    /// Returns the arguments that have a name.
    pub fn arguments(&self) -> Vec<PromptArgument> {
        let list = self.raw.json().get("arguments").unwrap_or(Json::NULL);
        list.items().filter_map(argument).collect()
    }
}

fn argument(json: Json<'_>) -> Option<PromptArgument> {
    let [name, description, required] = json.pick(["name", "description", "required"]);
    Some(PromptArgument {
        name: name?.as_str()?.into_owned(),
        description: description.and_then(Json::as_str).map(Cow::into_owned),
        required: required.and_then(Json::as_bool).unwrap_or(false),
    })
}

impl GetPromptResult {
    /// Reads a result. It must have messages.
    pub fn read(raw: RawJson) -> Result<Self, FieldError> {
        field_error::require_object(raw.json())?;
        field_error::require_member(raw.json().get("messages"), "messages", JsonKind::Array)?;
        Ok(GetPromptResult(raw))
    }

    /// Returns the raw JSON with all members.
    pub fn raw(&self) -> &RawJson {
        &self.0
    }

    /// Returns the description.
    pub fn description(&self) -> Option<Cow<'_, str>> {
        self.0.json().get("description")?.as_str()
    }

    /// Returns the messages.
    pub fn messages(&self) -> Vec<PromptMessage> {
        let list = self.0.json().get("messages").unwrap_or(Json::NULL);
        list.items().map(|item| PromptMessage(self.0.part(item))).collect()
    }
}

impl PromptMessage {
    /// Returns the raw JSON with all members.
    pub fn raw(&self) -> &RawJson {
        &self.0
    }

    /// Returns the role.
    pub fn role(&self) -> Option<Cow<'_, str>> {
        self.0.json().get("role")?.as_str()
    }

    /// Returns the content blocks: one in prompts, one or several in sampling.
    pub fn content(&self) -> Vec<ContentBlock> {
        let Some(content) = self.0.json().get("content") else {
            return Vec::new();
        };
        match content.kind() {
            JsonKind::Array => {
                content.items().map(|item| ContentBlock::new(self.0.part(item))).collect()
            }
            _ => vec![ContentBlock::new(self.0.part(content))],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::raw;

    #[test]
    fn prompt_is_read_with_its_arguments() {
        let mut warnings = Vec::new();
        let text = r#"{"name":"p","arguments":[{"name":"a","required":true},{"nameless":1}],"description":7}"#;
        let prompt = PromptView::read(raw(text), &mut warnings).unwrap();
        assert_eq!(prompt.raw().text(), text);
        let arguments =
            [PromptArgument { name: "a".to_owned(), description: None, required: true }];
        assert_eq!(prompt.arguments(), arguments);
        assert_eq!(warnings.len(), 1);
        assert!(PromptView::read(raw("{}"), &mut warnings).is_err());
    }

    #[test]
    fn messages_hold_one_or_several_content_blocks() {
        let got = GetPromptResult::read(raw(
            r#"{"messages":[{"role":"user","content":{"type":"text","text":"x"}},{"role":"assistant","content":[{},{}]},{}]}"#,
        ))
        .unwrap();
        let seen: Vec<_> = got
            .messages()
            .iter()
            .map(|message| (message.role().is_some(), message.content().len()))
            .collect();
        assert_eq!(seen, [(true, 1), (true, 2), (false, 0)]);
        assert!(GetPromptResult::read(raw("{}")).is_err());
    }
}
