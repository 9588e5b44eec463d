//! A snapshot as one dialog sees it.

use std::sync::Arc;

use super::dropped_items::DroppedItem;
use super::items::{Prompt, Resource, ResourceTemplate};
use super::registered_server::RegisteredServer;
use super::snapshot::{ScopeLayer, Toolset};
use super::tool::Tool;

/// A snapshot seen from one working directory. Names are unique in it. Lists are in order: native toolsets, global
/// servers, then the folder's servers in file order.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotView<'a> {
    global: &'a ScopeLayer,
    folder: Option<&'a ScopeLayer>,
}

impl<'a> SnapshotView<'a> {
    pub(super) fn new(global: &'a ScopeLayer, folder: Option<&'a ScopeLayer>) -> Self {
        SnapshotView { global, folder }
    }

    /// All servers, global servers first.
    pub fn servers(self) -> impl Iterator<Item = &'a Arc<RegisteredServer>> {
        self.layers().flat_map(|layer| &layer.servers)
    }

    /// Returns a server by its key, or by its id if the id is unique.
    pub fn server(self, name: &str) -> Option<&'a Arc<RegisteredServer>> {
        let mut by_id = self.servers().filter(|server| server.id() == name);
        match (by_id.next(), by_id.next()) {
            (Some(server), None) => Some(server),
            _ => self.servers().find(|server| &*server.key == name),
        }
    }

    /// All toolsets, native ones first.
    pub fn toolsets(self) -> impl Iterator<Item = &'a Toolset> {
        self.layers().flat_map(|layer| &layer.toolsets)
    }

    /// Returns a toolset by its name.
    pub fn toolset(self, name: &str) -> Option<&'a Toolset> {
        self.toolsets().find(|toolset| &*toolset.name == name)
    }

    /// The listed tools.
    pub fn tools(self) -> impl Iterator<Item = &'a Arc<Tool>> {
        let all = self.toolsets().flat_map(|toolset| &toolset.tools);
        all.filter(|tool| tool.availability().is_listed())
    }

    /// Returns a tool by either of its names, including hidden tools, so a call of one fails with the reason.
    pub fn tool(self, name: &str) -> Option<&'a Arc<Tool>> {
        self.layers().find_map(|layer| layer.tools.get(name))
    }

    /// Returns the tools of a server by its id or key, including hidden tools.
    pub fn tools_of(self, server: &str) -> impl Iterator<Item = &'a Arc<Tool>> {
        let server = self.server(server);
        let own = self.toolsets().filter(move |toolset| {
            let pair = server.zip(toolset.server.as_ref());
            pair.is_some_and(|(server, of)| Arc::ptr_eq(server, of))
        });
        own.flat_map(|toolset| &toolset.tools)
    }

    /// The listed prompts.
    pub fn prompts(self) -> impl Iterator<Item = &'a Arc<Prompt>> {
        let all = self.layers().flat_map(|layer| &layer.prompts);
        all.filter(|prompt| prompt.availability().is_listed())
    }

    /// Returns a prompt by its name, including hidden ones.
    pub fn prompt(self, name: &str) -> Option<&'a Arc<Prompt>> {
        self.layers().flat_map(|layer| &layer.prompts).find(|prompt| prompt.name() == name)
    }

    /// The listed resources, each URI once.
    pub fn resources(self) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.all_resources().filter(|resource| resource.is_listed())
    }

    /// All servers' resources with this URI, in order.
    pub fn resources_at(self, uri: &str) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.all_resources().filter(move |resource| resource.uri() == uri)
    }

    /// The listed templates, each once.
    pub fn templates(self) -> impl Iterator<Item = &'a Arc<ResourceTemplate>> {
        self.all_templates().filter(|template| template.is_listed())
    }

    /// Returns the dropped items with this name, either their own or the one they would have had.
    pub fn dropped(self, name: &str) -> impl Iterator<Item = &'a DroppedItem> {
        self.all_dropped().filter(move |dropped| dropped.matches_name(name))
    }

    /// All dropped items.
    pub fn all_dropped(self) -> impl Iterator<Item = &'a DroppedItem> {
        self.layers().flat_map(|layer| &layer.dropped)
    }

    fn all_resources(self) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.layers().flat_map(|layer| &layer.resources)
    }

    /// All templates of all servers, including duplicates.
    pub fn all_templates(self) -> impl Iterator<Item = &'a Arc<ResourceTemplate>> {
        self.layers().flat_map(|layer| &layer.templates)
    }

    fn layers(self) -> impl Iterator<Item = &'a ScopeLayer> {
        std::iter::once(self.global).chain(self.folder)
    }
}
