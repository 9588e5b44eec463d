//! JSON, with the comments and trailing commas that editors allow, to a tree.

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::{Flaw, Growing, Key, Kind, MAX_DEPTH, NodeId, Tree, duplicate, note, too_deep};
use crate::text;

pub(crate) fn build(text: &str, tree: &mut Tree, flaws: &mut Vec<Flaw>) -> Result<(), Box<Flaw>> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed =
        parse_to_ast(text, &CollectOptions::default(), &options).map_err(|error| syntax(&error))?;
    let mut builder = Builder { tree, flaws, path: Vec::new() };
    match parsed.value {
        Some(value) => builder.node(&value).map(drop),
        None => builder.tree.add(0, Kind::Null).map(drop),
    }
}

fn syntax(error: &ParseError) -> Box<Flaw> {
    let offset = error.range().start;
    if matches!(error.kind(), ParseErrorKind::NestingDepthExceeded) {
        return too_deep(offset);
    }
    let kind = error.kind().to_string();
    let text = format!("this is not valid JSON: {}", text::clip(&kind));
    let fix = "check commas, quotes and brackets here and in the line above";
    Box::new(Flaw::new("json.syntax", offset, text, fix))
}

struct Builder<'a> {
    tree: &'a mut Tree,
    flaws: &'a mut Vec<Flaw>,
    path: Vec<String>,
}

impl Builder<'_> {
    /// Depth is bounded here and, before that, by the parser.
    fn node(&mut self, value: &Value<'_>) -> Result<NodeId, Box<Flaw>> {
        let offset = value.range().start;
        if self.path.len() >= MAX_DEPTH {
            return Err(too_deep(offset));
        }
        let id = self.tree.add(offset, Kind::Null)?;
        let kind = match value {
            Value::NullKeyword(_) => Kind::Null,
            Value::BooleanLit(b) => Kind::Bool(b.value),
            Value::NumberLit(n) => Kind::Number(n.value.to_string()),
            Value::StringLit(s) => Kind::Text(s.value.to_string()),
            Value::Array(array) => {
                let mut items = Vec::new();
                for (index, element) in array.elements.iter().enumerate() {
                    items.push(self.child(index.to_string(), element)?);
                }
                Kind::Seq(items)
            }
            Value::Object(object) => Kind::Map(self.entries(object)?),
        };
        self.tree.fill(id, kind);
        Ok(id)
    }

    fn entries(&mut self, object: &Object<'_>) -> Result<Vec<(Key, NodeId)>, Box<Flaw>> {
        let mut map = Growing::default();
        for property in &object.properties {
            let name = property.name.as_str().to_string();
            let key = Key::new(name, property.name.range().start)?;
            if map.holds(&key.name) {
                let flaw = duplicate(&key.name, key.offset, self.path.clone());
                note(self.flaws, flaw)?;
            }
            let id = self.child(key.name.clone(), &property.value)?;
            map.put(key, id);
        }
        Ok(map.entries)
    }

    fn child(&mut self, step: String, value: &Value<'_>) -> Result<NodeId, Box<Flaw>> {
        self.path.push(step);
        let id = self.node(value);
        self.path.pop();
        id
    }
}
