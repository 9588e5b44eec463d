//! HTTP/1.1 connections of both ends, and batched socket writes. This crate knows nothing about MCP.
//!
//! [`client`] sends POSTs over pooled connections. [`server`] parses requests and writes responses. Both write small
//! messages through a [`write_batch`].

pub mod client;
mod repeated_head;
pub mod server;
pub mod write_batch;
