//! One entry is put into a file of somebody else's, or taken out of it; everything else stays, comments included.

mod json;
mod toml;
mod yaml;

use std::fmt;

use serde_json::{Map, Value as Json};

use crate::doc::{self, Doc, Syntax};
use crate::place::Place;
use crate::problem::Severity;

/// Why a file is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditError {
    /// It cannot be read, and where that begins.
    Unreadable { place: Place, text: String },
    /// It is written in a way that cannot be changed for sure without changing more than the entry.
    Unsafe,
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditError::Unreadable { place, text } => {
                write!(f, "line {}, column {}: {text}", place.line, place.column)
            }
            EditError::Unsafe => {
                f.write_str("it is written in a way that cannot be changed safely")
            }
        }
    }
}

impl std::error::Error for EditError {}

/// The value at a path of keys, if there is one.
pub fn entry(syntax: Syntax, text: &str, path: &[&str]) -> Result<Option<Json>, EditError> {
    let whole = value(syntax, text)?;
    Ok(path.iter().try_fold(&whole, |at, key| at.get(key)).cloned())
}

/// The text with a value at a path of keys. What is there already gives way.
pub fn with_entry(
    syntax: Syntax,
    text: &str,
    path: &[&str],
    entry: &Json,
) -> Result<String, EditError> {
    let mut wanted = value(syntax, text)?;
    put(&mut wanted, path, entry).ok_or(EditError::Unsafe)?;
    let edit = |text: &str| match syntax {
        Syntax::Json => json::put(text, path, entry),
        Syntax::Toml => toml::put(text, path, entry),
        Syntax::Yaml => yaml::put(text, path, entry),
    };
    checked(syntax, text, edit, &wanted)
}

/// The text without what is at a path of keys.
pub fn without_entry(syntax: Syntax, text: &str, path: &[&str]) -> Result<String, EditError> {
    let mut wanted = value(syntax, text)?;
    if take(&mut wanted, path).is_none() {
        return Ok(text.to_owned());
    }
    let edit = |text: &str| match syntax {
        Syntax::Json => json::take(text, path),
        Syntax::Toml => toml::take(text, path),
        Syntax::Yaml => yaml::take(text, path),
    };
    checked(syntax, text, edit, &wanted)
}

/// Nothing is believed of an edit: what it gives is read again, and must say what was wanted.
fn checked(
    syntax: Syntax,
    text: &str,
    edit: impl Fn(&str) -> Option<String>,
    wanted: &Json,
) -> Result<String, EditError> {
    let edited = keeping_ends(text, edit).ok_or(EditError::Unsafe)?;
    match value(syntax, &edited) {
        Ok(found) if is_same(&found, wanted) => Ok(edited),
        _ => Err(EditError::Unsafe),
    }
}

/// The edit sees `\n` at the end of lines; a mark at the beginning and other ends are put back.
fn keeping_ends(text: &str, edit: impl Fn(&str) -> Option<String>) -> Option<String> {
    const MARK: char = '\u{feff}';
    let (mark, text) = match text.strip_prefix(MARK) {
        Some(rest) => ("\u{feff}", rest),
        None => ("", text),
    };
    if !text.contains('\r') {
        return Some(format!("{mark}{}", edit(text)?));
    }
    let plain = text.replace("\r\n", "\n");
    let is_even = plain.replace('\n', "\r\n") == text;
    is_even.then(|| edit(&plain).map(|edited| format!("{mark}{}", edited.replace('\n', "\r\n"))))?
}

fn value(syntax: Syntax, text: &str) -> Result<Json, EditError> {
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        return Ok(Json::Object(Map::new()));
    }
    let parsed = doc::parse(syntax, text.as_bytes());
    let flaw = parsed.flaws.iter().find(|flaw| flaw.severity == Severity::Error);
    match (parsed.doc, flaw) {
        (Some(doc), None) => Ok(doc.json(Doc::ROOT)),
        (_, Some(flaw)) => Err(EditError::Unreadable {
            place: parsed.lines.place(flaw.offset),
            text: flaw.text.clone(),
        }),
        (None, None) => Err(EditError::Unsafe),
    }
}

fn put(whole: &mut Json, path: &[&str], entry: &Json) -> Option<()> {
    if whole.is_null() {
        *whole = Json::Object(Map::new());
    }
    let (first, rest) = path.split_first()?;
    let map = whole.as_object_mut()?;
    match rest {
        [] => {
            map.insert((*first).to_owned(), entry.clone());
            Some(())
        }
        rest => put(map.entry(*first).or_insert(Json::Null), rest, entry),
    }
}

fn take(whole: &mut Json, path: &[&str]) -> Option<Json> {
    let (last, containers) = path.split_last()?;
    let at = containers.iter().try_fold(whole, |at, key| at.get_mut(key))?;
    at.as_object_mut()?.shift_remove(*last)
}

/// An empty map and nothing at all are the same to whoever reads them.
fn is_same(a: &Json, b: &Json) -> bool {
    let is_none = |value: &Json| value.is_null() || value.as_object().is_some_and(Map::is_empty);
    match (a, b) {
        (Json::Object(a), Json::Object(b)) => {
            a.keys().chain(b.keys()).all(|key| match (a.get(key), b.get(key)) {
                (Some(a), Some(b)) => is_same(a, b),
                (Some(only), None) | (None, Some(only)) => is_none(only),
                (None, None) => true,
            })
        }
        (a, b) => a == b || (is_none(a) && is_none(b)),
    }
}

#[cfg(test)]
#[path = "../edit_tests.rs"]
mod tests;
