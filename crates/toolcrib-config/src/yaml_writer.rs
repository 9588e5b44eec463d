//! YAML writer whose output parses back to the same values, with a comment after each value.

use serde_json::{Map, Value as Json};

/// Returns the comment on the value at a path, or an empty text for none.
pub(crate) type CommentFn<'a> = dyn Fn(&[&str]) -> String + 'a;

/// Writes a map as a YAML document with each list on one line.
pub(crate) fn write(map: &Map<String, Json>, comment: &CommentFn<'_>) -> String {
    let mut writer = Writer { out: String::new(), comment, lists: ListStyle::OneLine };
    writer.write_map(map, 0, &mut Vec::new());
    // The output is for terminals. Characters outside of ASCII occur only in quotes and comments.
    writer
        .out
        .chars()
        .map(|c| if is_misleading(c) { escape_sequence(c) } else { c.to_string() })
        .collect()
}

/// Writes a value as a YAML document with one line for each scalar. Equal values give equal text.
pub fn to_yaml(value: &Json) -> String {
    let mut writer =
        Writer { out: String::new(), comment: &|_| String::new(), lists: ListStyle::Lines };
    match value {
        Json::Object(map) if !map.is_empty() => writer.write_map(map, 0, &mut Vec::new()),
        Json::Array(items) if !items.is_empty() => writer.write_list(items, 0, &mut Vec::new()),
        value => {
            writer.out.push_str(&flow_text(value));
            writer.out.push('\n');
        }
    }
    writer.out
}

struct Writer<'a> {
    out: String,
    comment: &'a CommentFn<'a>,
    lists: ListStyle,
}

#[derive(Clone, Copy, PartialEq)]
enum ListStyle {
    OneLine,
    Lines,
}

impl Writer<'_> {
    fn write_map<'k>(
        &mut self,
        map: &'k Map<String, Json>,
        indent: usize,
        path: &mut Vec<&'k str>,
    ) {
        for (key, value) in map {
            path.push(key);
            self.write_indent(indent);
            self.out.push_str(&scalar_text(key));
            self.out.push(':');
            self.write_value(value, indent, path);
            path.pop();
        }
    }

    fn write_value<'k>(&mut self, value: &'k Json, indent: usize, path: &mut Vec<&'k str>) {
        match value {
            Json::Object(map) if !map.is_empty() => {
                self.out.push('\n');
                self.write_map(map, indent + 2, path);
            }
            Json::Array(items) if !items.is_empty() && self.lists == ListStyle::Lines => {
                self.out.push('\n');
                self.write_list(items, indent + 2, path);
            }
            value => self.write_scalar_line(&flow_text(value), path),
        }
    }

    fn write_list<'k>(&mut self, items: &'k [Json], indent: usize, path: &mut Vec<&'k str>) {
        for item in items {
            self.write_indent(indent);
            self.out.push('-');
            match item {
                Json::Object(map) if !map.is_empty() => {
                    self.out.push(' ');
                    self.write_map(map, indent + 2, path);
                }
                Json::Array(items) if !items.is_empty() => {
                    self.out.push(' ');
                    self.write_list(items, indent + 2, path);
                }
                item => self.write_scalar_line(&flow_text(item), path),
            }
        }
    }

    /// Indents a new line. Text after a dash needs no indentation.
    fn write_indent(&mut self, indent: usize) {
        if self.out.is_empty() || self.out.ends_with('\n') {
            self.out.push_str(&" ".repeat(indent));
        }
    }

    fn write_scalar_line(&mut self, text: &str, path: &[&str]) {
        let comment = (self.comment)(path);
        self.out.push(' ');
        self.out.push_str(text);
        if !comment.is_empty() {
            self.out.push_str("  # ");
            self.out.extend(comment.chars().map(|c| if needs_escape(c) { ' ' } else { c }));
        }
        self.out.push('\n');
    }
}

