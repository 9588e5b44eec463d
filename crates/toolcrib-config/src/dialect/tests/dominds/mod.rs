//! Tests of `.minds/mcp.yaml` and `team.yaml` by requirement.

mod document;
mod file;
mod hash;
mod server;
mod tools;
mod values;

use crate::testing::compile_text;
use crate::{Config, Dialect};

fn dominds(text: &str) -> Config {
    compile_text(Dialect::Dominds, text)
}

fn ids(config: &Config) -> Vec<&str> {
    config.servers.iter().map(|s| s.id.as_str()).collect()
}

fn one(entry: &str) -> Config {
    dominds(&format!("version: 1\nservers:\n  s: {entry}\n"))
}
