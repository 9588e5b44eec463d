//! The thin edge of tidy: which files there are, and their text.

use std::fs;
use std::path::Path;

use super::File;
use crate::ask::{AskError, ask};

/// What git tracks or would track, so that a new file is judged before it is committed.
pub fn tree(root: &Path) -> Result<Vec<File>, AskError> {
    let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = ask("git", &args, root)?;
    let paths = listed.split('\0').filter(|path| !path.is_empty());
    // A path that cannot be read was deleted and not committed yet, or is a link to a folder.
    Ok(paths.filter_map(|path| read(root, path)).collect())
}

fn read(root: &Path, path: &str) -> Option<File> {
    let bytes = fs::read(root.join(path)).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Some(File { path: path.to_owned(), text, bytes: bytes.len() })
}
