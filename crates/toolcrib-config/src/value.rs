//! Values that may hold a secret: literal text, references, and templates over both.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::{Serialize, Serializer};
use zeroize::Zeroize;

use crate::doc::{Either, SCALAR};

/// What stands where a secret would.
pub const MASK: &str = "***";

/// Text that never shows itself: not in `Debug`, not in `Display`, not in memory that was given back.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hidden(String);

impl Hidden {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself. Whoever calls this answers for where it goes.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// One after the other, in room that is made at once: a text that grows leaves copies behind.
    fn joined(parts: &[&Hidden]) -> Self {
        let mut text = String::with_capacity(parts.iter().map(|part| part.0.len()).sum());
        parts.iter().for_each(|part| text.push_str(&part.0));
        Self(text)
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// A configured value, resolved as late as possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Literal(Hidden),
    FromEnv { name: String, prefix: Hidden },
    Template(Template),
    Secret { provider: String, path: String },
}

/// Text with references in it; it has at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(pub Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Text(Hidden),
    Env {
        name: String,
        default: Option<Hidden>,
    },
    /// A value that the person is asked for once.
    Input(String),
}

/// What has to be known before a value can be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reference {
    Env(String),
    Input(String),
    Secret { provider: String, path: String },
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "the variable `{name}`"),
            Self::Input(id) => write!(f, "the input `{id}`"),
            Self::Secret { provider, path } => write!(f, "the secret `{path}` of `{provider}`"),
        }
    }
}

impl Value {
    pub fn literal(text: impl Into<String>) -> Self {
        Self::Literal(Hidden::new(text))
    }

    pub fn from_env(name: impl Into<String>) -> Self {
        Self::FromEnv { name: name.into(), prefix: Hidden::default() }
    }

    /// A template, or the literal text where nothing in it refers to anything.
    pub fn of_parts(parts: Vec<Part>) -> Self {
        let mut merged: Vec<Part> = Vec::new();
        for part in parts {
            match (merged.last_mut(), part) {
                (Some(Part::Text(before)), Part::Text(text)) => {
                    *before = Hidden::joined(&[&*before, &text]);
                }
                (_, Part::Text(text)) if text.0.is_empty() => {}
                (_, part) => merged.push(part),
            }
        }
        match merged.as_slice() {
            [] => Self::literal(""),
            [Part::Text(text)] => Self::Literal(text.clone()),
            _ => Self::Template(Template(merged)),
        }
    }

    /// Reads text in the native syntax: `${VAR}`, `${VAR:-default}`, `${input:ID}`, `$$`.
    pub fn native(text: &str) -> Result<Self, String> {
        parse_native(text).map(Self::of_parts)
    }

    /// The text, where it is written down in full.
    pub fn as_literal(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text.reveal()),
            _ => None,
        }
    }

    /// Everything that must be known first. A variable with a default need not be.
    pub fn references(&self) -> Vec<Reference> {
        match self {
            Self::Literal(_) => Vec::new(),
            Self::FromEnv { name, .. } => vec![Reference::Env(name.clone())],
            Self::Secret { provider, path } => {
                vec![Reference::Secret { provider: provider.clone(), path: path.clone() }]
            }
            Self::Template(Template(parts)) => parts.iter().filter_map(Part::reference).collect(),
        }
    }

    /// The text with every reference replaced; the first that `find` does not know is the error.
    pub fn resolve(
        &self,
        find: &dyn Fn(&Reference) -> Option<String>,
    ) -> Result<Hidden, Reference> {
        let ask = |reference: Reference| find(&reference).map(Hidden).ok_or(reference);
        match self {
            Self::Literal(text) => Ok(text.clone()),
            Self::FromEnv { name, prefix } => {
                let value = ask(Reference::Env(name.clone()))?;
                Ok(Hidden::joined(&[prefix, &value]))
            }
            Self::Secret { provider, path } => {
                ask(Reference::Secret { provider: provider.clone(), path: path.clone() })
            }
            Self::Template(Template(parts)) => {
                let resolved: Result<Vec<Hidden>, Reference> =
                    parts.iter().map(|part| part.resolve(find)).collect();
                Ok(Hidden::joined(&resolved?.iter().collect::<Vec<_>>()))
            }
        }
    }

    /// The same shape without a literal in it, for output that anybody may read.
    #[must_use]
    pub fn masked(&self) -> Self {
        let mask = |text: &Hidden| Hidden::new(if text.0.is_empty() { "" } else { MASK });
        match self {
            Self::Literal(text) => Self::Literal(mask(text)),
            Self::FromEnv { name, prefix } => {
                Self::FromEnv { name: name.clone(), prefix: mask(prefix) }
            }
            Self::Secret { .. } => self.clone(),
            Self::Template(Template(parts)) => Self::Template(Template(
                parts
                    .iter()
                    .map(|part| match part {
                        Part::Text(text) => Part::Text(mask(text)),
                        Part::Env { name, default } => {
                            Part::Env { name: name.clone(), default: default.as_ref().map(mask) }
                        }
                        Part::Input(id) => Part::Input(id.clone()),
                    })
                    .collect(),
            )),
        }
    }
}

