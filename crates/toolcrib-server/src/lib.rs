//! Everything that listens: the host as one MCP server in front of all others, and what any server needs.

pub mod gateway;
pub mod lines;
pub mod version;
