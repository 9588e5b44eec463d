//! What is published: a snapshot with all that belongs to it, and what it was planned from.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Weak};

use toolcrib_config::model::host::Pins;
use toolcrib_config::{Config, Problem, ServerSpec};
use toolcrib_upstream::conn::Catalog;

use super::pinning::ChangedDefinition;
use super::resource_tools;
use super::serving::Serving;
use super::slot::{Slot, Standing};
use super::turns::Reading;
use crate::access::Grants;
use crate::registry::{
    self, Input, NativeToolset, Offer, Presence, Scope, Snapshot, Upstream, plan,
};

/// Everything that a call or a list reads, in one piece.
#[derive(Debug, Default)]
pub(super) struct Published {
    pub(super) snapshot: Snapshot,
    pub(super) config: Arc<Config>,
    pub(super) grants: Arc<Grants>,
    pub(super) servers: Arc<Servers>,
    /// What the snapshot was planned from.
    pub(super) grounds: Arc<Vec<Ground>>,
    /// There while it may be read: while it is the newest, or some turn still reads it.
    pub(super) reading: Weak<Reading>,
}

/// Who serves, by scope and key. There are few, and every call looks here several times: cheaper than hashing.
pub(super) type Servers = BTreeMap<Scope, BTreeMap<Arc<str>, Arc<Serving>>>;

/// What a server adds to a plan, told apart without comparing lists.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    pub(super) scope: Scope,
    pub(super) server: u64,
    spec: Arc<ServerSpec>,
    presence: Presence,
    from_cache: bool,
    pub(super) list: Option<Judged>,
}

/// A list, and those of its tools that are not as they were accepted. Both are held, so that no other can be where
/// they are.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) catalog: Arc<Catalog>,
    pub(super) changed: Arc<Vec<ChangedDefinition>>,
    /// Names of its tools that `limits.pins` leaves no room to remember.
    pub(super) unpinned: Arc<HashSet<String>>,
}

impl PartialEq for Judged {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.catalog, &other.catalog)
            && Arc::ptr_eq(&self.changed, &other.changed)
            && Arc::ptr_eq(&self.unpinned, &other.unpinned)
    }
}

impl PartialEq for Ground {
    fn eq(&self, other: &Self) -> bool {
        let facts = |it: &Ground| (it.server, it.spec.hash, it.presence, it.from_cache);
        self.scope == other.scope && facts(self) == facts(other) && self.list == other.list
    }
}

impl Ground {
    pub(super) fn of(slot: &Slot, standing: Standing) -> Self {
        Ground {
            scope: slot.scope.clone(),
            server: slot.serving.server.number(),
            spec: Arc::clone(slot.shown()),
            presence: standing.presence,
            from_cache: standing.from_cache,
            list: standing.list,
        }
    }

    /// The same server with another list, which it has shown just now.
    pub(super) fn with(&self, list: &Judged) -> Self {
        Ground { list: Some(list.clone()), from_cache: false, ..self.clone() }
    }

    fn unaccepted(&self) -> HashSet<String> {
        let changed = self.list.iter().flat_map(|list| list.changed.iter());
        changed.map(|it| it.tool.clone()).collect()
    }
}

impl Published {
    pub(super) fn serving(&self, server: &registry::Server) -> Option<&Arc<Serving>> {
        self.servers.get(&server.scope)?.get(&server.key)
    }

    pub(super) fn all_serving(&self) -> impl Iterator<Item = &Arc<Serving>> {
        self.servers.values().flat_map(BTreeMap::values)
    }

    /// The same with other lists of some servers, by their numbers.
    pub(super) fn with(&self, native: &[NativeToolset], lists: &BTreeMap<u64, Judged>) -> Self {
        let own = |ground: &Ground| match lists.get(&ground.server) {
            Some(list) => ground.with(list),
            None => ground.clone(),
        };
        let grounds: Vec<Ground> = self.grounds.iter().map(own).collect();
        // What is wrong with them was said of the lists of everybody.
        let (snapshot, _) = planned(self.snapshot.version(), native, &self.config, &grounds);
        Published {
            snapshot,
            config: Arc::clone(&self.config),
            grants: Arc::clone(&self.grants),
            servers: Arc::clone(&self.servers),
            grounds: Arc::new(grounds),
            reading: Weak::clone(&self.reading),
        }
    }
}

/// The snapshot of these servers, and what was decided against.
pub(super) fn planned(
    version: u64,
    native: &[NativeToolset],
    config: &Config,
    grounds: &[Ground],
) -> (Snapshot, Vec<Problem>) {
    let is_enforced = config.host.pins == Pins::Enforce;
    let withheld: Vec<Option<HashSet<String>>> =
        grounds.iter().map(|ground| is_enforced.then(|| ground.unaccepted())).collect();
    let upstreams = grounds.iter().zip(&withheld).map(|(ground, unaccepted)| Upstream {
        spec: Arc::clone(&ground.spec),
        scope: ground.scope.clone(),
        presence: ground.presence,
        offer: ground.list.as_ref().map(|list| Offer {
            tools: &list.catalog.tools,
            prompts: &list.catalog.prompts,
            resources: &list.catalog.resources,
            templates: &list.catalog.templates,
            unaccepted: unaccepted.as_ref(),
            invalid: &list.catalog.invalid_schemas,
            unpinned: is_enforced.then_some(&*list.unpinned),
            from_cache: ground.from_cache,
        }),
    });
    // Elsewhere these tools would only take names that servers may want for their own.
    let has_resource_tools = grounds.iter().any(|ground| resource_tools::is_wanted(&ground.spec));
    let is_there = |it: &&NativeToolset| has_resource_tools || it.name() != resource_tools::TOOLSET;
    let native: Vec<NativeToolset> = native.iter().filter(is_there).cloned().collect();
    plan(&Input {
        version,
        native: &native,
        reserved_tools: &config.host.reserved_tools,
        reserved_toolsets: &config.host.reserved_toolsets,
        servers: upstreams.collect(),
    })
}