impl Default for Value {
    fn default() -> Self {
        Self::literal("")
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.masked().native_text())
    }
}

impl Part {
    fn reference(&self) -> Option<Reference> {
        match self {
            Self::Env { name, default: None } => Some(Reference::Env(name.clone())),
            Self::Input(id) => Some(Reference::Input(id.clone())),
            Self::Env { .. } | Self::Text(_) => None,
        }
    }

    fn resolve(&self, find: &dyn Fn(&Reference) -> Option<String>) -> Result<Hidden, Reference> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Input(id) => {
                let reference = Reference::Input(id.clone());
                find(&reference).map(Hidden).ok_or(reference)
            }
            Self::Env { name, default } => {
                let reference = Reference::Env(name.clone());
                // As in a shell, `:-` also stands in for a variable that is set and empty.
                match (find(&reference).map(Hidden), default) {
                    (Some(value), Some(default)) if value.0.is_empty() => Ok(default.clone()),
                    (Some(value), _) => Ok(value),
                    (None, Some(default)) => Ok(default.clone()),
                    (None, None) => Err(reference),
                }
            }
        }
    }
}

/// Whether a text can be the name of an environment variable.
pub(crate) fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn parse_native(text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        plain.push_str(before);
        if let Some(tail) = after.strip_prefix('{') {
            let (inside, tail) = tail.split_once('}').ok_or("`${` has no closing `}`")?;
            parts.push(Part::Text(Hidden(std::mem::take(&mut plain))));
            parts.push(reference_part(inside)?);
            rest = tail;
        } else {
            plain.push('$');
            rest = after.strip_prefix('$').unwrap_or(after);
        }
    }
    plain.push_str(rest);
    parts.push(Part::Text(Hidden(plain)));
    Ok(parts)
}

fn reference_part(inside: &str) -> Result<Part, String> {
    if let Some(id) = inside.strip_prefix("input:") {
        return Ok(Part::Input(id.to_string()));
    }
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(Hidden::new(default))),
        None => (inside, None),
    };
    if !is_variable(name) {
        // What stands there is not told: it may be a part of a secret.
        let text = "`${…}` holds no variable's name; write `$${…}` for the text itself";
        return Err(text.to_string());
    }
    Ok(Part::Env { name: name.to_string(), default })
}

