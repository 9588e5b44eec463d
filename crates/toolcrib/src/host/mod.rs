//! The host: it runs the servers of a workspace and offers their tools to dialogs.
//!
//! One task, the reconciler, makes the running servers match the configuration and publishes their
//! lists. Calls, lists and turns read the published snapshot and never wait for the reconciler. A
//! [`Dialog`] is one conversation of one agent, a [`Turn`] is one step of a dialog, and [`Host`] is
//! the handle to all.

mod admin_tools;
mod client_capabilities;
mod client_requests;
mod background_calls;
mod builder;
mod call;
mod catalog_store;
mod core;
mod server_requests;
mod dialog;
mod dialog_table;
mod resources_and_prompts;
mod connection_events;
mod events;
mod config_files;
mod folder;
mod handle;
mod uri_template;
mod result_cache;
mod call_metrics;
mod call_record;
mod server_operations;
mod dialog_lists;
mod pin_problems;
mod pinning;
mod server_start;
mod problems;
mod host_snapshot;
mod pending_requests;
mod reload;
mod resource_tools;
mod restart_on_call;
mod upstream_request;
mod running_server;
mod slot;
mod status;
mod reconciler;
mod tool_counters;
mod trust;
mod turn;
mod snapshot_readers;
mod visibility;
mod file_watcher;

pub use client_capabilities::DialogCapabilities;
pub use builder::{HostBuilder, StartError};
pub use call::{CallContext, CallRequest, Execution, InputRounds};
pub use dialog::{Dialog, DialogRequest, SwitchError};
pub use resources_and_prompts::ResourceSubscription;
pub use events::{HostEvent, EventListener};
pub use config_files::read_config_file;
pub use handle::{DialogError, Host};
pub use call_metrics::{LATENCY_BOUNDS, CallCounts};
pub use server_operations::ServerOperationError;
pub use pinning::ChangedDefinition;
pub use pending_requests::{UnattendedCall, PendingRequest};
pub use reload::{ReloadOutcome, Reload, ReloadedServer};
pub use status::{ServerStatus, HostStats};
pub use tool_counters::ToolCount;
pub use trust::Trust;
pub use turn::{ListKey, Turn, ToolExplanation};
pub use visibility::Visibility;
