//! A line of a file as anybody may see it: what may be a secret there is masked.

use crate::model::Source;
use crate::sensitive::{masked_in_line, may_be_secret};
use crate::value::MASK;

/// What is below a key with one of these in its name may be a secret, whatever its own name.
const HOLDERS: [&str; 4] = ["env", "header", "config", "default"];

impl Source {
    /// A line, and the place that a character of it has then; both are counted from 1, and so is the place.
    pub fn excerpt(&self, line: u32, column: u32) -> Option<(String, usize)> {
        let text = self.lines.line(line)?;
        let column = column.saturating_sub(1) as usize;
        let caret = text.char_indices().nth(column).map_or(text.len(), |(at, _)| at);
        let mut hidden: Vec<_> = match &self.doc {
            Some(doc) => {
                let scalars = doc.scalars_of(line, &is_sensitive);
                scalars.filter_map(|(at, value)| Some((at, end_of(text, at, value)?))).collect()
            }
            None => all_but_keys(text),
        };
        let before = line.checked_sub(1).and_then(|before| self.lines.line(before));
        hidden.extend(masked_in_line(before, text));
        hidden.sort_unstable();
        let (mut shown, mut from, mut place) = (String::new(), 0, None);
        for (start, end) in hidden.into_iter().filter(|(start, end)| start < end) {
            // Two that overlap are one.
            if start < from {
                from = from.max(end);
                continue;
            }
            let before = text.get(from..start).unwrap_or_default();
            if place.is_none() && caret < end {
                let into = text.get(from..caret.min(start)).unwrap_or_default();
                place = Some(shown.chars().count() + into.chars().count());
            }
            shown.push_str(before);
            shown.push_str(MASK);
            from = end;
        }
        let rest = text.get(from..).unwrap_or_default();
        let into = text.get(from..caret).unwrap_or_default();
        let place = place.unwrap_or_else(|| shown.chars().count() + into.chars().count());
        shown.push_str(rest);
        Some((shown, place + 1))
    }
}

fn is_sensitive(key: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    may_be_secret(key) || HOLDERS.iter().any(|word| lower.contains(word))
}

/// What is not certainly a key, in a line of a file that could not be read: nobody knows what it stands below.
fn all_but_keys(line: &str) -> Vec<(usize, usize)> {
    let mut hidden = Vec::new();
    let (mut at, mut depth, mut may_be_key) = (0, 0_usize, true);
    while let Some(c) = line.get(at..).and_then(|rest| rest.chars().next()) {
        let mut end = at + c.len_utf8();
        match c {
            c if c.is_whitespace() => {}
            '-' if may_be_key && line.get(end..).is_some_and(|rest| rest.starts_with(' ')) => {}
            '{' | '[' => (depth, may_be_key) = (depth + 1, true),
            '}' | ']' => (depth, may_be_key) = (depth.saturating_sub(1), false),
            ',' => may_be_key = depth > 0,
            ':' | '=' => may_be_key = false,
            _ => {
                let key = key_end(line, at).filter(|_| may_be_key);
                end = key.unwrap_or_else(|| loose_end(line, at, depth > 0));
                if key.is_none() {
                    hidden.push((at, end));
                }
                may_be_key = false;
            }
        }
        at = end;
    }
    hidden
}

/// Where a key ends that begins there.
fn key_end(line: &str, start: usize) -> Option<usize> {
    let rest = line.get(start..)?;
    let end = match rest.chars().next()? {
        '"' | '\'' => quoted_end(rest)?,
        _ => rest.find(|c: char| !(c.is_alphanumeric() || "_-.$/".contains(c)))?,
    };
    let after = rest.get(end..)?;
    let is_key = match after.trim_start().split_at_checked(1)? {
        (":", after) => after.is_empty() || after.starts_with([' ', '\t', '"', '{', '[']),
        ("=", _) => true,
        _ => false,
    };
    (is_key && end > 0).then_some(start + end)
}

/// Where something ends that begins there and is no key: where in doubt, with the line.
fn loose_end(line: &str, start: usize, is_in_brackets: bool) -> usize {
    let rest = line.get(start..).unwrap_or_default();
    let end = match rest.starts_with(['"', '\'']) {
        true => quoted_end(rest),
        false => rest.find([',', '}', ']']).filter(|_| is_in_brackets),
    };
    start + end.unwrap_or(rest.len())
}

/// The length of a quoted text, if its end is in the line.
fn quoted_end(rest: &str) -> Option<usize> {
    let quote = rest.chars().next()?;
    let mut is_escaped = false;
    let end = rest.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == quote && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped && quote == '"';
        ends
    });
    end.map(|(at, c)| at + c.len_utf8())
}

