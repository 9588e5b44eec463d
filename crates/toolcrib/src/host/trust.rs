//! Trust in folders. Only trusted configuration may start programs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toolcrib_config::{Config, ConfigHash, Problem, TrustedLaunches};
use toolcrib_upstream::signals::chain;

use crate::store::{TrustError, TrustFile};

/// The folders with configuration that may start programs. By default this is only the host's root,
/// because the creator of the host named it; configuration in another dialog's folder starts
/// nothing.
#[derive(Clone, Debug)]
pub struct Trust {
    folders: TrustedFolders,
    /// Trusted definitions of the root, for the lifetime of this host.
    hashes: BTreeSet<ConfigHash>,
    file: Option<TrustFile>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrustedFolders {
    All,
    Root,
    None,
}

impl Trust {
    /// Trusts the root. Other folders need trust.
    pub fn root_only() -> Self {
        Trust { folders: TrustedFolders::Root, hashes: BTreeSet::new(), file: None }
    }

    /// Trusts no folder, not even the root. For programs that use the current folder as root.
    pub fn no_folder() -> Self {
        Trust { folders: TrustedFolders::None, ..Self::root_only() }
    }

    /// Trusts all folders. For programs that choose the folder of each dialog.
    pub fn all_folders() -> Self {
        Trust { folders: TrustedFolders::All, ..Self::root_only() }
    }

    /// Reads trusted definitions from this file, whenever the configuration is read.
    #[must_use]
    pub fn with_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.file = Some(TrustFile::new(file));
        self
    }

    /// Also trusts these definitions of the root, for the lifetime of the host.
    #[must_use]
    pub fn with_hashes(mut self, hashes: impl IntoIterator<Item = ConfigHash>) -> Self {
        self.hashes.extend(hashes);
        self
    }

    /// The trusted definitions of a folder's configuration. Blocks.
    pub fn trusted_content(
        &self,
        folder: &Path,
        root: &Path,
    ) -> Result<TrustedLaunches, TrustError> {
        let is_root = is_same_path(folder, root);
        match self.folders {
            TrustedFolders::All => return Ok(TrustedLaunches::All),
            TrustedFolders::Root if is_root => return Ok(TrustedLaunches::All),
            TrustedFolders::Root | TrustedFolders::None => {}
        }
        let kept =
            self.file.as_ref().map(|file| file.trusted_hashes(folder)).transpose()?.flatten();
        let once = Some(&self.hashes).filter(|once| is_root && !once.is_empty()).cloned();
        Ok(match (kept, once) {
            (None, None) => TrustedLaunches::None,
            (kept, once) => TrustedLaunches::Only(kept.into_iter().chain(once).flatten().collect()),
        })
    }

    /// Withholds untrusted definitions of a folder's configuration. `trusted` is the result of
    /// [`Trust::trusted_content`], `before` is the configuration in use.
    pub fn apply(
        trusted: Result<TrustedLaunches, TrustError>,
        folder: &Path,
        config: &mut Config,
        before: &Config,
    ) {
        // An unreadable trust file starts nothing new, but stops nothing.
        let trusted = trusted.unwrap_or_else(|error| {
            let text = format!("no new configuration is trusted: {}", chain(&error));
            config.problems.push(Problem::error("trust.unreadable", text));
            TrustedLaunches::Only(BTreeSet::new())
        });
        let fix = format!(
            "check what the folder runs, and trust it: `toolcrib trust {}`",
            folder.display()
        );
        config.withhold(before, &trusted, &fix);
    }

    pub(super) fn file(&self) -> Option<&Path> {
        self.file.as_ref().map(TrustFile::path)
    }
}

impl Default for Trust {
    fn default() -> Self {
        Self::root_only()
    }
}

fn is_same_path(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}
