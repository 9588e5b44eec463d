//! The published registry: immutable, numbered and cheap to clone.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::dropped_items::DroppedItem;
use super::items::{Prompt, Resource, ResourceTemplate};
use super::registered_server::RegisteredServer;
use super::snapshot_view::SnapshotView;
use super::tool::Tool;

/// All offered items of all scopes. Clones share the content.
#[derive(Debug, Clone, Default)]
pub struct Snapshot(Arc<SnapshotContent>);

#[derive(Debug, Default)]
pub(super) struct SnapshotContent {
    pub(super) version: u64,
    pub(super) global: ScopeLayer,
    pub(super) folders: BTreeMap<PathBuf, ScopeLayer>,
}

/// Tools that are granted together: those of one server or of a native toolset.
#[derive(Debug)]
pub struct Toolset {
    /// The name of the toolset.
    pub name: Arc<str>,
    /// The description of the toolset.
    pub description: String,
    /// `None` for a native toolset.
    pub server: Option<Arc<RegisteredServer>>,
    /// In the server's order, including hidden tools.
    pub tools: Vec<Arc<Tool>>,
}

/// The items of one scope.
#[derive(Debug, Default)]
pub(super) struct ScopeLayer {
    pub(super) servers: Vec<Arc<RegisteredServer>>,
    pub(super) toolsets: Vec<Toolset>,
    /// By both names.
    pub(super) tools: HashMap<Arc<str>, Arc<Tool>, RandomState>,
    pub(super) prompts: Vec<Arc<Prompt>>,
    pub(super) resources: Vec<Arc<Resource>>,
    pub(super) templates: Vec<Arc<ResourceTemplate>>,
    pub(super) dropped: Vec<DroppedItem>,
}

impl Snapshot {
    pub(super) fn new(content: SnapshotContent) -> Self {
        Snapshot(Arc::new(content))
    }

    /// The number of the snapshot.
    pub fn version(&self) -> u64 {
        self.0.version
    }

    /// Returns the view of a dialog: global items and those of its working directory.
    pub fn view(&self, cwd: Option<&Path>) -> SnapshotView<'_> {
        SnapshotView::new(&self.0.global, cwd.and_then(|cwd| self.0.folders.get(cwd)))
    }

    /// Returns all servers: global servers first, then folder by folder.
    pub fn servers(&self) -> impl Iterator<Item = &Arc<RegisteredServer>> {
        let folders = self.0.folders.values().flat_map(|layer| &layer.servers);
        self.0.global.servers.iter().chain(folders)
    }

    /// Returns whether a toolset with this name exists.
    pub fn has_toolset(&self, name: &str) -> bool {
        let layers = std::iter::once(&self.0.global).chain(self.0.folders.values());
        layers.flat_map(|layer| &layer.toolsets).any(|toolset| &*toolset.name == name)
    }

    /// Returns the number of listed tools in all scopes.
    pub fn tool_count(&self) -> usize {
        let layers = std::iter::once(&self.0.global).chain(self.0.folders.values());
        let tools = layers.flat_map(|layer| &layer.toolsets).flat_map(|toolset| &toolset.tools);
        tools.filter(|tool| tool.availability().is_listed()).count()
    }

    /// Returns the folders with items of their own.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.0.folders.keys().map(PathBuf::as_path)
    }
}

impl ScopeLayer {
    pub(super) fn add_toolset(&mut self, toolset: Toolset) {
        for tool in &toolset.tools {
            for name in tool.names() {
                self.tools.insert(name.clone(), tool.clone());
            }
        }
        self.toolsets.push(toolset);
    }
}
