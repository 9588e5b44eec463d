//! An MCP host as a library: it starts MCP servers, keeps them alive and hands their tools out.

pub mod access;
pub mod conn;
pub mod lease;
pub mod process;
pub mod registry;
pub mod shape;
pub mod signals;
pub mod store;
pub mod supervise;
pub mod transport;
