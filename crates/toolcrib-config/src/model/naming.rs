//! Names of a server's tools: template, transforms and legal names.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::setting::{group, leaf, words};
use crate::doc::Either;

words! {
    /// The handling of names that model providers reject.
    Validity {
        /// The tool is not offered.
        Reject = "reject",
        /// Characters other than letters, digits and `_` become `-`.
        Normalize = "normalize",
        /// The tool keeps its name and gets a second, legal name for models.
        Alias = "alias",
        Off = "off",
    }
}

words! {
    /// The handling of names that are already taken.
    OnCollision { SkipTool = "skip_tool", RejectServer = "reject_server", Error = "error", }
}

group! {
    /// Names and descriptions of tools.
    Naming, NamingKeys {
        /// The name before transforms; `{server}` and `{tool}` are replaced.
        template: String = "{server}__{tool}".to_string(),
        /// Replaces the template's text between `{server}` and `{tool}`: `"_"` gives `{server}_{tool}`.
        separator: Option<String> = None,
        /// Transforms of the name, in order.
        transforms: Transforms = Transforms::default(),
        /// The handling of names that model providers reject.
        validity: Validity = Validity::Alias,
        /// The handling of names that are already taken.
        on_collision: OnCollision = OnCollision::SkipTool,
        /// The version of a tool to use if a server has several: `create_issue: v2`.
        versions: BTreeMap<String, String> = BTreeMap::new(),
        /// Template of the description; `{server}` and `{description}` are replaced.
        description: String = "{description}".to_string(),
        /// Template for tools without a description; `{server}` and `{tool}` are replaced.
        description_fallback: String = String::new(),
    }
}

/// Transforms of a name, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Transforms(pub Vec<Transform>);

/// A transform of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transform {
    /// Prepended to the name, or a replacement of its start.
    Prefix(Prefix),
    /// Appended to the name.
    Suffix(String),
}

/// Prepended to the name, or a replacement of its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prefix {
    Add(String),
    Replace { remove: String, add: String },
}

leaf!(Transforms);

/// Maximum length of a name that every provider accepts.
pub const MAX_NAME: usize = 64;

/// The two names of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolNames {
    /// The name in the registry, in calls and in logs.
    pub id: String,
    /// The name for model providers.
    pub model: String,
}

/// A name that cannot be offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidName {
    /// The server's own name is not legal.
    Original(String),
    /// The transformed name is not legal.
    Transformed(String),
}

impl Naming {
    /// Returns the names of a server's tool.
    pub fn names(&self, server: &str, tool: &str) -> Result<ToolNames, InvalidName> {
        if self.validity == Validity::Reject && !is_legal(tool) {
            return Err(InvalidName::Original(tool.to_string()));
        }
        let id = self.transforms.apply(fill_template(
            &self.separated_template(),
            server,
            "{tool}",
            tool,
        ));
        match self.validity {
            Validity::Reject if !is_legal(&id) => Err(InvalidName::Transformed(id)),
            Validity::Reject | Validity::Off => Ok(ToolNames { model: id.clone(), id }),
            Validity::Normalize => {
                let id = replace_illegal(&id, '-', false);
                Ok(ToolNames { model: shorten_name(id.clone()), id })
            }
            Validity::Alias => {
                Ok(ToolNames { model: shorten_name(replace_illegal(&id, '_', true)), id })
            }
        }
    }

    /// Returns the template with `separator` between `{server}` and `{tool}`.
    fn separated_template(&self) -> Cow<'_, str> {
        let template = Cow::from(self.template.as_str());
        let Some(separator) = &self.separator else { return template };
        match separated_parts(&self.template) {
            Some((before, after)) => format!("{before}{separator}{after}").into(),
            None => template,
        }
    }

    /// Returns whether the template has a place for a separator.
    pub(crate) fn has_separator_slot(&self) -> bool {
        separated_parts(&self.template).is_some()
    }

    /// Returns the offered description.
    pub fn description(&self, server: &str, description: &str) -> String {
        fill_template(&self.description, server, "{description}", description)
    }

    /// Returns the description of a tool without one.
    pub fn description_fallback(&self, server: &str, tool: &str) -> String {
        fill_template(&self.description_fallback, server, "{tool}", tool)
    }
}

impl ToolNames {
    /// Returns another legal name for models, if an earlier tool has the same one. It ends in a hash of the id, so that
    /// it depends on nothing else. Each attempt gives a different name.
    pub fn disambiguated(&self, attempt: u32) -> String {
        truncate_with_hash(&self.model, &format!("{attempt}:{}", self.id))
    }
}

