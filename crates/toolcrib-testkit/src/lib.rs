//! Test fixtures and hygiene checks shared by all crates.

pub mod cgroup;
pub mod command;
pub mod conformance;
pub mod dependencies;
pub mod docker_engine;
pub mod gateway_input;
pub mod http;
pub mod licence;
pub mod openid_provider;
pub mod peers;
pub mod processes;
pub mod scripted;
pub mod tidy;
pub mod time_limit;
pub mod websocket;

use std::path::{Path, PathBuf};

/// Root folder of the workspace, known at compile time.
pub fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}
