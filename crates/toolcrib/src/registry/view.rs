//! What one conversation sees of a snapshot.

use std::sync::Arc;

use super::dropped::Dropped;
use super::items::{Prompt, Resource, Template};
use super::server::Server;
use super::snapshot::{Layer, Toolset};
use super::tool::Tool;

/// A snapshot as seen from one working directory. Names are unique in it; lists are in order: native
/// toolsets, then global servers, then those of the folder, as they stand in their files.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    global: &'a Layer,
    folder: Option<&'a Layer>,
}

impl<'a> View<'a> {
    pub(super) fn new(global: &'a Layer, folder: Option<&'a Layer>) -> Self {
        View { global, folder }
    }

    pub fn servers(self) -> impl Iterator<Item = &'a Arc<Server>> {
        self.layers().flat_map(|layer| &layer.servers)
    }

    /// A server by its key, or by its id where only one server has it.
    pub fn server(self, name: &str) -> Option<&'a Arc<Server>> {
        let mut by_id = self.servers().filter(|server| server.id() == name);
        match (by_id.next(), by_id.next()) {
            (Some(server), None) => Some(server),
            _ => self.servers().find(|server| &*server.key == name),
        }
    }

    pub fn toolsets(self) -> impl Iterator<Item = &'a Toolset> {
        self.layers().flat_map(|layer| &layer.toolsets)
    }

    pub fn toolset(self, name: &str) -> Option<&'a Toolset> {
        self.toolsets().find(|toolset| &*toolset.name == name)
    }

    /// The tools that are listed.
    pub fn tools(self) -> impl Iterator<Item = &'a Arc<Tool>> {
        let all = self.toolsets().flat_map(|toolset| &toolset.tools);
        all.filter(|tool| tool.standing().is_listed())
    }

    /// A tool by either of its names, hidden ones too: whoever calls one learns that its server is away.
    pub fn tool(self, name: &str) -> Option<&'a Arc<Tool>> {
        self.layers().find_map(|layer| layer.tools.get(name))
    }

    /// The tools of a server, by its id or key, hidden ones too.
    pub fn tools_of(self, server: &str) -> impl Iterator<Item = &'a Arc<Tool>> {
        let server = self.server(server);
        let own = self.toolsets().filter(move |toolset| {
            let pair = server.zip(toolset.server.as_ref());
            pair.is_some_and(|(server, of)| Arc::ptr_eq(server, of))
        });
        own.flat_map(|toolset| &toolset.tools)
    }

    pub fn prompts(self) -> impl Iterator<Item = &'a Arc<Prompt>> {
        let all = self.layers().flat_map(|layer| &layer.prompts);
        all.filter(|prompt| prompt.standing().is_listed())
    }

    pub fn prompt(self, name: &str) -> Option<&'a Arc<Prompt>> {
        self.layers().flat_map(|layer| &layer.prompts).find(|prompt| prompt.name() == name)
    }

    /// The resources that are listed: each URI once.
    pub fn resources(self) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.all_resources().filter(|resource| resource.is_listed())
    }

    /// Every server's resource of a URI, in order.
    pub fn resources_at(self, uri: &str) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.all_resources().filter(move |resource| resource.uri() == uri)
    }

    /// The templates that are listed: each once.
    pub fn templates(self) -> impl Iterator<Item = &'a Arc<Template>> {
        self.all_templates().filter(|template| template.is_listed())
    }

    /// What was left out that somebody may mean by `name`: its own, or the one that it would have had.
    pub fn dropped(self, name: &str) -> impl Iterator<Item = &'a Dropped> {
        self.all_dropped().filter(move |dropped| dropped.is_called(name))
    }

    /// Everything that was left out.
    pub fn all_dropped(self) -> impl Iterator<Item = &'a Dropped> {
        self.layers().flat_map(|layer| &layer.dropped)
    }

    fn all_resources(self) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.layers().flat_map(|layer| &layer.resources)
    }

    /// Every server's templates, also those that an earlier server has.
    pub fn all_templates(self) -> impl Iterator<Item = &'a Arc<Template>> {
        self.layers().flat_map(|layer| &layer.templates)
    }

    fn layers(self) -> impl Iterator<Item = &'a Layer> {
        std::iter::once(self.global).chain(self.folder)
    }
}