impl Transforms {
    /// Applies the transforms to a name.
    pub fn apply(&self, name: String) -> String {
        self.0.iter().fold(name, |name, transform| match transform {
            Transform::Suffix(suffix) => name + suffix,
            Transform::Prefix(Prefix::Add(prefix)) => format!("{prefix}{name}"),
            Transform::Prefix(Prefix::Replace { remove, add }) => {
                format!("{add}{}", name.strip_prefix(remove.as_str()).unwrap_or(&name))
            }
        })
    }
}

/// Returns whether every provider accepts the name: `^[a-zA-Z0-9_-]{1,64}$`.
pub fn is_legal(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(|b| is_legal_byte(b) || b == b'-')
}

fn is_legal_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn replace_illegal(name: &str, with: char, hyphens_stay: bool) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || c == '_' || (hyphens_stay && c == '-');
    let replaced: String = name.chars().map(|c| if keep(c) { c } else { with }).collect();
    if replaced.is_empty() { with.to_string() } else { replaced }
}

/// Cuts a long name and appends eight hexadecimal digits of its hash.
fn shorten_name(name: String) -> String {
    if name.len() <= MAX_NAME {
        return name;
    }
    truncate_with_hash(&name, &name)
}

/// Cuts a name so that eight hexadecimal digits of the hash of `whole` fit.
fn truncate_with_hash(name: &str, whole: &str) -> String {
    let digest = Sha256::digest(whole.as_bytes());
    let tail: String = digest.iter().take(4).map(|b| format!("{b:02x}")).collect();
    // An unchecked name may contain multi-byte characters.
    let end = (0..=name.len().min(MAX_NAME - 9)).rev().find(|end| name.is_char_boundary(*end));
    format!("{}_{tail}", name.get(..end.unwrap_or_default()).unwrap_or_default())
}

/// Splits a template after `{server}` and before the next `{tool}`.
fn separated_parts(template: &str) -> Option<(&str, &str)> {
    let (before, rest) = template.split_at(template.find("{server}")? + "{server}".len());
    Some((before, rest.get(rest.find("{tool}")?..)?))
}

/// Fills a template in one pass, so that braces in names are not taken for placeholders.
fn fill_template(template: &str, server: &str, own: &str, value: &str) -> String {
    let mut out = String::with_capacity(template.len() + server.len() + value.len());
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let (before, after) = rest.split_at(open);
        out.push_str(before);
        if let Some(tail) = after.strip_prefix(own) {
            out.push_str(value);
            rest = tail;
        } else if let Some(tail) = after.strip_prefix("{server}") {
            out.push_str(server);
            rest = tail;
        } else {
            out.push('{');
            rest = after.get(1..).unwrap_or_default();
        }
    }
    out.push_str(rest);
    out
}

#[derive(Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Replacement {
    /// Removed from the start of the name, if present.
    remove: String,
    /// Prepended in any case.
    add: String,
}

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Either::<String, Replacement>::deserialize(deserializer)? {
            Either::Scalar(prefix) => Self::Add(prefix),
            Either::Nested(Replacement { remove, add }) => Self::Replace { remove, add },
        })
    }
}

impl Serialize for Prefix {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Add(prefix) => serializer.serialize_str(prefix),
            Self::Replace { remove, add } => {
                Replacement { remove: remove.clone(), add: add.clone() }.serialize(serializer)
            }
        }
    }
}