/// Whether it is a name, behind the word for credentials or alone: what else stands beside one, or in its place where
/// it is missing, may be a secret.
fn is_reference(value: &str) -> bool {
    let value = value.strip_prefix("Bearer ").unwrap_or(value);
    let name = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| name.chars().all(|c| c.is_alphanumeric() || "_:.".contains(c)))
}

/// Where a value ends that begins there; a reference to one may be seen.
fn end_of(line: &str, start: usize, value: &str) -> Option<usize> {
    if is_reference(value) {
        return None;
    }
    let rest = line.get(start..)?;
    let quote = usize::from(rest.starts_with(['"', '\'']));
    let is_as_it_is = rest.get(quote..).is_some_and(|rest| rest.starts_with(value));
    // What is written in another way than it is read goes to the end of the line.
    Some(if is_as_it_is { start + 2 * quote + value.len() } else { line.len() }.min(line.len()))
}

#[cfg(test)]
mod tests {
    use crate::{Memory, Named, Workspace, compile};

    fn shown(text: &str, line: u32, column: u32) -> (String, usize) {
        let named = Named { path: "/w/toolcrib.yaml".into(), dialect: None };
        let workspace = Workspace { root: "/w".into(), home: None, named: Some(named) };
        let world = Memory::default().with_file("/w/toolcrib.yaml", text);
        compile(&workspace, &world).sources[0].excerpt(line, column).unwrap()
    }

    #[test]
    fn only_what_may_be_a_secret_is_masked_and_the_caret_stays_where_it_was() {
        let text = "version: 1\nservers:\n  a: { command: x, env: { A: c4nary, B: \"c4nary\", C: \"${N}\", D: \"c\\x34nary\" } }\n  b:\n    command: 7\n    headers: { é: 'c4nary', X: 1 }\n";
        let line = "  a: { command: x, env: { A: ***, B: ***, C: \"${N}\", D: ***";
        assert_eq!(shown(text, 3, 4), (line.to_string(), 4));
        // On `C`, after two that are shorter now; and on one that is masked.
        let column = text.lines().nth(2).unwrap().find("C:").unwrap() as u32 + 1;
        assert_eq!(shown(text, 3, column), (line.to_string(), line.find("C:").unwrap() + 1));
        let column = text.lines().nth(2).unwrap().find("c4nary").unwrap() as u32 + 1;
        assert_eq!(shown(text, 3, column), (line.to_string(), line.find("***").unwrap() + 1));
        assert_eq!(shown(text, 5, 14), ("    command: 7".to_string(), 14));
        assert_eq!(shown(text, 6, 5).0, "    headers: { é: ***, X: *** }");
    }

    #[test]
    fn what_stands_beside_a_reference_or_for_it_is_masked() {
        for (value, expected) in [
            ("${A}", "${A}"),
            ("${env:A_1.b}", "${env:A_1.b}"),
            ("Bearer ${A}", "Bearer ${A}"),
            ("c4nary${A}", "***"),
            ("${A:-c4nary}", "***"),
            ("Bearer ${A c4nary", "***"),
            ("${A}${B} c4nary}", "***"),
        ] {
            let text = format!("version: 1\nservers: {{}}\nx: 1\nenv:\n  A: {value}\n");
            assert_eq!(shown(&text, 5, 3).0, format!("  A: {expected}"), "{value}");
        }
    }

    #[test]
    fn of_a_file_that_cannot_be_read_only_keys_are_shown() {
        for (line, expected) in [
            ("    A: c4nary", "    A: ***"),
            ("    A: 'c4nary", "    A: ***"),
            ("    A: \"c4nary, B: c4nary", "    A: ***"),
            ("  \"A\": \"c4\\\"nary\", \"B\": \"c4nary\"", "  \"A\": ***, ***: ***"),
            (
                "  a: { A: c4nary, B: 'c4,nary', C: [c4nary, c4nary] ",
                "  a: { A: ***, B: ***, C: [***, ***]",
            ),
            ("  - c4nary", "  - ***"),
            ("  - A: c4nary: x", "  - A: ***"),
            ("A = 'c4nary' # c4nary", "A = *** ***"),
            ("c4nary", "***"),
            ("  c4nary:x", "  ***"),
            ("  A: \"c4nary\"c4nary", "  A: ******"),
            ("é: ü: c4nary", "é: ***"),
            ("", ""),
            ("}}]],,::", "}}]],,::"),
        ] {
            let text = format!("version: 1\n{line}\n\t]: broken: [\n");
            assert_eq!(shown(&text, 2, 1).0.trim_end(), expected, "{line}");
        }
        // The caret stays at what it was on.
        let text = "{\n \"A\": \"c4nary\" \"B\": 1\n";
        let (line, place) = shown(text, 2, 16);
        assert_eq!((line.as_str(), place), (" \"A\": *** ***: ***", 11));
    }
}
