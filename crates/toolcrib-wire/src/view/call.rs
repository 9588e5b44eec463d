//! What a tool call gave.

use crate::envelope::Body;
use crate::json::{Json, Kind};
use crate::raw::Raw;
use crate::view::content::Content;
use crate::view::flaw::{self, Flaw};

/// What sort of result it is. Without the member it is complete, as in the legacy era.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultType {
    Complete,
    InputRequired,
    Other(String),
}

const MEMBERS: [&str; 5] = ["content", "structuredContent", "_meta", "isError", "resultType"];

/// The result of `tools/call`, found in one walk, since it may be large.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallToolResult {
    raw: Raw,
    content: Option<Raw>,
    structured_content: Option<Raw>,
    meta: Option<Raw>,
    is_error: bool,
    result_type: ResultType,
    flaws: Vec<Flaw>,
}

impl ResultType {
    pub fn of(result: Json<'_>) -> ResultType {
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
    pub fn read(raw: Raw) -> Result<Self, Flaw> {
        let json = raw.json();
        flaw::object(json)?;
        Ok(Self::with(&raw, json.pick(MEMBERS)))
    }

    /// The result of an answer whose members were found while it was checked: nothing is walked again.
    pub fn of(answer: &Body) -> Result<Self, Flaw> {
        let raw = answer.raw().unwrap_or_else(|| Json::NULL.into());
        flaw::object(raw.json())?;
        let places = &answer.places;
        let members = [
            places.content,
            places.structured_content,
            places.meta,
            places.is_error,
            places.result_type,
        ];
        Ok(Self::with(&raw, members.map(|place| answer.at(place))))
    }

    fn with(raw: &Raw, members: [Option<Json<'_>>; MEMBERS.len()]) -> Self {
        let [content, structured, meta, is_error, result_type] = members;
        let mut flaws = Vec::new();
        flaws.extend(flaw::required(content, "content", Kind::Array).err());
        CallToolResult {
            content: content.map(|json| raw.part(json)),
            structured_content: structured.map(|json| raw.part(json)),
            meta: meta.map(|json| raw.part(json)),
            is_error: read_error(is_error, &mut flaws),
            result_type: ResultType::read(result_type),
            flaws,
            raw: raw.clone(),
        }
    }

    pub fn raw(&self) -> &Raw {
        &self.raw
    }

    /// The blocks in their order.
    pub fn content(&self) -> impl Iterator<Item = Content> {
        let items =
            self.content.iter().flat_map(|list| list.json().items().map(|item| list.part(item)));
        items.map(Content::new)
    }

    pub fn structured_content(&self) -> Option<&Raw> {
        self.structured_content.as_ref()
    }

    pub fn meta(&self) -> Option<&Raw> {
        self.meta.as_ref()
    }

    pub fn is_error(&self) -> bool {
        self.is_error
    }

    pub fn result_type(&self) -> &ResultType {
        &self.result_type
    }

    /// What is not as it should be; the result is usable all the same.
    pub fn flaws(&self) -> &[Flaw] {
        &self.flaws
    }
}

/// A server that says something odd about failing is not taken at its word that it succeeded.
fn read_error(value: Option<Json<'_>>, flaws: &mut Vec<Flaw>) -> bool {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return false;
    };
    value.as_bool().unwrap_or_else(|| {
        flaws.push(Flaw::Mistyped { field: "isError", expected: Kind::Bool, found: value.kind() });
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::{Message, Packet, parse};

    /// A result is the same, whether it is read alone or in its answer.
    fn read(text: &str) -> CallToolResult {
        let alone = CallToolResult::read(Raw::parse(text, &Limits::default()).unwrap()).unwrap();
        let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{text}}}"#);
        let Packet::One(Message::Response(answer)) = parse(answer, &Limits::default()).unwrap()
        else {
            panic!("no answer")
        };
        assert_eq!(CallToolResult::of(answer.answer().unwrap()).unwrap(), alone);
        alone
    }

    #[test]
    fn everything_of_a_result_is_found_and_nothing_is_lost() {
        let text = r#"{"content":[{"type":"text","text":"a"},{"type":"new"}],"structuredContent":[1.0],"isError":true,
            "_meta":{"k":1},"resultType":"complete","tools":[]}"#;
        let result = read(text);
        assert_eq!(result.raw().text(), text);
        let kinds: Vec<_> =
            result.content().map(|block| block.kind().unwrap().into_owned()).collect();
        assert_eq!(kinds, ["text", "new"]);
        assert_eq!(result.structured_content().unwrap().text(), "[1.0]");
        assert_eq!(result.meta().unwrap().text(), r#"{"k":1}"#);
        assert!(result.is_error() && result.flaws().is_empty());
    }

    #[test]
    fn an_odd_answer_about_failing_counts_as_failing() {
        for (member, is_error, flaws) in [
            ("", false, 0),
            (r#","isError":false"#, false, 0),
            (r#","isError":null"#, false, 0),
            (r#","isError":true"#, true, 0),
            (r#","isError":"true""#, true, 1),
        ] {
            let result = read(&format!(r#"{{"content":[]{member}}}"#));
            assert_eq!((result.is_error(), result.flaws().len()), (is_error, flaws), "{member}");
        }
        assert_eq!(read("{}").flaws(), [Flaw::Missing { field: "content" }]);
        let twice = read(r#"{"isError":true,"content":[1],"isError":false,"content":[]}"#);
        assert!(!twice.is_error() && twice.content().next().is_none(), "the last counts");
    }

    #[test]
    fn a_result_without_a_type_is_complete() {
        for (member, expected) in [
            ("{}", ResultType::Complete),
            (r#"{"resultType":"complete"}"#, ResultType::Complete),
            (r#"{"resultType":"input_required"}"#, ResultType::InputRequired),
            (r#"{"resultType":"task"}"#, ResultType::Other("task".to_owned())),
            (r#"{"resultType":7}"#, ResultType::Other("7".to_owned())),
        ] {
            assert_eq!(ResultType::of(Json::trusted(member)), expected);
        }
    }
}