impl Value {
    /// The value as one native text, `$` doubled where it stands for itself.
    pub(crate) fn native_text(&self) -> String {
        let escaped = |text: &str| text.replace('$', "$$");
        match self {
            Self::Literal(text) => escaped(text.reveal()),
            Self::FromEnv { name, prefix } => format!("{}${{{name}}}", escaped(prefix.reveal())),
            Self::Secret { provider, path } => format!("{provider}:{path}"),
            Self::Template(Template(parts)) => parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) => escaped(text.reveal()),
                    Part::Env { name, default: None } => format!("${{{name}}}"),
                    Part::Env { name, default: Some(text) } => {
                        format!("${{{name}:-{}}}", text.reveal())
                    }
                    Part::Input(id) => format!("${{input:{id}}}"),
                })
                .collect(),
        }
    }
}

/// The native forms of a value.
#[derive(serde::Deserialize, Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Long {
    /// Copy the host's variable of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    from_env: Option<String>,
    /// Text in front of the variable's value, for example `Bearer `.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<String>,
    /// Text with `${VAR}` in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<String>,
    /// `PROVIDER:PATH` of a secret store declared under `host.secrets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl TryFrom<Long> for Value {
    type Error = String;

    fn try_from(long: Long) -> Result<Self, String> {
        match long {
            Long { from_env: Some(name), prefix, template: None, secret: None } => {
                Ok(Self::FromEnv { name, prefix: Hidden(prefix.unwrap_or_default()) })
            }
            Long { template: Some(text), from_env: None, prefix: None, secret: None } => {
                Self::native(&text)
            }
            Long { secret: Some(secret), from_env: None, prefix: None, template: None } => {
                let (provider, path) =
                    secret.split_once(':').ok_or("a secret is written `PROVIDER:PATH`")?;
                Ok(Self::Secret { provider: provider.to_string(), path: path.to_string() })
            }
            _ => Err("give one of `from_env` (with `prefix`), `template` and `secret`".to_string()),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Either::<Scalar, Long>::deserialize(deserializer)? {
            Either::Scalar(Scalar(text)) => Self::native(&text).map_err(D::Error::custom),
            Either::Nested(long) => Self::try_from(long).map_err(D::Error::custom),
        }
    }
}

/// A value of a format without references of its own: a text is that text, and only the long
/// form (`from_env`, `template`, `secret`) refers to anything.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verbatim(pub(crate) Value);

impl<'de> Deserialize<'de> for Verbatim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Either::<Scalar, Long>::deserialize(deserializer)? {
            Either::Scalar(Scalar(text)) => Ok(Self(Value::literal(text))),
            Either::Nested(long) => Value::try_from(long).map(Self).map_err(D::Error::custom),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut long = Long { from_env: None, prefix: None, template: None, secret: None };
        match self {
            // A plain native text is expanded like a template.
            Self::Literal(_) | Self::Template(_) => {
                return serializer.serialize_str(&self.native_text());
            }
            Self::Secret { .. } => long.secret = Some(self.native_text()),
            Self::FromEnv { name, prefix } => {
                long.from_env = Some(name.clone());
                long.prefix = Some(prefix.0.clone()).filter(|p| !p.is_empty());
            }
        }
        long.serialize(serializer)
    }
}

impl schemars::JsonSchema for Value {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Value".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let long = generator.subschema_for::<Long>();
        schemars::json_schema!({
            "description": "Text (`${VAR}` and `${VAR:-default}` are replaced, `$$` is a dollar sign), or where it comes from.",
            "anyOf": [{ "type": ["string", "number", "boolean"] }, long]
        })
    }
}

/// Text, or another scalar taken as the text that was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scalar(pub(crate) String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl<'de> serde::de::Visitor<'de> for ScalarVisitor {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }
            fn visit_bool<E: serde::de::Error>(self, v: bool) -> Result<Scalar, E> {
                Ok(Scalar(v.to_string()))
            }
            fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<Scalar, E> {
                Ok(Scalar(v.to_string()))
            }
            /// Another format than a tree.
            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                other: D,
            ) -> Result<Scalar, D::Error> {
                other.deserialize_any(self)
            }
        }
        deserializer.deserialize_newtype_struct(SCALAR, ScalarVisitor)
    }
}

#[cfg(test)]
#[path = "value_tests.rs"]
mod tests;
