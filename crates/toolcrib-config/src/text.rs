//! Text helpers for messages.

/// Cuts foreign text to the length of a phrase.
pub fn clip(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_string(),
    }
}

/// Quotes a word where one of a few is expected. Long or unusual text is not quoted, because it may be a misplaced
/// secret.
pub(crate) fn quote_word(text: &str) -> String {
    const MAX_CHARS: usize = 24;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+ ".contains(c);
    match text.len() <= MAX_CHARS && text.chars().all(plain) {
        true => format!("`{text}`"),
        false => "another text".to_string(),
    }
}

/// Returns the nearest known word if it is close enough for a typing error.
pub(crate) fn nearest_word<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    nearest_within(word, known, 3).map(|(_, candidate)| candidate)
}

/// Returns the known word that `word` misspells, with the number of mistakes: at most two.
pub(crate) fn find_misspelling<'a>(word: &str, known: &[&'a str]) -> Option<(usize, &'a str)> {
    nearest_within(word, known, 2)
}

fn nearest_within<'a>(word: &str, known: &[&'a str], most: usize) -> Option<(usize, &'a str)> {
    let limit = (word.chars().count() / 3).clamp(1, most);
    known
        .iter()
        .map(|candidate| (edit_distance(word, candidate, limit), *candidate))
        .filter(|(d, _)| *d <= limit)
        .min_by_key(|(d, _)| *d)
}

/// Returns whether two keys differ only in case, `_` and `-`.
pub(crate) fn is_same_key(a: &str, b: &str) -> bool {
    folded_chars(a).eq(folded_chars(b))
}

/// Formats a list such as `` `a`, `b` and `c` ``.
pub(crate) fn quoted_list<S: AsRef<str>>(words: &[S]) -> String {
    let quoted: Vec<String> = words.iter().map(|w| format!("`{}`", w.as_ref())).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

/// Computes the edit distance by rows. Values above `limit` are not exact, and long words are not measured.
fn edit_distance(a: &str, b: &str, limit: usize) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (fold(a), fold(b));
    if a.len().abs_diff(b.len()) > limit || a.len() > 64 {
        return limit + 1;
    }
    let at = |row: &[usize], place: usize| row.get(place).copied().unwrap_or(usize::MAX - 1);
    let (mut before, mut row): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=b.len()).collect());
    for (i, x) in a.iter().enumerate() {
        let mut left = i + 1;
        let mut next = vec![left];
        for (j, y) in b.iter().enumerate() {
            left = (left + 1).min(at(&row, j + 1) + 1).min(at(&row, j) + usize::from(x != y));
            // Two swapped neighbours count as one mistake.
            if i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x) {
                left = left.min(at(&before, j - 1) + 1);
            }
            next.push(left);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or(0)
}

fn fold(word: &str) -> Vec<char> {
    folded_chars(word).collect()
}

fn folded_chars(word: &str) -> impl Iterator<Item = char> {
    word.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_words_find_the_nearest_known_word() {
        let known = ["command", "args", "truely-stateless"];
        assert_eq!(nearest_word("comand", &known), Some("command"));
        assert_eq!(nearest_word("truly-stateless", &known), Some("truely-stateless"));
        assert_eq!(nearest_word("Command", &known), Some("command"));
        assert_eq!(nearest_word("timeout", &known), None);
        assert_eq!(nearest_word("hots", &["host"]), Some("host"));
    }

    #[test]
    fn lists_read_like_a_sentence() {
        assert_eq!(quoted_list(&["a"]), "`a`");
        assert_eq!(quoted_list(&["a", "b", "c"]), "`a`, `b` and `c`");
    }
}
