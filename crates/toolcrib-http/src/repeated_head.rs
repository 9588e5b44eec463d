//! Recognizes a text that repeats with another number in it, such as a response head with another length.

use std::ops::Range;

/// Returns the digits at `place` if `text` otherwise begins like `before`. The number of digits must be equal. An
/// empty range means that the texts must be equal.
pub(crate) fn repeated_digits<'t>(
    before: &[u8],
    place: Range<usize>,
    text: &'t [u8],
) -> Option<&'t [u8]> {
    let digits = text.get(place.clone())?;
    let is_same = text.get(..place.start) == before.get(..place.start)
        && text.get(place.end..before.len()) == Some(before.get(place.end..)?);
    (is_same && digits.iter().all(u8::is_ascii_digit)).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, place: Range<usize>, text: &str, expected: Option<&str>) {
        let found = repeated_digits(before.as_bytes(), place, text.as_bytes());
        assert_eq!(found, expected.map(str::as_bytes), "{before:?} {text:?}");
    }

    #[test]
    fn only_the_digits_may_differ() {
        for (text, expected) in [
            ("a: 12\n", Some("12")),
            ("a: 97\n", Some("97")),
            ("a: 07\nand more", Some("07")),
            ("a: 7\n", None),
            ("a: 123\n", None),
            ("a: +1\n", None),
            ("a: 1", None),
            ("a: 12", None),
            ("a: 12\r", None),
            ("b: 12\n", None),
            ("", None),
        ] {
            check("a: 12\n", 3..5, text, expected);
        }
    }

    #[test]
    fn empty_digit_range_requires_equal_text() {
        check("a\n", 0..0, "a\nrest", Some(""));
        check("a\n", 0..0, "b\n", None);
        check("a\n", 0..0, "a", None);
    }

    #[test]
    fn digit_range_outside_the_text_does_not_match() {
        check("a", 3..5, "a", None);
        check("a", 1..2, "a1", None);
    }
}
