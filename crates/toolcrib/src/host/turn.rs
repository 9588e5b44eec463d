//! One step of a dialog, which sees a single snapshot.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use toolcrib_upstream::conn::ServerState;

use super::admin_tools;
use super::core::Core;
use super::dialog::{Dialog, DialogState};
use super::host_snapshot::HostSnapshot;
use super::resource_tools;
use super::running_server::RunningServer;
use super::snapshot_readers::SnapshotReader;
use super::visibility::Visibility;
use crate::access::{
    Attachments, Decision, Gate, GateReport, NativeReach, ServerAvailability, Switches, ToolQuery,
    ToolVisibility, ToolsetPermissions, ToolsetRef, decide,
};
use crate::registry::{self, Snapshot, SnapshotView, Tool};
use crate::store::ServerOverride;

/// A turn. While it lives, its servers keep running, even if a reload removes them.
///
/// ```
/// # async fn example(dialog: toolcrib::Dialog) {
/// let turn = dialog.turn().await;
/// for tool in turn.tools() {
///     println!("{}", tool.name());
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Turn {
    pub(super) dialog: Dialog,
    pub(super) published: Arc<HostSnapshot>,
    switches: Arc<Switches>,
    attached: Arc<Attachments>,
    overrides: Arc<BTreeMap<String, ServerOverride>>,
    _reader: Arc<SnapshotReader>,
}

/// Everything that a turn's lists depend on. Equal keys mean equal lists.
#[derive(Clone, Debug)]
pub struct ListKey {
    published: Arc<HostSnapshot>,
    agent: Arc<str>,
    cwd: PathBuf,
    switches: Arc<Switches>,
    attached: Arc<Attachments>,
    holds_leases: bool,
}

impl ListKey {
    /// The number of the snapshot.
    pub fn version(&self) -> u64 {
        self.published.registry.version()
    }
}

impl PartialEq for ListKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.published, &other.published)
            && self.holds_leases == other.holds_leases
            && self.agent == other.agent
            && Arc::ptr_eq(&self.attached, &other.attached)
            && self.switches == other.switches
            && self.cwd == other.cwd
    }
}

/// An explanation why an agent can or cannot use a tool.
#[derive(Clone, Debug)]
pub struct ToolExplanation {
    /// The name in the registry, or the requested name.
    pub name: String,
    /// The key of the tool's server, if it has one.
    pub server: Option<Arc<str>>,
    /// The gates of the tool; `None` if there is no tool with this name.
    pub gates: Option<GateReport>,
    /// Why the tool is not registered, in addition to the gates.
    pub dropped_reason: Option<String>,
    /// The key of the server that owns the tool's name, if `dropped_reason` names that server.
    name_holder: Option<Arc<str>>,
}

impl ToolExplanation {
    fn unknown(name: &str) -> Self {
        let name = name.to_owned();
        ToolExplanation { name, server: None, gates: None, dropped_reason: None, name_holder: None }
    }

    /// The explanation for a principal that asked for `name`. If the grant gate denies a server's
    /// tool, the tool looks unknown. Another server is named only to a principal that may see it.
    #[must_use]
    pub fn for_viewer(self, viewer: &Visibility, name: &str) -> Self {
        let is_granted = self.gates.as_ref().is_some_and(|gates| gates.passes(Gate::Grant));
        if self.server.is_some() && !is_granted && !viewer.is_owner() {
            return Self::unknown(name);
        }
        let is_named = self.name_holder.as_ref().is_some_and(|other| !viewer.includes(other));
        match is_named {
            true => ToolExplanation {
                dropped_reason: Some(NAME_TAKEN.to_owned()),
                name_holder: None,
                ..self
            },
            false => self,
        }
    }
}

/// Replaces the reason that a tool is not registered, if the owner of its name must not be shown.
const NAME_TAKEN: &str = "its name is taken";

impl Turn {
    pub(super) fn new(dialog: Dialog) -> Self {
        let core = dialog.host.core();
        let (published, reader) = core.acquire_newest();
        Turn {
            switches: dialog.inner.switches(),
            attached: core.attached.load_full(),
            overrides: core.overrides.load_full(),
            published: dialog.inner.lists.apply_to(core, published),
            _reader: reader,
            dialog,
        }
    }

    /// The number of the snapshot.
    pub fn version(&self) -> u64 {
        self.published.registry.version()
    }

    /// The registry snapshot of the turn, with the lists of the dialog's own sessions.
    pub fn snapshot(&self) -> &Snapshot {
        &self.published.registry
    }

    /// The dialog of the turn.
    pub fn dialog(&self) -> &Dialog {
        &self.dialog
    }

