//! Fixtures and hygiene checks that every crate's tests share.

pub mod ask;
pub mod cgroup;
pub mod conformance;
pub mod directions;
pub mod engine;
pub mod foreign;
pub mod http;
pub mod licence;
pub mod peers;
pub mod processes;
pub mod provider;
pub mod scripted;
pub mod tidy;
pub mod time_limit;
pub mod websocket;

use std::path::{Path, PathBuf};

/// The workspace's folder, known when this crate was compiled.
pub fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}
