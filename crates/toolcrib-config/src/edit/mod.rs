//! Edits of one entry in another client's file. Everything else stays unchanged, including comments.

mod json;
mod toml;
mod yaml;

use std::fmt;

use serde_json::{Map, Value as Json};

use crate::doc::{self, Doc, Syntax};
use crate::problem::Severity;
use crate::source_location::SourceLocation;

/// The reason why a file cannot be edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditError {
    /// The file cannot be parsed. Contains the location of the first error.
    Unreadable { location: SourceLocation, text: String },
    /// The file's form does not allow an edit that certainly changes only the entry.
    Unsafe,
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditError::Unreadable { location, text } => {
                write!(f, "line {}, column {}: {text}", location.line, location.column)
            }
            EditError::Unsafe => f.write_str("its format cannot be edited safely"),
        }
    }
}

impl std::error::Error for EditError {}

/// Returns the value at a path of keys.
pub fn find_entry(syntax: Syntax, text: &str, path: &[&str]) -> Result<Option<Json>, EditError> {
    let root = parse_value(syntax, text)?;
    Ok(path.iter().try_fold(&root, |at, key| at.get(key)).cloned())
}

/// Returns the text with the value at a path of keys. An existing value is replaced.
pub fn with_entry(
    syntax: Syntax,
    text: &str,
    path: &[&str],
    entry: &Json,
) -> Result<String, EditError> {
    let mut expected = parse_value(syntax, text)?;
    insert_entry(&mut expected, path, entry).ok_or(EditError::Unsafe)?;
    let edit = |text: &str| match syntax {
        Syntax::Json => json::insert_entry(text, path, entry),
        Syntax::Toml => toml::insert_entry(text, path, entry),
        Syntax::Yaml => yaml::insert_entry(text, path, entry),
    };
    verify_edit(syntax, text, edit, &expected)
}

/// Returns the text without the value at a path of keys.
pub fn without_entry(syntax: Syntax, text: &str, path: &[&str]) -> Result<String, EditError> {
    let mut expected = parse_value(syntax, text)?;
    if remove_entry(&mut expected, path).is_none() {
        return Ok(text.to_owned());
    }
    let edit = |text: &str| match syntax {
        Syntax::Json => json::remove_entry(text, path),
        Syntax::Toml => toml::remove_entry(text, path),
        Syntax::Yaml => yaml::remove_entry(text, path),
    };
    verify_edit(syntax, text, edit, &expected)
}

/// Verifies an edit: parses the result and compares it with the expected value.
fn verify_edit(
    syntax: Syntax,
    text: &str,
    edit: impl Fn(&str) -> Option<String>,
    expected: &Json,
) -> Result<String, EditError> {
    let edited = preserve_line_endings(text, edit).ok_or(EditError::Unsafe)?;
    match parse_value(syntax, &edited) {
        Ok(found) if is_equivalent(&found, expected) => Ok(edited),
        _ => Err(EditError::Unsafe),
    }
}

/// Applies an edit to text with `\n` line endings, and restores the byte order mark and the original line endings.
fn preserve_line_endings(text: &str, edit: impl Fn(&str) -> Option<String>) -> Option<String> {
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

fn parse_value(syntax: Syntax, text: &str) -> Result<Json, EditError> {
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        return Ok(Json::Object(Map::new()));
    }
    let parsed = doc::parse(syntax, text.as_bytes());
    let defect = parsed.defects.iter().find(|defect| defect.severity == Severity::Error);
    match (parsed.doc, defect) {
        (Some(doc), None) => Ok(doc.json(Doc::ROOT)),
        (_, Some(defect)) => Err(EditError::Unreadable {
            location: parsed.lines.location(defect.offset),
            text: defect.text.clone(),
        }),
        (None, None) => Err(EditError::Unsafe),
    }
}

fn insert_entry(root: &mut Json, path: &[&str], entry: &Json) -> Option<()> {
    if root.is_null() {
        *root = Json::Object(Map::new());
    }
    let (first, rest) = path.split_first()?;
    let map = root.as_object_mut()?;
    match rest {
        [] => {
            map.insert((*first).to_owned(), entry.clone());
            Some(())
        }
        rest => insert_entry(map.entry(*first).or_insert(Json::Null), rest, entry),
    }
}

fn remove_entry(root: &mut Json, path: &[&str]) -> Option<Json> {
    let (last, containers) = path.split_last()?;
    let at = containers.iter().try_fold(root, |at, key| at.get_mut(key))?;
    at.as_object_mut()?.shift_remove(*last)
}

/// Returns whether two values are equal. An empty map equals an absent value.
fn is_equivalent(a: &Json, b: &Json) -> bool {
    let is_none = |value: &Json| value.is_null() || value.as_object().is_some_and(Map::is_empty);
    match (a, b) {
        (Json::Object(a), Json::Object(b)) => {
            a.keys().chain(b.keys()).all(|key| match (a.get(key), b.get(key)) {
                (Some(a), Some(b)) => is_equivalent(a, b),
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
