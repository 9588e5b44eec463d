//! Request ids and progress tokens: strings or integers, compared by value.

use std::fmt;
use std::sync::Arc;

use crate::json::{Json, JsonKind};
use crate::quoting::{push_integer, quote};

/// The id of a request. Clones are cheap.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Id {
    /// An integer.
    Number(i64),
    /// A string.
    Text(Arc<str>),
}

/// Progress tokens have the same form as ids.
pub type ProgressToken = Id;

/// The reason why a value is not an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The value is null.
    #[error("it is null")]
    Null,
    /// The number is not an integer.
    #[error("it is not an integer")]
    NotInteger,
    /// The number needs more than 64 bits.
    #[error("it does not fit into 64 bits")]
    TooLarge,
    /// The value is neither a string nor a number.
    #[error("it is {0}")]
    WrongType(JsonKind),
}

impl Id {
    /// Reads an id.
    pub fn read(json: Json<'_>) -> Result<Id, IdError> {
        match json.kind() {
            JsonKind::Number => number(json.text()),
            JsonKind::String => Ok(Id::Text(json.as_str().unwrap_or_default().into())),
            JsonKind::Null => Err(IdError::Null),
            other => Err(IdError::WrongType(other)),
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

fn number(text: &str) -> Result<Id, IdError> {
    text.parse().map(Id::Number).map_err(|_| match text.contains(['.', 'e', 'E']) {
        true => IdError::NotInteger,
        false => IdError::TooLarge,
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

/// Writes the JSON form, so logs show the difference between `1` and `"1"`.
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
    fn only_strings_and_integers_are_ids() {
        for (text, id) in [
            ("1", Ok(Id::Number(1))),
            ("-9223372036854775808", Ok(Id::Number(i64::MIN))),
            ("\"1\"", Ok(Id::from("1"))),
            ("\"\"", Ok(Id::from(""))),
            ("\"a\\/b\"", Ok(Id::from("a/b"))),
            ("9223372036854775808", Err(IdError::TooLarge)),
            ("1.0", Err(IdError::NotInteger)),
            ("1e2", Err(IdError::NotInteger)),
            ("null", Err(IdError::Null)),
            ("[]", Err(IdError::WrongType(JsonKind::Array))),
        ] {
            assert_eq!(Id::read(Json::from_trusted(text)), id, "{text}");
        }
    }

    #[test]
    fn number_id_and_string_id_differ_in_value_and_display() {
        assert_ne!(Id::from(1), Id::from("1"));
        assert_eq!(Id::from(1).to_string(), "1");
        assert_eq!(Id::from("1").to_string(), "\"1\"");
    }
}
