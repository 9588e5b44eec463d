//! Tool arguments that are repeated in HTTP headers, as a tool's schema may ask by `x-mcp-header`.

use std::collections::HashSet;

use crate::header::{self, Header, Mismatch, PARAM_PREFIX};
use crate::json::{Json, Kind};

const KEYWORD: &str = "x-mcp-header";
/// Largest integer that every JSON reader holds exactly.
const SAFE_INTEGER: i64 = (1 << 53) - 1;

/// One argument that travels in a header too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamHeader {
    /// The whole header name, lower case.
    pub header: String,
    /// The property names that lead to the argument.
    pub path: Vec<String>,
}

/// Why a tool cannot be used over HTTP: its schema asks for headers that must not be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadParamHeader {
    #[error("`{KEYWORD}` at `{path}` must be a string, this is {found}")]
    NotText { path: String, found: Kind },
    #[error("`{KEYWORD}` at `{path}` is no header name: {name:?}")]
    NotAName { path: String, name: String },
    #[error("the header name `{name}` is asked for twice")]
    Twice { name: String },
    #[error("`{KEYWORD}` at `{path}` needs a string, an integer or a boolean")]
    NotPrimitive { path: String },
    #[error("`{KEYWORD}` at `{path}` cannot be reached by `properties` alone")]
    Unreachable { path: String },
}

/// The headers that an input schema asks for. An error means that the tool must not be offered over HTTP.
pub fn param_headers(schema: Json<'_>) -> Result<Vec<ParamHeader>, BadParamHeader> {
    let mut found = Vec::new();
    // Hardly any schema has one, and a search is cheaper than the walk.
    if memchr::memmem::find(schema.text().as_bytes(), KEYWORD.as_bytes()).is_none() {
        return Ok(found);
    }
    // Schemas are as deep as messages may be, so the walk keeps its own stack.
    let mut todo = vec![Place { schema, path: Vec::new(), reachable: true }];
    while let Some(place) = todo.pop() {
        if let Some(name) = place.schema.get(KEYWORD).filter(|_| place.schema.is_object()) {
            found.push(place.header(name)?);
        }
        place.push_below(&mut todo);
    }
    let mut names = HashSet::new();
    match found.iter().find(|param| !names.insert(param.header.as_str())) {
        Some(twice) => Err(BadParamHeader::Twice { name: twice.header.clone() }),
        None => Ok(found),
    }
}

/// The headers to be sent for these arguments; absent and null ones have none.
pub fn write_params(params: &[ParamHeader], arguments: Json<'_>) -> Vec<Header> {
    let header = |param: &ParamHeader| {
        let value = header_text(param.value(arguments)?)?;
        Some(Header {
            name: param.header.clone().into(),
            value: header::encode(&value).into_owned(),
        })
    };
    params.iter().filter_map(header).collect()
}

