//! Formatting of diagnostics: error chains, visible text, timestamps, and secret masking.

mod secret_forms;
mod secret_mask;

pub use secret_mask::{MaskContext, SecretMask};

use std::error::Error;
use std::time::SystemTime;

use jiff::Timestamp;

/// Maximum length of one error text. Errors of servers have no bound.
const MAX_ERROR_LENGTH: usize = 2000;

/// Formats an error and its causes in one line.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        // Some libraries include the cause in the error text.
        if !text.ends_with(&cause_text) {
            text += ": ";
            text += &cause_text;
        }
        next = cause.source();
    }
    match text.char_indices().nth(MAX_ERROR_LENGTH) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Escapes control, bidirectional and invisible characters of untrusted text.
pub fn escape_invisible(text: &str) -> String {
    text.chars().map(escape_invisible_char).collect()
}

/// Escapes one character if it is a control, bidirectional or invisible character.
pub fn escape_invisible_char(c: char) -> String {
    match c {
        '\u{61c}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}'
        | '\u{feff}'
        | '\u{e0000}'..='\u{e007f}' => c.escape_unicode().to_string(),
        c if c.is_control() => c.escape_default().to_string(),
        c => c.to_string(),
    }
}

/// Formats a time as RFC 3339 in UTC, with milliseconds. A time before 1970 counts as 1970.
pub fn format_timestamp(time: SystemTime) -> String {
    let time = Timestamp::try_from(time).unwrap_or(Timestamp::MAX).max(Timestamp::UNIX_EPOCH);
    format!("{time:.3}")
}

/// Parses the output of [`format_timestamp`]. Returns `None` for any other text.
pub fn parse_timestamp(text: &str) -> Option<SystemTime> {
    let time = SystemTime::from(text.parse::<Timestamp>().ok()?);
    // RFC 3339 has other spellings, and times before 1970 have none here.
    (format_timestamp(time) == text).then_some(time)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct TestError {
        text: String,
        #[source]
        cause: Option<Box<TestError>>,
    }

    fn test_error(text: &str, cause: Option<TestError>) -> TestError {
        TestError { text: text.to_owned(), cause: cause.map(Box::new) }
    }

    #[test]
    fn error_chain_lists_each_cause_once() {
        let error = test_error(
            "cannot call",
            Some(test_error("cannot write", Some(test_error("broken pipe", None)))),
        );
        assert_eq!(chain(&error), "cannot call: cannot write: broken pipe");
        let repeated =
            test_error("no bus: no socket: gone", Some(test_error("no socket: gone", None)));
        assert_eq!(chain(&repeated), "no bus: no socket: gone", "no cause is repeated");
    }

    #[test]
    fn long_error_text_is_cut_at_a_character_boundary() {
        let text = chain(&test_error(&"ä".repeat(5000), None));
        assert_eq!((text.chars().count(), text.ends_with("ä…")), (MAX_ERROR_LENGTH + 1, true));
    }

    #[test]
    fn timestamps_round_trip_as_rfc_3339() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_399, "2000-02-28T23:59:59.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (1_794_787_200, "2026-11-16T00:00:00.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ] {
            let time = UNIX_EPOCH + Duration::from_millis(seconds * 1_000 + 7);
            assert_eq!(format_timestamp(time), expected);
            assert_eq!(parse_timestamp(expected), Some(time));
        }
    }

    #[test]
    fn invalid_timestamps_are_rejected() {
        for text in [
            "",
            "Z",
            "now",
            "1969-12-31T00:00:00.000Z",
            "2026-11-16",
            "1-1-1T1:1:1.1",
            "2026-99-16T00:00:00.000Z",
            "2026-00-16T00:00:00.000Z",
            "2026-02-30T00:00:00.000Z",
            "2026-11-16T24:00:00.000Z",
            "2026-11-16T00:00:00Z",
            "2026-11-16 00:00:00.000Z",
            "2026-11-16T01:00:00.000+01:00",
        ] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }

    #[test]
    fn times_outside_of_the_calendar_are_clamped() {
        let early = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(format_timestamp(early), "1970-01-01T00:00:00.000Z");
        let late = UNIX_EPOCH + Duration::from_secs(1 << 40);
        assert!(format_timestamp(late).starts_with("9999-12-30T"), "{}", format_timestamp(late));
    }
}