    /// The tools that the agent sees, in the order of the files.
    pub fn tools(&self) -> Vec<Arc<Tool>> {
        let mut tools = Vec::new();
        for toolset in self.view().toolsets() {
            if !self.is_offered(toolset.server.as_deref()) {
                continue;
            }
            let permissions =
                self.permissions(self.toolset(&toolset.name, toolset.server.as_deref(), ""));
            let may = |tool: &Tool| {
                permissions.permits(tool.original_name())
                    || self.can_release(tool.toolset(), tool.name())
            };
            let listed = toolset.tools.iter().filter(|tool| tool.availability().is_listed());
            tools.extend(listed.filter(|tool| may(tool)).cloned());
        }
        tools
    }

    /// A tool that the agent sees, by its id or model name.
    pub fn tool(&self, name: &str) -> Option<Arc<Tool>> {
        let tool = self.view().tool(name)?;
        match self.decide(tool) {
            Decision::Permitted | Decision::Unavailable(_) => Some(Arc::clone(tool)),
            Decision::Denied(_) => None,
        }
    }

    /// The tools of one server that the agent sees, by the server's id or key.
    pub fn tools_of(&self, server: &str) -> Vec<Arc<Tool>> {
        let Some(server) = self.view().server(server) else { return Vec::new() };
        let is_of = |tool: &Arc<Tool>| tool.server().is_some_and(|of| Arc::ptr_eq(of, server));
        self.tools().into_iter().filter(is_of).collect()
    }

    /// A tool that the agent sees, by its server's id or key and its original name.
    pub fn tool_of(&self, server: &str, original_name: &str) -> Option<Arc<Tool>> {
        let mut own = self.view().tools_of(server);
        let tool = own.find(|tool| tool.original_name() == original_name)?;
        self.tool(tool.name())
    }

    /// The key of this turn's lists.
    pub fn list_key(&self) -> ListKey {
        ListKey {
            published: Arc::clone(&self.published),
            agent: Arc::clone(&self.dialog.inner.agent),
            cwd: self.dialog.inner.cwd.clone(),
            switches: Arc::clone(&self.switches),
            attached: Arc::clone(&self.attached),
            holds_leases: self.dialog.has_lease(),
        }
    }

    /// Explains each gate that a tool passes or fails.
    pub fn explain_tool(&self, name: &str) -> ToolExplanation {
        let view = self.view();
        if let Some(tool) = view.tool(name) {
            let server = tool.server();
            let toolset = self.toolset(tool.toolset(), server.map(|it| &**it), tool.name());
            let gates = GateReport::new(&self.tool_query(
                toolset,
                server.map(|it| &**it),
                tool.original_name(),
            ));
            let server = server.map(|server| Arc::clone(&server.key));
            return ToolExplanation {
                name: tool.name().to_owned(),
                server,
                gates: Some(gates),
                dropped_reason: None,
                name_holder: None,
            };
        }
        let dropped = view.dropped(name).find(|dropped| dropped.kind == registry::ItemKind::Tool);
        let found = dropped.and_then(|dropped| Some((dropped, view.server(&dropped.server)?)));
        let Some((dropped, server)) = found else {
            return ToolExplanation::unknown(name);
        };
        let query =
            self.tool_query(ToolsetRef::Server(&server.spec), Some(server), &dropped.original_name);
        let name_holder = match &dropped.reason {
            registry::DropReason::Taken(registry::NameHolder::Server(key)) => Some(Arc::clone(key)),
            _ => None,
        };
        let would_be = dropped.names.as_ref().map_or(&dropped.original_name, |names| &names.id);
        ToolExplanation {
            name: would_be.clone(),
            server: Some(Arc::clone(&server.key)),
            gates: Some(GateReport::new(&query)),
            dropped_reason: Some(dropped.reason.to_string()),
            name_holder,
        }
    }

    /// Whether a tool with this name exists for any agent.
    pub(super) fn has_tool(&self, name: &str) -> bool {
        self.view().tool(name).is_some()
    }

