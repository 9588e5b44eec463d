//! Values that may contain a secret: literals, references and templates.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::{Serialize, Serializer};
use zeroize::Zeroize;

use crate::doc::{Either, SCALAR};

/// Replaces a secret in output.
pub const MASK: &str = "***";

/// Text that `Debug` and `Display` never show and that is zeroed on drop.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretString(String);

impl SecretString {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text. The caller is responsible for keeping it secret.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Concatenates parts in a buffer of the final size, because a growing string leaves copies in memory.
    fn joined(parts: &[&SecretString]) -> Self {
        let mut text = String::with_capacity(parts.iter().map(|part| part.0.len()).sum());
        parts.iter().for_each(|part| text.push_str(&part.0));
        Self(text)
    }
}

impl Drop for SecretString {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// A configured value, resolved as late as possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Literal(SecretString),
    FromEnv { name: String, prefix: SecretString },
    Template(TextTemplate),
    Secret { provider: String, path: String },
}

/// Text with at least one reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextTemplate(pub Vec<TemplatePart>);

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePart {
    Text(SecretString),
    Env {
        name: String,
        default: Option<SecretString>,
    },
    /// An input that the user is asked for once.
    Input(String),
}

/// A name that must be resolved before a value can be used.
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
    /// Returns a literal value.
    pub fn literal(text: impl Into<String>) -> Self {
        Self::Literal(SecretString::new(text))
    }

    /// Returns a reference to an environment variable.
    pub fn from_env(name: impl Into<String>) -> Self {
        Self::FromEnv { name: name.into(), prefix: SecretString::default() }
    }

    /// Returns a template, or a literal if there are no references.
    pub fn from_parts(parts: Vec<TemplatePart>) -> Self {
        let mut merged: Vec<TemplatePart> = Vec::new();
        for part in parts {
            match (merged.last_mut(), part) {
                (Some(TemplatePart::Text(before)), TemplatePart::Text(text)) => {
                    *before = SecretString::joined(&[&*before, &text]);
                }
                (_, TemplatePart::Text(text)) if text.0.is_empty() => {}
                (_, part) => merged.push(part),
            }
        }
        match merged.as_slice() {
            [] => Self::literal(""),
            [TemplatePart::Text(text)] => Self::Literal(text.clone()),
            _ => Self::Template(TextTemplate(merged)),
        }
    }

    /// Parses text in native syntax: `${VAR}`, `${VAR:-default}`, `${input:ID}`, `$$`.
    pub fn parse_native(text: &str) -> Result<Self, String> {
        parse_parts(text).map(Self::from_parts)
    }

    /// Returns the text of a literal.
    pub fn as_literal(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text.reveal()),
            _ => None,
        }
    }

    /// Returns every reference that must be resolved. Variables with a default are optional.
    pub fn references(&self) -> Vec<Reference> {
        match self {
            Self::Literal(_) => Vec::new(),
            Self::FromEnv { name, .. } => vec![Reference::Env(name.clone())],
            Self::Secret { provider, path } => {
                vec![Reference::Secret { provider: provider.clone(), path: path.clone() }]
            }
            Self::Template(TextTemplate(parts)) => {
                parts.iter().filter_map(TemplatePart::reference).collect()
            }
        }
    }

    /// Returns the text with every reference resolved, or the first reference that `find` does not know.
    pub fn resolve(
        &self,
        find: &dyn Fn(&Reference) -> Option<String>,
    ) -> Result<SecretString, Reference> {
        let lookup = |reference: Reference| find(&reference).map(SecretString).ok_or(reference);
        match self {
            Self::Literal(text) => Ok(text.clone()),
            Self::FromEnv { name, prefix } => {
                let value = lookup(Reference::Env(name.clone()))?;
                Ok(SecretString::joined(&[prefix, &value]))
            }
            Self::Secret { provider, path } => {
                lookup(Reference::Secret { provider: provider.clone(), path: path.clone() })
            }
            Self::Template(TextTemplate(parts)) => {
                let resolved: Result<Vec<SecretString>, Reference> =
                    parts.iter().map(|part| part.resolve(find)).collect();
                Ok(SecretString::joined(&resolved?.iter().collect::<Vec<_>>()))
            }
        }
    }

    /// Returns a copy with all literal text masked.
    #[must_use]
    pub fn masked(&self) -> Self {
        let mask =
            |text: &SecretString| SecretString::new(if text.0.is_empty() { "" } else { MASK });
        match self {
            Self::Literal(text) => Self::Literal(mask(text)),
            Self::FromEnv { name, prefix } => {
                Self::FromEnv { name: name.clone(), prefix: mask(prefix) }
            }
            Self::Secret { .. } => self.clone(),
            Self::Template(TextTemplate(parts)) => Self::Template(TextTemplate(
                parts
                    .iter()
                    .map(|part| match part {
                        TemplatePart::Text(text) => TemplatePart::Text(mask(text)),
                        TemplatePart::Env { name, default } => TemplatePart::Env {
                            name: name.clone(),
                            default: default.as_ref().map(mask),
                        },
                        TemplatePart::Input(id) => TemplatePart::Input(id.clone()),
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

impl TemplatePart {
    fn reference(&self) -> Option<Reference> {
        match self {
            Self::Env { name, default: None } => Some(Reference::Env(name.clone())),
            Self::Input(id) => Some(Reference::Input(id.clone())),
            Self::Env { .. } | Self::Text(_) => None,
        }
    }

    fn resolve(
        &self,
        find: &dyn Fn(&Reference) -> Option<String>,
    ) -> Result<SecretString, Reference> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Input(id) => {
                let reference = Reference::Input(id.clone());
                find(&reference).map(SecretString).ok_or(reference)
            }
            Self::Env { name, default } => {
                let reference = Reference::Env(name.clone());
                // As in a shell, `:-` also replaces an empty variable.
                match (find(&reference).map(SecretString), default) {
                    (Some(value), Some(default)) if value.0.is_empty() => Ok(default.clone()),
                    (Some(value), _) => Ok(value),
                    (None, Some(default)) => Ok(default.clone()),
                    (None, None) => Err(reference),
                }
            }
        }
    }
}

/// Returns whether a text is a valid name of an environment variable.
pub(crate) fn is_variable_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn parse_parts(text: &str) -> Result<Vec<TemplatePart>, String> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        plain.push_str(before);
        if let Some(tail) = after.strip_prefix('{') {
            let (inside, tail) = tail.split_once('}').ok_or("`${` has no closing `}`")?;
            parts.push(TemplatePart::Text(SecretString(std::mem::take(&mut plain))));
            parts.push(reference_part(inside)?);
            rest = tail;
        } else {
            plain.push('$');
            rest = after.strip_prefix('$').unwrap_or(after);
        }
    }
    plain.push_str(rest);
    parts.push(TemplatePart::Text(SecretString(plain)));
    Ok(parts)
}

fn reference_part(inside: &str) -> Result<TemplatePart, String> {
    if let Some(id) = inside.strip_prefix("input:") {
        return Ok(TemplatePart::Input(id.to_string()));
    }
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(SecretString::new(default))),
        None => (inside, None),
    };
    if !is_variable_name(name) {
        // The message does not quote the text, because it may be part of a secret.
        let text = "`${…}` does not contain a variable name; write `$${…}` for literal text";
        return Err(text.to_string());
    }
    Ok(TemplatePart::Env { name: name.to_string(), default })
}

