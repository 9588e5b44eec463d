//! Client side of one MCP server: process or address, transports, credentials, session and reconnects.
//!
//! [`supervise::Supervisor`] starts and retires servers. [`conn::Conn`] is the handle to one of them. This crate knows
//! nothing about agents, dialogs or tool sets.

pub mod auth;
pub mod conn;
pub mod disk;
pub mod process;
pub mod schema;
pub mod secrets;
pub mod signals;
pub mod supervise;
pub mod transport;
