//! `.minds/mcp.yaml` and `team.yaml`, row by row.

mod document;
mod file;
mod hash;
mod server;
mod tools;
mod values;

use crate::testing::compiled;
use crate::{Config, Dialect};

fn dominds(text: &str) -> Config {
    compiled(Dialect::Dominds, text)
}

fn ids(config: &Config) -> Vec<&str> {
    config.servers.iter().map(|s| s.id.as_str()).collect()
}

fn one(entry: &str) -> Config {
    dominds(&format!("version: 1\nservers:\n  s: {entry}\n"))
}