    pub(super) fn view(&self) -> SnapshotView<'_> {
        self.published.registry.view(Some(&self.dialog.inner.cwd))
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        self.dialog.host.core()
    }

    pub(super) fn dialog_state(&self) -> &Arc<DialogState> {
        &self.dialog.inner
    }

    pub(super) fn decide(&self, tool: &Tool) -> Decision {
        let server = tool.server().map(|server| &**server);
        let toolset = self.toolset(tool.toolset(), server, tool.name());
        decide(&self.tool_query(toolset, server, tool.original_name()))
    }

    pub(super) fn running_server(
        &self,
        server: &registry::RegisteredServer,
    ) -> Option<&Arc<RunningServer>> {
        self.published.running_server(server)
    }

    /// Whether the agent may use the whole server. Prompts and resources are granted only with
    /// their whole server.
    pub(super) fn can_use_server(&self, server: &registry::RegisteredServer) -> bool {
        self.is_offered(Some(server))
            && self.permissions(ToolsetRef::Server(&server.spec)).allows_every_tool()
    }

    /// Whether the agent may use the whole server and a request may restart it after its process
    /// died.
    pub(super) fn can_start_server(&self, server: &registry::RegisteredServer) -> bool {
        let is_stopped =
            self.running_server(server).is_none_or(|it| it.state() == ServerState::Stopped);
        let is_away = server.presence == registry::Presence::Away && !is_stopped;
        let is_on =
            ToolVisibility::new(&server.spec, &self.switches, ServerAvailability::Available(""))
                != ToolVisibility::Hidden;
        is_away && is_on && self.permissions(ToolsetRef::Server(&server.spec)).allows_every_tool()
    }

    fn permissions(&self, toolset: ToolsetRef<'_>) -> ToolsetPermissions {
        ToolsetPermissions::new(
            &self.published.grants,
            &self.dialog.inner.agent,
            &self.attached,
            toolset,
        )
    }

    /// Whether the dialog's switches and the server's state allow listing the server.
    fn is_offered(&self, server: Option<&registry::RegisteredServer>) -> bool {
        let Some(server) = server else { return true };
        let presence = match server.presence {
            registry::Presence::Up => ServerAvailability::Available(""),
            registry::Presence::Away => ServerAvailability::Unavailable(""),
            registry::Presence::Disabled => ServerAvailability::Disabled { by: None },
        };
        ToolVisibility::new(&server.spec, &self.switches, presence) != ToolVisibility::Hidden
    }

    fn toolset<'a>(
        &self,
        name: &'a str,
        server: Option<&'a registry::RegisteredServer>,
        tool: &str,
    ) -> ToolsetRef<'a> {
        match server {
            Some(server) => ToolsetRef::Server(&server.spec),
            None if self.can_release(name, tool) => {
                ToolsetRef::Native { name, reach: NativeReach::Everyone }
            }
            None if name == resource_tools::TOOLSET && !self.has_resource_tools() => {
                ToolsetRef::Native { name, reach: NativeReach::ByName }
            }
            None => {
                let to =
                    self.core().native_reach.get(name).copied().unwrap_or(NativeReach::Members);
                ToolsetRef::Native { name, reach: to }
            }
        }
    }

    /// Whether the agent may use a server that offers its resources as tools.
    fn has_resource_tools(&self) -> bool {
        let is_offered =
            |it: &registry::RegisteredServer| resource_tools::exposes_as_tools(&it.spec);
        self.view().servers().any(|server| is_offered(server) && self.can_use_server(server))
    }

    /// An agent with a lease may release it.
    fn can_release(&self, toolset: &str, tool: &str) -> bool {
        toolset == admin_tools::TOOLSET && tool == admin_tools::RELEASE && self.dialog.has_lease()
    }

    fn tool_query<'a>(
        &'a self,
        toolset: ToolsetRef<'a>,
        server: Option<&'a registry::RegisteredServer>,
        tool: &'a str,
    ) -> ToolQuery<'a> {
        ToolQuery {
            grants: &self.published.grants,
            attached: &self.attached,
            agent: &self.dialog.inner.agent,
            toolset,
            tool,
            switches: &self.switches,
            presence: server
                .map_or(ServerAvailability::Available("there"), |server| self.presence(server)),
        }
    }

    /// Whether the agent may use a server's tool, regardless of the server's presence.
    pub(super) fn permits_if_present(
        &self,
        server: &registry::RegisteredServer,
        tool: &str,
    ) -> bool {
        let query = self.tool_query(ToolsetRef::Server(&server.spec), Some(server), tool);
        decide(&ToolQuery { presence: ServerAvailability::Available(""), ..query })
            == Decision::Permitted
    }

    fn presence(&self, server: &registry::RegisteredServer) -> ServerAvailability<'_> {
        let state = self.running_server(server).map_or("gone", |running| running.state().as_str());
        match server.presence {
            registry::Presence::Up => ServerAvailability::Available(state),
            registry::Presence::Away => ServerAvailability::Unavailable(state),
            registry::Presence::Disabled => {
                let by = self.overrides.get(&*server.key).filter(|it| !it.enabled);
                ServerAvailability::Disabled { by: by.map(|it| it.set_by.as_str()) }
            }
        }
    }
}
