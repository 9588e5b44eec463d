//! Everything that listens: the host as one MCP server in front of all others, its control API, and who may use them.

pub mod api;
pub mod body_budget;
mod closing;
pub mod front;
pub mod gateway;
pub mod identity;
pub mod lines;
mod metrics;
pub mod trace;
pub mod version;
