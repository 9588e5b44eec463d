//! Which servers one dialog has switched off, for itself alone.

use std::collections::BTreeMap;

/// The switches of one dialog, by the server's key. A server that was never switched is on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Switches(BTreeMap<String, bool>);

impl Switches {
    pub fn set(&mut self, server: &str, on: bool) {
        self.0.insert(server.to_owned(), on);
    }

    pub fn is_on(&self, server: &str) -> bool {
        self.0.get(server).copied().unwrap_or(true)
    }

    /// Whether nothing was ever switched.
    pub(super) fn is_untouched(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, bool)> for Switches {
    fn from_iter<I: IntoIterator<Item = (String, bool)>>(switched: I) -> Self {
        Self(switched.into_iter().collect())
    }
}
