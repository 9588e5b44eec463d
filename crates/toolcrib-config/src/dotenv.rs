//! `.env` files: quotes, `export`, comments, values over several lines.

/// The variables of a file, in order; lines that are none, by their number.
pub fn parse(text: &str) -> (Vec<(String, String)>, Vec<u32>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut values, mut bad) = (Vec::new(), Vec::new());
    let mut rest = text;
    let mut line = 1;
    while !rest.is_empty() {
        let (found, after) = assignment(rest);
        match found {
            Found::Variable(name, value) => values.push((name, value)),
            Found::Nothing => {}
            Found::Bad => bad.push(line),
        }
        let consumed = rest.len() - after.len();
        line += rest.get(..consumed).unwrap_or_default().matches('\n').count() as u32;
        rest = after;
    }
    (values, bad)
}

enum Found {
    Variable(String, String),
    Nothing,
    Bad,
}

/// Reads one assignment and returns what follows it.
fn assignment(text: &str) -> (Found, &str) {
    let (line, after) = text.split_once('\n').unwrap_or((text, ""));
    let trimmed = line.trim();
    if trimmed.is_empty() || trimmed.starts_with('#') {
        return (Found::Nothing, after);
    }
    let Some((name, _)) = line.split_once('=') else {
        return (Found::Bad, after);
    };
    let start = name.len() + 1;
    let name = name.trim();
    let name = name.strip_prefix("export ").unwrap_or(name).trim();
    if !crate::value::is_variable(name) {
        return (Found::Bad, after);
    }
    let value = text.get(start..).unwrap_or_default().trim_start_matches([' ', '\t']);
    let (value, after) = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => match quoted(value.get(1..).unwrap_or_default(), quote) {
            Some(found) => found,
            None => return (Found::Bad, after),
        },
        _ => {
            let (line, after) = value.split_once('\n').unwrap_or((value, ""));
            (bare(line), after)
        }
    };
    (Found::Variable(name.to_string(), value), after)
}

/// Text without quotes ends at a comment that stands apart.
fn bare(line: &str) -> String {
    let end = line.find(" #").or_else(|| line.find("\t#")).unwrap_or(line.len());
    let value = line.get(..end).unwrap_or_default();
    if value.starts_with('#') { String::new() } else { value.trim().to_string() }
}

/// The text up to the closing quote, and what follows its line. Only double quotes know escapes.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => {
                let rest = text.get(at + c.len_utf8()..).unwrap_or_default();
                return Some((value, rest.split_once('\n').map_or("", |(_, after)| after)));
            }
            '\\' if quote == '"' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, 'r')) => value.push('\r'),
                Some((_, 't')) => value.push('\t'),
                Some((_, c @ ('"' | '\\' | '$'))) => value.push(c),
                Some((_, c)) => value.extend(['\\', c]),
                None => return None,
            },
            '\r' => {}
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)], bad: &[u32]) {
        let own: Vec<(String, String)> =
            expected.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        assert_eq!(parse(text), (own, bad.to_vec()), "{text}");
    }

    #[test]
    fn the_usual_forms() {
        check(
            "A=1\nexport B=two words # note\n# C=3\n\nD=\n",
            &[("A", "1"), ("B", "two words"), ("D", "")],
            &[],
        );
        check(
            "A=\"x # y\"\r\nB='z\\n'\r\nC=q\r\n",
            &[("A", "x # y"), ("B", "z\\n"), ("C", "q")],
            &[],
        );
        check("A=\"one\ntwo\\tthree\"\nB=1", &[("A", "one\ntwo\tthree"), ("B", "1")], &[]);
        check("URL=http://x/#frag\nEQ=a=b", &[("URL", "http://x/#frag"), ("EQ", "a=b")], &[]);
        check("\u{feff}A=1", &[("A", "1")], &[]);
        check("A='${NOT_EXPANDED}'", &[("A", "${NOT_EXPANDED}")], &[]);
    }

    #[test]
    fn a_bad_line_is_told_and_passed_over() {
        check("A=1\nnonsense\n1B=2\nC=3", &[("A", "1"), ("C", "3")], &[2, 3]);
        check("A=\"never closed\nB=2", &[("B", "2")], &[1]);
    }
}
