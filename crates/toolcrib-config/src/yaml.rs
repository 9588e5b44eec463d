//! Writes YAML that reads back to the same values, with a remark behind each of them.

use serde_json::{Map, Value as Json};

/// A remark on the value at a path; an empty one is not written.
pub(crate) type Remark<'a> = dyn Fn(&[&str]) -> String + 'a;

/// A map as a YAML document.
pub(crate) fn write(map: &Map<String, Json>, remark: &Remark<'_>) -> String {
    let mut writer = Writer { out: String::new(), remark };
    writer.map(map, 0, &mut Vec::new());
    writer.out
}

struct Writer<'a> {
    out: String,
    remark: &'a Remark<'a>,
}

impl Writer<'_> {
    fn map<'k>(&mut self, map: &'k Map<String, Json>, indent: usize, path: &mut Vec<&'k str>) {
        for (key, value) in map {
            path.push(key);
            self.out.push_str(&" ".repeat(indent));
            self.out.push_str(&scalar(key));
            self.out.push(':');
            self.value(value, indent, path);
            path.pop();
        }
    }

    fn value<'k>(&mut self, value: &'k Json, indent: usize, path: &mut Vec<&'k str>) {
        match value {
            Json::Object(map) if !map.is_empty() => {
                self.out.push('\n');
                self.map(map, indent + 2, path);
            }
            value => self.line(&flow(value), path),
        }
    }

    fn line(&mut self, text: &str, path: &[&str]) {
        let remark = (self.remark)(path);
        self.out.push(' ');
        self.out.push_str(text);
        if !remark.is_empty() {
            self.out.push_str("  # ");
            self.out.extend(remark.chars().map(|c| if is_odd(c) { ' ' } else { c }));
        }
        self.out.push('\n');
    }
}

/// A value on one line.
fn flow(value: &Json) -> String {
    match value {
        Json::Null => "null".to_string(),
        Json::Bool(b) => b.to_string(),
        Json::Number(n) => n.to_string(),
        Json::String(text) => scalar(text),
        Json::Array(items) => {
            format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        Json::Object(map) if map.is_empty() => "{}".to_string(),
        Json::Object(map) => {
            let entries: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{}: {}", scalar(key), flow(value)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        }
    }
}

/// Text in quotes unless it cannot be taken for anything else, in a block or between brackets.
fn scalar(text: &str) -> String {
    let plain_byte = |b: u8| b.is_ascii_alphanumeric() || b"_./@-".contains(&b);
    let plain_start =
        text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b"_/".contains(&b));
    const WORDS: &[&str] = &["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let word = WORDS.contains(&text.to_ascii_lowercase().as_str());
    let plain = plain_start && !word && text.bytes().all(plain_byte);
    if plain || is_quantity(text) { text.to_string() } else { quoted(text) }
}

/// `30s`, `64MiB`: digits and a unit that no number ends in.
fn is_quantity(text: &str) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    unit.len() < text.len() && ["ms", "s", "m", "h", "KiB", "MiB", "GiB"].contains(&unit)
}

/// A JSON string is a YAML one, but for a few characters that YAML wants escaped.
fn quoted(text: &str) -> String {
    let json = Json::String(text.to_string()).to_string();
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_odd(c) {
            out.push_str(&format!("\\u{:04x}", c as u32));
        } else {
            out.push(c);
        }
    }
    out
}

/// Characters that YAML does not take as they are.
fn is_odd(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc::{self, Doc, Syntax};

    #[test]
    fn what_is_written_reads_back() {
        let odd = "a: b #c, [d] {e} \"f\" 'g' \\h \t\u{7f}\u{85}\u{2028}\u{feff}é😀";
        let json = serde_json::json!({
            odd: odd, "true": "true", "n": "no", "1": "1", "": "", "-": "- x", "~": "~",
            "list": [odd, 1, 2.5, null, true, { "k": [] }, {}], "map": { "deep": { "x": "0x1F" } },
            "big": 18_446_744_073_709_551_615_u64, "small": -7, "star": "*a", "multi": "a\nb\r\n c ",
        });
        let Json::Object(map) = &json else { panic!() };
        let text = write(map, &|path| path.join("/"));
        let parsed = doc::parse(Syntax::Yaml, text.as_bytes());
        assert_eq!(parsed.flaws, [], "{text}");
        assert_eq!(parsed.doc.unwrap().json(Doc::ROOT), json, "{text}");
    }
}
