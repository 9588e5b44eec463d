//! Plans a snapshot from server specs and lists. The same input always gives the same snapshot.
//!
//! The order is: native tools, reserved names, global servers, then the servers of each folder. Global items
//! therefore have the same names everywhere, and a folder cannot take a name from them. Servers come in load order,
//! and the first keeps a name. A plan does not depend on earlier plans, so the next item that wants a freed name gets
//! it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use toolcrib_config::Problem;
use toolcrib_config::model::naming::{Naming, ToolNames};
use toolcrib_wire::view;

use super::item_selector::SelectedItem;
use super::name_claims::{NameClaims, NameHolder, Namespace};
use super::native::{NativeHandle, NativeToolset};
use super::plan_input::{PlanInput, Scope, ServerInput};
use super::problems;
use super::server_plan::ServerPlan;
use super::snapshot::{ScopeLayer, Snapshot, SnapshotContent, Toolset};
use super::tool::{Availability, Tool, ToolSource};

/// Plans a snapshot and returns it with the problems of all items that are not offered.
pub fn plan(input: &PlanInput<'_>) -> (Snapshot, Vec<Problem>) {
    let mut global = Planner::default();
    global.add_native_toolsets(input.native);
    global.reserve_names(input);
    let global_servers = input.servers.iter().filter(|server| server.scope == Scope::Global);
    global.add_servers(&global_servers.collect::<Vec<_>>());

    let Planner { claims, layer, mut problems } = global;
    let mut folders = BTreeMap::new();
    for (path, servers) in group_by_folder(&input.servers) {
        let mut folder = Planner { claims: NameClaims::with_parent(&claims), ..Planner::default() };
        folder.add_servers(&servers);
        problems.append(&mut folder.problems);
        folders.insert(path.to_path_buf(), folder.layer);
    }
    let content = SnapshotContent { version: input.version, global: layer, folders };
    (Snapshot::new(content), problems)
}

fn group_by_folder<'i, 'a>(
    servers: &'i [ServerInput<'a>],
) -> BTreeMap<&'i Path, Vec<&'i ServerInput<'a>>> {
    let mut folders: BTreeMap<&Path, Vec<_>> = BTreeMap::new();
    for server in servers {
        if let Scope::Cwd(path) = &server.scope {
            folders.entry(path).or_default().push(server);
        }
    }
    folders
}

/// One scope under construction.
#[derive(Debug, Default)]
pub(super) struct Planner<'b> {
    pub(super) claims: NameClaims<'b>,
    pub(super) layer: ScopeLayer,
    pub(super) problems: Vec<Problem>,
}

type SelectedNativeTool<'a> = SelectedItem<'a, (view::ToolView, NativeHandle)>;

