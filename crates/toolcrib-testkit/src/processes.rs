//! Processes of this machine that carry a mark in their environment.

use std::fs;

/// Those whose environment has this variable with this value: `NAME=value`.
pub fn marked(variable: &str) -> Vec<u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        // What ended in between has none.
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    })
    .collect()
}
