//! HTTP headers that repeat tool arguments, as requested by `x-mcp-header` in a tool's schema.

use std::collections::HashSet;

use crate::header::{self, Header, HeaderMismatch, PARAM_PREFIX};
use crate::json::{Json, JsonKind};

const KEYWORD: &str = "x-mcp-header";
/// Largest integer that every JSON reader represents exactly.
const SAFE_INTEGER: i64 = (1 << 53) - 1;

/// An argument that is also sent in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamHeader {
    /// The complete header name, lower case.
    pub header: String,
    /// Property names from the root to the argument.
    pub path: Vec<String>,
}

/// The reason why a tool cannot be used over HTTP: its schema requests an invalid header.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParamHeaderError {
    /// The annotation is not a string.
    #[error("`{KEYWORD}` at `{path}` must be a string, found {found}")]
    NotString { path: String, found: JsonKind },
    /// The annotation is not a header name.
    #[error("`{KEYWORD}` at `{path}` is not a header name: {name:?}")]
    NotAName { path: String, name: String },
    /// Two arguments request the same header.
    #[error("the header name `{name}` is requested twice")]
    Duplicate { name: String },
    /// The argument's type cannot be sent in a header.
    #[error("`{KEYWORD}` at `{path}` needs a string, an integer or a boolean")]
    NotPrimitive { path: String },
    /// The annotation is not on a property that `properties` alone can reach.
    #[error("`{KEYWORD}` at `{path}` cannot be reached by `properties` alone")]
    Unreachable { path: String },
}

/// Reads the headers that an input schema requests. A tool with an error must not be offered over HTTP.
pub fn param_headers(schema: Json<'_>) -> Result<Vec<ParamHeader>, ParamHeaderError> {
    let mut found = Vec::new();
    // Few schemas have the keyword, and a search is cheaper than the walk.
    if memchr::memmem::find(schema.text().as_bytes(), KEYWORD.as_bytes()).is_none() {
        return Ok(found);
    }
    // Schemas may be as deep as messages, so the walk has its own stack.
    let mut pending = vec![Subschema { schema, path: Vec::new(), reachable: true }];
    while let Some(subschema) = pending.pop() {
        if let Some(name) = subschema.schema.get(KEYWORD).filter(|_| subschema.schema.is_object()) {
            found.push(subschema.param_header(name)?);
        }
        subschema.push_children(&mut pending);
    }
    let mut names = HashSet::new();
    match found.iter().find(|param| !names.insert(param.header.as_str())) {
        Some(duplicate) => Err(ParamHeaderError::Duplicate { name: duplicate.header.clone() }),
        None => Ok(found),
    }
}

/// Builds the headers for these arguments. Absent and null arguments have no header.
pub fn param_header_values(params: &[ParamHeader], arguments: Json<'_>) -> Vec<Header> {
    let header = |param: &ParamHeader| {
        let value = header_text(param.value(arguments)?)?;
        Some(Header {
            name: param.header.clone().into(),
            value: header::encode(&value).into_owned(),
        })
    };
    params.iter().filter_map(header).collect()
}

/// Checks the headers of a call against its arguments. `look_up` returns a header by its lower-case name.
pub fn check_param_headers<'h>(
    params: &[ParamHeader],
    arguments: Json<'_>,
    look_up: impl Fn(&str) -> Option<&'h str>,
) -> Result<(), HeaderMismatch> {
    for param in params {
        let Some(value) = param.value(arguments).and_then(header_text) else {
            continue;
        };
        let value_sent = look_up(&param.header);
        if !value_sent.is_some_and(|value_sent| is_same_integer(value_sent, &value)) {
            header::check_value(&param.header, value_sent, &value)?;
        }
    }
    Ok(())
}

impl ParamHeader {
    fn value<'a>(&self, arguments: Json<'a>) -> Option<Json<'a>> {
        let found = self.path.iter().try_fold(arguments, |value, key| value.get(key));
        found.filter(|value| !value.is_null())
    }
}

/// One subschema of the walk.
struct Subschema<'a> {
    schema: Json<'a>,
    path: Vec<String>,
    reachable: bool,
}

impl<'a> Subschema<'a> {
    fn param_header(&self, name: Json<'_>) -> Result<ParamHeader, ParamHeaderError> {
        let path = self.path.join(".");
        let Some(text) = name.as_str() else {
            return Err(ParamHeaderError::NotString { path, found: name.kind() });
        };
        if text.is_empty() || !text.bytes().all(is_token_byte) {
            return Err(ParamHeaderError::NotAName { path, name: text.into_owned() });
        }
        if !self.reachable || self.path.is_empty() {
            return Err(ParamHeaderError::Unreachable { path });
        }
        let kind = self.schema.get("type").and_then(Json::as_str);
        if !matches!(kind.as_deref(), Some("string" | "integer" | "boolean")) {
            return Err(ParamHeaderError::NotPrimitive { path });
        }
        let header = format!("{PARAM_PREFIX}{}", text.to_ascii_lowercase());
        Ok(ParamHeader { header, path: self.path.clone() })
    }

    /// Adds all children, because any may hold the annotation. Only values of `properties` may validly hold it.
    fn push_children(&self, pending: &mut Vec<Subschema<'a>>) {
        for (key, value) in self.schema.members() {
            if key == "properties" && value.is_object() {
                pending.extend(
                    value.members().map(|(name, schema)| self.child(&name, schema, self.reachable)),
                );
            } else if !is_data_keyword(&key) {
                pending.push(self.child(&key, value, false));
            }
        }
        pending.extend(self.schema.items().map(|item| self.child("[]", item, false)));
    }