impl schemars::JsonSchema for Prefix {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Prefix".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let replacement = generator.subschema_for::<Replacement>();
        schemars::json_schema!({ "anyOf": [{ "type": "string" }, replacement] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transformed(yaml: &str, name: &str) -> String {
        crate::testing::deserialize_yaml::<Transforms>(yaml).apply(name.to_string())
    }

    fn names(validity: Validity, template: &str, tool: &str) -> Result<ToolNames, InvalidName> {
        let naming = Naming { validity, template: template.to_string(), ..Naming::default() };
        naming.names("srv", tool)
    }

    /// C1 of the dialects: the separator is a setting of its own.
    #[test]
    fn dis_19_separator_replaces_the_text_between_server_and_tool() {
        for (template, separator, name) in [
            ("{server}__{tool}", None, "srv__t"),
            ("{server}__{tool}", Some("_"), "srv_t"),
            ("{server}__{tool}", Some(""), "srvt"),
            ("mcp_{server}_{tool}_x", Some("."), "mcp_srv.t_x"),
            ("{server}__{tool}", Some("{tool}"), "srvtt"),
            ("{tool}", Some("_"), "t"),
            ("{tool}-{server}", Some("_"), "t-srv"),
        ] {
            let naming = Naming {
                validity: Validity::Off,
                template: template.to_owned(),
                separator: separator.map(str::to_owned),
                ..Naming::default()
            };
            assert_eq!(naming.names("srv", "t").unwrap().id, name, "{template} {separator:?}");
        }
    }

    #[test]
    fn dom_33_to_36_transforms_apply_in_order() {
        let cases = [
            // DOM-33
            ("[{prefix: a_}, {suffix: _z}, {prefix: b_}]", "t", "b_a_t_z"),
            // DOM-34
            ("[{prefix: x_}]", "x_open", "x_x_open"),
            // DOM-35
            (
                "[{prefix: {remove: stock_prefix_, add: my_prefix_}}]",
                "stock_prefix_go",
                "my_prefix_go",
            ),
            ("[{prefix: {remove: stock_prefix_, add: my_prefix_}}]", "go", "my_prefix_go"),
            // DOM-36
            ("[{suffix: _x}]", "open", "open_x"),
            ("[]", "open", "open"),
        ];
        for (yaml, name, expected) in cases {
            assert_eq!(transformed(yaml, name), expected, "{yaml} on {name}");
        }
    }

    #[test]
    fn dom_37_illegal_original_name_is_rejected() {
        let long = "x".repeat(65);
        for bad in ["a.b", "a b", "ä", "", long.as_str()] {
            let expected = Err(InvalidName::Original(bad.to_string()));
            assert_eq!(names(Validity::Reject, "{tool}", bad), expected, "{bad}");
        }
        let most = "x".repeat(64);
        assert_eq!(names(Validity::Reject, "{tool}", &most).map(|n| n.id), Ok(most));
    }

    #[test]
    fn dom_38_illegal_transformed_name_is_rejected() {
        for (template, tool) in
            [("ten_chars_{tool}", "y".repeat(60)), ("a:{tool}", "go".to_string())]
        {
            let bad = names(Validity::Reject, template, &tool);
            assert!(matches!(bad, Err(InvalidName::Transformed(_))), "{template}: {bad:?}");
        }
    }

    #[test]
    fn dom_39_only_transforms_change_a_name() {
        assert_eq!(
            names(Validity::Reject, "{tool}", "get.file"),
            Err(InvalidName::Original("get.file".into()))
        );
        assert_eq!(
            names(Validity::Reject, "{tool}", "get-file").map(|n| n.model),
            Ok("get-file".into())
        );
    }

    #[test]
    fn alias_keeps_the_id_and_gives_a_legal_model_name() {
        let named = names(Validity::Alias, "{server}:{tool}", "get.user").unwrap();
        assert_eq!(named, ToolNames { id: "srv:get.user".into(), model: "srv_get_user".into() });
        let long = names(Validity::Alias, "{server}__{tool}", &"z".repeat(100)).unwrap();
        assert_eq!(long.model.len(), MAX_NAME);
        assert!(is_legal(&long.model));
        let other = names(Validity::Alias, "{server}__{tool}", &"z".repeat(101)).unwrap();
        assert_ne!(long.model, other.model);
    }

    #[test]
    fn colliding_model_names_are_disambiguated_by_id() {
        let first = names(Validity::Alias, "{tool}", "a.b").unwrap();
        let second = names(Validity::Alias, "{tool}", "a:b").unwrap();
        assert_eq!(first.model, second.model);
        let other = second.disambiguated(0);
        assert!(is_legal(&other) && other.starts_with("a_b_"), "{other}");
        assert_ne!(other, first.disambiguated(0));
        assert_ne!(other, second.disambiguated(1));
        let long = names(Validity::Alias, "{tool}", &"z".repeat(64)).unwrap();
        assert_eq!(long.disambiguated(0).len(), MAX_NAME);
        let odd = names(Validity::Off, "{tool}", &"ä".repeat(64)).unwrap();
        assert!(odd.disambiguated(0).starts_with(&"ä".repeat(27)));
    }

    #[test]
    fn ext_18_normalized_names_hold_no_other_characters() {
        let named = names(Validity::Normalize, "{server}_{tool}", "get.file v2").unwrap();
        assert_eq!(named.id, "srv_get-file-v2");
        assert_eq!(named.model, named.id);
    }

    #[test]
    fn braces_in_names_are_not_placeholders() {
        assert_eq!(names(Validity::Off, "{server}/{tool}", "{server}").unwrap().id, "srv/{server}");
    }
}
