//! Parses HoloDeck's timeouts: a positive number of seconds.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

use crate::model::units::Period;

/// A positive number of seconds, with or without a fraction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seconds(pub(super) Period);

/// A positive whole number of seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct WholeSeconds(pub(super) Period);

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SecondsVisitor { whole: false }).map(Self)
    }
}

impl<'de> Deserialize<'de> for WholeSeconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SecondsVisitor { whole: true }).map(Self)
    }
}

struct SecondsVisitor {
    whole: bool,
}

impl Visitor<'_> for SecondsVisitor {
    type Value = Period;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.whole {
            true => "a whole number of seconds greater than 0",
            false => "a number of seconds greater than 0",
        })
    }

    fn visit_u64<E: Error>(self, secs: u64) -> Result<Period, E> {
        if secs == 0 {
            return Err(E::invalid_type(Unexpected::Unsigned(secs), &self));
        }
        Ok(Period::secs(secs))
    }

    fn visit_f64<E: Error>(self, secs: f64) -> Result<Period, E> {
        Period::from_secs_f64(secs)
            .filter(|period| !self.whole && *period != Period::ZERO)
            .ok_or_else(|| E::invalid_type(Unexpected::Float(secs), &self))
    }
}
