//! Renders and caches the lists of snapshots. Order and bytes are those of the registry, and no server is asked.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolcrib::Turn;
use toolcrib::internal::ListKey;
use toolcrib_wire::{ObjectWriter, RawJson, method};

/// Maximum number of cached lists. Many clients share a list.
const MAX_ENTRIES: usize = 64;

/// The lists that a client may request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// A rendered list and its fingerprint.
#[derive(Debug)]
pub(super) struct CachedList {
    pub(super) result: RawJson,
    pub(super) fingerprint: u64,
}

/// Fingerprint of the last known state of each list; `None` if it is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ListFingerprints([Option<u64>; 4]);

/// Lists of the newest snapshots, for each view of them.
#[derive(Debug, Default)]
pub(super) struct ListCache(Mutex<Vec<CacheEntry>>);

#[derive(Debug)]
struct CacheEntry {
    sight: ListKey,
    server: Option<Arc<str>>,
    list: ListKind,
    listed: Arc<CachedList>,
}

impl ListKind {
    pub(super) const ALL: [ListKind; 4] =
        [ListKind::Tools, ListKind::Prompts, ListKind::Resources, ListKind::Templates];

    pub(super) fn from_method(called: &str) -> Option<Self> {
        Some(match called {
            method::TOOLS_LIST => Self::Tools,
            method::PROMPTS_LIST => Self::Prompts,
            method::RESOURCES_LIST => Self::Resources,
            method::RESOURCE_TEMPLATES_LIST => Self::Templates,
            _ => return None,
        })
    }

    /// Method of the change notification.
    pub(super) fn notification(self) -> &'static str {
        match self {
            Self::Tools => method::TOOLS_CHANGED,
            Self::Prompts => method::PROMPTS_CHANGED,
            Self::Resources | Self::Templates => method::RESOURCES_CHANGED,
        }
    }

    fn result(self, turn: &Turn, server: Option<&str>) -> RawJson {
        let (key, items) = match (self, server) {
            (Self::Tools, None) => {
                ("tools", turn.tools().iter().map(|it| it.definition().clone()).collect())
            }
            (Self::Tools, Some(server)) => {
                let own = turn.tools_of(server);
                (
                    "tools",
                    own.iter().map(|it| with_name(it.definition(), it.original_name())).collect(),
                )
            }
            (Self::Prompts, None) => {
                ("prompts", turn.prompts().iter().map(|it| it.definition()).collect())
            }
            (Self::Prompts, Some(server)) => {
                let prompts = turn.prompts();
                let own = prompts.iter().filter(|it| it.server().matches_name(server));
                ("prompts", own.map(|it| with_name(&it.definition(), it.original_name())).collect())
            }
            (Self::Resources, server) => {
                let resources = turn.resources();
                let own = resources.iter().filter(|it| belongs_to(it.server(), server));
                ("resources", own.map(|it| it.definition()).collect())
            }
            (Self::Templates, server) => {
                let templates = turn.templates();
                let own = templates.iter().filter(|it| belongs_to(it.server(), server));
                ("resourceTemplates", own.map(|it| it.definition()).collect::<Vec<_>>())
            }
        };
        ObjectWriter::new().array(key, items).finish()
    }
}

impl ListCache {
    /// The list that a client of this snapshot sees, optionally of one server only.
    pub(super) fn get(
        &self,
        turn: &Turn,
        server: Option<&Arc<str>>,
        list: ListKind,
    ) -> Arc<CachedList> {
        let sight = turn.list_key();
        let is_it =
            |it: &&CacheEntry| it.list == list && it.server.as_ref() == server && it.sight == sight;
        if let Some(entries) = self.lock().iter().find(is_it) {
            return Arc::clone(&entries.listed);
        }
        let result = list.result(turn, server.map(|server| &**server));
        let mut hasher = DefaultHasher::new();
        result.text().hash(&mut hasher);
        let listed = Arc::new(CachedList { result, fingerprint: hasher.finish() });
        let mut entries = self.lock();
        // Drops lists of older snapshots.
        entries.retain(|it| it.sight.version() >= sight.version());
        let excess = (entries.len() + 1).saturating_sub(MAX_ENTRIES);
        entries.drain(..excess);
        entries.push(CacheEntry {
            sight,
            server: server.cloned(),
            list,
            listed: Arc::clone(&listed),
        });
        listed
    }

    fn lock(&self) -> MutexGuard<'_, Vec<CacheEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ListFingerprints {
    pub(super) fn get(self, list: ListKind) -> Option<u64> {
        self.0.get(list as usize).copied().flatten()
    }

    pub(super) fn set(&mut self, list: ListKind, fingerprint: u64) {
        if let Some(entries) = self.0.get_mut(list as usize) {
            *entries = Some(fingerprint);
        }
    }
}

fn belongs_to(of: &toolcrib::internal::RegisteredServer, server: Option<&str>) -> bool {
    server.is_none_or(|server| of.matches_name(server))
}

fn with_name(definition: &RawJson, name: &str) -> RawJson {
    definition.with_members([("name", Some(RawJson::string(name)))])
}
