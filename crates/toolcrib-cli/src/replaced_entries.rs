//! Entries of other workspaces that `connect` has replaced, and their restoration.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use crate::atomic_file;

/// Maximum number of kept entries for one file. The oldest entry is dropped first.
const MAX_ENTRIES: usize = 16;

/// The workspace that an entry points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EntryTarget {
    /// The entry starts a host of this workspace.
    Root(String),
    /// The entry connects to a host at this URL.
    Url(String),
}

impl EntryTarget {
    pub(crate) fn from_entry(entry: &Json) -> Option<Self> {
        let url = || {
            ["url", "uri", "serverUrl", "httpUrl"].iter().find_map(|key| entry.get(key)?.as_str())
        };
        let root = find_root_argument(entry).map(|root| Self::Root(root.to_owned()));
        root.or_else(|| url().map(|url| Self::Url(url.to_owned())))
    }

    /// Returns whether the target is the workspace with this root and this gateway URL.
    pub(crate) fn is_workspace(&self, root: &Path, url: &str) -> bool {
        match self {
            Self::Root(there) => Path::new(there) == root,
            Self::Url(there) => there == url,
        }
    }

    pub(crate) fn to_json(&self) -> Json {
        match self {
            Self::Root(root) => json!({ "root": root }),
            Self::Url(url) => json!({ "url": url }),
        }
    }
}

impl fmt::Display for EntryTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(root) => f.write_str(root),
            Self::Url(url) => f.write_str(url),
        }
    }
}

/// Returns the argument after `--root`, at any depth.
fn find_root_argument(value: &Json) -> Option<&str> {
    match value {
        Json::Array(items) => items.iter().skip_while(|item| *item != "--root").nth(1)?.as_str(),
        Json::Object(map) => map.values().find_map(find_root_argument),
        _ => None,
    }
}

/// The replaced entries of a file, newest last. They are stored beside the file and readable by the owner only, because
/// an entry may contain a token.
pub(crate) struct ReplacedEntries(PathBuf);

impl ReplacedEntries {
    pub(crate) fn beside(file: &Path) -> Self {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        ReplacedEntries(file.with_file_name(format!("{name}.toolcrib-replaced")))
    }

    /// Returns the newest entry that differs from the current one.
    pub(crate) fn newest(&self, now: &Json) -> Result<Option<Json>, String> {
        Ok(without_trailing(self.read()?, now).pop())
    }

    pub(crate) fn push(&self, entry: &Json) -> Result<(), String> {
        let mut all = without_trailing(self.read()?, entry);
        all.push(entry.clone());
        let old = all.len().saturating_sub(MAX_ENTRIES);
        self.write(all.get(old..).unwrap_or_default())
    }

    /// Drops the newest entry that differs from the previous one, after it was restored.
    pub(crate) fn drop_newest(&self, was: &Json) -> Result<(), String> {
        let mut all = without_trailing(self.read()?, was);
        all.pop();
        self.write(&all)
    }

    /// Drops all entries.
    pub(crate) fn clear(&self) -> Result<(), String> {
        self.write(&[])
    }

    fn read(&self) -> Result<Vec<Json>, String> {
        let failed =
            |error: &dyn fmt::Display| format!("cannot read {}: {error}", self.0.display());
        match fs::read(&self.0) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| failed(&error)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(failed(&error)),
        }
    }

    fn write(&self, all: &[Json]) -> Result<(), String> {
        if !all.is_empty() {
            return atomic_file::write_atomically(
                &self.0,
                format!("{}\n", json!(all)).as_bytes(),
                atomic_file::PRIVATE_MODE,
            );
        }
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(format!("cannot remove {}: {error}", self.0.display()))
            }
            _ => Ok(()),
        }
    }
}

/// Removes trailing entries equal to the current one, which remain when a write failed after it was recorded.
fn without_trailing(mut all: Vec<Json>, now: &Json) -> Vec<Json> {
    while all.last() == Some(now) {
        all.pop();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_entries::{CLIENTS, EntryTransport};

    #[test]
    fn entry_target_is_read_from_every_client_format() {
        let args = ["serve", "--stdio", "--root", "/w", "--config", "/c"].map(str::to_owned);
        let start =
            EntryTransport::Stdio { program: "/bin/toolcrib".to_owned(), args: args.to_vec() };
        let url = "http://127.0.0.1:7420/mcp".to_owned();
        let http = EntryTransport::Http { url: url.clone(), dialog: "d".to_owned(), token: None };
        for client in CLIENTS {
            let place = |way| client.entry(way).map(|entry| EntryTarget::from_entry(&entry));
            assert_eq!(place(&start), Some(Some(EntryTarget::Root("/w".to_owned()))), "{client:?}");
            let reached = client.supports_http().then(|| Some(EntryTarget::Url(url.clone())));
            assert_eq!(place(&http), reached, "{client:?}");
        }
        for other in [json!({"args": ["--root"]}), json!({"url": 1}), json!(1)] {
            assert_eq!(EntryTarget::from_entry(&other), None, "{other}");
        }
    }

    #[test]
    fn entry_target_matches_workspace_by_root_or_url() {
        let is_of = |place: EntryTarget| place.is_workspace(Path::new("/w"), "http://h/mcp");
        assert!(
            is_of(EntryTarget::Root("/w".to_owned()))
                && is_of(EntryTarget::Url("http://h/mcp".to_owned()))
        );
        assert!(
            !is_of(EntryTarget::Root("/w/x".to_owned()))
                && !is_of(EntryTarget::Url("http://i".to_owned()))
        );
    }

    #[test]
    fn replaced_entries_return_newest_first_and_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let replaced = ReplacedEntries::beside(&folder.path().join("mcp.json"));
        let entry = |number: usize| json!({ "number": number });
        assert_eq!(replaced.newest(&entry(0)), Ok(None));
        (0..MAX_ENTRIES + 2).for_each(|number| replaced.push(&entry(number)).unwrap());
        for number in (2..MAX_ENTRIES + 2).rev() {
            assert_eq!(replaced.newest(&entry(number + 1)), Ok(Some(entry(number))));
            replaced.drop_newest(&entry(number + 1)).unwrap();
        }
        assert_eq!(replaced.newest(&entry(0)), Ok(None));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        // The entry was recorded but not replaced.
        replaced.push(&entry(1)).unwrap();
        assert_eq!(replaced.newest(&entry(1)), Ok(None));
        replaced.push(&entry(1)).unwrap();
        assert_eq!(replaced.newest(&entry(2)), Ok(Some(entry(1))));
        replaced.clear().unwrap();
        assert_eq!(replaced.newest(&entry(2)), Ok(None));
    }
}
