//! What is offered, from the snapshot and never by asking: order and bytes are those of the registry.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolcrib::Turn;
use toolcrib::host::Sight;
use toolcrib_wire::{ObjectWriter, Raw, method};

/// Lists that are remembered: many clients see the same.
const MOST: usize = 64;

/// The lists that a client may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// A list as it is answered, and what tells it from another.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) result: Raw,
    pub(super) print: u64,
}

/// What tells one state of each list from the next; nothing where it was not looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prints([Option<u64>; 4]);

/// The lists of the newest snapshots, for each way of seeing them.
#[derive(Debug, Default)]
pub(super) struct Lists(Mutex<Vec<Known>>);

#[derive(Debug)]
struct Known {
    sight: Sight,
    server: Option<Arc<str>>,
    list: List,
    listed: Arc<Listed>,
}

impl List {
    pub(super) const ALL: [List; 4] =
        [List::Tools, List::Prompts, List::Resources, List::Templates];

    pub(super) fn of(called: &str) -> Option<Self> {
        Some(match called {
            method::TOOLS_LIST => Self::Tools,
            method::PROMPTS_LIST => Self::Prompts,
            method::RESOURCES_LIST => Self::Resources,
            method::RESOURCE_TEMPLATES_LIST => Self::Templates,
            _ => return None,
        })
    }

    /// What a client is told with when it changes.
    pub(super) fn notification(self) -> &'static str {
        match self {
            Self::Tools => method::TOOLS_CHANGED,
            Self::Prompts => method::PROMPTS_CHANGED,
            Self::Resources | Self::Templates => method::RESOURCES_CHANGED,
        }
    }

    fn result(self, turn: &Turn, server: Option<&str>) -> Raw {
        let (key, items) = match (self, server) {
            (Self::Tools, None) => {
                ("tools", turn.tools().iter().map(|it| it.definition().clone()).collect())
            }
            (Self::Tools, Some(server)) => {
                let own = turn.tools_of(server);
                ("tools", own.iter().map(|it| named(it.definition(), it.original_name())).collect())
            }
            (Self::Prompts, None) => {
                ("prompts", turn.prompts().iter().map(|it| it.definition()).collect())
            }
            (Self::Prompts, Some(server)) => {
                let prompts = turn.prompts();
                let own = prompts.iter().filter(|it| it.server().is_called(server));
                ("prompts", own.map(|it| named(&it.definition(), it.original_name())).collect())
            }
            (Self::Resources, server) => {
                let resources = turn.resources();
                let own = resources.iter().filter(|it| is_of(it.server(), server));
                ("resources", own.map(|it| it.definition()).collect())
            }
            (Self::Templates, server) => {
                let templates = turn.templates();
                let own = templates.iter().filter(|it| is_of(it.server(), server));
                ("resourceTemplates", own.map(|it| it.definition()).collect::<Vec<_>>())
            }
        };
        ObjectWriter::new().array(key, items).finish()
    }
}

impl Lists {
    /// A list as a client of this turn sees it, or a client of one server alone.
    pub(super) fn get(&self, turn: &Turn, server: Option<&Arc<str>>, list: List) -> Arc<Listed> {
        let sight = turn.sight();
        let is_it =
            |it: &&Known| it.list == list && it.server.as_ref() == server && it.sight == sight;
        if let Some(known) = self.known().iter().find(is_it) {
            return Arc::clone(&known.listed);
        }
        let result = list.result(turn, server.map(|server| &**server));
        let mut hasher = DefaultHasher::new();
        result.text().hash(&mut hasher);
        let listed = Arc::new(Listed { result, print: hasher.finish() });
        let mut known = self.known();
        // What nobody can be shown any more is let go.
        known.retain(|it| it.sight.version() >= sight.version());
        let over = (known.len() + 1).saturating_sub(MOST);
        known.drain(..over);
        known.push(Known { sight, server: server.cloned(), list, listed: Arc::clone(&listed) });
        listed
    }

    fn known(&self) -> MutexGuard<'_, Vec<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Prints {
    pub(super) fn get(self, list: List) -> Option<u64> {
        self.0.get(list as usize).copied().flatten()
    }

    pub(super) fn set(&mut self, list: List, print: u64) {
        if let Some(known) = self.0.get_mut(list as usize) {
            *known = Some(print);
        }
    }
}

fn is_of(of: &toolcrib::registry::Server, server: Option<&str>) -> bool {
    server.is_none_or(|server| of.is_called(server))
}

fn named(definition: &Raw, name: &str) -> Raw {
    definition.with_members([("name", Some(Raw::string(name)))])
}
