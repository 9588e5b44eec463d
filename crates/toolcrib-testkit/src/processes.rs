//! Finds processes of this machine by an environment variable.

use std::fs;

/// Returns the processes whose environment contains `NAME=value`.
pub fn find_by_environment(variable: &str) -> Vec<u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        // A process that has just ended has no environment.
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    })
    .collect()
}
