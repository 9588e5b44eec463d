//! The holders of names, within the items visible to one dialog.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The holder of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameHolder {
    /// The configuration reserves the name for the host.
    Reserved,
    /// A native toolset, by its name.
    Native(Arc<str>),
    /// A server, by its key.
    Server(Arc<str>),
}

/// Namespaces. Equal names in different namespaces do not collide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Namespace {
    Toolsets,
    /// Both names of each tool, because a call may use either.
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// The claimed names. Claims of a folder extend the global claims.
#[derive(Debug, Default)]
pub(super) struct NameClaims<'b> {
    parent: Option<&'b NameClaims<'b>>,
    holders: [HashMap<Arc<str>, NameHolder>; 5],
}

impl<'b> NameClaims<'b> {
    pub(super) fn with_parent(parent: &'b NameClaims<'b>) -> Self {
        NameClaims { parent: Some(parent), ..NameClaims::default() }
    }

    pub(super) fn holder(&self, namespace: Namespace, name: &str) -> Option<&NameHolder> {
        let own = self.holders[namespace as usize].get(name);
        own.or_else(|| self.parent.and_then(|parent| parent.holder(namespace, name)))
    }

    /// Claims a name. Fails with the current holder if the name is taken.
    pub(super) fn claim(
        &mut self,
        namespace: Namespace,
        name: &Arc<str>,
        holder: &NameHolder,
    ) -> Result<(), NameHolder> {
        match self.holder(namespace, name) {
            Some(other) => Err(other.clone()),
            None => {
                self.holders[namespace as usize].insert(name.clone(), holder.clone());
                Ok(())
            }
        }
    }

    pub(super) fn release(&mut self, namespace: Namespace, name: &str) {
        self.holders[namespace as usize].remove(name);
    }
}

impl fmt::Display for NameHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameHolder::Reserved => f.write_str("reserved for the host"),
            NameHolder::Native(toolset) => write!(f, "taken by the native toolset `{toolset}`"),
            NameHolder::Server(key) => write!(f, "taken by `{key}`"),
        }
    }
}
