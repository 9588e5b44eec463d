//! Tests of the host through its public API.

mod admin;
mod agent_credentials;
mod atomic_reload;
mod basics;
mod calls;
mod client_requests;
mod connection_loss;
mod events;
mod folders;
mod grant_changes;
mod http_tool_server;
mod lazy_start;
mod leases;
mod many_dialogs;
mod native_tools;
mod pins;
mod problems;
mod reload;
mod resources_and_prompts;
mod server_replacement;
mod team_grants;
mod trust;
pub(crate) mod workspace;
