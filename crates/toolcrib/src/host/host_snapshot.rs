//! The published state of a host: the registry snapshot with everything that belongs to it.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Weak};

use toolcrib_config::model::host::Pins;
use toolcrib_config::{Config, Problem, ServerSpec};
use toolcrib_upstream::conn::Catalog;

use super::pinning::ChangedDefinition;
use super::resource_tools;
use super::running_server::RunningServer;
use super::slot::{ServerSlot, SlotState};
use super::snapshot_readers::SnapshotReader;
use crate::access::Grants;
use crate::registry::{
    self, NativeToolset, PlanInput, Presence, Scope, ServerInput, ServerLists, Snapshot, plan,
};

/// Everything that a call or a list reads, as one consistent value.
#[derive(Debug, Default)]
pub(super) struct HostSnapshot {
    pub(super) registry: Snapshot,
    pub(super) config: Arc<Config>,
    pub(super) grants: Arc<Grants>,
    pub(super) servers: Arc<RunningServers>,
    /// The inputs that the registry was planned from.
    pub(super) inputs: Arc<Vec<SnapshotInput>>,
    /// Alive while the snapshot may be read: it is the newest one, or a turn still reads it.
    pub(super) reader: Weak<SnapshotReader>,
}

/// Running servers by scope and key. There are few servers, and every call looks up several, so a
/// tree is cheaper than hashing.
pub(super) type RunningServers = BTreeMap<Scope, BTreeMap<Arc<str>, Arc<RunningServer>>>;

/// The contribution of one server to a snapshot. Comparing two inputs does not compare lists.
#[derive(Clone, Debug)]
pub(super) struct SnapshotInput {
    pub(super) scope: Scope,
    pub(super) server: u64,
    spec: Arc<ServerSpec>,
    presence: Presence,
    from_cache: bool,
    pub(super) list: Option<CheckedCatalog>,
}

/// A catalog with its changed and unpinned tools. Equality compares the pointers; the value holds
/// the allocations, so their addresses cannot be reused.
#[derive(Clone, Debug)]
pub(super) struct CheckedCatalog {
    pub(super) catalog: Arc<Catalog>,
    pub(super) changed: Arc<Vec<ChangedDefinition>>,
    /// Names of the tools that exceed `limits.pins`.
    pub(super) unpinned: Arc<HashSet<String>>,
}

impl PartialEq for CheckedCatalog {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.catalog, &other.catalog)
            && Arc::ptr_eq(&self.changed, &other.changed)
            && Arc::ptr_eq(&self.unpinned, &other.unpinned)
    }
}

impl PartialEq for SnapshotInput {
    fn eq(&self, other: &Self) -> bool {
        let facts = |it: &SnapshotInput| (it.server, it.spec.hash, it.presence, it.from_cache);
        self.scope == other.scope && facts(self) == facts(other) && self.list == other.list
    }
}

impl SnapshotInput {
    pub(super) fn from_slot(slot: &ServerSlot, state: SlotState) -> Self {
        SnapshotInput {
            scope: slot.scope.clone(),
            server: slot.running.server.number(),
            spec: Arc::clone(slot.displayed_spec()),
            presence: state.presence,
            from_cache: state.from_cache,
            list: state.list,
        }
    }

    /// The same server with another catalog, which the server has just delivered.
    pub(super) fn with_list(&self, list: &CheckedCatalog) -> Self {
        SnapshotInput { list: Some(list.clone()), from_cache: false, ..self.clone() }
    }

    fn unaccepted(&self) -> HashSet<String> {
        let changed = self.list.iter().flat_map(|list| list.changed.iter());
        changed.map(|it| it.tool.clone()).collect()
    }
}

impl HostSnapshot {
    pub(super) fn running_server(
        &self,
        server: &registry::RegisteredServer,
    ) -> Option<&Arc<RunningServer>> {
        self.servers.get(&server.scope)?.get(&server.key)
    }

    pub(super) fn running_servers(&self) -> impl Iterator<Item = &Arc<RunningServer>> {
        self.servers.values().flat_map(BTreeMap::values)
    }

    /// The same snapshot with other catalogs of some servers, by server number.
    pub(super) fn with_lists(
        &self,
        native: &[NativeToolset],
        lists: &BTreeMap<u64, CheckedCatalog>,
    ) -> Self {
        let own = |input: &SnapshotInput| match lists.get(&input.server) {
            Some(list) => input.with_list(list),
            None => input.clone(),
        };
        let inputs: Vec<SnapshotInput> = self.inputs.iter().map(own).collect();
        // The problems were reported with the shared lists.
        let (registry, _) = plan_registry(self.registry.version(), native, &self.config, &inputs);
        HostSnapshot {
            registry,
            config: Arc::clone(&self.config),
            grants: Arc::clone(&self.grants),
            servers: Arc::clone(&self.servers),
            inputs: Arc::new(inputs),
            reader: Weak::clone(&self.reader),
        }
    }
}

/// Plans the registry snapshot of these servers. Returns the snapshot and the problems of the plan.
pub(super) fn plan_registry(
    version: u64,
    native: &[NativeToolset],
    config: &Config,
    inputs: &[SnapshotInput],
) -> (Snapshot, Vec<Problem>) {
    let is_enforced = config.host.pins == Pins::Enforce;
    let withheld: Vec<Option<HashSet<String>>> =
        inputs.iter().map(|input| is_enforced.then(|| input.unaccepted())).collect();
    let upstreams = inputs.iter().zip(&withheld).map(|(input, unaccepted)| ServerInput {
        spec: Arc::clone(&input.spec),
        scope: input.scope.clone(),
        presence: input.presence,
        lists: input.list.as_ref().map(|list| ServerLists {
            tools: &list.catalog.tools,
            prompts: &list.catalog.prompts,
            resources: &list.catalog.resources,
            templates: &list.catalog.templates,
            unaccepted: unaccepted.as_ref(),
            invalid: &list.catalog.invalid_schemas,
            unpinned: is_enforced.then_some(&*list.unpinned),
            from_cache: input.from_cache,
        }),
    });
    // Without servers that need them, these tools would only occupy names that servers may want.
    let has_resource_tools =
        inputs.iter().any(|input| resource_tools::exposes_as_tools(&input.spec));
    let is_there = |it: &&NativeToolset| has_resource_tools || it.name() != resource_tools::TOOLSET;
    let native: Vec<NativeToolset> = native.iter().filter(is_there).cloned().collect();
    plan(&PlanInput {
        version,
        native: &native,
        reserved_tools: &config.host.reserved_tools,
        reserved_toolsets: &config.host.reserved_toolsets,
        servers: upstreams.collect(),
    })
}
