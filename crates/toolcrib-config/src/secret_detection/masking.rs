//! Masking of configured commands, arguments and URLs for display.

use std::ops::Range;

use super::secret_search::{is_flag, secret_ranges};
use crate::model::transport::DisplayValue;
use crate::value::{MASK, SecretString, TemplatePart, TextTemplate, Value};

/// Replaces secrets in a text by `***`: URL passwords, `?token=…`, `--api-key …`.
pub(crate) fn mask_text(text: &str) -> String {
    mask_named_text("", text)
}

/// Masks arguments. An argument may follow its flag.
pub(crate) fn mask_args<A: MaskableText>(args: &[A]) -> Vec<A> {
    let mut name = String::new();
    let mut shown = Vec::with_capacity(args.len());
    for arg in args {
        shown.push(arg.mask_after(&name));
        let text = arg.text();
        name = if is_flag(&text) { text } else { String::new() };
    }
    shown
}

/// Returns the ranges of secrets in a line of a configuration file. `before` is the previous line, which may end with a
/// flag.
pub(crate) fn secret_ranges_in_line(before: Option<&str>, line: &str) -> Vec<(usize, usize)> {
    let last = before.and_then(|before| line_words(before).last()).map(|word| word.1);
    let mut name = last.filter(|word| is_flag(word)).unwrap_or_default();
    let mut found = Vec::new();
    for (at, word) in line_words(line) {
        found.extend(
            secret_ranges(name, word).iter().map(|range| (at + range.start, at + range.end)),
        );
        name = if is_flag(word) { word } else { "" };
    }
    found
}

/// A configured text that may contain a secret.
pub(crate) trait MaskableText: Sized {
    /// Returns the text, with names in place of references.
    fn text(&self) -> String;

    /// Returns a masked copy. `name` is the preceding flag.
    fn mask_after(&self, name: &str) -> Self;
}

impl MaskableText for String {
    fn text(&self) -> String {
        self.clone()
    }

    fn mask_after(&self, name: &str) -> Self {
        mask_named_text(name, self)
    }
}

impl MaskableText for DisplayValue {
    fn text(&self) -> String {
        match &self.0 {
            Value::Literal(text) => text.reveal().to_owned(),
            Value::Template(TextTemplate(parts)) => join_parts(parts).0,
            Value::FromEnv { .. } | Value::Secret { .. } => String::new(),
        }
    }

    fn mask_after(&self, name: &str) -> Self {
        DisplayValue(match &self.0 {
            Value::Literal(text) => {
                Value::Literal(SecretString::new(mask_named_text(name, text.reveal())))
            }
            Value::Template(TextTemplate(parts)) => {
                Value::Template(TextTemplate(mask_parts(name, parts)))
            }
            Value::FromEnv { .. } => self.0.masked(),
            Value::Secret { .. } => self.0.clone(),
        })
    }
}

impl DisplayValue {
    /// Returns a masked copy.
    #[must_use]
    pub fn masked(&self) -> Self {
        self.mask_after("")
    }
}

fn mask_named_text(name: &str, text: &str) -> String {
    mask_ranges(text, 0..text.len(), &secret_ranges(name, text))
}

/// Masks a template. A secret may start in one part and end in another.
fn mask_parts(name: &str, parts: &[TemplatePart]) -> Vec<TemplatePart> {
    let (text, spans) = join_parts(parts);
    let secrets = secret_ranges(name, &text);
    let shown = parts.iter().zip(spans).map(|(part, span)| match part {
        TemplatePart::Text(_) => {
            TemplatePart::Text(SecretString::new(mask_ranges(&text, span, &secrets)))
        }
        TemplatePart::Env { name, default } => {
            let is_secret = secrets.iter().any(|it| it.start < span.end && span.start < it.end);
            let mask = |default: &SecretString| match is_secret && !default.reveal().is_empty() {
                true => SecretString::new(MASK),
                false => SecretString::new(mask_named_text(name, default.reveal())),
            };
            TemplatePart::Env { name: name.clone(), default: default.as_ref().map(mask) }
        }
        TemplatePart::Input(id) => TemplatePart::Input(id.clone()),
    });
    shown.collect()
}

/// Returns the text of a template with `${NAME}` for references, and the range of each part.
fn join_parts(parts: &[TemplatePart]) -> (String, Vec<Range<usize>>) {
    let mut text = String::new();
    let mut spans = Vec::with_capacity(parts.len());
    for part in parts {
        let start = text.len();
        match part {
            TemplatePart::Text(part) => text.push_str(part.reveal()),
            TemplatePart::Env { name, .. } | TemplatePart::Input(name) => {
                text += &format!("${{{name}}}")
            }
        }
        spans.push(start..text.len());
    }
    (text, spans)
}

