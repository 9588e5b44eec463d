//! Compiles MCP configuration of many dialects into one model, with a location for each value and each problem. The
//! crate does no IO: environment and files come through [`Lookup`].

mod assemble;
mod client_files;
mod compile;
mod compile_context;
mod dialect;
mod diff;
mod doc;
pub mod dotenv;
pub mod edit;
mod excerpt;
mod explain;
mod import;
mod launch_trust;
mod lookup;
pub mod model;
mod problem;
mod problem_catalog;
mod profile;
mod schema;
mod secret_detection;
mod source_location;
mod text;
mod value;
mod yaml_writer;

#[cfg(test)]
mod testing;

pub use client_files::{ClientApp, ClientConfigFile, Platform, UserFolders, client_files};
pub use compile::{ConfigFile, Workspace, compile};
pub use dialect::Dialect;
pub use diff::{ChangeAction, ConfigDiff, ServerChange, diff};
pub use doc::{At, LineIndex, NodeId, Syntax};
pub use import::{ImportedConfig, import};
pub use launch_trust::{LaunchDefinition, TrustedLaunches};
pub use lookup::{FileLookup, Lookup, MemoryLookup};
pub use model::setting::SecretVisibility;
pub use model::{
    Config, ConfigHash, ConfigSource, RejectedServer, ServerSpec, ServerTrust, SourceOutcome,
    ValueOrigin,
};
pub use problem::{Problem, Severity};
pub use problem_catalog::{
    PROBLEM_SECTIONS, ProblemEntry, explain_problem, problem_codes, problems_markdown,
};
pub use schema::schema;
pub use source_location::SourceLocation;
pub use text::clip;
pub use value::{MASK, Reference, SecretString, TemplatePart, TextTemplate, Value};
pub use yaml_writer::to_yaml;
