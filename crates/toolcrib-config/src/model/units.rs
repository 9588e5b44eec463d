//! Durations and sizes in their written form.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};
use serde::{Serialize, Serializer};

use super::setting::leaf;

/// A duration: `1500ms`, `30s`, `10m`, `2h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period(pub Duration);

/// A size in bytes: `64KiB`, `10MB`, `4096`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub u64);

impl Period {
    /// The duration zero.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// Returns a duration in seconds.
    pub const fn secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }

    /// Returns a duration in milliseconds.
    pub const fn millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// Parses numbers with units, such as `1m30s`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut total = Duration::ZERO;
        let mut rest = text.trim();
        if rest.is_empty() {
            return None;
        }
        while !rest.is_empty() {
            let (number, unit, after) = split_unit(rest)?;
            let nanos = match unit {
                "ns" => 1.0,
                "us" | "µs" => 1e3,
                "ms" => 1e6,
                "s" => 1e9,
                "m" | "min" => 60e9,
                "h" => 3600e9,
                "d" => 86400e9,
                _ => return None,
            };
            total = total.checked_add(scale_to_duration(number, nanos)?)?;
            rest = after;
        }
        Some(Self(total))
    }

    /// Converts seconds with a fraction, as other formats write them. Returns `None` for negative and too large values.
    pub fn from_secs_f64(secs: f64) -> Option<Self> {
        Duration::try_from_secs_f64(secs).ok().map(Self)
    }
}

impl Size {
    /// Returns a size in KiB.
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// Returns a size in MiB.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// Parses a number with an optional unit, such as `64MiB`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Ok(bytes) = text.parse() {
            return Some(Self(bytes));
        }
        let (number, unit, after) = split_unit(text)?;
        let factor: u64 = match unit.to_ascii_lowercase().as_str() {
            "b" => 1,
            "kb" => 1000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "kib" | "k" => 1 << 10,
            "mib" | "m" => 1 << 20,
            "gib" | "g" => 1 << 30,
            _ => return None,
        };
        let number: u64 = number.parse().ok()?;
        after.is_empty().then_some(Self(number.checked_mul(factor)?))
    }
}

/// Splits off a number and its unit.
fn split_unit(text: &str) -> Option<(&str, &str, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).filter(|end| *end > 0)?;
    let (number, rest) = text.split_at(end);
    let rest = rest.trim_start();
    let unit_end =
        rest.find(|c: char| c.is_ascii_digit() || c.is_whitespace()).unwrap_or(rest.len());
    let (unit, after) = rest.split_at(unit_end);
    Some((number, unit, after.trim_start()))
}

fn scale_to_duration(number: &str, unit: f64) -> Option<Duration> {
    const SECOND: u128 = 1_000_000_000;
    match number.parse::<u128>().ok().and_then(|n| n.checked_mul(unit as u128)) {
        Some(nanos) => {
            let secs = u64::try_from(nanos / SECOND).ok()?;
            Some(Duration::new(secs, (nanos % SECOND) as u32))
        }
        None => {
            let number: f64 = number.parse().ok()?;
            Duration::try_from_secs_f64(number * unit / 1e9).ok()
        }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let units = [
            (3_600_000_000_000, "h"),
            (60_000_000_000, "m"),
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1000, "us"),
        ];
        match units.iter().find(|(unit, _)| nanos != 0 && nanos.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", nanos / unit),
            None if nanos == 0 => f.write_str("0s"),
            None => write!(f, "{nanos}ns"),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match units.iter().find(|(unit, _)| self.0 != 0 && self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}", self.0),
        }
    }
}

/// Implements serde and the schema for a type that is text in a file.
macro_rules! written_as_text {
    ($ty:ident, $what:literal, $schema:tt) => {
        impl<'de> Deserialize<'de> for $ty {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let crate::value::Scalar(text) = Deserialize::deserialize(deserializer)?;
                Self::parse(&text).ok_or_else(|| {
                    D::Error::custom(format!(
                        concat!("expected ", $what, ", found {}"),
                        crate::text::quote_word(&text)
                    ))
                })
            }
        }

        impl Serialize for $ty {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl schemars::JsonSchema for $ty {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($ty).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }

        leaf!($ty);
    };
}

written_as_text!(Period, "a time with its unit, for example `30s` or `1500ms`", {
    "type": "string",
    "description": "A duration: `1500ms`, `30s`, `10m`, `1m30s`.",
    "pattern": "^([0-9.]+ *(ns|us|µs|ms|s|m|min|h|d) *)+$"
});
written_as_text!(Size, "a size, for example `64MiB`", {
    "type": ["string", "integer"],
    "description": "A size in bytes: `64KiB`, `10MB`, `4096`."
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_parse_common_forms() {
        for (text, millis) in [
            ("30s", 30_000),
            ("1500ms", 1500),
            ("1.5s", 1500),
            ("1m30s", 90_000),
            ("0s", 0),
            ("2h", 7_200_000),
            ("10 m", 600_000),
        ] {
            assert_eq!(Period::parse(text), Some(Period::millis(millis)), "{text}");
        }
        for text in ["", "30", "s", "5 weeks", "-1s", "1e3s", "9999999999999999999999h"] {
            assert_eq!(Period::parse(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_parse_common_forms() {
        for (text, bytes) in [
            ("64MiB", 64 << 20),
            ("4096", 4096),
            ("10MB", 10_000_000),
            ("64KiB", 65536),
            ("1 gib", 1 << 30),
        ] {
            assert_eq!(Size::parse(text), Some(Size(bytes)), "{text}");
        }
        for text in ["", "MiB", "1.5MiB", "-1", "99999999999GiB"] {
            assert_eq!(Size::parse(text), None, "{text}");
        }
    }

    #[test]
    fn displayed_units_parse_back() {
        for period in [
            Period::ZERO,
            Period::secs(90),
            Period::millis(1500),
            Period(Duration::from_nanos(17)),
            Period::secs(7200),
            Period::secs(u64::MAX),
            Period(Duration::new(18_446_744_074, 1)),
        ] {
            assert_eq!(Period::parse(&period.to_string()), Some(period));
        }
        for size in [Size(0), Size(17), Size::mib(64), Size::kib(3)] {
            assert_eq!(Size::parse(&size.to_string()), Some(size));
        }
    }
}