impl Value {
    /// Returns the value in native syntax, with `$` doubled in literal text.
    pub(crate) fn native_text(&self) -> String {
        let escaped = |text: &str| text.replace('$', "$$");
        match self {
            Self::Literal(text) => escaped(text.reveal()),
            Self::FromEnv { name, prefix } => format!("{}${{{name}}}", escaped(prefix.reveal())),
            Self::Secret { provider, path } => format!("{provider}:{path}"),
            Self::Template(TextTemplate(parts)) => parts
                .iter()
                .map(|part| match part {
                    TemplatePart::Text(text) => escaped(text.reveal()),
                    TemplatePart::Env { name, default: None } => format!("${{{name}}}"),
                    TemplatePart::Env { name, default: Some(text) } => {
                        format!("${{{name}:-{}}}", text.reveal())
                    }
                    TemplatePart::Input(id) => format!("${{input:{id}}}"),
                })
                .collect(),
        }
    }
}

/// The long native form of a value.
#[derive(serde::Deserialize, Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Long")]
struct ValueObject {
    /// Use the host's variable of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    from_env: Option<String>,
    /// Text before the variable's value, for example `Bearer `.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<String>,
    /// Text with `${VAR}` references.
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<String>,
    /// `PROVIDER:PATH` in a secret store of `host.secrets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl TryFrom<ValueObject> for Value {
    type Error = String;

    fn try_from(long: ValueObject) -> Result<Self, String> {
        match long {
            ValueObject { from_env: Some(name), prefix, template: None, secret: None } => {
                Ok(Self::FromEnv { name, prefix: SecretString(prefix.unwrap_or_default()) })
            }
            ValueObject { template: Some(text), from_env: None, prefix: None, secret: None } => {
                Self::parse_native(&text)
            }
            ValueObject { secret: Some(secret), from_env: None, prefix: None, template: None } => {
                let (provider, path) =
                    secret.split_once(':').ok_or("a secret has the form `PROVIDER:PATH`")?;
                Ok(Self::Secret { provider: provider.to_string(), path: path.to_string() })
            }
            _ => Err("give one of `from_env` (with `prefix`), `template` and `secret`".to_string()),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Either::<Scalar, ValueObject>::deserialize(deserializer)? {
            Either::Scalar(Scalar(text)) => Self::parse_native(&text).map_err(D::Error::custom),
            Either::Nested(long) => Self::try_from(long).map_err(D::Error::custom),
        }
    }
}

/// A value of a format without reference syntax. A text is literal; only the long form (`from_env`, `template`,
/// `secret`) has references.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verbatim(pub(crate) Value);

impl<'de> Deserialize<'de> for Verbatim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Either::<Scalar, ValueObject>::deserialize(deserializer)? {
            Either::Scalar(Scalar(text)) => Ok(Self(Value::literal(text))),
            Either::Nested(long) => Value::try_from(long).map(Self).map_err(D::Error::custom),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut long = ValueObject { from_env: None, prefix: None, template: None, secret: None };
        match self {
            // Plain native text is expanded like a template.
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
        let long = generator.subschema_for::<ValueObject>();
        schemars::json_schema!({
            "description": "Text (`${VAR}` and `${VAR:-default}` are replaced, `$$` is a dollar sign), or a reference.",
            "anyOf": [{ "type": ["string", "number", "boolean"] }, long]
        })
    }
}

/// Text, or the source text of another scalar.
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
            /// Handles deserializers of other formats.
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
