//! Small rules for text that is shown to people.

/// Foreign text cut to what fits in a sentence.
pub fn clip(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_string(),
    }
}

/// A word that stands where one of a few is expected: quoted where it can be one, else only named a
/// text, since anything may have slipped in.
pub(crate) fn word(text: &str) -> String {
    const MOST: usize = 24;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+ ".contains(c);
    match text.len() <= MOST && text.chars().all(plain) {
        true => format!("`{text}`"),
        false => "another text".to_string(),
    }
}

/// The known word nearest to `word`, when it is near enough to be a slip.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    within(word, known, 3).map(|(_, candidate)| candidate)
}

/// The known word of which `word` is a misspelling, with the number of mistakes: at most two.
pub(crate) fn slip<'a>(word: &str, known: &[&'a str]) -> Option<(usize, &'a str)> {
    within(word, known, 2)
}

fn within<'a>(word: &str, known: &[&'a str], most: usize) -> Option<(usize, &'a str)> {
    let limit = (word.chars().count() / 3).clamp(1, most);
    known
        .iter()
        .map(|candidate| (distance(word, candidate, limit), *candidate))
        .filter(|(d, _)| *d <= limit)
        .min_by_key(|(d, _)| *d)
}

/// Whether two keys differ in nothing but case, `_` and `-`.
pub(crate) fn is_same_key(a: &str, b: &str) -> bool {
    folded(a).eq(folded(b))
}

/// `` `a`, `b` and `c` ``.
pub(crate) fn list<S: AsRef<str>>(words: &[S]) -> String {
    let quoted: Vec<String> = words.iter().map(|w| format!("`{}`", w.as_ref())).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

/// Edit distance by rows; anything beyond `limit` need not be exact, and long words are not measured.
fn distance(a: &str, b: &str, limit: usize) -> usize {
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
            // Two neighbours that changed places are one slip.
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
    folded(word).collect()
}

fn folded(word: &str) -> impl Iterator<Item = char> {
    word.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_word() {
        let known = ["command", "args", "truely-stateless"];
        assert_eq!(nearest("comand", &known), Some("command"));
        assert_eq!(nearest("truly-stateless", &known), Some("truely-stateless"));
        assert_eq!(nearest("Command", &known), Some("command"));
        assert_eq!(nearest("timeout", &known), None);
        assert_eq!(nearest("hots", &["host"]), Some("host"));
    }

    #[test]
    fn lists_read_like_a_sentence() {
        assert_eq!(list(&["a"]), "`a`");
        assert_eq!(list(&["a", "b", "c"]), "`a`, `b` and `c`");
    }
}
