//! Request ids and progress tokens: a string or an integer, compared by value.

use std::fmt;
use std::sync::Arc;

use crate::json::{Json, Kind};
use crate::text::{push_integer, quote};

/// The id of a request. Clones are cheap.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Id {
    Number(i64),
    Text(Arc<str>),
}

/// Progress tokens have the form of ids.
pub type ProgressToken = Id;

/// Why a value is no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadId {
    #[error("it is null")]
    Null,
    #[error("it is not written as an integer")]
    Fraction,
    #[error("it does not fit into 64 bits")]
    Huge,
    #[error("it is {0}")]
    OtherKind(Kind),
}

impl Id {
    pub fn read(json: Json<'_>) -> Result<Id, BadId> {
        match json.kind() {
            Kind::Number => number(json.text()),
            Kind::String => Ok(Id::Text(json.as_str().unwrap_or_default().into())),
            Kind::Null => Err(BadId::Null),
            other => Err(BadId::OtherKind(other)),
        }
    }

    /// Writes the id as JSON.
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Id::Number(number) => push_integer(*number, out),
            Id::Text(text) => quote(text, out),
        }
    }
}

fn number(text: &str) -> Result<Id, BadId> {
    text.parse().map(Id::Number).map_err(|_| match text.contains(['.', 'e', 'E']) {
        true => BadId::Fraction,
        false => BadId::Huge,
    })
}

impl From<i64> for Id {
    fn from(number: i64) -> Self {
        Id::Number(number)
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Self {
        Id::Text(text.into())
    }
}

/// As it looks on the wire, so that `1` and `"1"` can be told apart in a log.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.write(&mut out);
        f.write_str(&out)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_integers_are_ids_and_everything_else_says_why_not() {
        for (text, id) in [
            ("1", Ok(Id::Number(1))),
            ("-9223372036854775808", Ok(Id::Number(i64::MIN))),
            ("\"1\"", Ok(Id::from("1"))),
            ("\"\"", Ok(Id::from(""))),
            ("\"a\\/b\"", Ok(Id::from("a/b"))),
            ("9223372036854775808", Err(BadId::Huge)),
            ("1.0", Err(BadId::Fraction)),
            ("1e2", Err(BadId::Fraction)),
            ("null", Err(BadId::Null)),
            ("[]", Err(BadId::OtherKind(Kind::Array))),
        ] {
            assert_eq!(Id::read(Json::trusted(text)), id, "{text}");
        }
    }

    #[test]
    fn a_number_and_its_text_are_different_ids_and_look_different() {
        assert_ne!(Id::from(1), Id::from("1"));
        assert_eq!(Id::from(1).to_string(), "1");
        assert_eq!(Id::from("1").to_string(), "\"1\"");
    }
}
