//! Prompts, and what getting one gives.

use std::borrow::Cow;

use crate::json::{Json, Kind};
use crate::raw::Raw;
use crate::view::content::Content;
use crate::view::flaw::{self, Flaw, note_odd};
use crate::view::page::Item;

/// One prompt, whole. It has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    raw: Raw,
    name: String,
}

/// One argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptArgument {
    pub name: String,
    pub description: Option<String>,
    pub required: bool,
}

/// The result of `prompts/get`, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetPromptResult(Raw);

/// A role and its content, in prompts and in sampling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptMessage(Raw);

impl Item for Prompt {
    const LIST: &'static str = "prompts";

    fn read(raw: Raw, notes: &mut Vec<Flaw>) -> Result<Self, Flaw> {
        flaw::object(raw.json())?;
        let name = flaw::required_text(raw.json().get("name"), "name")?;
        let optional = [
            ("title", Kind::String),
            ("description", Kind::String),
            ("arguments", Kind::Array),
            ("icons", Kind::Array),
            ("_meta", Kind::Object),
        ];
        note_odd(raw.json(), 0, optional, notes);
        Ok(Prompt { raw, name })
    }
}

impl Prompt {
    pub fn name(&self) -> &str {
        &self.name
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

    /// The arguments that have a name.
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
    pub fn read(raw: Raw) -> Result<Self, Flaw> {
        flaw::object(raw.json())?;
        flaw::required(raw.json().get("messages"), "messages", Kind::Array)?;
        Ok(GetPromptResult(raw))
    }

    pub fn raw(&self) -> &Raw {
        &self.0
    }

    pub fn description(&self) -> Option<Cow<'_, str>> {
        self.0.json().get("description")?.as_str()
    }

    pub fn messages(&self) -> Vec<PromptMessage> {
        messages(&self.0)
    }
}

impl PromptMessage {
    pub fn raw(&self) -> &Raw {
        &self.0
    }

    pub fn role(&self) -> Option<Cow<'_, str>> {
        self.0.json().get("role")?.as_str()
    }

    /// The blocks: one in prompts, one or a list of them in sampling.
    pub fn content(&self) -> Vec<Content> {
        let Some(content) = self.0.json().get("content") else {
            return Vec::new();
        };
        match content.kind() {
            Kind::Array => content.items().map(|item| Content::new(self.0.part(item))).collect(),
            _ => vec![Content::new(self.0.part(content))],
        }
    }
}

/// The `messages` of a prompt or of a sampling request.
pub(crate) fn messages(raw: &Raw) -> Vec<PromptMessage> {
    let list = raw.json().get("messages").unwrap_or(Json::NULL);
    list.items().map(|item| PromptMessage(raw.part(item))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::raw;

    #[test]
    fn a_prompt_is_read_with_its_arguments() {
        let mut notes = Vec::new();
        let text = r#"{"name":"p","arguments":[{"name":"a","required":true},{"nameless":1}],"description":7}"#;
        let prompt = Prompt::read(raw(text), &mut notes).unwrap();
        assert_eq!(prompt.raw().text(), text);
        let arguments =
            [PromptArgument { name: "a".to_owned(), description: None, required: true }];
        assert_eq!(prompt.arguments(), arguments);
        assert_eq!(notes.len(), 1);
        assert!(Prompt::read(raw("{}"), &mut notes).is_err());
    }

    #[test]
    fn messages_hold_one_block_or_several() {
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
