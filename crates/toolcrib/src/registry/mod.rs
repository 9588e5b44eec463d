//! The registry of offered tools, prompts and resources: planned by one pure function, published as a snapshot.
//!
//! ```
//! use std::sync::Arc;
//! use toolcrib::internal::{PlanInput, Presence, Scope, ServerInput, ServerLists, plan};
//! use toolcrib_config::{MemoryLookup, Workspace, compile};
//! use toolcrib_wire::view::{Page, ToolView};
//! use toolcrib_wire::{MessageLimits, RawJson};
//!
//! let file = "version: 1\nservers: { git: { command: git-mcp } }\n";
//! let files = MemoryLookup::default().with_file("/ws/toolcrib.yaml", file);
//! let config = compile(&Workspace { root: "/ws".into(), home: None, config_file: None }, &files);
//!
//! let listed = r#"{"tools":[{"name":"log","inputSchema":{"type":"object"}}]}"#;
//! let page = Page::<ToolView>::read(&RawJson::parse(listed, &MessageLimits::default())?, 100)?;
//! let servers = config.servers.iter().map(|spec| ServerInput {
//!     spec: Arc::new(spec.clone()),
//!     scope: Scope::Global,
//!     presence: Presence::Up,
//!     lists: Some(ServerLists { tools: &page.items, ..ServerLists::default() }),
//! });
//!
//! let (snapshot, problems) = plan(&PlanInput { servers: servers.collect(), ..PlanInput::default() });
//! assert_eq!(problems, []);
//! let tool = snapshot.view(None).tool("git__log").cloned().ok_or("no such tool")?;
//! assert_eq!((tool.original_name(), tool.toolset()), ("log", "git"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod dropped_items;
mod item_selector;
mod items;
mod name_claims;
mod native;
mod pins;
mod plan;
mod plan_input;
mod problems;
mod registered_server;
mod server_plan;
mod snapshot;
mod snapshot_view;
mod tool;
mod version_pins;

#[cfg(test)]
mod tests;

pub(crate) use dropped_items::{DropReason, DroppedItem, ItemKind};
pub use items::{Prompt, Resource, ResourceTemplate};
pub(crate) use name_claims::NameHolder;
pub(crate) use native::NativeDefinitionError;
pub use native::{
    NativeCall, NativeError, NativeTool, NativeToolDefinition, NativeToolFuture, NativeToolset,
};
pub(crate) use pins::{
    PinComparison, ToolFingerprint, canonical_definition, compare_definitions, definition_diff,
};
pub use plan::plan;
pub use plan_input::{PlanInput, Presence, Scope, ServerInput, ServerLists};
pub use registered_server::{RegisteredServer, RegistrationStatus, ServerRefusal};
pub use snapshot::Snapshot;
pub(crate) use snapshot_view::SnapshotView;
pub use tool::Tool;
