//! Free-form settings for a server: JSON whose texts may contain references.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::setting::{Layer, SecretVisibility, Setting};
use crate::value::{Reference, SecretString, Value};

/// A free-form map. Its texts are expanded by the rules of their file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "Free")]
pub struct FreeformSettings(pub IndexMap<String, FreeformValue>);

/// A value of a free-form map.
#[derive(Clone, Debug, PartialEq)]
pub enum FreeformValue {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(Value),
    List(Vec<FreeformValue>),
    Map(IndexMap<String, FreeformValue>),
}

impl FreeformSettings {
    /// Returns whether the map has no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Converts JSON of another format. `text` converts each text by the rules of its file.
    pub fn from_json(
        map: &serde_json::Map<String, serde_json::Value>,
        text: &dyn Fn(&str) -> Value,
    ) -> Self {
        Self(
            map.iter()
                .map(|(key, value)| (key.clone(), FreeformValue::from_json(value, text)))
                .collect(),
        )
    }

    /// Returns every text.
    pub fn values(&self) -> Vec<&Value> {
        self.0.values().flat_map(FreeformValue::values).collect()
    }

    /// Returns the JSON with every reference resolved.
    pub fn resolve(
        &self,
        find: &dyn Fn(&Reference) -> Option<String>,
    ) -> Result<serde_json::Value, Reference> {
        resolve_map(&self.0, find)
    }
}

fn resolve_map(
    map: &IndexMap<String, FreeformValue>,
    find: &dyn Fn(&Reference) -> Option<String>,
) -> Result<serde_json::Value, Reference> {
    map.iter().map(|(key, item)| Ok((key.clone(), item.resolve(find)?))).collect()
}

impl FreeformValue {
    fn from_json(json: &serde_json::Value, text: &dyn Fn(&str) -> Value) -> Self {
        use serde_json::Value as Json;
        match json {
            Json::Null => Self::Null,
            Json::Bool(b) => Self::Bool(*b),
            Json::Number(n) => Self::Number(n.clone()),
            Json::String(s) => Self::Text(text(s)),
            Json::Array(items) => {
                Self::List(items.iter().map(|v| Self::from_json(v, text)).collect())
            }
            Json::Object(map) => Self::Map(FreeformSettings::from_json(map, text).0),
        }
    }

    fn masked(&self) -> Self {
        match self {
            Self::Text(value) => Self::Text(value.masked()),
            Self::List(items) => Self::List(items.iter().map(Self::masked).collect()),
            Self::Map(map) => Self::Map(mask_map(map)),
            Self::Null | Self::Bool(_) | Self::Number(_) => self.clone(),
        }
    }

    fn values(&self) -> Vec<&Value> {
        match self {
            Self::Text(value) => vec![value],
            Self::List(items) => items.iter().flat_map(Self::values).collect(),
            Self::Map(map) => map.values().flat_map(Self::values).collect(),
            Self::Null | Self::Bool(_) | Self::Number(_) => Vec::new(),
        }
    }

    fn resolve(
        &self,
        find: &dyn Fn(&Reference) -> Option<String>,
    ) -> Result<serde_json::Value, Reference> {
        use serde_json::Value as Json;
        Ok(match self {
            Self::Null => Json::Null,
            Self::Bool(b) => Json::Bool(*b),
            Self::Number(n) => Json::Number(n.clone()),
            Self::Text(value) => Json::String(
                value.resolve(find).map(|text: SecretString| text.reveal().to_string())?,
            ),
            Self::List(items) => {
                Json::Array(items.iter().map(|item| item.resolve(find)).collect::<Result<_, _>>()?)
            }
            Self::Map(map) => resolve_map(map, find)?,
        })
    }
}

impl<'de> Deserialize<'de> for FreeformValue {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = serde_json::Value::deserialize(deserializer)?;
        let wrong = std::cell::RefCell::new(None);
        let item = Self::from_json(&json, &|text| {
            Value::parse_native(text).unwrap_or_else(|error| {
                wrong.replace(Some(error));
                Value::default()
            })
        });
        match wrong.into_inner() {
            Some(error) => Err(serde::de::Error::custom(error)),
            None => Ok(item),
        }
    }
}

impl Serialize for FreeformValue {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(b) => serializer.serialize_bool(*b),
            Self::Number(n) => n.serialize(serializer),
            Self::Text(value) => value.native_text().serialize(serializer),
            Self::List(items) => items.serialize(serializer),
            Self::Map(map) => map.serialize(serializer),
        }
    }
}

impl schemars::JsonSchema for FreeformValue {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Item".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!(true)
    }
}

impl Setting for FreeformSettings {
    type Keys = Self;

    fn overlay(&mut self, keys: Self, layer: &mut Layer<'_>) {
        *self = keys;
        layer.record_leaf();
    }

    fn keys(&self, show: SecretVisibility) -> Option<Self> {
        Some(if show == SecretVisibility::Masked { Self(mask_map(&self.0)) } else { self.clone() })
    }
}

fn mask_map(map: &IndexMap<String, FreeformValue>) -> IndexMap<String, FreeformValue> {
    map.iter().map(|(key, item)| (key.clone(), item.masked())).collect()
}
