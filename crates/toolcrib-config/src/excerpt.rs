//! Excerpts of a file for problem reports, with secrets masked.

use crate::model::ConfigSource;
use crate::secret_detection::{may_be_secret, secret_ranges_in_line};
use crate::value::MASK;

/// Values below a key that contains one of these words may be secrets, regardless of their own key.
const SECRET_HOLDERS: [&str; 4] = ["env", "header", "config", "default"];

impl ConfigSource {
    /// Returns a line with secrets masked, and the column in it that corresponds to `column`. Lines and columns are
    /// counted from 1.
    pub fn excerpt(&self, line: u32, column: u32) -> Option<(String, usize)> {
        let text = self.line_index.line_text(line)?;
        let column = column.saturating_sub(1) as usize;
        let caret = text.char_indices().nth(column).map_or(text.len(), |(at, _)| at);
        let mut hidden: Vec<_> = match &self.doc {
            Some(doc) => {
                let scalars = doc.scalars_in_line(line, &is_sensitive);
                scalars.filter_map(|(at, value)| Some((at, mask_end(text, at, value)?))).collect()
            }
            None => all_except_keys(text),
        };
        let before = line.checked_sub(1).and_then(|before| self.line_index.line_text(before));
        hidden.extend(secret_ranges_in_line(before, text));
        hidden.sort_unstable();
        let (mut shown, mut from, mut place) = (String::new(), 0, None);
        for (start, end) in hidden.into_iter().filter(|(start, end)| start < end) {
            // Overlapping ranges are merged.
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
    may_be_secret(key) || SECRET_HOLDERS.iter().any(|word| lower.contains(word))
}

/// Returns the ranges of a line that are not certainly keys. The file could not be parsed, so the keys above the line
/// are unknown.
fn all_except_keys(line: &str) -> Vec<(usize, usize)> {
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
                end = key.unwrap_or_else(|| value_end(line, at, depth > 0));
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

/// Returns the end of a key that starts at `start`.
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

/// Returns the end of a value that starts at `start`, or the end of the line if in doubt.
fn value_end(line: &str, start: usize, is_in_brackets: bool) -> usize {
    let rest = line.get(start..).unwrap_or_default();
    let end = match rest.starts_with(['"', '\'']) {
        true => quoted_end(rest),
        false => rest.find([',', '}', ']']).filter(|_| is_in_brackets),
    };
    start + end.unwrap_or(rest.len())
}

/// Returns the length of a quoted text that ends in the line.
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

/// Returns whether the value is exactly one reference, with or without `Bearer `. Other text beside a reference, or its
/// default, may be a secret.
fn is_reference(value: &str) -> bool {
    let value = value.strip_prefix("Bearer ").unwrap_or(value);
    let name = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| name.chars().all(|c| c.is_alphanumeric() || "_:.".contains(c)))
}

/// Returns the end of a value to mask, or `None` for a reference.
fn mask_end(line: &str, start: usize, value: &str) -> Option<usize> {
    if is_reference(value) {
        return None;
    }
    let rest = line.get(start..)?;
    let quote = usize::from(rest.starts_with(['"', '\'']));
    let is_as_it_is = rest.get(quote..).is_some_and(|rest| rest.starts_with(value));
    // If the source text differs from the value, the rest of the line is masked.
    Some(if is_as_it_is { start + 2 * quote + value.len() } else { line.len() }.min(line.len()))
}

#[cfg(test)]
mod tests {
    use crate::{ConfigFile, MemoryLookup, Workspace, compile};

    fn excerpt(text: &str, line: u32, column: u32) -> (String, usize) {
        let named = ConfigFile { path: "/w/toolcrib.yaml".into(), dialect: None };
        let workspace = Workspace { root: "/w".into(), home: None, config_file: Some(named) };
        let world = MemoryLookup::default().with_file("/w/toolcrib.yaml", text);
        compile(&workspace, &world).sources[0].excerpt(line, column).unwrap()
    }

    #[test]
    fn excerpt_masks_secrets_and_moves_the_caret() {
        let text = "version: 1\nservers:\n  a: { command: x, env: { A: c4nary, B: \"c4nary\", C: \"${N}\", D: \"c\\x34nary\" } }\n  b:\n    command: 7\n    headers: { é: 'c4nary', X: 1 }\n";
        let line = "  a: { command: x, env: { A: ***, B: ***, C: \"${N}\", D: ***";
        assert_eq!(excerpt(text, 3, 4), (line.to_string(), 4));
        // The column of `C` is behind two shorter masks; the other one is inside a mask.
        let column = text.lines().nth(2).unwrap().find("C:").unwrap() as u32 + 1;
        assert_eq!(excerpt(text, 3, column), (line.to_string(), line.find("C:").unwrap() + 1));
        let column = text.lines().nth(2).unwrap().find("c4nary").unwrap() as u32 + 1;
        assert_eq!(excerpt(text, 3, column), (line.to_string(), line.find("***").unwrap() + 1));
        assert_eq!(excerpt(text, 5, 14), ("    command: 7".to_string(), 14));
        assert_eq!(excerpt(text, 6, 5).0, "    headers: { é: ***, X: *** }");
    }

    #[test]
    fn excerpt_masks_text_beside_references_and_defaults() {
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
            assert_eq!(excerpt(&text, 5, 3).0, format!("  A: {expected}"), "{value}");
        }
    }

    #[test]
    fn excerpt_of_unparsed_file_shows_only_keys() {
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
            assert_eq!(excerpt(&text, 2, 1).0.trim_end(), expected, "{line}");
        }
        // The caret stays on the same text.
        let text = "{\n \"A\": \"c4nary\" \"B\": 1\n";
        let (line, place) = excerpt(text, 2, 16);
        assert_eq!((line.as_str(), place), (" \"A\": *** ***: ***", 11));
    }
}
