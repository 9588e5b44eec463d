//! Small settings that are a word or something longer.

use serde::de::{Deserialize, Deserializer, Error};
use serde::{Serialize, Serializer};

use super::setting::leaf;
use crate::doc::Either;

/// Which protocol is spoken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Whatever the server can; asked once and remembered.
    #[default]
    Auto,
    /// The versions that begin with `initialize`.
    Legacy,
    /// 2026-07-28 and what follows it.
    Modern,
    /// This version and no other.
    Version(String),
}

/// Everything, or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyOf {
    Any,
    These(Vec<String>),
}

/// Which of the host's variables a server sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inherit {
    All,
    /// What programs need to run at all: `PATH`, `HOME`, locale, proxies, certificates.
    Minimal,
    None,
    /// These; one that ends in `*` stands for every one that begins so.
    These(Vec<String>),
}

/// How to use a server, for agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Manual {
    Text(String),
    /// A file, relative to the configuration's folder.
    File(String),
}

impl Inherit {
    /// The names that `minimal` stands for.
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

    /// Whether a variable of the host reaches the server.
    pub fn admits(&self, name: &str) -> bool {
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

impl AnyOf {
    pub fn admits(&self, word: &str) -> bool {
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
            version if is_date(version) => Ok(Self::Version(word)),
            _ => Err(D::Error::custom(format!(
                "expected `auto`, `legacy`, `modern` or a version such as `2025-11-25`, found {}",
                crate::text::word(&word)
            ))),
        }
    }
}

fn is_date(text: &str) -> bool {
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

impl<'de> Deserialize<'de> for AnyOf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Either::<String, Vec<String>>::deserialize(deserializer)? {
            Either::Nested(words) => Ok(Self::These(words)),
            Either::Scalar(word) if word == "any" => Ok(Self::Any),
            Either::Scalar(_) => Err(D::Error::custom("expected `any` or a list")),
        }
    }
}

impl Serialize for AnyOf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Any => serializer.serialize_str("any"),
            Self::These(words) => words.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Inherit {
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

impl Serialize for Inherit {
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
    AnyOf: { "anyOf": [{ "const": "any" }, { "type": "array", "items": { "type": "string" } }] },
    Inherit: { "anyOf": [
        { "enum": ["all", "minimal", "none"] }, { "type": "array", "items": { "type": "string" } }
    ]},
}

leaf!(Protocol, AnyOf, Inherit, Manual);
