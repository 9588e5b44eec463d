//! Parser for `.env` files with quotes, `export`, comments and multi-line values.

/// Returns the variables in order, and the line numbers of invalid lines.
pub fn parse(text: &str) -> (Vec<(String, String)>, Vec<u32>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut values, mut bad) = (Vec::new(), Vec::new());
    let mut rest = text;
    let mut line = 1;
    while !rest.is_empty() {
        let (found, after) = parse_assignment(rest);
        match found {
            ParsedLine::Variable(name, value) => values.push((name, value)),
            ParsedLine::Blank => {}
            ParsedLine::Invalid => bad.push(line),
        }
        let consumed = rest.len() - after.len();
        line += rest.get(..consumed).unwrap_or_default().matches('\n').count() as u32;
        rest = after;
    }
    (values, bad)
}

enum ParsedLine {
    Variable(String, String),
    Blank,
    Invalid,
}

/// Parses one line and returns the remaining text.
fn parse_assignment(text: &str) -> (ParsedLine, &str) {
    let (line, after) = text.split_once('\n').unwrap_or((text, ""));
    let trimmed = line.trim();
    if trimmed.is_empty() || trimmed.starts_with('#') {
        return (ParsedLine::Blank, after);
    }
    let Some((name, _)) = line.split_once('=') else {
        return (ParsedLine::Invalid, after);
    };
    let start = name.len() + 1;
    let name = name.trim();
    let name = name.strip_prefix("export ").unwrap_or(name).trim();
    if !crate::value::is_variable_name(name) {
        return (ParsedLine::Invalid, after);
    }
    let value = text.get(start..).unwrap_or_default().trim_start_matches([' ', '\t']);
    let (value, after) = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => match parse_quoted(value.get(1..).unwrap_or_default(), quote)
        {
            Some(found) => found,
            None => return (ParsedLine::Invalid, after),
        },
        _ => {
            let (line, after) = value.split_once('\n').unwrap_or((value, ""));
            (parse_unquoted(line), after)
        }
    };
    (ParsedLine::Variable(name.to_string(), value), after)
}

/// Parses an unquoted value, which ends at a comment after whitespace.
fn parse_unquoted(line: &str) -> String {
    let end = line.find(" #").or_else(|| line.find("\t#")).unwrap_or(line.len());
    let value = line.get(..end).unwrap_or_default();
    if value.starts_with('#') { String::new() } else { value.trim().to_string() }
}

/// Parses up to the closing quote and skips the rest of the line. Only double quotes have escapes.
fn parse_quoted(text: &str, quote: char) -> Option<(String, &str)> {
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
    fn dotenv_parses_common_forms() {
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
    fn invalid_dotenv_lines_are_reported_and_skipped() {
        check("A=1\nnonsense\n1B=2\nC=3", &[("A", "1"), ("C", "3")], &[2, 3]);
        check("A=\"never closed\nB=2", &[("B", "2")], &[1]);
    }
}
