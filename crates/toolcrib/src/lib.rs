//! An MCP host as a library: it starts MCP servers, keeps them alive and hands their tools out.
//!
//! [`Host`] reads a workspace's configuration, whatever dialects it is in, and keeps its servers as it says. A
//! [`Dialog`] is one conversation of one agent; a [`Turn`] is one step of it and sees one snapshot from beginning to
//! end. Tools of servers and tools of the program itself are the same [`Tool`] to every caller.
//!
//! ```
//! use toolcrib::{CallRequest, Host, host::DialogRequest};
//! use toolcrib_wire::{Limits, Raw};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::builder("/my/workspace", "/my/state").start().await?;
//! let dialog = host.dialog(DialogRequest::default()).await?;
//! for tool in dialog.turn().await.tools() {
//!     println!("{}", tool.name());
//! }
//! let arguments = Raw::parse(r#"{"text":"hello"}"#, &Limits::default())?;
//! let called = dialog.call(CallRequest::new("demo__echo", arguments)).await?;
//! println!("{}", called.result.raw().text());
//! host.close().await;
//! # Ok(())
//! # }
//! ```

pub mod access;
pub mod host;
pub mod lease;
pub mod registry;
pub mod shape;
pub mod store;

pub use access::Principal;
pub use host::{CallRequest, Dialog, Event, Host, HostBuilder, Reload, ServerStatus, Turn};
pub use lease::Lease;
pub use registry::Tool;
pub use shape::{CallError, CallResult};
pub use store::Store;
pub use toolcrib_config as config;
pub use toolcrib_config::Problem;
