//! Prompts, resources and templates as callers see them.

use std::sync::Arc;

use toolcrib_wire::Raw;
use toolcrib_wire::view;

use super::server::Server;
use super::tool::Standing;

/// One prompt of a snapshot.
#[derive(Debug)]
pub struct Prompt {
    pub(super) name: Arc<str>,
    pub(super) item: view::Prompt,
    pub(super) server: Arc<Server>,
    pub(super) standing: Standing,
}

/// Something that has a URI, or a template of URIs. It is never rewritten: the texts of a server refer to it.
#[derive(Debug)]
pub struct Document<T> {
    pub(super) uri: Arc<str>,
    pub(super) name: String,
    pub(super) item: T,
    pub(super) server: Arc<Server>,
    pub(super) standing: Standing,
    /// The server that is asked where only the URI is named.
    pub(super) shadowed_by: Option<Arc<str>>,
}

pub type Resource = Document<view::Resource>;
pub type Template = Document<view::ResourceTemplate>;

impl Prompt {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn original_name(&self) -> &str {
        self.item.name()
    }

    /// The prompt as its server gave it.
    pub fn item(&self) -> &view::Prompt {
        &self.item
    }

    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// The definition by the name that it has here, and every other byte as it was.
    pub fn definition(&self) -> Raw {
        renamed(self.item.raw(), self.original_name(), &self.name)
    }
}

impl<T: Addressed> Document<T> {
    /// The URI, or the template of URIs.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The name for people, which need not be the only one.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The item as its server gave it.
    pub fn item(&self) -> &T {
        &self.item
    }

    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// The key of the server that has the same URI and comes first; this one is reached by naming its own.
    pub fn shadowed_by(&self) -> Option<&str> {
        self.shadowed_by.as_deref()
    }

    /// The definition by the name that it has here, and every other byte as it was.
    pub fn definition(&self) -> Raw {
        renamed(self.item.raw(), &self.item.own_name(), &self.name)
    }

    pub(super) fn is_listed(&self) -> bool {
        self.shadowed_by.is_none() && self.standing.is_listed()
    }
}

/// What resources and templates have in common.
pub trait Addressed {
    fn address(&self) -> &str;
    fn own_name(&self) -> String;
    fn media_type(&self) -> Option<String>;
    fn raw(&self) -> &Raw;
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

            fn raw(&self) -> &Raw {
                view::$item::raw(self)
            }
        }
    )*};
}

addressed! {
    Resource, uri;
    ResourceTemplate, uri_template;
}

fn renamed(raw: &Raw, from: &str, to: &str) -> Raw {
    if from == to {
        return raw.clone();
    }
    raw.with_members([("name", Some(Raw::string(to)))])
}
