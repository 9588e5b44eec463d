//! Prompts, resources and resource templates of a snapshot.

use std::sync::Arc;

use toolcrib_wire::RawJson;
use toolcrib_wire::view;

use super::registered_server::RegisteredServer;
use super::tool::Availability;

/// One prompt of a snapshot.
#[derive(Debug)]
pub struct Prompt {
    pub(super) name: Arc<str>,
    pub(super) item: view::PromptView,
    pub(super) server: Arc<RegisteredServer>,
    pub(super) availability: Availability,
}

/// An item with a URI or a URI template. The URI is never rewritten, because other texts of the server refer to it.
#[derive(Debug)]
pub struct Document<T> {
    pub(super) uri: Arc<str>,
    pub(super) name: String,
    pub(super) item: T,
    pub(super) server: Arc<RegisteredServer>,
    pub(super) availability: Availability,
    /// The server that answers requests that name only the URI.
    pub(super) shadowed_by: Option<Arc<str>>,
}

/// One resource of a snapshot.
pub type Resource = Document<view::ResourceView>;
/// One resource template of a snapshot.
pub type ResourceTemplate = Document<view::ResourceTemplateView>;

impl Prompt {
    /// The name in this registry.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The server's own name.
    pub fn original_name(&self) -> &str {
        self.item.name()
    }

    /// The prompt as its server listed it.
    pub fn item(&self) -> &view::PromptView {
        &self.item
    }

    /// The prompt's server.
    pub fn server(&self) -> &Arc<RegisteredServer> {
        &self.server
    }

    /// The prompt's availability.
    pub fn availability(&self) -> Availability {
        self.availability
    }

    /// The definition with the name in this registry. All other bytes stay.
    pub fn definition(&self) -> RawJson {
        renamed(self.item.raw(), self.original_name(), &self.name)
    }
}

impl<T: Addressed> Document<T> {
    /// The URI or the URI template.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The display name, which may not be unique.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The item as its server listed it.
    pub fn item(&self) -> &T {
        &self.item
    }

    /// The item's server.
    pub fn server(&self) -> &Arc<RegisteredServer> {
        &self.server
    }

    /// The item's availability.
    pub fn availability(&self) -> Availability {
        self.availability
    }

    /// The key of an earlier server with the same URI. Requests must then name this item's server.
    pub fn shadowed_by(&self) -> Option<&str> {
        self.shadowed_by.as_deref()
    }

    /// The definition with the name in this registry. All other bytes stay.
    pub fn definition(&self) -> RawJson {
        renamed(self.item.raw(), &self.item.own_name(), &self.name)
    }

    pub(super) fn is_listed(&self) -> bool {
        self.shadowed_by.is_none() && self.availability.is_listed()
    }
}

/// Common properties of resources and resource templates.
pub trait Addressed {
    fn address(&self) -> &str;
    fn own_name(&self) -> String;
    fn media_type(&self) -> Option<String>;
    fn raw(&self) -> &RawJson;
}

macro_rules! addressed {
    ($($item:ident, $uri:ident;)*) => {$(
        impl Addressed for view::$item {
            fn address(&self) -> &str {
                self.$uri()
            }

            fn own_name(&self) -> String {
                self.name().into_owned()
            }

            fn media_type(&self) -> Option<String> {
                self.mime_type().map(|mime| mime.into_owned())
            }

            fn raw(&self) -> &RawJson {
                view::$item::raw(self)
            }
        }
    )*};
}

addressed! {
    ResourceView, uri;
    ResourceTemplateView, uri_template;
}

fn renamed(raw: &RawJson, from: &str, to: &str) -> RawJson {
    if from == to {
        return raw.clone();
    }
    raw.with_members([("name", Some(RawJson::string(to)))])
}
