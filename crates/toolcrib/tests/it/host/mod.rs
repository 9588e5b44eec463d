//! Tests of the host through its public API.

mod http_tool_server;
mod admin;
mod agent_credentials;
mod client_requests;
mod atomic_reload;
mod basics;
mod calls;
mod grant_changes;
mod many_dialogs;
mod resources_and_prompts;
mod events;
mod folders;
mod lazy_start;
mod leases;
mod login;
mod connection_loss;
mod native_tools;
mod pins;
mod problems;
mod real_servers;
mod reload;
pub(crate) mod workspace;
mod server_replacement;
mod team_grants;
mod trust;
