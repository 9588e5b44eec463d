//! An MCP host as a library: it starts MCP servers, keeps them running and offers their tools.
//!
//! [`Host`] reads a workspace's configuration in all its dialects and makes its servers match it. A
//! [`Dialog`] is one conversation of one agent. A [`Turn`] is one step of a dialog and sees a single
//! snapshot. Tools of servers and native tools of the program are both a [`Tool`] to every caller.
//!
//! ```
//! use toolcrib::{CallRequest, Host, host::DialogRequest};
//! use toolcrib_wire::{MessageLimits, RawJson};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::builder("/my/workspace", "/my/state").start().await?;
//! let dialog = host.open_dialog(DialogRequest::default()).await?;
//! for tool in dialog.turn().await.tools() {
//!     println!("{}", tool.name());
//! }
//! let arguments = RawJson::parse(r#"{"text":"hello"}"#, &MessageLimits::default())?;
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
pub mod results;
pub mod store;

pub use access::Principal;
pub use host::{CallRequest, Dialog, Host, HostBuilder, HostEvent, Reload, ServerStatus, Turn};
pub use lease::Lease;
pub use registry::Tool;
pub use results::{CallError, CallResult};
pub use store::Store;
pub use toolcrib_config as config;
pub use toolcrib_config::Problem;
