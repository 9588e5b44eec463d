//! How things are told: one way to write an error with its causes, one to mask secrets, and one to write a time.

mod mask;
mod secret_forms;

pub use mask::{Said, SecretMask};

use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The longest text of one error; what servers write into theirs has no end.
const LONGEST: usize = 2000;

/// An error and its causes in one line.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let told = cause.to_string();
        // Others' errors often tell their causes themselves.
        if !text.ends_with(&told) {
            text += ": ";
            text += &told;
        }
        next = cause.source();
    }
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Foreign text as it may be shown: what would command a terminal, reverse the reading or hide is written out.
pub fn visible(text: &str) -> String {
    text.chars().map(visible_char).collect()
}

/// The same for one character.
pub fn visible_char(c: char) -> String {
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

/// RFC 3339 in UTC, to the millisecond.
pub fn timestamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
        since.subsec_millis()
    )
}

/// The time that such a text tells; nothing for any other text.
pub fn moment(text: &str) -> Option<SystemTime> {
    let parts = text.strip_suffix('Z')?.split(['-', 'T', ':', '.']);
    let small = |part: &str| part.parse().ok().filter(|number: &u64| *number < 10_000);
    let parts: Vec<u64> = parts.map(small).collect::<Option<_>>()?;
    let [year, month, day, hour, minute, second, millis] = parts[..] else { return None };
    // Years begin in March to have leap days last.
    let year = year.checked_sub(u64::from(month <= 2))?;
    let month = if month > 2 { month - 3 } else { month + 9 };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day;
    let days = days.checked_sub(719_469)?;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
    Some(UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(millis))
}

/// The day of the calendar, so many days after 1970-01-01; years begin in March to have leap days last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, date)
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
        let repeated = told("no bus: no socket: gone", Some(told("no socket: gone", None)));
        assert_eq!(chain(&repeated), "no bus: no socket: gone", "nothing is told twice");
    }

    #[test]
    fn a_text_without_end_is_cut_between_characters() {
        let text = chain(&told(&"ä".repeat(5000), None));
        assert_eq!((text.chars().count(), text.ends_with("ä…")), (LONGEST + 1, true));
    }

    #[test]
    fn a_time_is_written_as_people_read_it() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_399, "2000-02-28T23:59:59.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (1_794_787_200, "2026-11-16T00:00:00.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ] {
            let time = UNIX_EPOCH + Duration::from_millis(seconds * 1_000 + 7);
            assert_eq!(timestamp(time), expected);
            assert_eq!(moment(expected), Some(time));
        }
        for text in ["", "Z", "now", "1969-12-31T00:00:00.000Z", "2026-11-16", "1-1-1T1:1:1.1"] {
            assert_eq!(moment(text), None, "{text}");
        }
    }
}