/// Formats a value on one line.
fn flow_text(value: &Json) -> String {
    match value {
        Json::Null => "null".to_string(),
        Json::Bool(b) => b.to_string(),
        Json::Number(n) => n.to_string(),
        Json::String(text) => scalar_text(text),
        Json::Array(items) => {
            format!("[{}]", items.iter().map(flow_text).collect::<Vec<_>>().join(", "))
        }
        Json::Object(map) if map.is_empty() => "{}".to_string(),
        Json::Object(map) => {
            let entries: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{}: {}", scalar_text(key), flow_text(value)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        }
    }
}

/// Quotes text unless it is unambiguous in a block and between brackets.
fn scalar_text(text: &str) -> String {
    let plain_byte = |b: u8| b.is_ascii_alphanumeric() || b"_./@-".contains(&b);
    let plain_start =
        text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b"_/".contains(&b));
    const WORDS: &[&str] = &["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let word = WORDS.contains(&text.to_ascii_lowercase().as_str());
    let plain = plain_start && !word && text.bytes().all(plain_byte);
    if plain || is_quantity(text) { text.to_string() } else { quoted_text(text) }
}

/// Returns whether the text is digits with a unit, such as `30s` or `64MiB`, which no number ends in.
fn is_quantity(text: &str) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    unit.len() < text.len() && ["ms", "s", "m", "h", "KiB", "MiB", "GiB"].contains(&unit)
}

/// Quotes text. A JSON string is valid YAML except for a few characters that need escapes.
fn quoted_text(text: &str) -> String {
    let json = Json::String(text.to_string()).to_string();
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if needs_escape(c) {
            out.push_str(&escape_sequence(c));
        } else {
            out.push(c);
        }
    }
    out
}

fn escape_sequence(c: char) -> String {
    match u32::from(c) {
        code @ ..=0xffff => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    }
}

/// Returns whether a character is invisible or changes the reading direction.
fn is_misleading(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns whether YAML requires an escape for a character.
fn needs_escape(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::doc::{self, Doc, Syntax};

    #[test]
    fn written_yaml_reads_back() {
        let odd =
            "a: b #c, [d] {e} \"f\" 'g' \\h \t\u{7f}\u{85}\u{2028}\u{feff}é😀\u{202e}\u{e0041}";
        let json = serde_json::json!({
            odd: odd, "true": "true", "n": "no", "1": "1", "": "", "-": "- x", "~": "~",
            "list": [odd, 1, 2.5, null, true, { "k": [] }, {}], "map": { "deep": { "x": "0x1F" } },
            "big": 18_446_744_073_709_551_615_u64, "small": -7, "star": "*a", "multi": "a\nb\r\n c ",
        });
        let Json::Object(map) = &json else { panic!() };
        let text = write(map, &|path| path.join("/"));
        let parsed = doc::parse(Syntax::Yaml, text.as_bytes());
        assert_eq!(parsed.defects, [], "{text}");
        assert_eq!(parsed.doc.unwrap().json(Doc::ROOT), json, "{text}");
    }

    fn reads_back(json: &Json) {
        let text = to_yaml(json);
        let parsed = doc::parse(Syntax::Yaml, text.as_bytes());
        assert_eq!(parsed.defects, [], "{text}");
        assert_eq!(&parsed.doc.unwrap().json(Doc::ROOT), json, "{text}");
    }

    #[test]
    fn dkr_37_values_are_written_line_by_line() {
        let json = serde_json::json!({
            "user": { "name": "Ada", "tags": ["a", "b c", []], "none": {} },
            "rows": [{ "id": 1, "ok": true }, [1, [2]], null, "x: y", "two\nlines"],
        });
        let expected = "user:\n  name: Ada\n  tags:\n    - a\n    - \"b c\"\n    - []\n  none: {}\n\
                        rows:\n  - id: 1\n    ok: true\n  - - 1\n    - - 2\n  - null\n  - \"x: y\"\n  - \"two\\nlines\"\n";
        assert_eq!(to_yaml(&json), expected);
        reads_back(&json);
        for scalar in ["\"a: b\"", "7", "null", "true", "[]", "{}", "\"\"", "[[]]", "[{}]"] {
            reads_back(&serde_json::from_str(scalar).unwrap());
        }
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            any::<String>().prop_map(Json::from),
            "[-:#?!&*|>%@a-z0-9 ~.\n]{0,8}".prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
                prop::collection::vec((any::<String>(), inner), 0..5)
                    .prop_map(|members| Json::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn dkr_37_arbitrary_values_read_back(json in any_json()) {
            reads_back(&json);
        }
    }
}