impl Planner<'_> {
    fn add_native_toolsets(&mut self, toolsets: &[NativeToolset]) {
        let claimed = toolsets.iter().filter_map(|toolset| {
            let tools = self.claim_native_names(toolset)?;
            Some((toolset, tools))
        });
        let claimed: Vec<_> = claimed.collect();
        for (toolset, tools) in claimed {
            let holder = NameHolder::Native(toolset.name.clone());
            let tools = tools.into_iter().map(|SelectedItem { item, name, model_name }| {
                let (model_name, _) = self.claim_model_name(&name, model_name, &holder);
                let (item, native) = item.clone();
                let (names, source) = ((name, model_name), ToolSource::Native(native));
                Arc::new(Tool::new(names, toolset.name.clone(), item, source, Availability::Ready))
            });
            let (name, description) = (toolset.name.clone(), toolset.description.clone());
            let tools = tools.collect();
            self.layer.add_toolset(Toolset { name, description, server: None, tools });
        }
    }

    /// Claims the names of a native toolset and its tools. Returns `None` if the toolset's name is taken.
    fn claim_native_names<'a>(
        &mut self,
        toolset: &'a NativeToolset,
    ) -> Option<Vec<SelectedNativeTool<'a>>> {
        let plain = Naming { template: "{tool}".to_owned(), ..Naming::default() };
        let holder = NameHolder::Native(toolset.name.clone());
        if let Err(other) = self.claims.claim(Namespace::Toolsets, &toolset.name, &holder) {
            let problem =
                problems::native_collision("toolset.collision", "toolset", &toolset.name, &other);
            self.problems.push(problem);
            return None;
        }
        let mut tools = Vec::with_capacity(toolset.tools.len());
        for item in &toolset.tools {
            let Ok(names) = plain.names("", item.0.name()) else {
                continue;
            };
            let selected = SelectedItem::new(item, names);
            match self.claims.claim(Namespace::Tools, &selected.name, &holder) {
                Ok(()) => tools.push(selected),
                Err(other) => {
                    let problem = problems::native_collision(
                        "name.collision",
                        "tool",
                        &selected.name,
                        &other,
                    );
                    self.problems.push(problem);
                }
            }
        }
        Some(tools)
    }

    /// Reserves names. A native tool that already has a reserved name keeps it.
    fn reserve_names(&mut self, input: &PlanInput<'_>) {
        let names = [
            (Namespace::Tools, input.reserved_tools),
            (Namespace::Toolsets, input.reserved_toolsets),
        ];
        for (namespace, names) in names {
            for name in names {
                let _ = self.claims.claim(namespace, &name.as_str().into(), &NameHolder::Reserved);
            }
        }
    }

    fn add_servers<'a>(&mut self, servers: &[&'a ServerInput<'a>]) {
        let toolsets = self.claim_toolsets(servers);
        let plans = servers.iter().zip(toolsets);
        let mut plans: Vec<_> =
            plans.map(|(server, holder)| self.plan_server(server, holder)).collect();
        // Ids are claimed before aliases, so no alias takes the id of a later tool.
        for server_plan in &mut plans {
            self.name_for_models(server_plan);
        }
        for server_plan in plans {
            server_plan.publish(&mut self.layer);
        }
    }

    /// Claims the toolset names. Returns the holder of each name that is taken. Disabled servers come last, so they
    /// do not block enabled ones.
    fn claim_toolsets(&mut self, servers: &[&ServerInput<'_>]) -> Vec<Option<NameHolder>> {
        let mut holders = vec![None; servers.len()];
        for enabled in [true, false] {
            for (server, taken_by) in servers.iter().zip(&mut holders) {
                if server.is_enabled() == enabled {
                    let holder = NameHolder::Server(server.spec.key().into());
                    let name = server.spec.toolset().into();
                    *taken_by = self.claims.claim(Namespace::Toolsets, &name, &holder).err();
                }
            }
        }
        holders
    }

    fn name_for_models(&mut self, server_plan: &mut ServerPlan<'_>) {
        for tool in &mut server_plan.tools {
            let wanted = tool.model_name.clone();
            let (given, other) =
                self.claim_model_name(&tool.name, wanted.clone(), &server_plan.holder);
            if let Some(other) = other {
                let (spec, own) = (&server_plan.input.spec, tool.item.name());
                let problem = problems::alias_collision(spec, own, (&wanted, &given), &other);
                self.problems.push(problem);
            }
            tool.model_name = given;
        }
    }

    /// Claims the name for models. Returns it, and the holder of the wanted name if that was taken.
    fn claim_model_name(
        &mut self,
        name: &Arc<str>,
        wanted: Arc<str>,
        holder: &NameHolder,
    ) -> (Arc<str>, Option<NameHolder>) {
        if *name == wanted {
            return (wanted, None);
        }
        let Err(other) = self.claims.claim(Namespace::Tools, &wanted, holder) else {
            return (wanted, None);
        };
        let names = ToolNames { id: name.to_string(), model: wanted.to_string() };
        let mut attempt = 0;
        loop {
            let given: Arc<str> = names.disambiguated(attempt).into();
            if self.claims.claim(Namespace::Tools, &given, holder).is_ok() {
                return (given, Some(other));
            }
            attempt += 1;
        }
    }
}
