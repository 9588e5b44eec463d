//! Items that a server lists but that are not offered, with reasons.

use std::fmt;
use std::sync::Arc;

use toolcrib_config::clip;
use toolcrib_config::model::naming::{InvalidName, MAX_NAME, ToolNames};

use super::name_claims::NameHolder;

/// An item that is not offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedItem {
    /// The kind of the item.
    pub kind: ItemKind,
    /// The server's key.
    pub server: Arc<str>,
    /// The server's own name for the item, or its URI.
    pub original_name: String,
    /// The names that the item would have had. `None` if it has only its own name.
    pub names: Option<ToolNames>,
    /// The reason for dropping the item.
    pub reason: DropReason,
}

/// The kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
    /// A resource.
    Resource,
    /// A resource template.
    Template,
}

/// The reason for not offering an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DropReason {
    /// This pattern of the deny list matched.
    Denied(String),
    /// There is an allow list, and none of its patterns matched.
    NotAllowed,
    /// The item's media type is not allowed.
    MediaType(String),
    /// No item of this kind is offered.
    Off,
    /// The name is not legal.
    InvalidName(InvalidName),
    /// The schema is not a valid JSON Schema; the text says why.
    InvalidSchema(String),
    /// The name belongs to another item.
    Taken(NameHolder),
    /// A pinned version of the tool is offered instead, under this name at the server.
    OtherVersion(String),
    /// The whole server was refused; [`RegisteredServer::refusal`](super::RegisteredServer::refusal) has the reason.
    Refused,
    /// The definition has changed and was not accepted yet.
    Unaccepted,
    /// There is no room to store the definition, so a later change would go unnoticed.
    Unpinned,
    /// The server is unavailable, and its policy hides its items meanwhile.
    Away,
    /// The server is disabled.
    Disabled,
}

impl DroppedItem {
    /// Returns whether this is a tool of an unavailable server.
    pub fn is_away_tool(&self) -> bool {
        self.kind == ItemKind::Tool && self.reason == DropReason::Away
    }

    /// Returns whether `name` refers to this item.
    pub fn matches_name(&self, name: &str) -> bool {
        let would_be = |names: &ToolNames| names.id == name || names.model == name;
        self.original_name == name || self.names.as_ref().is_some_and(would_be)
    }

    /// Returns the native key of the rule that decided. The server's origins have its location. If the whole server
    /// was refused, its refusal has the rule.
    pub fn rule(&self) -> Option<&'static str> {
        let of = |tool, prompt, resource| match self.kind {
            ItemKind::Tool => tool,
            ItemKind::Prompt => prompt,
            ItemKind::Resource | ItemKind::Template => resource,
        };
        Some(match &self.reason {
            DropReason::Denied(_) => {
                of("expose.tools.deny", "expose.prompts.deny", "expose.resources.deny")
            }
            DropReason::NotAllowed => {
                of("expose.tools.allow", "expose.prompts.allow", "expose.resources.allow")
            }
            DropReason::MediaType(_) => "expose.resources.mime",
            DropReason::Off => of("expose.tools", "expose.prompts.as", "expose.resources.as"),
            DropReason::InvalidName(_) => "naming.validity",
            DropReason::InvalidSchema(_) => "discovery.invalid_schemas",
            DropReason::Taken(_) => "naming.on_collision",
            DropReason::OtherVersion(_) => "naming.versions",
            // Host settings are not in the server's origins; the host reports them.
            DropReason::Refused | DropReason::Unaccepted => return None,
            DropReason::Unpinned => "limits.pins",
            DropReason::Away => "availability.on_unavailable",
            DropReason::Disabled => "enabled",
        })
    }
}

impl fmt::Display for ItemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ItemKind::Tool => "tool",
            ItemKind::Prompt => "prompt",
            ItemKind::Resource => "resource",
            ItemKind::Template => "resource template",
        })
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DropReason::Denied(pattern) => write!(f, "the pattern `{pattern}` denies it"),
            DropReason::NotAllowed => f.write_str("no pattern allows it"),
            DropReason::MediaType(mime) => write!(f, "the media type `{}` is not allowed", clip(mime)),
            DropReason::Off => f.write_str("items of its kind are not offered"),
            DropReason::InvalidName(bad) => {
                let (source, name) = match bad {
                    InvalidName::Original(name) => ("the server's name", name),
                    InvalidName::Transformed(name) => ("the transformed name", name),
                };
                write!(
                    f,
                    "{source} `{}` is not 1 to {MAX_NAME} letters, digits, `_` and `-`",
                    clip(name)
                )
            }
            DropReason::InvalidSchema(reason) => {
                write!(f, "its schema is not a valid JSON Schema: {}", clip(reason))
            }
            DropReason::Taken(holder) => write!(f, "its name is {holder}"),
            DropReason::OtherVersion(used) => write!(f, "the version `{}` is used", clip(used)),
            DropReason::Refused => f.write_str("its server was refused"),
            DropReason::Unaccepted => f.write_str(
                "its definition has changed since it was first seen and was not accepted (host.pins: enforce; \
                 `toolcrib accept` shows the change)",
            ),
            DropReason::Unpinned => f.write_str(
                "the server's limit of pinned tools is reached, so a change of this tool would go unnoticed \
                 (host.pins: enforce; `limits.pins` is the limit)",
            ),
            DropReason::Away => f.write_str("its server is unavailable"),
            DropReason::Disabled => f.write_str("its server is disabled"),
        }
    }
}
