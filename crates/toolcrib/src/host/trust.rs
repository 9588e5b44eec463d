//! Whose configuration may start something: folders that were named, and those that were trusted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toolcrib_config::{Config, Hash, Problem, Trusted};
use toolcrib_upstream::signals::chain;

use crate::store::{TrustError, TrustFile};

/// Which folders' configuration a host goes by. By default only its root's, which whoever made the host named: a
/// dialog in another folder does not start what is configured there.
#[derive(Clone, Debug)]
pub struct Trust {
    named: Folders,
    /// What was trusted of the root for the length of this host.
    once: BTreeSet<Hash>,
    kept: Option<TrustFile>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Folders {
    All,
    Root,
    None,
}

impl Trust {
    /// The root was named; other folders need trust.
    pub fn of_root() -> Self {
        Trust { named: Folders::Root, once: BTreeSet::new(), kept: None }
    }

    /// No folder was named: the root, too, is only where somebody happened to be.
    pub fn of_nothing() -> Self {
        Trust { named: Folders::None, ..Self::of_root() }
    }

    /// For programs that name each folder that a dialog is in.
    pub fn of_everything() -> Self {
        Trust { named: Folders::All, ..Self::of_root() }
    }

    /// What is trusted is kept in this file, which is read whenever configuration is.
    #[must_use]
    pub fn kept_in(mut self, file: impl Into<PathBuf>) -> Self {
        self.kept = Some(TrustFile::new(file));
        self
    }

    /// This is trusted of the root as well, for the length of the host.
    #[must_use]
    pub fn once(mut self, hashes: impl IntoIterator<Item = Hash>) -> Self {
        self.once.extend(hashes);
        self
    }

    /// What of a folder's configuration may start something. Blocks.
    pub fn of(&self, folder: &Path, root: &Path) -> Result<Trusted, TrustError> {
        let is_root = is_same(folder, root);
        match self.named {
            Folders::All => return Ok(Trusted::Everything),
            Folders::Root if is_root => return Ok(Trusted::Everything),
            Folders::Root | Folders::None => {}
        }
        let kept = self.kept.as_ref().map(|file| file.of(folder)).transpose()?.flatten();
        let once = Some(&self.once).filter(|once| is_root && !once.is_empty()).cloned();
        Ok(match (kept, once) {
            (None, None) => Trusted::Nothing,
            (kept, once) => Trusted::These(kept.into_iter().chain(once).flatten().collect()),
        })
    }

    /// Leaves out what is not trusted of a folder's configuration, as this was found by [`Trust::of`]. `before` is
    /// what is used of it now.
    pub fn apply(
        trusted: Result<Trusted, TrustError>,
        folder: &Path,
        config: &mut Config,
        before: &Config,
    ) {
        // Nothing new is started while nobody can tell what is trusted, but that ends nothing.
        let trusted = trusted.unwrap_or_else(|error| {
            let text = format!("nothing that is found is trusted: {}", chain(&error));
            config.problems.push(Problem::error("trust.unreadable", text));
            Trusted::These(BTreeSet::new())
        });
        let fix = format!("see what it runs, and trust it: `toolcrib trust {}`", folder.display());
        config.withhold(before, &trusted, &fix);
    }

    pub(super) fn file(&self) -> Option<&Path> {
        self.kept.as_ref().map(TrustFile::path)
    }
}

impl Default for Trust {
    fn default() -> Self {
        Self::of_root()
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}