/// Checks the headers of a call against its arguments. `header` looks one up by its lower-case name.
pub fn check_params<'h>(
    params: &[ParamHeader],
    arguments: Json<'_>,
    look_up: impl Fn(&str) -> Option<&'h str>,
) -> Result<(), Mismatch> {
    for param in params {
        let Some(value) = param.value(arguments).and_then(header_text) else {
            continue;
        };
        let said = look_up(&param.header);
        if !said.is_some_and(|said| is_same_integer(said, &value)) {
            header::expect(&param.header, said, &value)?;
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

/// One subschema on the walk.
struct Place<'a> {
    schema: Json<'a>,
    path: Vec<String>,
    reachable: bool,
}

impl<'a> Place<'a> {
    fn header(&self, name: Json<'_>) -> Result<ParamHeader, BadParamHeader> {
        let path = self.path.join(".");
        let Some(text) = name.as_str() else {
            return Err(BadParamHeader::NotText { path, found: name.kind() });
        };
        if text.is_empty() || !text.bytes().all(is_token_byte) {
            return Err(BadParamHeader::NotAName { path, name: text.into_owned() });
        }
        if !self.reachable || self.path.is_empty() {
            return Err(BadParamHeader::Unreachable { path });
        }
        let kind = self.schema.get("type").and_then(Json::as_str);
        if !matches!(kind.as_deref(), Some("string" | "integer" | "boolean")) {
            return Err(BadParamHeader::NotPrimitive { path });
        }
        let header = format!("{PARAM_PREFIX}{}", text.to_ascii_lowercase());
        Ok(ParamHeader { header, path: self.path.clone() })
    }

    /// Everything below may hold an annotation, but only the values of `properties` are a good place.
    fn push_below(&self, todo: &mut Vec<Place<'a>>) {
        for (key, value) in self.schema.members() {
            if key == "properties" && value.is_object() {
                todo.extend(
                    value.members().map(|(name, schema)| self.below(&name, schema, self.reachable)),
                );
            } else if !is_data(&key) {
                todo.push(self.below(&key, value, false));
            }
        }
        todo.extend(self.schema.items().map(|item| self.below("[]", item, false)));
    }

    fn below(&self, step: &str, schema: Json<'a>, reachable: bool) -> Place<'a> {
        let mut path = self.path.clone();
        path.push(step.to_owned());
        Place { schema, path, reachable }
    }
}

/// Keywords whose values are data, in which the annotation's name means nothing.
fn is_data(key: &str) -> bool {
    matches!(key, "default" | "const" | "enum" | "examples")
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn header_text(value: Json<'_>) -> Option<String> {
    match value.kind() {
        Kind::String => value.as_str().map(|text| text.into_owned()),
        Kind::Bool => Some(value.text().to_owned()),
        Kind::Number => integer(value.text()).map(|number| number.to_string()),
        _ => None,
    }
}

/// An integer, also one written as `42.0`, if every reader holds it exactly.
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

/// Whether a header is the same integer as the body's value, however it is written.
fn is_same_integer(said: &str, body: &str) -> bool {
    body.parse().is_ok_and(|body: i64| integer(said) == Some(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(schema: &str) -> Result<Vec<String>, String> {
        let show = |param: ParamHeader| format!("{}={}", param.header, param.path.join("."));
        let found = param_headers(Json::trusted(schema)).map_err(|error| error.to_string())?;
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
    fn annotations_that_must_not_be_make_the_tool_unusable_and_say_why() {
        for (schema, reason) in [
            (r#"{"properties":{"a":{"type":"string","x-mcp-header":""}}}"#, "no header name"),
            (r#"{"properties":{"a":{"type":"string","x-mcp-header":"A B"}}}"#, "no header name"),
            (r#"{"properties":{"a":{"type":"string","x-mcp-header":"A\r\nB"}}}"#, "no header name"),
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
                "asked for twice",
            ),
        ] {
            let error = headers(schema).unwrap_err();
            assert!(error.contains(reason), "{schema}: {error}");
        }
    }

    const SCHEMA: &str = r#"{"properties":{"s":{"type":"string","x-mcp-header":"S"},
        "i":{"type":"integer","x-mcp-header":"I"},"b":{"type":"boolean","x-mcp-header":"B"}}}"#;

    #[test]
    fn values_are_sent_where_present_and_accepted_as_sent() {
        let params = param_headers(Json::trusted(SCHEMA)).unwrap();
        let arguments = Json::trusted(r#"{"s":"é","i":42.0,"b":null}"#);
        let mut sent = write_params(&params, arguments);
        sent.sort_by(|a, b| a.name.cmp(&b.name));
        let sent: Vec<_> =
            sent.iter().map(|header| (&*header.name, header.value.as_str())).collect();
        assert_eq!(sent, [("mcp-param-i", "42"), ("mcp-param-s", "=?base64?w6k=?=")]);
        let look =
            |name: &str| sent.iter().find(|(header, _)| *header == name).map(|(_, value)| *value);
        assert_eq!(check_params(&params, arguments, look), Ok(()));
    }

    #[test]
    fn integers_are_compared_as_numbers_and_a_missing_header_is_a_mismatch() {
        let params = param_headers(Json::trusted(SCHEMA)).unwrap();
        let check = |said: Option<&'static str>| {
            check_params(&params, Json::trusted(r#"{"i":42}"#), |_| said)
        };
        assert_eq!(check(Some("42.0")), Ok(()));
        assert!(matches!(check(Some("43")), Err(Mismatch::Differs { .. })));
        assert!(matches!(check(None), Err(Mismatch::Missing { .. })));
    }
}
