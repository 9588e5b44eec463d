//! The registry as it is published: immutable, numbered, and cheap to hand on.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::dropped::Dropped;
use super::items::{Prompt, Resource, Template};
use super::server::Server;
use super::tool::Tool;
use super::view::View;

/// Everything that is offered, in all scopes. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Snapshot(Arc<Content>);

#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) version: u64,
    pub(super) global: Layer,
    pub(super) folders: BTreeMap<PathBuf, Layer>,
}

/// Tools that are granted together: those of one server, or of a native toolset.
#[derive(Debug)]
pub struct Toolset {
    pub name: Arc<str>,
    pub description: String,
    /// Nothing for a native one.
    pub server: Option<Arc<Server>>,
    /// In the server's order, hidden ones too.
    pub tools: Vec<Arc<Tool>>,
}

/// What one scope adds.
#[derive(Debug, Default)]
pub(super) struct Layer {
    pub(super) servers: Vec<Arc<Server>>,
    pub(super) toolsets: Vec<Toolset>,
    /// By both names.
    pub(super) tools: HashMap<Arc<str>, Arc<Tool>, RandomState>,
    pub(super) prompts: Vec<Arc<Prompt>>,
    pub(super) resources: Vec<Arc<Resource>>,
    pub(super) templates: Vec<Arc<Template>>,
    pub(super) dropped: Vec<Dropped>,
}

impl Snapshot {
    pub(super) fn new(content: Content) -> Self {
        Snapshot(Arc::new(content))
    }

    pub fn version(&self) -> u64 {
        self.0.version
    }

    /// What a conversation sees: what is global, and what is of its working directory.
    pub fn view(&self, cwd: Option<&Path>) -> View<'_> {
        View::new(&self.0.global, cwd.and_then(|cwd| self.0.folders.get(cwd)))
    }

    /// Every server of every scope: global ones first, then folder by folder.
    pub fn servers(&self) -> impl Iterator<Item = &Arc<Server>> {
        let folders = self.0.folders.values().flat_map(|layer| &layer.servers);
        self.0.global.servers.iter().chain(folders)
    }

    /// Whether anybody offers a toolset of that name.
    pub fn has_toolset(&self, name: &str) -> bool {
        let layers = std::iter::once(&self.0.global).chain(self.0.folders.values());
        layers.flat_map(|layer| &layer.toolsets).any(|toolset| &*toolset.name == name)
    }

    /// All tools of all scopes that are listed.
    pub fn tool_count(&self) -> usize {
        let layers = std::iter::once(&self.0.global).chain(self.0.folders.values());
        let tools = layers.flat_map(|layer| &layer.toolsets).flat_map(|toolset| &toolset.tools);
        tools.filter(|tool| tool.standing().is_listed()).count()
    }

    /// The folders that add something.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.0.folders.keys().map(PathBuf::as_path)
    }
}

impl Layer {
    pub(super) fn add(&mut self, toolset: Toolset) {
        for tool in &toolset.tools {
            for name in tool.names() {
                self.tools.insert(name.clone(), tool.clone());
            }
        }
        self.toolsets.push(toolset);
    }
}
