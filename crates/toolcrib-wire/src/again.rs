//! A text that comes again and again with another number in it, such as a head with the length of its body.

use std::ops::Range;

/// The digits that stand at `place` this time, where `text` otherwise begins just as before. There are as many as there
/// were; an empty place means that nothing may differ.
pub fn said_again<'t>(before: &[u8], place: Range<usize>, text: &'t [u8]) -> Option<&'t [u8]> {
    let digits = text.get(place.clone())?;
    let is_same = text.get(..place.start) == before.get(..place.start)
        && text.get(place.end..before.len()) == Some(before.get(place.end..)?);
    (is_same && digits.iter().all(u8::is_ascii_digit)).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, place: Range<usize>, text: &str, expected: Option<&str>) {
        let found = said_again(before.as_bytes(), place, text.as_bytes());
        assert_eq!(found, expected.map(str::as_bytes), "{before:?} {text:?}");
    }

    #[test]
    fn only_the_number_may_differ_and_only_in_its_value() {
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
    fn without_a_number_all_is_the_same() {
        check("a\n", 0..0, "a\nrest", Some(""));
        check("a\n", 0..0, "b\n", None);
        check("a\n", 0..0, "a", None);
    }

    #[test]
    fn a_place_outside_is_in_no_text() {
        check("a", 3..5, "a", None);
        check("a", 1..2, "a1", None);
    }
}
