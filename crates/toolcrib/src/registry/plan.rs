//! The plan: from specs and lists to a snapshot, in one order, the same for the same input.
//!
//! The order is: native tools, names that are reserved, global servers, then each folder's servers over them.
//! So what is global has the same names wherever it is seen, and no folder takes anything away from it. Among
//! servers it is load order, and whoever comes first keeps a name. Nothing of an earlier plan is looked at:
//! a name that became free is taken up by the next that wants it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use toolcrib_config::Problem;
use toolcrib_config::model::naming::{Names, Naming};
use toolcrib_wire::view;

use super::choose::Chosen;
use super::claims::{Claims, Holder, Space};
use super::draft::Draft;
use super::input::{Input, Scope, Upstream};
use super::native::{Native, NativeToolset};
use super::problems;
use super::snapshot::{Content, Layer, Snapshot, Toolset};
use super::tool::{Home, Standing, Tool};

/// Everything that is offered, and everything that was decided against.
pub fn plan(input: &Input<'_>) -> (Snapshot, Vec<Problem>) {
    let mut global = Planner::default();
    global.natives(input.native);
    global.reserve(input);
    let everywhere = input.servers.iter().filter(|server| server.scope == Scope::Global);
    global.servers(&everywhere.collect::<Vec<_>>());

    let Planner { claims, layer, mut problems } = global;
    let mut folders = BTreeMap::new();
    for (path, servers) in by_folder(&input.servers) {
        let mut folder = Planner { claims: Claims::over(&claims), ..Planner::default() };
        folder.servers(&servers);
        problems.append(&mut folder.problems);
        folders.insert(path.to_path_buf(), folder.layer);
    }
    let content = Content { version: input.version, global: layer, folders };
    (Snapshot::new(content), problems)
}

fn by_folder<'i, 'a>(servers: &'i [Upstream<'a>]) -> BTreeMap<&'i Path, Vec<&'i Upstream<'a>>> {
    let mut folders: BTreeMap<&Path, Vec<_>> = BTreeMap::new();
    for server in servers {
        if let Scope::Cwd(path) = &server.scope {
            folders.entry(path).or_default().push(server);
        }
    }
    folders
}

/// One scope in the making.
#[derive(Debug, Default)]
pub(super) struct Planner<'b> {
    pub(super) claims: Claims<'b>,
    pub(super) layer: Layer,
    pub(super) problems: Vec<Problem>,
}

type NativeChoice<'a> = Chosen<'a, (view::Tool, Native)>;

impl Planner<'_> {
    fn natives(&mut self, toolsets: &[NativeToolset]) {
        let placed = toolsets.iter().filter_map(|toolset| {
            let tools = self.claim_native(toolset)?;
            Some((toolset, tools))
        });
        let placed: Vec<_> = placed.collect();
        for (toolset, tools) in placed {
            let holder = Holder::Native(toolset.name.clone());
            let tools = tools.into_iter().map(|Chosen { item, name, model_name }| {
                let (model_name, _) = self.model_name(&name, model_name, &holder);
                let (item, native) = item.clone();
                let (names, home) = ((name, model_name), Home::Native(native));
                Arc::new(Tool::new(names, toolset.name.clone(), item, home, Standing::Ready))
            });
            let (name, description) = (toolset.name.clone(), toolset.description.clone());
            let tools = tools.collect();
            self.layer.add(Toolset { name, description, server: None, tools });
        }
    }

    /// Takes the names of a native toolset and of its tools; nothing where the toolset's own is taken.
    fn claim_native<'a>(&mut self, toolset: &'a NativeToolset) -> Option<Vec<NativeChoice<'a>>> {
        let plain = Naming { template: "{tool}".to_owned(), ..Naming::default() };
        let holder = Holder::Native(toolset.name.clone());
        if let Err(other) = self.claims.claim(Space::Toolsets, &toolset.name, &holder) {
            let told = problems::native("toolset.collision", "toolset", &toolset.name, &other);
            self.problems.push(told);
            return None;
        }
        let mut tools = Vec::with_capacity(toolset.tools.len());
        for item in &toolset.tools {
            let Ok(names) = plain.names("", item.0.name()) else {
                continue;
            };
            let chosen = Chosen::new(item, names);
            match self.claims.claim(Space::Tools, &chosen.name, &holder) {
                Ok(()) => tools.push(chosen),
                Err(other) => {
                    let told = problems::native("name.collision", "tool", &chosen.name, &other);
                    self.problems.push(told);
                }
            }
        }
        Some(tools)
    }

    /// A native tool may be what a name is reserved for: it keeps it.
    fn reserve(&mut self, input: &Input<'_>) {
        let names =
            [(Space::Tools, input.reserved_tools), (Space::Toolsets, input.reserved_toolsets)];
        for (space, names) in names {
            for name in names {
                let _ = self.claims.claim(space, &name.as_str().into(), &Holder::Reserved);
            }
        }
    }

    fn servers<'a>(&mut self, servers: &[&'a Upstream<'a>]) {
        let toolsets = self.claim_toolsets(servers);
        let drafts = servers.iter().zip(toolsets);
        let mut drafts: Vec<_> = drafts.map(|(server, taken)| self.draft(server, taken)).collect();
        // No alias may take the id of a tool that comes later: so the ids go first, all of them.
        for draft in &mut drafts {
            self.name_for_models(draft);
        }
        for draft in drafts {
            draft.publish(&mut self.layer);
        }
    }

    /// Who has the name of each server's toolset, if somebody has. One that is switched off does not stand
    /// in the way of one that is not.
    fn claim_toolsets(&mut self, servers: &[&Upstream<'_>]) -> Vec<Option<Holder>> {
        let mut taken = vec![None; servers.len()];
        for enabled in [true, false] {
            for (server, taken) in servers.iter().zip(&mut taken) {
                if server.is_enabled() == enabled {
                    let holder = Holder::Server(server.spec.key().into());
                    let name = server.spec.toolset().into();
                    *taken = self.claims.claim(Space::Toolsets, &name, &holder).err();
                }
            }
        }
        taken
    }

    fn name_for_models(&mut self, draft: &mut Draft<'_>) {
        for tool in &mut draft.tools {
            let wanted = tool.model_name.clone();
            let (given, other) = self.model_name(&tool.name, wanted.clone(), &draft.holder);
            if let Some(other) = other {
                let (spec, own) = (&draft.upstream.spec, tool.item.name());
                let told = problems::told_apart(spec, own, (&wanted, &given), &other);
                self.problems.push(told);
            }
            tool.model_name = given;
        }
    }

    /// The name for models that a tool gets, and who has the one that it wanted if that is another.
    fn model_name(
        &mut self,
        name: &Arc<str>,
        wanted: Arc<str>,
        holder: &Holder,
    ) -> (Arc<str>, Option<Holder>) {
        if *name == wanted {
            return (wanted, None);
        }
        let Err(other) = self.claims.claim(Space::Tools, &wanted, holder) else {
            return (wanted, None);
        };
        let names = Names { id: name.to_string(), model: wanted.to_string() };
        let mut attempt = 0;
        loop {
            let given: Arc<str> = names.told_apart(attempt).into();
            if self.claims.claim(Space::Tools, &given, holder).is_ok() {
                return (given, Some(other));
            }
            attempt += 1;
        }
    }
}
