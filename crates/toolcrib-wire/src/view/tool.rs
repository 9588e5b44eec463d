//! Tools as servers define them.

use std::borrow::Cow;

use crate::json::{Json, JsonKind};
use crate::raw_json::RawJson;
use crate::view::field_error::{self, FieldError, check_optional_members};
use crate::view::page::ListItem;

/// A tool with all members. It has a name and an input schema that is an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolView {
    raw: RawJson,
    name: String,
    input_schema: RawJson,
    output_schema: Option<RawJson>,
}

/// A server's claims about a tool's behaviour. They are not verified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolAnnotations {
    /// The tool does not change anything.
    pub read_only: Option<bool>,
    /// The tool may destroy data.
    pub destructive: Option<bool>,
    /// A repeated call has no further effect.
    pub idempotent: Option<bool>,
    /// The tool interacts with external systems.
    pub open_world: Option<bool>,
}

impl ListItem for ToolView {
    const LIST: &'static str = "tools";

    fn read(raw: RawJson, warnings: &mut Vec<FieldError>) -> Result<Self, FieldError> {
        let json = raw.json();
        field_error::require_object(json)?;
        let [name, schema, output, annotations] =
            json.pick(["name", "inputSchema", "outputSchema", "annotations"]);
        let name = field_error::require_text(name, "name")?;
        let schema = field_error::require_member(schema, "inputSchema", JsonKind::Object)?;
        check_schema_type(schema, warnings);
        check_optional_members(json, 0, OPTIONAL, warnings);
        if let Some(annotations) = annotations {
            check_optional_members(annotations, "annotations.".len(), ANNOTATIONS, warnings);
        }
        let input_schema = raw.part(schema);
        let output_schema =
            output.filter(|schema| schema.is_object()).map(|schema| raw.part(schema));
        Ok(ToolView { name, input_schema, output_schema, raw })
    }
}

const OPTIONAL: [(&str, JsonKind); 6] = [
    ("title", JsonKind::String),
    ("description", JsonKind::String),
    ("outputSchema", JsonKind::Object),
    ("annotations", JsonKind::Object),
    ("icons", JsonKind::Array),
    ("_meta", JsonKind::Object),
];

const ANNOTATIONS: [(&str, JsonKind); 5] = [
    ("annotations.title", JsonKind::String),
    ("annotations.readOnlyHint", JsonKind::Bool),
    ("annotations.destructiveHint", JsonKind::Bool),
    ("annotations.idempotentHint", JsonKind::Bool),
    ("annotations.openWorldHint", JsonKind::Bool),
];

impl ToolView {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the raw JSON with all members.
    pub fn raw(&self) -> &RawJson {
        &self.raw
    }

    /// Returns the input schema.
    pub fn input_schema(&self) -> &RawJson {
        &self.input_schema
    }

    /// Returns the output schema.
    pub fn output_schema(&self) -> Option<&RawJson> {
        self.output_schema.as_ref()
    }

    /// The display name: the title, or the title in the annotations.
    pub fn title(&self) -> Option<Cow<'_, str>> {
        let [title, annotations] = self.raw.json().pick(["title", "annotations"]);
        let own = title.and_then(Json::as_str);
        own.or_else(|| annotations?.get("title")?.as_str())
    }

    /// Returns the description.
    pub fn description(&self) -> Option<Cow<'_, str>> {
        self.raw.json().get("description")?.as_str()
    }

    /// Returns the hints in the annotations.
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

    /// Returns `_meta`.
    pub fn meta(&self) -> Option<RawJson> {
        self.raw.get("_meta")
    }
}

/// Checks the type of the schema. The protocol requires `"type": "object"`, but many servers omit it and no harm
/// follows.
fn check_schema_type(schema: Json<'_>, warnings: &mut Vec<FieldError>) {
    const FIELD: &str = "inputSchema.type";
    match schema.get("type") {
        None => warnings.push(FieldError::Missing { field: FIELD }),
        Some(kind) if kind.text() == "\"object\"" => {}
        Some(kind) => warnings.push(FieldError::Invalid {
            field: FIELD,
            value: kind.text().chars().take(80).collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MessageLimits;

    fn read(text: &str) -> (Result<ToolView, String>, Vec<String>) {
        let mut warnings = Vec::new();
        let tool =
            ToolView::read(RawJson::parse(text, &MessageLimits::default()).unwrap(), &mut warnings);
        (
            tool.map_err(|error| error.to_string()),
            warnings.iter().map(FieldError::to_string).collect(),
        )
    }

    #[test]
    fn tool_keeps_unknown_members_byte_for_byte() {
        let text = r#"{"name":"t","title":"T","description":"d\u00e9","inputSchema":{"type":"object", "$defs":{"x":1.0}},
            "outputSchema":{},"annotations":{"readOnlyHint":true,"openWorldHint":false},"_meta":{"k":1},"x-new":[1.50]}"#;
        let (tool, warnings) = read(text);
        let tool = tool.unwrap();
        assert_eq!(warnings, Vec::<String>::new());
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
    fn tool_without_name_or_input_schema_is_rejected() {
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
    fn optional_members_of_the_wrong_type_are_warnings() {
        for (member, warning) in [
            (r#""title":7"#, Some("`title` must be a string, found a number")),
            (r#""title":null"#, None),
            (r#""outputSchema":[]"#, Some("`outputSchema` must be an object, found an array")),
            (r#""annotations":"x""#, Some("`annotations` must be an object, found a string")),
            (
                r#""annotations":{"title":1}"#,
                Some("`annotations.title` must be a string, found a number"),
            ),
        ] {
            let (tool, warnings) =
                read(&format!(r#"{{"name":"t","inputSchema":{{"type":"object"}},{member}}}"#));
            assert_eq!(tool.unwrap().name(), "t");
            assert_eq!(warnings, Vec::from_iter(warning), "{member}");
        }
        let (_, warnings) = read(r#"{"name":"t","inputSchema":{"type":["object","null"]}}"#);
        assert_eq!(warnings, [r#"`inputSchema.type` has an invalid value: ["object","null"]"#]);
    }
}
