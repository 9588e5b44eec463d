//! What is offered, to whom and by which name: planned whole by one pure function, published as a snapshot.
//!
//! ```
//! use std::sync::Arc;
//! use toolcrib::registry::{Input, Offer, Presence, Scope, Upstream, plan};
//! use toolcrib_config::{Memory, Workspace, compile};
//! use toolcrib_wire::view::{Page, Tool};
//! use toolcrib_wire::{Limits, Raw};
//!
//! let file = "version: 1\nservers: { git: { command: git-mcp } }\n";
//! let files = Memory::default().with_file("/ws/toolcrib.yaml", file);
//! let config = compile(&Workspace { root: "/ws".into(), home: None, named: None }, &files);
//!
//! let listed = r#"{"tools":[{"name":"log","inputSchema":{"type":"object"}}]}"#;
//! let page = Page::<Tool>::read(&Raw::parse(listed, &Limits::default())?, 100)?;
//! let servers = config.servers.iter().map(|spec| Upstream {
//!     spec: Arc::new(spec.clone()),
//!     scope: Scope::Global,
//!     presence: Presence::Up,
//!     offer: Some(Offer { tools: &page.items, ..Offer::default() }),
//! });
//!
//! let (snapshot, problems) = plan(&Input { servers: servers.collect(), ..Input::default() });
//! assert_eq!(problems, []);
//! let tool = snapshot.view(None).tool("git__log").cloned().ok_or("no such tool")?;
//! assert_eq!((tool.original_name(), tool.toolset()), ("log", "git"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod choose;
mod claims;
mod draft;
mod dropped;
mod input;
mod items;
mod native;
mod pins;
mod plan;
mod problems;
mod server;
mod snapshot;
mod tool;
mod versions;
mod view;

#[cfg(test)]
mod tests;

pub use claims::Holder;
pub use dropped::{Dropped, List, Reason};
pub use input::{Input, Offer, Presence, Scope, Upstream};
pub use items::{Document, Prompt, Resource, Template};
pub use native::{
    Answer, BadDefinition, Definition, NativeCall, NativeError, NativeTool, NativeToolset,
};
pub use pins::{Compared, Print, compare, definition, difference};
pub use plan::plan;
pub use server::{Refusal, Server, Status};
pub use snapshot::{Snapshot, Toolset};
pub use tool::{Standing, Tool};
pub use view::View;
