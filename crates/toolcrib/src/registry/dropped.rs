//! What a server offers and nobody gets, and why.

use std::fmt;
use std::sync::Arc;

use toolcrib_config::clip;
use toolcrib_config::model::naming::{BadName, MAX_NAME, Names};

use super::claims::Holder;

/// One item that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    pub list: List,
    /// The server's key.
    pub server: Arc<str>,
    /// The server's own name for it, or its URI.
    pub original_name: String,
    /// The names that it would have had; nothing where it has no other than its own.
    pub names: Option<Names>,
    pub reason: Reason,
}

/// What sort of item it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    Tool,
    Prompt,
    Resource,
    Template,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// A pattern of the deny list matched: this one.
    Denied(String),
    /// There is an allow list, and nothing in it matched.
    NotAllowed,
    /// Its media type is not among those that may be read.
    MediaType(String),
    /// Nothing of its list is offered.
    Off,
    BadName(BadName),
    /// Its schema is no JSON Schema, for this reason.
    InvalidSchema(String),
    /// Its name is taken.
    Taken(Holder),
    /// Another version of it is offered, which has this name at the server.
    OtherVersion(String),
    /// The whole server was refused: [`Server::refusal`](super::Server::refusal) says why.
    Refused,
    /// Its definition has changed, and nobody has accepted that.
    Unaccepted,
    /// There is no room to remember its definition, so that a later change could not be noticed.
    Unpinned,
    /// The server is gone, and its policy takes its items away meanwhile.
    Away,
    Disabled,
}

impl Dropped {
    /// Whether it is a tool whose server is away.
    pub fn is_away_tool(&self) -> bool {
        self.list == List::Tool && self.reason == Reason::Away
    }

    /// Whether somebody who asks for `name` means this one.
    pub fn is_called(&self, name: &str) -> bool {
        let would_be = |names: &Names| names.id == name || names.model == name;
        self.original_name == name || self.names.as_ref().is_some_and(would_be)
    }

    /// The native key of the rule that decided; its place is in the server's origins. Where the whole
    /// server was refused, its refusal has a rule.
    pub fn rule(&self) -> Option<&'static str> {
        let of = |tool, prompt, resource| match self.list {
            List::Tool => tool,
            List::Prompt => prompt,
            List::Resource | List::Template => resource,
        };
        Some(match &self.reason {
            Reason::Denied(_) => {
                of("expose.tools.deny", "expose.prompts.deny", "expose.resources.deny")
            }
            Reason::NotAllowed => {
                of("expose.tools.allow", "expose.prompts.allow", "expose.resources.allow")
            }
            Reason::MediaType(_) => "expose.resources.mime",
            Reason::Off => of("expose.tools", "expose.prompts.as", "expose.resources.as"),
            Reason::BadName(_) => "naming.validity",
            Reason::InvalidSchema(_) => "discovery.invalid_schemas",
            Reason::Taken(_) => "naming.on_collision",
            Reason::OtherVersion(_) => "naming.versions",
            // What is said of the whole host is in no server's origins; the host tells of it.
            Reason::Refused | Reason::Unaccepted => return None,
            Reason::Unpinned => "limits.pins",
            Reason::Away => "availability.on_unavailable",
            Reason::Disabled => "enabled",
        })
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            List::Tool => "tool",
            List::Prompt => "prompt",
            List::Resource => "resource",
            List::Template => "resource template",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Denied(pattern) => write!(f, "the pattern `{pattern}` denies it"),
            Reason::NotAllowed => f.write_str("no pattern allows it"),
            Reason::MediaType(mime) => write!(f, "the media type `{}` is not allowed", clip(mime)),
            Reason::Off => f.write_str("nothing of its kind is offered"),
            Reason::BadName(bad) => {
                let (whose, name) = match bad {
                    BadName::Original(name) => ("the server's name for it", name),
                    BadName::Transformed(name) => ("its name after the transforms", name),
                };
                write!(
                    f,
                    "{whose}, `{}`, is not 1 to {MAX_NAME} letters, digits, `_` and `-`",
                    clip(name)
                )
            }
            Reason::InvalidSchema(reason) => {
                write!(f, "its schema is no JSON Schema: {}", clip(reason))
            }
            Reason::Taken(holder) => write!(f, "its name is taken: {holder}"),
            Reason::OtherVersion(used) => write!(f, "the version `{}` is used", clip(used)),
            Reason::Refused => f.write_str("its server was refused"),
            Reason::Unaccepted => f.write_str(
                "its definition has changed since it was first seen, and nobody has accepted that (host.pins: enforce; \
                 `toolcrib accept` shows the change)",
            ),
            Reason::Unpinned => f.write_str(
                "the server has shown as many tools as are remembered, so a change of this one would not be noticed \
                 (host.pins: enforce; `limits.pins` is the limit)",
            ),
            Reason::Away => f.write_str("its server is away"),
            Reason::Disabled => f.write_str("its server is disabled"),
        }
    }
}
