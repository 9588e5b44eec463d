//! An MCP host as a library: it starts MCP servers, keeps them running and offers their tools.
//!
//! [`Host`] reads a workspace's configuration in all its dialects and makes its servers match it. A
//! [`Dialog`] is one conversation of one agent. A [`Turn`] is one step of a dialog and sees a single
//! snapshot. Tools of servers and native tools of the program are both a [`Tool`] to every caller.
//!
//! ```
//! use toolcrib::{CallRequest, DialogRequest, Host};
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

#![warn(missing_docs)]

mod access;
mod host;
mod lease;
mod registry;
mod results;
mod store;

pub use host::{
    CallContext, CallRequest, ChangedDefinition, Dialog, DialogCapabilities, DialogError,
    DialogRequest, EventListener, Execution, Host, HostBuilder, HostEvent, HostStats,
    PendingRequest, Reload, ReloadOutcome, ReloadedServer, ResourceSubscription,
    ServerOperationError, ServerStatus, StartError, SwitchError, Trust, Turn,
};
pub use lease::{Lease, Reminder};
pub use registry::{
    NativeCall, NativeError, NativeTool, NativeToolDefinition, NativeToolFuture, NativeToolset,
    Prompt, Resource, ResourceTemplate, Tool,
};
pub use results::{
    Artifact, Audience, CallError, CallFacts, CallResult, ErrorKind, ModelItem, model_items,
};
pub use store::{Store, StoreLimits, TrustFile};
pub use toolcrib_config as config;
pub use toolcrib_config::Problem;

/// Names for the crates that are released together with this one: the server, the command line,
/// and the tests and benchmarks of the workspace. They change without notice.
#[doc(hidden)]
pub mod internal {
    pub use crate::access::{
        Attachments, DEFAULT_AGENT, GateVerdict, Grants, ServerAvailability, Switches,
        ToolVisibility, ToolsetPermissions, ToolsetRef,
    };
    pub use crate::host::{
        InputRounds, LATENCY_BOUNDS, ListKey, ToolCount, ToolExplanation, UnattendedCall,
        Visibility, read_config_file,
    };
    pub use crate::registry::{
        PlanInput, Presence, RegisteredServer, RegistrationStatus, Scope, ServerInput, ServerLists,
        ServerRefusal, Snapshot, plan,
    };
    pub use crate::results::{RenderedResult, parse_arguments};
    pub use crate::store::{CallRecord, ServerOverride, StoreError, StoredCall, StoredCatalog};
}
