//! An MCP server for tests that follows a [`Script`], including wrong behaviour.
//!
//! Without a script the server supports both eras correctly and has three tools: `echo` returns its arguments,
//! `fail` returns `isError`, `env` returns argv, environment variables and working directory. A script changes the
//! behaviour of a method, or of the call of one tool:
//!
//! ```
//! use toolcrib_testkit::scripted::{Script, Step};
//!
//! let script = Script::default().on("tools/call slow", [Step::Sleep(200), Step::Respond]);
//! assert_eq!(
//!     script.to_json(),
//!     r#"{"on":{"tools/call slow":[{"sleep":200},"respond"]}}"#
//! );
//! ```
//!
//! The binary `scripted-server` serves its standard streams and takes the script as its first argument. Other
//! transports build on [`ScriptedServer`].

mod binary;
mod default_results;
mod script;
mod server;
pub mod stdio;

pub use binary::server_binary;
pub use script::{Script, Step};
pub use server::{MessageSink, ScriptedServer};
