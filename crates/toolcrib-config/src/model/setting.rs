//! Settings: reading, overlaying on defaults and writing back, from one declaration.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::doc::{At, NodeId};

/// A value of the model that a file may set.
pub trait Setting: Sized {
    /// The form in a file. In a group of settings each key is optional.
    type Keys: DeserializeOwned + Serialize + JsonSchema;

    /// Applies the keys and records their origins.
    fn overlay(&mut self, keys: Self::Keys, layer: &mut Layer<'_>);

    /// Returns the equivalent keys, or `None` if the key can be omitted.
    fn keys(&self, show: SecretVisibility) -> Option<Self::Keys>;
}

/// The visibility of literal secrets in output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretVisibility {
    Masked,
    Revealed,
}

/// An overlay in progress: tracks the key path and records each origin.
pub struct Layer<'a> {
    path: Vec<String>,
    node: Option<NodeId>,
    record: &'a mut dyn FnMut(&str, Option<NodeId>),
}

impl std::fmt::Debug for Layer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Layer").field("path", &self.path).finish_non_exhaustive()
    }
}

impl<'a> Layer<'a> {
    pub(crate) fn new(record: &'a mut dyn FnMut(&str, Option<NodeId>)) -> Self {
        Self { path: Vec::new(), node: None, record }
    }

    /// Overlays `keys` on the field `name`.
    pub(crate) fn field<T: Setting>(
        &mut self,
        name: &str,
        slot: &mut T,
        keys: Option<At<T::Keys>>,
    ) {
        let Some(At { node, value: Some(keys) }) = keys else {
            return;
        };
        // A field with a reserved name is written `r#as`.
        self.path.push(name.strip_prefix("r#").unwrap_or(name).to_string());
        let outer = self.node.replace(node);
        slot.overlay(keys, self);
        self.node = outer;
        self.path.pop();
    }

    /// Records the origin of a single value.
    pub(crate) fn record_leaf(&mut self) {
        (self.record)(&self.path.join("."), self.node);
    }
}

/// Implements [`Setting`] for types that are a single value in a file.
macro_rules! leaf {
    ($($ty:ty),* $(,)?) => {$(
        impl $crate::model::setting::Setting for $ty {
            type Keys = $ty;
            fn overlay(&mut self, keys: $ty, layer: &mut $crate::model::setting::Layer<'_>) {
                *self = keys;
                layer.record_leaf();
            }
            fn keys(&self, _: $crate::model::setting::SecretVisibility) -> Option<$ty> {
                Some(self.clone())
            }
        }
        impl $crate::model::setting::Leaf for $ty {}
    )*};
}
pub(crate) use leaf;

leaf!(bool, u32, u64, f64, String, Vec<String>, BTreeMap<String, String>, BTreeMap<String, Vec<String>>);

/// A setting that a file sets as a whole.
pub trait Leaf: Setting<Keys = Self> {}

impl<T: Leaf> Setting for Option<T>
where
    T: DeserializeOwned + Serialize + JsonSchema,
{
    type Keys = T;

    fn overlay(&mut self, keys: T, layer: &mut Layer<'_>) {
        *self = Some(keys);
        layer.record_leaf();
    }

    fn keys(&self, show: SecretVisibility) -> Option<T> {
        self.as_ref().and_then(|value| value.keys(show))
    }
}

/// Settings by name. A later layer changes only the names that it contains.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SettingMap<T>(pub BTreeMap<String, T>);

impl<T> std::ops::Deref for SettingMap<T> {
    type Target = BTreeMap<String, T>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T: Setting + Default> Setting for SettingMap<T> {
    type Keys = IndexMap<String, At<T::Keys>>;

    fn overlay(&mut self, keys: Self::Keys, layer: &mut Layer<'_>) {
        for (name, keys) in keys {
            layer.field(&name.clone(), self.0.entry(name).or_default(), Some(keys));
        }
    }

    fn keys(&self, show: SecretVisibility) -> Option<Self::Keys> {
        let keys: IndexMap<_, _> = self
            .0
            .iter()
            .filter_map(|(name, value)| {
                Some((name.clone(), At::without_location(value.keys(show)?)))
            })
            .collect();
        Some(keys).filter(|keys| !keys.is_empty())
    }
}

impl<T> At<T> {
    /// Wraps a value that is in no file.
    pub(crate) fn without_location(value: T) -> Self {
        Self::new(NodeId::NOWHERE, value)
    }
}

/// Declares a group of settings: the model struct with its native defaults, and the struct of its keys.
macro_rules! group {
    (
        $(#[$doc:meta])*
        $name:ident, $keys:ident {
            $( $(#[$field_doc:meta])* $field:ident : $ty:ty = $default:expr, )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( $(#[$field_doc])* pub $field: $ty, )*
        }

        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
        #[serde(default)]
        #[schemars(deny_unknown_fields)]
        pub struct $keys {
            $(
                $(#[$field_doc])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<$crate::doc::At<<$ty as $crate::model::setting::Setting>::Keys>>,
            )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }

        impl $keys {
            /// The names of the keys.
            pub const NAMES: &'static [&'static str] = &[$( stringify!($field), )*];

            /// Merges two sets of keys; `self` takes precedence over `under`.
            #[must_use]
            pub fn or(self, under: Self) -> Self {
                Self { $( $field: self.$field.or(under.$field), )* }
            }
        }

        impl $crate::model::setting::Setting for $name {
            type Keys = $keys;

            fn overlay(&mut self, keys: $keys, layer: &mut $crate::model::setting::Layer<'_>) {
                $( layer.field(stringify!($field), &mut self.$field, keys.$field); )*
            }

            fn keys(&self, show: $crate::model::setting::SecretVisibility) -> Option<$keys> {
                Some($keys {
                    $( $field: $crate::model::setting::Setting::keys(&self.$field, show)
                        .map($crate::doc::At::without_location), )*
                })
            }
        }
    };
}
pub(crate) use group;

/// Declares an enum of keywords.
macro_rules! words {
    (
        $(#[$doc:meta])*
        $name:ident { $( $(#[$word_doc:meta])* $variant:ident = $word:literal, )* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $( $(#[$word_doc])* $variant, )*
        }

        impl $name {
            /// The keywords of all variants.
            pub const WORDS: &'static [&'static str] = &[$( $word, )*];

            /// Returns the keyword.
            pub fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $word, )* }
            }

            /// Returns the variant of a keyword.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $( $word => Some(Self::$variant), )* _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
                Self::from_word(&word).ok_or_else(|| {
                    serde::de::Error::custom($crate::model::setting::no_such_word(&word, Self::WORDS))
                })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": Self::WORDS })
            }
        }

        $crate::model::setting::leaf!($name);
    };
}
pub(crate) use words;

pub(crate) fn no_such_word(word: &str, words: &[&str]) -> String {
    let near = crate::text::nearest_word(word, words)
        .map(|near| format!("; did you mean `{near}`?"))
        .unwrap_or_default();
    format!(
        "expected one of {}, found {}{near}",
        crate::text::quoted_list(words),
        crate::text::quote_word(word)
    )
}
