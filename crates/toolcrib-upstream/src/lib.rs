//! One MCP server as a client sees it: its process or address, the transports, credentials, the session and its life.
//!
//! [`supervise::Supervisor`] starts and retires servers; [`conn::Conn`] is the handle to one of them. Nothing here knows
//! of agents, dialogs or other servers.

pub mod auth;
pub mod burst;
pub mod conn;
pub mod disk;
pub mod process;
pub mod schema;
pub mod secrets;
pub mod signals;
pub mod supervise;
pub mod transport;
