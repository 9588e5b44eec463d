//! Parser for JSON, with the comments and trailing commas that editors accept.

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::{
    Defect, Key, MAX_DEPTH, MapBuilder, NodeId, NodeKind, TreeBuilder, duplicate_key, push_defect,
    too_deep,
};
use crate::text;

pub(crate) fn build(
    text: &str,
    tree: &mut TreeBuilder,
    defects: &mut Vec<Defect>,
) -> Result<(), Box<Defect>> {
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
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options)
        .map_err(|error| syntax_error(&error))?;
    let mut builder = Builder { tree, defects, path: Vec::new() };
    match parsed.value {
        Some(value) => builder.build_node(&value).map(drop),
        None => builder.tree.add_node(0, NodeKind::Null).map(drop),
    }
}

fn syntax_error(error: &ParseError) -> Box<Defect> {
    let offset = error.range().start;
    if matches!(error.kind(), ParseErrorKind::NestingDepthExceeded) {
        return too_deep(offset);
    }
    let kind = error.kind().to_string();
    let text = format!("this is not valid JSON: {}", text::clip(&kind));
    let fix = "check commas, quotes and brackets here and in the line above";
    Box::new(Defect::new("json.syntax", offset, text, fix))
}

struct Builder<'a> {
    tree: &'a mut TreeBuilder,
    defects: &'a mut Vec<Defect>,
    path: Vec<String>,
}

impl Builder<'_> {
    /// Builds a node. The parser limits the depth as well.
    fn build_node(&mut self, value: &Value<'_>) -> Result<NodeId, Box<Defect>> {
        let offset = value.range().start;
        if self.path.len() >= MAX_DEPTH {
            return Err(too_deep(offset));
        }
        let id = self.tree.add_node(offset, NodeKind::Null)?;
        let kind = match value {
            Value::NullKeyword(_) => NodeKind::Null,
            Value::BooleanLit(b) => NodeKind::Bool(b.value),
            Value::NumberLit(n) => NodeKind::Number(n.value.to_string()),
            Value::StringLit(s) => NodeKind::Text(s.value.to_string()),
            Value::Array(array) => {
                let mut items = Vec::new();
                for (index, element) in array.elements.iter().enumerate() {
                    items.push(self.build_child(index.to_string(), element)?);
                }
                NodeKind::Seq(items)
            }
            Value::Object(object) => NodeKind::Map(self.build_entries(object)?),
        };
        self.tree.fill_node(id, kind);
        Ok(id)
    }

    fn build_entries(&mut self, object: &Object<'_>) -> Result<Vec<(Key, NodeId)>, Box<Defect>> {
        let mut map = MapBuilder::default();
        for property in &object.properties {
            let name = property.name.as_str().to_string();
            let key = Key::new(name, property.name.range().start)?;
            if map.contains(&key.name) {
                let defect = duplicate_key(&key.name, key.offset, self.path.clone());
                push_defect(self.defects, defect)?;
            }
            let id = self.build_child(key.name.clone(), &property.value)?;
            map.insert(key, id);
        }
        Ok(map.entries)
    }

    fn build_child(&mut self, step: String, value: &Value<'_>) -> Result<NodeId, Box<Defect>> {
        self.path.push(step);
        let id = self.build_node(value);
        self.path.pop();
        id
    }
}
