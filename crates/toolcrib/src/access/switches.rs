//! The servers that one dialog has switched off for itself.

use std::collections::BTreeMap;

/// The switches of one dialog, by the server's key. A server without a switch is on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Switches(BTreeMap<String, bool>);

impl Switches {
    /// Switches a server on or off.
    pub fn set(&mut self, server: &str, on: bool) {
        self.0.insert(server.to_owned(), on);
    }

    /// Returns whether a server is on.
    pub fn is_on(&self, server: &str) -> bool {
        self.0.get(server).copied().unwrap_or(true)
    }

    /// Returns whether no server was ever switched.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, bool)> for Switches {
    fn from_iter<I: IntoIterator<Item = (String, bool)>>(switched: I) -> Self {
        Self(switched.into_iter().collect())
    }
}
