//! Entries of other workspaces that `connect` writes over: where they lead, and how they are had back.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use crate::file;

/// The most that are kept of one file; the oldest go first.
const MOST: usize = 16;

/// Where an entry of ours leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A host of this workspace is started.
    Root(String),
    /// A host is asked that runs there.
    Url(String),
}

impl Place {
    pub(crate) fn of(entry: &Json) -> Option<Self> {
        let url = || {
            ["url", "uri", "serverUrl", "httpUrl"].iter().find_map(|key| entry.get(key)?.as_str())
        };
        let root = root_of(entry).map(|root| Self::Root(root.to_owned()));
        root.or_else(|| url().map(|url| Self::Url(url.to_owned())))
    }

    /// Whether it is the workspace with this root, whose host is at this address.
    pub(crate) fn is_of(&self, root: &Path, url: &str) -> bool {
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

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(root) => f.write_str(root),
            Self::Url(url) => f.write_str(url),
        }
    }
}

/// What follows `--root`, wherever the arguments stand.
fn root_of(value: &Json) -> Option<&str> {
    match value {
        Json::Array(items) => items.iter().skip_while(|item| *item != "--root").nth(1)?.as_str(),
        Json::Object(map) => map.values().find_map(root_of),
        _ => None,
    }
}

/// The entries that were written over in a file, the newest last. They are kept beside it, for their owner alone: one
/// may carry a token.
pub(crate) struct Replaced(PathBuf);

impl Replaced {
    pub(crate) fn beside(file: &Path) -> Self {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        Replaced(file.with_file_name(format!("{name}.toolcrib-replaced")))
    }

    /// The newest that is not what is there now.
    pub(crate) fn newest(&self, now: &Json) -> Result<Option<Json>, String> {
        Ok(before(self.read()?, now).pop())
    }

    pub(crate) fn add(&self, entry: &Json) -> Result<(), String> {
        let mut all = before(self.read()?, entry);
        all.push(entry.clone());
        let old = all.len().saturating_sub(MOST);
        self.write(all.get(old..).unwrap_or_default())
    }

    /// The newest that is not what was there is there again.
    pub(crate) fn given_back(&self, was: &Json) -> Result<(), String> {
        let mut all = before(self.read()?, was);
        all.pop();
        self.write(&all)
    }

    /// Nothing that was written over is of use any more.
    pub(crate) fn forget(&self) -> Result<(), String> {
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
            return file::write(&self.0, format!("{}\n", json!(all)).as_bytes(), file::PRIVATE);
        }
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(format!("cannot remove {}: {error}", self.0.display()))
            }
            _ => Ok(()),
        }
    }
}

/// Those before what is there now: writing may have failed after it was noted.
fn before(mut all: Vec<Json>, now: &Json) -> Vec<Json> {
    while all.last() == Some(now) {
        all.pop();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::{CLIENTS, Way};

    #[test]
    fn it_is_known_where_an_entry_leads_in_every_form() {
        let args = ["serve", "--stdio", "--root", "/w", "--config", "/c"].map(str::to_owned);
        let start = Way::Start { program: "/bin/toolcrib".to_owned(), args: args.to_vec() };
        let url = "http://127.0.0.1:7420/mcp".to_owned();
        let http = Way::Http { url: url.clone(), dialog: "d".to_owned(), token: None };
        for client in CLIENTS {
            let place = |way| client.entry(way).map(|entry| Place::of(&entry));
            assert_eq!(place(&start), Some(Some(Place::Root("/w".to_owned()))), "{client:?}");
            let reached = client.takes_addresses().then(|| Some(Place::Url(url.clone())));
            assert_eq!(place(&http), reached, "{client:?}");
        }
        for other in [json!({"args": ["--root"]}), json!({"url": 1}), json!(1)] {
            assert_eq!(Place::of(&other), None, "{other}");
        }
    }

    #[test]
    fn a_workspace_is_known_by_its_root_or_its_address() {
        let is_of = |place: Place| place.is_of(Path::new("/w"), "http://h/mcp");
        assert!(
            is_of(Place::Root("/w".to_owned())) && is_of(Place::Url("http://h/mcp".to_owned()))
        );
        assert!(
            !is_of(Place::Root("/w/x".to_owned())) && !is_of(Place::Url("http://i".to_owned()))
        );
    }

    #[test]
    fn what_was_written_over_comes_back_in_turn_and_has_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let replaced = Replaced::beside(&folder.path().join("mcp.json"));
        let entry = |number: usize| json!({ "number": number });
        assert_eq!(replaced.newest(&entry(0)), Ok(None));
        (0..MOST + 2).for_each(|number| replaced.add(&entry(number)).unwrap());
        for number in (2..MOST + 2).rev() {
            assert_eq!(replaced.newest(&entry(number + 1)), Ok(Some(entry(number))));
            replaced.given_back(&entry(number + 1)).unwrap();
        }
        assert_eq!(replaced.newest(&entry(0)), Ok(None));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        // Noted, and then not written over: it is still there.
        replaced.add(&entry(1)).unwrap();
        assert_eq!(replaced.newest(&entry(1)), Ok(None));
        replaced.add(&entry(1)).unwrap();
        assert_eq!(replaced.newest(&entry(2)), Ok(Some(entry(1))));
        replaced.forget().unwrap();
        assert_eq!(replaced.newest(&entry(2)), Ok(None));
    }
}