/// Returns a span of a text with `***` for each range. Ranges are sorted; overlapping ranges get one mask.
fn mask_ranges(text: &str, span: Range<usize>, places: &[Range<usize>]) -> String {
    let mut shown = String::new();
    let mut done = span.start;
    for range in places.iter().filter(|range| range.start < span.end && span.start < range.end) {
        if range.end <= done {
            continue;
        }
        if range.start >= done || done == span.start {
            shown.push_str(text.get(done..range.start.max(done)).unwrap_or_default());
            shown.push_str(MASK);
        }
        done = range.end;
    }
    shown.push_str(text.get(done..span.end).unwrap_or_default());
    shown
}

/// Returns the words of a line without quotes and brackets, with their offsets.
fn line_words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_between = |c: char| c.is_whitespace() || "\"',[]{}".contains(c);
    let mut at = 0;
    line.split(is_between)
        .map(move |word| {
            let start = at;
            at += word.len() + line.get(at + word.len()..).map_or(0, first_char_length);
            (start, word)
        })
        .filter(|(_, word)| !word.is_empty() && *word != "-")
}

fn first_char_length(rest: &str) -> usize {
    rest.chars().next().map_or(0, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_text_masks_only_secrets() {
        for (text, shown) in [
            (
                "https://me:pw@h.test/mcp?token=abc&x=1#y",
                "https://me:***@h.test/mcp?token=***&x=1#y",
            ),
            ("https://h.test/mcp?mode=a", "https://h.test/mcp?mode=a"),
            ("--api-key=abc", "--api-key=***"),
            ("-e GITHUB_TOKEN=abc run", "-e GITHUB_TOKEN=*** run"),
            ("tool --api-key abc --verbose", "tool --api-key *** --verbose"),
            ("Authorization: Bearer abc", "Authorization: Bearer ***"),
            ("TOKEN=x; curl h.test | sh", "TOKEN=***; curl h.test | sh"),
            ("token: a; rm -r /", "token: a; rm -r /"),
            ("Cookie: session=abc; theme=dark", "Cookie: session=***; theme=***"),
            ("ghp_0123456789abcdefABCDEF0123456789abcd", "***"),
            ("{\"apiKey\": \"abcdef\"}", "{\"apiKey\": \"***\"}"),
            ("--config /srv/x.json", "--config /srv/x.json"),
            ("--auth required", "--auth required"),
            ("echo $API_TOKEN; exit 3", "echo $API_TOKEN; exit 3"),
        ] {
            assert_eq!(mask_text(text), shown);
        }
    }

    #[test]
    fn argument_after_a_secret_flag_is_masked() {
        let args = ["--api-key", "abc", "serve", "--password", "a b", "--token=x", "run", "-v"];
        let shown = ["--api-key", "***", "serve", "--password", "***", "--token=***", "run", "-v"];
        assert_eq!(mask_args(&args.map(str::to_owned)), shown.map(str::to_owned));
    }

    #[test]
    fn masked_templates_keep_their_references() {
        for (text, shown) in [
            (
                "https://me:${PW}@h.test/?token=abc&x=${Y}",
                "https://me:${PW}@h.test/?token=***&x=${Y}",
            ),
            ("--token=abc${X}def", "--token=***${X}***"),
            ("${HOST}?api_key=${KEY:-abcdef}", "${HOST}?api_key=${KEY:-***}"),
            ("${API_KEY:-abc}", "${API_KEY:-***}"),
            ("${LEVEL:-debug}", "${LEVEL:-debug}"),
        ] {
            let plain = DisplayValue(Value::parse_native(text).unwrap());
            assert_eq!(plain.masked().display_text(), shown);
        }
    }

    #[test]
    fn secret_ranges_are_found_in_config_lines() {
        let shown = |before: Option<&str>, line: &str| {
            let mut places: Vec<_> = secret_ranges_in_line(before, line)
                .into_iter()
                .map(|(start, end)| start..end)
                .collect();
            places.sort_unstable_by_key(|range| (range.start, range.end));
            mask_ranges(line, 0..line.len(), &places)
        };
        assert_eq!(shown(None, "args: [é, --api-key, 'abc', x]"), "args: [é, --api-key, '***', x]");
        assert_eq!(shown(Some("  - --api-key"), "  - abc"), "  - ***");
        assert_eq!(shown(Some("  - --verbose"), "  - abc"), "  - abc");
        assert_eq!(
            shown(None, "url: https://a:b@h/?token=c # d"),
            "url: https://a:***@h/?token=*** # d"
        );
        assert_eq!(shown(None, "timeouts: { request: 5 }"), "timeouts: { request: 5 }");
    }
}
