//! Parses durations in Go's syntax: `1m30s`, or whole nanoseconds as in Go's JSON.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Unexpected};

use crate::doc::At;
use crate::model::units::Period;

/// A Go `time.Duration`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GoDuration(pub(crate) Period);

impl GoDuration {
    /// Parses the syntax of `time.ParseDuration` without negative durations, which make no sense as a wait.
    fn parse(text: &str) -> Option<Self> {
        const UNITS: &[&str] = &["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
        let text = text.strip_prefix('+').unwrap_or(text);
        if text == "0" {
            return Some(Self(Period::ZERO));
        }
        let mut units =
            text.split(|c: char| c.is_ascii_digit() || c == '.').filter(|unit| !unit.is_empty());
        let known = units.all(|unit| UNITS.contains(&unit));
        // Go accepts both Unicode characters for mu.
        let period = known.then(|| Period::parse(&text.replace('μ', "µ")))?;
        period.map(Self)
    }
}

/// Returns the period unless it is zero. Go cannot distinguish zero from unset, so zero keeps the default.
pub(crate) fn non_zero_period(given: Option<At<GoDuration>>) -> Option<At<Period>> {
    given.map(|at| at.map(|GoDuration(period)| period)).filter(|at| at.value != Some(Period::ZERO))
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = GoDuration;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a time such as `30s`, or a whole number of nanoseconds")
            }
            fn visit_u64<E: Error>(self, nanos: u64) -> Result<GoDuration, E> {
                Ok(GoDuration(Period(Duration::from_nanos(nanos))))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<GoDuration, E> {
                GoDuration::parse(text).ok_or_else(|| E::invalid_type(Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(yaml: &str) -> Option<Period> {
        let parsed = crate::doc::parse(crate::doc::Syntax::Yaml, yaml.as_bytes());
        let deserialized =
            crate::doc::deserialize::<GoDuration>(&parsed.doc?, crate::doc::Doc::ROOT);
        deserialized.value.map(|GoDuration(period)| period)
    }

    #[test]
    fn go_durations_are_parsed() {
        for (text, millis) in [
            ("30s", 30_000),
            ("1h15m30.5s", 4_530_500),
            ("+1.5s", 1500),
            (".5s", 500),
            ("1500000\u{b5}s", 1500),
            ("1500000\u{3bc}s", 1500),
            ("'0'", 0),
            ("0", 0),
            ("30000000000", 30_000),
        ] {
            assert_eq!(read(text), Some(Period::millis(millis)), "{text}");
        }
    }

    #[test]
    fn invalid_go_durations_are_rejected() {
        for text in
            ["''", "'30'", "-1s", "-5", "1.5", "1d", "2 s", "1min", "s", "1h 5m", "true", "[]"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
