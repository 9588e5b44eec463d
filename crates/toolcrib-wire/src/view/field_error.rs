//! Errors in single members, and the checks that find them.

use crate::json::{Json, JsonKind};

/// A member that violates the protocol. Nested members are named by their path, as in `annotations.title`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// The value is not an object.
    #[error("expected an object, found {found}")]
    NotAnObject { found: JsonKind },
    /// A required member is missing.
    #[error("`{field}` is missing")]
    Missing { field: &'static str },
    /// A required member is empty.
    #[error("`{field}` is empty")]
    Empty { field: &'static str },
    /// A member has the wrong type.
    #[error("`{field}` must be {expected}, found {found}")]
    WrongType { field: &'static str, expected: JsonKind, found: JsonKind },
    /// A member has an invalid value.
    #[error("`{field}` has an invalid value: {value}")]
    Invalid { field: &'static str, value: String },
}

pub(crate) fn require_object(json: Json<'_>) -> Result<(), FieldError> {
    match json.kind() {
        JsonKind::Object => Ok(()),
        found => Err(FieldError::NotAnObject { found }),
    }
}

/// Returns a required member of the expected kind.
pub(crate) fn require_member<'a>(
    value: Option<Json<'a>>,
    field: &'static str,
    expected: JsonKind,
) -> Result<Json<'a>, FieldError> {
    match value {
        None => Err(FieldError::Missing { field }),
        Some(value) if value.kind() == expected => Ok(value),
        Some(value) => Err(FieldError::WrongType { field, expected, found: value.kind() }),
    }
}

/// Returns a required string that is not empty.
pub(crate) fn require_text(
    value: Option<Json<'_>>,
    field: &'static str,
) -> Result<String, FieldError> {
    let text = require_member(value, field, JsonKind::String)?.as_str().unwrap_or_default();
    if text.is_empty() { Err(FieldError::Empty { field }) } else { Ok(text.into_owned()) }
}

/// Adds an error for each optional member of the wrong kind. Null counts as absent, because many servers write it.
pub(crate) fn check_optional_members<const N: usize>(
    json: Json<'_>,
    prefix: usize,
    fields: [(&'static str, JsonKind); N],
    warnings: &mut Vec<FieldError>,
) {
    let values = json.pick(fields.map(|(field, _)| &field[prefix..]));
    for ((field, expected), value) in fields.into_iter().zip(values) {
        match value.map(Json::kind) {
            Some(found) if found != expected && found != JsonKind::Null => {
                warnings.push(FieldError::WrongType { field, expected, found });
            }
            _ => {}
        }
    }
}
