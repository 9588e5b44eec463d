//! Everything that listens: the host as one MCP server in front of all others.

pub mod gateway;
