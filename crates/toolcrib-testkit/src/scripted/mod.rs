//! The scripted MCP server: does what a [`Script`] says, however wrong that is.
//!
//! Without any script it is a well-behaved server of both eras with three tools: `echo` gives its arguments
//! back, `fail` says `isError`, `env` tells argv, variables and working directory. A script changes what happens
//! on a method, or on the call of one tool:
//!
//! ```
//! use toolcrib_testkit::scripted::{Script, Step};
//!
//! let script = Script::default().on("tools/call slow", [Step::Sleep(200), Step::Answer]);
//! assert_eq!(
//!     script.to_json(),
//!     r#"{"on":{"tools/call slow":[{"sleep":200},"answer"]}}"#
//! );
//! ```
//!
//! The binary `scripted-server` speaks on its standard streams and takes the script as its first argument. Other
//! transports build on [`Server`].

mod program;
mod replies;
mod script;
mod server;
pub mod stdio;

pub use program::program;
pub use script::{Script, Step};
pub use server::{Out, Server};
