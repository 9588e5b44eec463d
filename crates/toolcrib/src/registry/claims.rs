//! Who has which name, within what one conversation can see.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Who has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// The configuration reserves it for the host.
    Reserved,
    /// A native toolset, by its name.
    Native(Arc<str>),
    /// A server, by its key.
    Server(Arc<str>),
}

/// Things whose names are of no concern to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Space {
    Toolsets,
    /// Both names of each tool: a call may use either.
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// The names taken so far. What a folder adds stands over what is global.
#[derive(Debug, Default)]
pub(super) struct Claims<'b> {
    below: Option<&'b Claims<'b>>,
    held: [HashMap<Arc<str>, Holder>; 5],
}

impl<'b> Claims<'b> {
    pub(super) fn over(below: &'b Claims<'b>) -> Self {
        Claims { below: Some(below), ..Claims::default() }
    }

    pub(super) fn holder(&self, space: Space, name: &str) -> Option<&Holder> {
        let own = self.held[space as usize].get(name);
        own.or_else(|| self.below.and_then(|below| below.holder(space, name)))
    }

    /// Takes a name, unless somebody has it.
    pub(super) fn claim(
        &mut self,
        space: Space,
        name: &Arc<str>,
        holder: &Holder,
    ) -> Result<(), Holder> {
        match self.holder(space, name) {
            Some(other) => Err(other.clone()),
            None => {
                self.held[space as usize].insert(name.clone(), holder.clone());
                Ok(())
            }
        }
    }

    pub(super) fn release(&mut self, space: Space, name: &str) {
        self.held[space as usize].remove(name);
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Reserved => f.write_str("it is reserved for the host"),
            Holder::Native(toolset) => write!(f, "the native toolset `{toolset}` has it"),
            Holder::Server(key) => write!(f, "`{key}` has it"),
        }
    }
}
