//! Small settings: a keyword, or a longer form.

use serde::de::{Deserialize, Deserializer, Error};
use serde::{Serialize, Serializer};

use super::setting::leaf;
use crate::doc::Either;

/// The protocol version to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The best version that the server supports. It is probed once and remembered.
    #[default]
    Auto,
    /// The versions that start with `initialize`.
    Legacy,
    /// Version 2026-07-28 and later.
    Modern,
    /// Exactly this version.
    Version(String),
}

/// Everything, or a list of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowList {
    Any,
    These(Vec<String>),
}

/// The host's variables that a server inherits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InheritedEnv {
    All,
    /// The variables that programs need to run: `PATH`, `HOME`, locale, proxies, certificates.
    Minimal,
    None,
    /// These variables. A trailing `*` matches every name with that prefix.
    These(Vec<String>),
}

/// Instructions for agents on how to use a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Manual {
    /// The instructions.
    Text(String),
    /// A file, relative to the configuration's folder.
    File(String),
}

impl InheritedEnv {
    /// The names that `minimal` selects.
    pub const MINIMAL: &'static [&'static str] = &[
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "TERM",
        "LANG",
        "LC_*",
        "TMPDIR",
        "TMP",
        "TEMP",
        "XDG_RUNTIME_DIR",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "NODE_EXTRA_CA_CERTS",
    ];

    /// Returns whether the server inherits a variable.
    pub fn allows(&self, name: &str) -> bool {
        let is = |known: &str| match known.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => known == name,
        };
        match self {
            Self::All => true,
            Self::None => false,
            Self::These(names) => names.iter().any(|known| is(known)),
            Self::Minimal => Self::MINIMAL.iter().any(|known| is(known)),
        }
    }
}

impl AllowList {
    /// Returns whether a name is allowed.
    pub fn allows(&self, word: &str) -> bool {
        match self {
            Self::Any => true,
            Self::These(words) => words.iter().any(|w| w == word),
        }
    }
}

impl<'de> Deserialize<'de> for Protocol {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let crate::value::Scalar(word) = Deserialize::deserialize(deserializer)?;
        match word.as_str() {
            "auto" => Ok(Self::Auto),
            "legacy" => Ok(Self::Legacy),
            "modern" => Ok(Self::Modern),
            version if is_protocol_date(version) => Ok(Self::Version(word)),
            _ => Err(D::Error::custom(format!(
                "expected `auto`, `legacy`, `modern` or a version such as `2025-11-25`, found {}",
                crate::text::quote_word(&word)
            ))),
        }
    }
}

fn is_protocol_date(text: &str) -> bool {
    let shape = |(i, b): (usize, u8)| {
        if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() }
    };
    text.len() == 10 && text.bytes().enumerate().all(shape)
}

impl Serialize for Protocol {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Auto => "auto",
            Self::Legacy => "legacy",
            Self::Modern => "modern",
            Self::Version(version) => version,
        })
    }
}

impl<'de> Deserialize<'de> for AllowList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Either::<String, Vec<String>>::deserialize(deserializer)? {
            Either::Nested(words) => Ok(Self::These(words)),
            Either::Scalar(word) if word == "any" => Ok(Self::Any),
            Either::Scalar(_) => Err(D::Error::custom("expected `any` or a list")),
        }
    }
}

impl Serialize for AllowList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Any => serializer.serialize_str("any"),
            Self::These(words) => words.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for InheritedEnv {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Either::<String, Vec<String>>::deserialize(deserializer)? {
            Either::Nested(names) => Ok(Self::These(names)),
            Either::Scalar(word) => match word.as_str() {
                "all" => Ok(Self::All),
                "minimal" => Ok(Self::Minimal),
                "none" => Ok(Self::None),
                _ => Err(D::Error::custom("expected `all`, `minimal`, `none` or a list of names")),
            },
        }
    }
}

impl Serialize for InheritedEnv {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("all"),
            Self::Minimal => serializer.serialize_str("minimal"),
            Self::None => serializer.serialize_str("none"),
            Self::These(names) => names.serialize(serializer),
        }
    }
}

macro_rules! schema {
    ($($ty:ident: $schema:tt),* $(,)?) => {$(
        impl schemars::JsonSchema for $ty {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($ty).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    )*};
}

schema! {
    Protocol: { "type": "string", "anyOf": [
        { "enum": ["auto", "legacy", "modern"] }, { "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$" }
    ]},
    AllowList: { "anyOf": [{ "const": "any" }, { "type": "array", "items": { "type": "string" } }] },
    InheritedEnv: { "anyOf": [
        { "enum": ["all", "minimal", "none"] }, { "type": "array", "items": { "type": "string" } }
    ]},
}

leaf!(Protocol, AllowList, InheritedEnv, Manual);
