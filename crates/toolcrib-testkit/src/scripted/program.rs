//! Where the scripted server's binary is; built where it is missing or older than its sources.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::ask;

/// The binary, beside the tests that ask for it. A run of one package's tests does not build another's binaries,
/// so this does.
pub fn program() -> io::Result<PathBuf> {
    let exe = std::env::current_exe()?;
    let folder = exe.ancestors().nth(2).ok_or(io::ErrorKind::NotFound)?;
    let program = folder.join("scripted-server");
    let root = crate::workspace_root();
    if is_stale(&program, &root)? {
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
        // Benchmarks are built that way, and so is what they start.
        let is_release = folder.ends_with("release");
        let release = is_release.then_some("--release");
        let args: Vec<&str> = args.into_iter().chain([target.as_str()]).chain(release).collect();
        ask::cargo(&root, &args).map_err(io::Error::other)?;
    }
    Ok(program)
}

fn is_stale(program: &Path, root: &Path) -> io::Result<bool> {
    let Ok(built) = fs::metadata(program).and_then(|data| data.modified()) else {
        return Ok(true);
    };
    let crates = ["crates/toolcrib-testkit/src", "crates/toolcrib-wire/src"];
    let newest = crates.iter().map(|folder| newest(&root.join(folder)));
    let newest = newest.collect::<io::Result<Vec<_>>>()?;
    Ok(newest.into_iter().any(|changed| changed > built))
}

fn newest(folder: &Path) -> io::Result<SystemTime> {
    let mut latest = SystemTime::UNIX_EPOCH;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let data = entry.metadata()?;
        let changed = if data.is_dir() { newest(&entry.path())? } else { data.modified()? };
        latest = latest.max(changed);
    }
    Ok(latest)
}
