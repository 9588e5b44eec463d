//! Lists the files of the tree with git and reads their text.

use std::fs;
use std::path::Path;

use super::SourceFile;
use crate::command::{CommandError, run_command};

/// Returns the files that git tracks or would track, so that new files are checked before they are committed.
pub fn list_files(root: &Path) -> Result<Vec<SourceFile>, CommandError> {
    let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = run_command("git", &args, root)?;
    let paths = listed.split('\0').filter(|path| !path.is_empty());
    // An unreadable path is a deleted but uncommitted file, or a link to a folder.
    Ok(paths.filter_map(|path| read(root, path)).collect())
}

fn read(root: &Path, path: &str) -> Option<SourceFile> {
    let bytes = fs::read(root.join(path)).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Some(SourceFile { path: path.to_owned(), text, bytes: bytes.len() })
}
