//! Locates the scripted server's binary and builds it if it is missing or older than its sources.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::command;

/// Returns the binary next to the calling test. Testing one package does not build the binaries of another,
/// so this function does.
pub fn server_binary() -> io::Result<PathBuf> {
    let exe = std::env::current_exe()?;
    let folder = exe.ancestors().nth(2).ok_or(io::ErrorKind::NotFound)?;
    let binary = folder.join("scripted-server");
    let root = crate::workspace_root();
    if is_stale(&binary, &root)? {
        let target = folder.parent().ok_or(io::ErrorKind::NotFound)?.display().to_string();
        let args = [
            "build",
            "-q",
            "--locked",
            "-p",
            "toolcrib-testkit",
            "--bin",
            "scripted-server",
            "--target-dir",
        ];
        // Benchmarks use a release build, and so does the server that they start.
        let is_release = folder.ends_with("release");
        let release = is_release.then_some("--release");
        let args: Vec<&str> = args.into_iter().chain([target.as_str()]).chain(release).collect();
        command::run_cargo(&root, &args).map_err(io::Error::other)?;
    }
    Ok(binary)
}

fn is_stale(binary: &Path, root: &Path) -> io::Result<bool> {
    let Ok(built) = fs::metadata(binary).and_then(|data| data.modified()) else {
        return Ok(true);
    };
    let crates = ["crates/toolcrib-testkit/src", "crates/toolcrib-wire/src"];
    let newest = crates.iter().map(|folder| newest_modification(&root.join(folder)));
    let newest = newest.collect::<io::Result<Vec<_>>>()?;
    Ok(newest.into_iter().any(|changed| changed > built))
}

fn newest_modification(folder: &Path) -> io::Result<SystemTime> {
    let mut latest = SystemTime::UNIX_EPOCH;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let data = entry.metadata()?;
        let changed =
            if data.is_dir() { newest_modification(&entry.path())? } else { data.modified()? };
        latest = latest.max(changed);
    }
    Ok(latest)
}
