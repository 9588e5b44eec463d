//! The host: it runs the servers of a workspace and offers their tools to dialogs.
//!
//! One task, the reconciler, makes the running servers match the configuration and publishes their
//! lists. Calls, lists and turns read the published snapshot and never wait for the reconciler. A
//! [`Dialog`] is one conversation of one agent, a [`Turn`] is one step of a dialog, and [`Host`] is
//! the handle to all.

mod admin_tools;
mod background_calls;
mod builder;
mod call;
mod call_metrics;
mod call_record;
mod catalog_store;
mod client_capabilities;
mod client_requests;
mod config_files;
mod connection_events;
mod core;
mod dialog;
mod dialog_lists;
mod dialog_table;
mod events;
mod file_watcher;
mod folder;
mod handle;
mod host_snapshot;
mod pending_requests;
mod pin_problems;
mod pinning;
mod problems;
mod reconciler;
mod reload;
mod resource_tools;
mod resources_and_prompts;
mod restart_on_call;
mod result_cache;
mod running_server;
mod server_operations;
mod server_requests;
mod server_start;
mod slot;
mod snapshot_readers;
mod status;
mod tool_counters;
mod trust;
mod turn;
mod upstream_request;
mod uri_template;
mod visibility;

pub use builder::{HostBuilder, StartError};
pub use call::{CallContext, CallRequest, Execution, InputRounds};
pub use call_metrics::LATENCY_BOUNDS;
pub use client_capabilities::DialogCapabilities;
pub use config_files::read_config_file;
pub use dialog::{Dialog, DialogRequest, SwitchError};
pub use events::{EventListener, HostEvent};
pub use handle::{DialogError, Host};
pub use pending_requests::{PendingRequest, UnattendedCall};
pub use pinning::ChangedDefinition;
pub use reload::{Reload, ReloadOutcome, ReloadedServer};
pub use resources_and_prompts::ResourceSubscription;
pub use server_operations::ServerOperationError;
pub use status::{HostStats, ServerStatus};
pub use tool_counters::ToolCount;
pub use trust::Trust;
pub use turn::{ListKey, ToolExplanation, Turn};
pub use visibility::Visibility;
