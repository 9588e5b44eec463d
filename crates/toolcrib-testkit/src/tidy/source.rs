//! Approximate parsing of Rust text: test modules, comments and word boundaries.

/// Returns the lines outside of `#[cfg(test)] mod … { }` with their numbers. The module must begin and end at
/// the left edge, as rustfmt formats it.
pub(super) fn without_tests(text: &str) -> Vec<(usize, &str)> {
    let mut kept = Vec::new();
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line)).peekable();
    while let Some((number, line)) = lines.next() {
        let opens = |(_, next): &(usize, &str)| next.starts_with("mod ") && next.ends_with('{');
        if line == "#[cfg(test)]" && lines.peek().is_some_and(opens) {
            lines.by_ref().find(|(_, line)| *line == "}");
        } else {
            kept.push((number, line));
        }
    }
    kept
}

/// Returns the line without its comment. `//` inside a URL has no space before it.
pub(super) fn code(line: &str) -> &str {
    if line.trim_start().starts_with("//") {
        return "";
    }
    line.find(" //").map_or(line, |at| &line[..at])
}

/// Returns true if `word` occurs in the line as a whole word.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let joined_before = before.is_some_and(is_name);
        let joined_after = word.ends_with(is_name) && after.is_some_and(is_name);
        !joined_before && !joined_after
    })
}

pub(super) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_test_modules_are_left_out() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        assert_eq!(without_tests(text), [(1, "fn a() {}"), (6, "fn c() {}")]);
    }

    #[test]
    fn test_modules_in_other_files_hide_nothing() {
        let text = "#[cfg(test)]\nmod tests;\nfn a() {}\n}\n";
        assert_eq!(without_tests(text).len(), 4);
    }

    #[test]
    fn only_whole_words_match() {
        assert!(has_word("a XY b", "XY") && has_word("(XY)", "XY") && has_word("go!(1)", "go!"));
        assert!(!has_word("aXY", "XY") && !has_word("XYZ", "XY") && !has_word("let_go!(1)", "go!"));
    }

    #[test]
    fn comments_are_not_code() {
        assert_eq!(code("let a = 1; // why"), "let a = 1;");
        assert_eq!(code("    /// doc"), "");
        assert_eq!(code(r#"let a = "http://x";"#), r#"let a = "http://x";"#);
    }
}
