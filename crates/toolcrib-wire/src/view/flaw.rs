//! What is odd about a value, and the checks that find it.

use crate::json::{Json, Kind};

/// Something that is not as the protocol says. Fields are named by their path, as in `annotations.title`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    #[error("expected an object, found {found}")]
    NotAnObject { found: Kind },
    #[error("`{field}` is missing")]
    Missing { field: &'static str },
    #[error("`{field}` is empty")]
    Empty { field: &'static str },
    #[error("`{field}` must be {expected}, found {found}")]
    Mistyped { field: &'static str, expected: Kind, found: Kind },
    #[error("`{field}` has no meaning: {value}")]
    Meaningless { field: &'static str, value: String },
}

pub(crate) fn object(json: Json<'_>) -> Result<(), Flaw> {
    match json.kind() {
        Kind::Object => Ok(()),
        found => Err(Flaw::NotAnObject { found }),
    }
}

/// A member that must be there and of one kind.
pub(crate) fn required<'a>(
    value: Option<Json<'a>>,
    field: &'static str,
    expected: Kind,
) -> Result<Json<'a>, Flaw> {
    match value {
        None => Err(Flaw::Missing { field }),
        Some(value) if value.kind() == expected => Ok(value),
        Some(value) => Err(Flaw::Mistyped { field, expected, found: value.kind() }),
    }
}

/// A string that must be there and say something.
pub(crate) fn required_text(value: Option<Json<'_>>, field: &'static str) -> Result<String, Flaw> {
    let text = required(value, field, Kind::String)?.as_str().unwrap_or_default();
    if text.is_empty() { Err(Flaw::Empty { field }) } else { Ok(text.into_owned()) }
}

/// Notes members that may be absent but are of another kind than they should be. Null counts as absent,
/// since many servers write it so.
pub(crate) fn note_odd<const N: usize>(
    json: Json<'_>,
    prefix: usize,
    fields: [(&'static str, Kind); N],
    notes: &mut Vec<Flaw>,
) {
    let values = json.pick(fields.map(|(field, _)| &field[prefix..]));
    for ((field, expected), value) in fields.into_iter().zip(values) {
        match value.map(Json::kind) {
            Some(found) if found != expected && found != Kind::Null => {
                notes.push(Flaw::Mistyped { field, expected, found });
            }
            _ => {}
        }
    }
}
