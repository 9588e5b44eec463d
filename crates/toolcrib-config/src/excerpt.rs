//! A line of a file as anybody may see it: what may be a secret there is masked.

use crate::model::Source;
use crate::value::MASK;

/// What is below a key with one of these in its name may be a secret.
const SENSITIVE: [&str; 9] =
    ["env", "header", "auth", "token", "secret", "password", "key", "config", "default"];

impl Source {
    /// A line, and the place that a character of it has then; both are counted from 1, and so is the place.
    pub fn excerpt(&self, line: u32, column: u32) -> Option<(String, usize)> {
        let text = self.lines.line(line)?;
        let column = column.saturating_sub(1) as usize;
        let caret = text.char_indices().nth(column).map_or(text.len(), |(at, _)| at);
        let mut hidden: Vec<_> = self
            .doc
            .iter()
            .flat_map(|doc| doc.scalars_of(line, &is_sensitive))
            .filter_map(|(at, value)| Some((at, end_of(text, at, value)?)))
            .collect();
        hidden.sort_unstable();
        let (mut shown, mut from, mut place) = (String::new(), 0, None);
        for (start, end) in hidden.into_iter().filter(|(start, end)| start < end) {
            // Two that overlap are one.
            if start < from {
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
    let key = key.to_ascii_lowercase();
    SENSITIVE.iter().any(|word| key.contains(word))
}

/// Where a value ends that begins there; a reference to one may be seen.
fn end_of(line: &str, start: usize, value: &str) -> Option<usize> {
    if value.contains("${") {
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
}
