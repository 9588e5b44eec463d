//! Tools as servers describe them.

use std::borrow::Cow;

use crate::json::{Json, Kind};
use crate::raw::Raw;
use crate::view::flaw::{self, Flaw, note_odd};
use crate::view::page::Item;

/// One tool, whole. It has a name and an input schema that is an object; the rest may be anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    raw: Raw,
    name: String,
    input_schema: Raw,
    output_schema: Option<Raw>,
}

/// What a server claims about a tool's behaviour. It is a claim and nothing more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolAnnotations {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

impl Item for Tool {
    const LIST: &'static str = "tools";

    fn read(raw: Raw, notes: &mut Vec<Flaw>) -> Result<Self, Flaw> {
        let json = raw.json();
        flaw::object(json)?;
        let [name, schema, output, annotations] =
            json.pick(["name", "inputSchema", "outputSchema", "annotations"]);
        let name = flaw::required_text(name, "name")?;
        let schema = flaw::required(schema, "inputSchema", Kind::Object)?;
        note_schema(schema, notes);
        note_odd(json, 0, OPTIONAL, notes);
        if let Some(annotations) = annotations {
            note_odd(annotations, "annotations.".len(), ANNOTATIONS, notes);
        }
        let input_schema = raw.part(schema);
        let output_schema =
            output.filter(|schema| schema.is_object()).map(|schema| raw.part(schema));
        Ok(Tool { name, input_schema, output_schema, raw })
    }
}

const OPTIONAL: [(&str, Kind); 6] = [
    ("title", Kind::String),
    ("description", Kind::String),
    ("outputSchema", Kind::Object),
    ("annotations", Kind::Object),
    ("icons", Kind::Array),
    ("_meta", Kind::Object),
];

const ANNOTATIONS: [(&str, Kind); 5] = [
    ("annotations.title", Kind::String),
    ("annotations.readOnlyHint", Kind::Bool),
    ("annotations.destructiveHint", Kind::Bool),
    ("annotations.idempotentHint", Kind::Bool),
    ("annotations.openWorldHint", Kind::Bool),
];

impl Tool {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn raw(&self) -> &Raw {
        &self.raw
    }

    pub fn input_schema(&self) -> &Raw {
        &self.input_schema
    }

    pub fn output_schema(&self) -> Option<&Raw> {
        self.output_schema.as_ref()
    }

    /// The name for people: the title, or that of the annotations.
    pub fn title(&self) -> Option<Cow<'_, str>> {
        let [title, annotations] = self.raw.json().pick(["title", "annotations"]);
        let own = title.and_then(Json::as_str);
        own.or_else(|| annotations?.get("title")?.as_str())
    }

    pub fn description(&self) -> Option<Cow<'_, str>> {
        self.raw.json().get("description")?.as_str()
    }

    pub fn annotations(&self) -> ToolAnnotations {
        let annotations = self.raw.json().get("annotations").unwrap_or(Json::EMPTY);
        let hints = annotations.pick([
            "readOnlyHint",
            "destructiveHint",
            "idempotentHint",
            "openWorldHint",
        ]);
        let [read_only, destructive, idempotent, open_world] =
            hints.map(|hint| hint.and_then(Json::as_bool));
        ToolAnnotations { read_only, destructive, idempotent, open_world }
    }

    pub fn meta(&self) -> Option<Raw> {
        self.raw.get("_meta")
    }
}

/// The protocol wants `"type": "object"` here, and servers that leave it out are many and harmless.
fn note_schema(schema: Json<'_>, notes: &mut Vec<Flaw>) {
    const FIELD: &str = "inputSchema.type";
    match schema.get("type") {
        None => notes.push(Flaw::Missing { field: FIELD }),
        Some(kind) if kind.text() == "\"object\"" => {}
        Some(kind) => notes.push(Flaw::Meaningless {
            field: FIELD,
            value: kind.text().chars().take(80).collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    fn read(text: &str) -> (Result<Tool, String>, Vec<String>) {
        let mut notes = Vec::new();
        let tool = Tool::read(Raw::parse(text, &Limits::default()).unwrap(), &mut notes);
        (tool.map_err(|flaw| flaw.to_string()), notes.iter().map(Flaw::to_string).collect())
    }

    #[test]
    fn a_tool_is_read_and_unknown_members_stay_as_they_were_written() {
        let text = r#"{"name":"t","title":"T","description":"d\u00e9","inputSchema":{"type":"object", "$defs":{"x":1.0}},
            "outputSchema":{},"annotations":{"readOnlyHint":true,"openWorldHint":false},"_meta":{"k":1},"x-new":[1.50]}"#;
        let (tool, notes) = read(text);
        let tool = tool.unwrap();
        assert_eq!(notes, Vec::<String>::new());
        assert_eq!(tool.raw().text(), text);
        assert_eq!(tool.input_schema().text(), r#"{"type":"object", "$defs":{"x":1.0}}"#);
        assert_eq!(tool.output_schema().unwrap().text(), "{}");
        assert_eq!(
            (tool.title().as_deref(), tool.description().as_deref()),
            (Some("T"), Some("dé"))
        );
        assert_eq!(tool.meta().unwrap().text(), r#"{"k":1}"#);
        let hints = ToolAnnotations {
            read_only: Some(true),
            open_world: Some(false),
            ..Default::default()
        };
        assert_eq!(tool.annotations(), hints);
    }

    #[test]
    fn what_a_tool_cannot_do_without_makes_it_bad() {
        for (text, reason) in [
            (r#"{"inputSchema":{}}"#, "`name` is missing"),
            (r#"{"name":"","inputSchema":{}}"#, "`name` is empty"),
            (r#"{"name":7,"inputSchema":{}}"#, "`name` must be a string, found a number"),
            (r#"{"name":"t"}"#, "`inputSchema` is missing"),
            (
                r#"{"name":"t","inputSchema":true}"#,
                "`inputSchema` must be an object, found a boolean",
            ),
            (r#"{"name":"t","inputSchema":null}"#, "`inputSchema` must be an object, found null"),
            ("[]", "expected an object, found an array"),
        ] {
            assert_eq!(read(text).0.unwrap_err(), reason);
        }
    }

    #[test]
    fn oddities_elsewhere_are_noted_and_the_tool_stays() {
        for (member, note) in [
            (r#""title":7"#, Some("`title` must be a string, found a number")),
            (r#""title":null"#, None),
            (r#""outputSchema":[]"#, Some("`outputSchema` must be an object, found an array")),
            (r#""annotations":"x""#, Some("`annotations` must be an object, found a string")),
            (
                r#""annotations":{"title":1}"#,
                Some("`annotations.title` must be a string, found a number"),
            ),
        ] {
            let (tool, notes) =
                read(&format!(r#"{{"name":"t","inputSchema":{{"type":"object"}},{member}}}"#));
            assert_eq!(tool.unwrap().name(), "t");
            assert_eq!(notes, Vec::from_iter(note), "{member}");
        }
        let (_, notes) = read(r#"{"name":"t","inputSchema":{"type":["object","null"]}}"#);
        assert_eq!(notes, [r#"`inputSchema.type` has no meaning: ["object","null"]"#]);
    }
}
