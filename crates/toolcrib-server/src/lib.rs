//! The network side of a host: HTTP front, MCP gateway, control API and authentication.

pub mod api;
pub mod body_budget;
pub mod front;
pub mod gateway;
pub mod identity;
pub mod message_stream;
mod metrics;
mod shutdown;
pub mod trace;
pub mod version;