    fn child(&self, step: &str, schema: Json<'a>, reachable: bool) -> Subschema<'a> {
        let mut path = self.path.clone();
        path.push(step.to_owned());
        Subschema { schema, path, reachable }
    }
}

/// Returns whether the keyword's value is data, in which the annotation has no meaning.
fn is_data_keyword(key: &str) -> bool {
    matches!(key, "default" | "const" | "enum" | "examples")
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn header_text(value: Json<'_>) -> Option<String> {
    match value.kind() {
        JsonKind::String => value.as_str().map(|text| text.into_owned()),
        JsonKind::Bool => Some(value.text().to_owned()),
        JsonKind::Number => integer(value.text()).map(|number| number.to_string()),
        _ => None,
    }
}

/// Parses an integer, also in the form `42.0`, if every reader represents it exactly.
fn integer(text: &str) -> Option<i64> {
    let number = match text.parse::<i64>() {
        Ok(number) => number,
        Err(_) => text
            .parse::<f64>()
            .ok()
            .filter(|float| float.fract() == 0.0)
            .map(|float| float as i64)?,
    };
    (-SAFE_INTEGER..=SAFE_INTEGER).contains(&number).then_some(number)
}

/// Returns whether a header and the body's value are the same integer in any spelling.
fn is_same_integer(value_sent: &str, body: &str) -> bool {
    body.parse().is_ok_and(|body: i64| integer(value_sent) == Some(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(schema: &str) -> Result<Vec<String>, String> {
        let show = |param: ParamHeader| format!("{}={}", param.header, param.path.join("."));
        let found = param_headers(Json::from_trusted(schema)).map_err(|error| error.to_string())?;
        Ok(found.into_iter().map(show).collect())
    }

    #[test]
    fn annotations_on_properties_are_found_at_any_depth() {
        let schema = r#"{"properties":{"region":{"type":"string","x-mcp-header":"Region"},
            "deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}},
            "x-mcp-header":{"type":"string"},
            "plain":{"type":"string","default":{"x-mcp-header":"no"}}}}"#;
        let mut found = headers(schema).unwrap();
        found.sort();
        assert_eq!(found, ["mcp-param-n=deep.n", "mcp-param-region=region"]);
    }

    #[test]
    fn invalid_annotations_are_rejected_with_a_reason() {
        for (schema, reason) in [
            (r#"{"properties":{"a":{"type":"string","x-mcp-header":""}}}"#, "not a header name"),
            (r#"{"properties":{"a":{"type":"string","x-mcp-header":"A B"}}}"#, "not a header name"),
            (
                r#"{"properties":{"a":{"type":"string","x-mcp-header":"A\r\nB"}}}"#,
                "not a header name",
            ),
            (r#"{"properties":{"a":{"type":"string","x-mcp-header":7}}}"#, "must be a string"),
            (r#"{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}"#, "needs a string"),
            (r#"{"properties":{"a":{"x-mcp-header":"A"}}}"#, "needs a string"),
            (
                r#"{"properties":{"a":{"items":{"type":"string","x-mcp-header":"A"}}}}"#,
                "cannot be reached",
            ),
            (
                r#"{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}"#,
                "cannot be reached",
            ),
            (r#"{"$defs":{"d":{"type":"string","x-mcp-header":"A"}}}"#, "cannot be reached"),
            (r#"{"type":"string","x-mcp-header":"A"}"#, "cannot be reached"),
            (
                r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}"#,
                "requested twice",
            ),
        ] {
            let error = headers(schema).unwrap_err();
            assert!(error.contains(reason), "{schema}: {error}");
        }
    }

    const SCHEMA: &str = r#"{"properties":{"s":{"type":"string","x-mcp-header":"S"},
        "i":{"type":"integer","x-mcp-header":"I"},"b":{"type":"boolean","x-mcp-header":"B"}}}"#;

    #[test]
    fn sent_param_headers_pass_the_check() {
        let params = param_headers(Json::from_trusted(SCHEMA)).unwrap();
        let arguments = Json::from_trusted(r#"{"s":"é","i":42.0,"b":null}"#);
        let mut sent = param_header_values(&params, arguments);
        sent.sort_by(|a, b| a.name.cmp(&b.name));
        let sent: Vec<_> =
            sent.iter().map(|header| (&*header.name, header.value.as_str())).collect();
        assert_eq!(sent, [("mcp-param-i", "42"), ("mcp-param-s", "=?base64?w6k=?=")]);
        let lookup =
            |name: &str| sent.iter().find(|(header, _)| *header == name).map(|(_, value)| *value);
        assert_eq!(check_param_headers(&params, arguments, lookup), Ok(()));
    }

    #[test]
    fn integers_are_compared_as_numbers_and_a_missing_header_is_a_mismatch() {
        let params = param_headers(Json::from_trusted(SCHEMA)).unwrap();
        let check = |value_sent: Option<&'static str>| {
            check_param_headers(&params, Json::from_trusted(r#"{"i":42}"#), |_| value_sent)
        };
        assert_eq!(check(Some("42.0")), Ok(()));
        assert!(matches!(check(Some("43")), Err(HeaderMismatch::Differs { .. })));
        assert!(matches!(check(None), Err(HeaderMismatch::Missing { .. })));
    }
}
