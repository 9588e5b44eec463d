//! The result of a tool call.

use crate::envelope::Body;
use crate::json::Json;
use crate::raw_json::RawJson;
use crate::view::content::ContentBlock;
use crate::view::field_error::{self, FieldError};

/// Type of a result. Without `resultType` a result is complete, as in the legacy era.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultType {
    /// A final result.
    Complete,
    /// A request for input.
    InputRequired,
    /// A type of an extension.
    Other(String),
}

const MEMBERS: [&str; 5] = ["content", "structuredContent", "_meta", "isError", "resultType"];

/// The result of `tools/call`, indexed in one scan because it may be large.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallToolResult {
    raw: RawJson,
    content: Option<RawJson>,
    structured_content: Option<RawJson>,
    meta: Option<RawJson>,
    is_error: bool,
    result_type: ResultType,
}

impl ResultType {
    /// Reads the type of a result.
    pub fn from_result(result: Json<'_>) -> ResultType {
        ResultType::read(result.get("resultType"))
    }

    fn read(value: Option<Json<'_>>) -> ResultType {
        match value.filter(|value| !value.is_null()) {
            None => ResultType::Complete,
            Some(value) => match value.as_str().as_deref() {
                Some("complete") => ResultType::Complete,
                Some("input_required") => ResultType::InputRequired,
                Some(other) => ResultType::Other(other.to_owned()),
                None => ResultType::Other(value.text().to_owned()),
            },
        }
    }
}

impl CallToolResult {
    /// Reads a result. It must be an object.
    pub fn read(raw: RawJson) -> Result<Self, FieldError> {
        let json = raw.json();
        field_error::require_object(json)?;
        Ok(Self::from_members(&raw, json.pick(MEMBERS)))
    }

    /// Reads the result from a body whose members were found while it was checked, without another scan.
    pub fn from_body(body: &Body) -> Result<Self, FieldError> {
        let raw = body.raw().unwrap_or_else(|| Json::NULL.into());
        field_error::require_object(raw.json())?;
        let spans = &body.spans;
        let members = [
            spans.content,
            spans.structured_content,
            spans.meta,
            spans.is_error,
            spans.result_type,
        ];
        Ok(Self::from_members(&raw, members.map(|span| body.json_at(span))))
    }

    fn from_members(raw: &RawJson, members: [Option<Json<'_>>; MEMBERS.len()]) -> Self {
        let [content, structured, meta, is_error, result_type] = members;
        CallToolResult {
            content: content.map(|json| raw.part(json)),
            structured_content: structured.map(|json| raw.part(json)),
            meta: meta.map(|json| raw.part(json)),
            is_error: read_is_error(is_error),
            result_type: ResultType::read(result_type),
            raw: raw.clone(),
        }
    }

    /// Returns the raw JSON with all members.
    pub fn raw(&self) -> &RawJson {
        &self.raw
    }

    /// Iterates over the content blocks in order.
    pub fn content(&self) -> impl Iterator<Item = ContentBlock> {
        let items =
            self.content.iter().flat_map(|list| list.json().items().map(|item| list.part(item)));
        items.map(ContentBlock::new)
    }

    /// Returns the structured content.
    pub fn structured_content(&self) -> Option<&RawJson> {
        self.structured_content.as_ref()
    }

    /// Returns `_meta`.
    pub fn meta(&self) -> Option<&RawJson> {
        self.meta.as_ref()
    }

    /// Returns whether the tool reports a failure.
    pub fn is_error(&self) -> bool {
        self.is_error
    }

    /// Returns the type of the result.
    pub fn result_type(&self) -> &ResultType {
        &self.result_type
    }
}

/// Reads `isError`. A value that is not a boolean counts as an error, because the call may have failed.
fn read_is_error(value: Option<Json<'_>>) -> bool {
    let value = value.filter(|value| !value.is_null());
    value.is_some_and(|value| value.as_bool().unwrap_or(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MessageLimits;
    use crate::{Message, Packet, parse};

    /// Reads a result alone and in its response, and checks that both are equal.
    fn read(text: &str) -> CallToolResult {
        let alone =
            CallToolResult::read(RawJson::parse(text, &MessageLimits::default()).unwrap()).unwrap();
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{text}}}"#);
        let Packet::One(Message::Response(body)) = parse(body, &MessageLimits::default()).unwrap()
        else {
            panic!("no body")
        };
        assert_eq!(CallToolResult::from_body(body.result().unwrap()).unwrap(), alone);
        alone
    }

    #[test]
    fn call_result_exposes_every_member_and_keeps_its_bytes() {
        let text = r#"{"content":[{"type":"text","text":"a"},{"type":"new"}],"structuredContent":[1.0],"isError":true,
            "_meta":{"k":1},"resultType":"complete","tools":[]}"#;
        let result = read(text);
        assert_eq!(result.raw().text(), text);
        let kinds: Vec<_> =
            result.content().map(|block| block.kind().unwrap().into_owned()).collect();
        assert_eq!(kinds, ["text", "new"]);
        assert_eq!(result.structured_content().unwrap().text(), "[1.0]");
        assert_eq!(result.meta().unwrap().text(), r#"{"k":1}"#);
        assert!(result.is_error());
    }

    #[test]
    fn non_boolean_is_error_counts_as_an_error() {
        for (member, is_error) in [
            ("", false),
            (r#","isError":false"#, false),
            (r#","isError":null"#, false),
            (r#","isError":true"#, true),
            (r#","isError":"true""#, true),
        ] {
            let result = read(&format!(r#"{{"content":[]{member}}}"#));
            assert_eq!(result.is_error(), is_error, "{member}");
        }
        assert!(!read("{}").is_error());
        let twice = read(r#"{"isError":true,"content":[1],"isError":false,"content":[]}"#);
        assert!(!twice.is_error() && twice.content().next().is_none(), "the last duplicate counts");
    }

    #[test]
    fn missing_result_type_means_complete() {
        for (member, expected) in [
            ("{}", ResultType::Complete),
            (r#"{"resultType":"complete"}"#, ResultType::Complete),
            (r#"{"resultType":"input_required"}"#, ResultType::InputRequired),
            (r#"{"resultType":"task"}"#, ResultType::Other("task".to_owned())),
            (r#"{"resultType":7}"#, ResultType::Other("7".to_owned())),
        ] {
            assert_eq!(ResultType::from_result(Json::from_trusted(member)), expected);
        }
    }
}
