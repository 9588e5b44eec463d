//! Text in, one model out: reads MCP configuration of many dialects, with the place of each value
//! and of each mistake. It does no IO: the environment and the files come through [`Lookup`].

mod assemble;
mod client_files;
mod compile;
mod cx;
mod dialect;
mod diff;
mod doc;
pub mod dotenv;
pub mod edit;
mod excerpt;
mod explain;
mod import;
mod launch;
mod lookup;
pub mod model;
mod place;
mod problem;
mod profile;
mod schema;
mod sensitive;
mod text;
mod value;
mod yaml;

#[cfg(test)]
mod testing;

pub use client_files::{Client, ClientFile, Person, System, client_files};
pub use compile::{Named, Workspace, compile};
pub use dialect::Dialect;
pub use diff::{Action, Plan, Step, diff};
pub use doc::{At, Lines, NodeId, Syntax};
pub use import::{Imported, import};
pub use launch::{Launch, Trusted};
pub use lookup::{File, Lookup, Memory};
pub use model::setting::Show;
pub use model::{Config, Hash, Origin, Outcome, Rejected, ServerSpec, Source, Standing};
pub use place::Place;
pub use problem::{Problem, Severity};
pub use schema::schema;
pub use text::clip;
pub use value::{Hidden, MASK, Part, Reference, Template, Value};
pub use yaml::to_yaml;
