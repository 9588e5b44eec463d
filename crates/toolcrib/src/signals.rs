//! How things are told: one way to write an error with its causes.

use std::error::Error;
use std::fmt::Write;

/// The longest text of one error; what servers write into theirs has no end.
const LONGEST: usize = 2000;

/// An error and its causes in one line.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        // A string takes whatever it is given.
        let _ = write!(text, ": {cause}");
        next = cause.source();
    }
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Told {
        text: String,
        #[source]
        cause: Option<Box<Told>>,
    }

    fn told(text: &str, cause: Option<Told>) -> Told {
        Told { text: text.to_owned(), cause: cause.map(Box::new) }
    }

    #[test]
    fn each_cause_follows_what_it_caused() {
        let error =
            told("cannot call", Some(told("cannot write", Some(told("broken pipe", None)))));
        assert_eq!(chain(&error), "cannot call: cannot write: broken pipe");
    }

    #[test]
    fn a_text_without_end_is_cut_between_characters() {
        let text = chain(&told(&"ä".repeat(5000), None));
        assert_eq!((text.chars().count(), text.ends_with("ä…")), (LONGEST + 1, true));
    }
}
