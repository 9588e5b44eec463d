//! Configured commands, arguments and addresses as they may be shown: without the secrets that are written in them.

use std::ops::Range;

use super::text::{is_flag, places};
use crate::model::transport::Plain;
use crate::value::{Hidden, MASK, Part, Template, Value};

/// A text with `***` where a secret is written: the password of an address, `?token=…`, `--api-key …`.
pub(crate) fn masked_text(text: &str) -> String {
    masked("", text)
}

/// The same for arguments. An argument may have its name before it.
pub(crate) fn masked_args<A: Argument>(args: &[A]) -> Vec<A> {
    let mut name = String::new();
    let mut shown = Vec::with_capacity(args.len());
    for arg in args {
        shown.push(arg.masked_after(&name));
        let text = arg.text();
        name = if is_flag(&text) { text } else { String::new() };
    }
    shown
}

/// The places of secrets in a line of a configuration file. `before` is the line above it, which may end with the name
/// of an argument.
pub(crate) fn masked_in_line(before: Option<&str>, line: &str) -> Vec<(usize, usize)> {
    let last = before.and_then(|before| words(before).last()).map(|word| word.1);
    let mut name = last.filter(|word| is_flag(word)).unwrap_or_default();
    let mut found = Vec::new();
    for (at, word) in words(line) {
        found.extend(places(name, word).iter().map(|place| (at + place.start, at + place.end)));
        name = if is_flag(word) { word } else { "" };
    }
    found
}

/// Something that is written in a configuration and may hold a secret.
pub(crate) trait Argument: Sized {
    /// The text, with names where it refers to something.
    fn text(&self) -> String;

    /// The same without its secrets, after an argument that may be its name.
    fn masked_after(&self, name: &str) -> Self;
}

impl Argument for String {
    fn text(&self) -> String {
        self.clone()
    }

    fn masked_after(&self, name: &str) -> Self {
        masked(name, self)
    }
}

impl Argument for Plain {
    fn text(&self) -> String {
        match &self.0 {
            Value::Literal(text) => text.reveal().to_owned(),
            Value::Template(Template(parts)) => joined(parts).0,
            Value::FromEnv { .. } | Value::Secret { .. } => String::new(),
        }
    }

    fn masked_after(&self, name: &str) -> Self {
        Plain(match &self.0 {
            Value::Literal(text) => Value::Literal(Hidden::new(masked(name, text.reveal()))),
            Value::Template(Template(parts)) => {
                Value::Template(Template(masked_parts(name, parts)))
            }
            Value::FromEnv { .. } => self.0.masked(),
            Value::Secret { .. } => self.0.clone(),
        })
    }
}

impl Plain {
    /// The same as anybody may see it.
    #[must_use]
    pub fn masked(&self) -> Self {
        self.masked_after("")
    }
}

fn masked(name: &str, text: &str) -> String {
    cut(text, 0..text.len(), &places(name, text))
}

/// A secret may begin in one part of a template and end in another.
fn masked_parts(name: &str, parts: &[Part]) -> Vec<Part> {
    let (text, spans) = joined(parts);
    let secrets = places(name, &text);
    let shown = parts.iter().zip(spans).map(|(part, span)| match part {
        Part::Text(_) => Part::Text(Hidden::new(cut(&text, span, &secrets))),
        Part::Env { name, default } => {
            let is_secret = secrets.iter().any(|it| it.start < span.end && span.start < it.end);
            let mask = |default: &Hidden| match is_secret && !default.reveal().is_empty() {
                true => Hidden::new(MASK),
                false => Hidden::new(masked(name, default.reveal())),
            };
            Part::Env { name: name.clone(), default: default.as_ref().map(mask) }
        }
        Part::Input(id) => Part::Input(id.clone()),
    });
    shown.collect()
}

/// The text of a template with `${NAME}` for each reference, and where its parts stand in it.
fn joined(parts: &[Part]) -> (String, Vec<Range<usize>>) {
    let mut text = String::new();
    let mut spans = Vec::with_capacity(parts.len());
    for part in parts {
        let start = text.len();
        match part {
            Part::Text(part) => text.push_str(part.reveal()),
            Part::Env { name, .. } | Part::Input(name) => text += &format!("${{{name}}}"),
        }
        spans.push(start..text.len());
    }
    (text, spans)
}

/// A span of a text with `***` for each place in it. Places are sorted; those that overlap are masked once.
fn cut(text: &str, span: Range<usize>, places: &[Range<usize>]) -> String {
    let mut shown = String::new();
    let mut done = span.start;
    for place in places.iter().filter(|place| place.start < span.end && span.start < place.end) {
        if place.end <= done {
            continue;
        }
        if place.start >= done || done == span.start {
            shown.push_str(text.get(done..place.start.max(done)).unwrap_or_default());
            shown.push_str(MASK);
        }
        done = place.end;
    }
    shown.push_str(text.get(done..span.end).unwrap_or_default());
    shown
}

/// The words of a line, however the file quotes them, and where they begin.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_between = |c: char| c.is_whitespace() || "\"',[]{}".contains(c);
    let mut at = 0;
    line.split(is_between)
        .map(move |word| {
            let start = at;
            at += word.len() + line.get(at + word.len()..).map_or(0, next_length);
            (start, word)
        })
        .filter(|(_, word)| !word.is_empty() && *word != "-")
}

fn next_length(rest: &str) -> usize {
    rest.chars().next().map_or(0, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_a_text_are_masked_and_the_rest_is_shown() {
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
            assert_eq!(masked_text(text), shown);
        }
    }

    #[test]
    fn an_argument_after_a_secret_flag_is_masked() {
        let args = ["--api-key", "abc", "serve", "--password", "a b", "--token=x", "run", "-v"];
        let shown = ["--api-key", "***", "serve", "--password", "***", "--token=***", "run", "-v"];
        assert_eq!(masked_args(&args.map(str::to_owned)), shown.map(str::to_owned));
    }

    #[test]
    fn a_template_keeps_its_references() {
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
            let plain = Plain(Value::native(text).unwrap());
            assert_eq!(plain.masked().shown(), shown);
        }
    }

    #[test]
    fn secrets_in_a_line_of_a_file_are_found() {
        let shown = |before: Option<&str>, line: &str| {
            let mut places: Vec<_> =
                masked_in_line(before, line).into_iter().map(|(start, end)| start..end).collect();
            places.sort_unstable_by_key(|place| (place.start, place.end));
            cut(line, 0..line.len(), &places)
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
