//! One step of a dialog: everything in it is of one snapshot, whatever is published meanwhile.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use toolcrib_upstream::conn::State;

use super::admin;
use super::core::Core;
use super::dialog::{Dialog, Inner};
use super::published::Published;
use super::resource_tools;
use super::serving::Serving;
use super::turns::Reading;
use super::visibility::Visibility;
use crate::access::{
    Asked, Attached, Decision, Gate, Gates, Pass, Presence, Reach, Standing, Switches, Toolset,
    decide,
};
use crate::registry::{self, Snapshot, Tool, View};
use crate::store::Override;

/// A turn. While it lives, what it has seen answers, also if it is removed meanwhile.
#[derive(Debug)]
pub struct Turn {
    pub(super) dialog: Dialog,
    pub(super) published: Arc<Published>,
    switches: Arc<Switches>,
    attached: Arc<Attached>,
    overrides: Arc<BTreeMap<String, Override>>,
    _reading: Arc<Reading>,
}

/// What the lists of a turn depend on.
#[derive(Clone, Debug)]
pub struct Sight {
    published: Arc<Published>,
    agent: Arc<str>,
    cwd: PathBuf,
    switches: Arc<Switches>,
    attached: Arc<Attached>,
    holds_leases: bool,
}

impl Sight {
    /// The number of the snapshot.
    pub fn version(&self) -> u64 {
        self.published.snapshot.version()
    }
}

impl PartialEq for Sight {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.published, &other.published)
            && self.holds_leases == other.holds_leases
            && self.agent == other.agent
            && Arc::ptr_eq(&self.attached, &other.attached)
            && self.switches == other.switches
            && self.cwd == other.cwd
    }
}

/// Which gates a tool passes, for a person.
#[derive(Clone, Debug)]
pub struct Why {
    /// The name in the registry, or the one that was asked for.
    pub name: String,
    /// The key of its server, if it is of one.
    pub server: Option<Arc<str>>,
    /// What each gate says; nothing where nobody has a tool of that name.
    pub gates: Option<Gates>,
    /// Why it is not even registered, besides what the gates say.
    pub left_out: Option<String>,
    /// The key of the other server that `left_out` names.
    left_out_for: Option<Arc<str>>,
}

impl Why {
    fn unknown(name: &str) -> Self {
        let name = name.to_owned();
        Why { name, server: None, gates: None, left_out: None, left_out_for: None }
    }

    /// The answer for a principal that asked for `name`. A tool of a server looks unknown where the grant gate denies
    /// it, and another server is named only to a principal that may know of it.
    #[must_use]
    pub fn shown_to(self, viewer: &Visibility, name: &str) -> Self {
        let is_granted = self.gates.as_ref().is_some_and(|gates| gates.pass(Gate::Grant));
        if self.server.is_some() && !is_granted && !viewer.is_owner() {
            return Self::unknown(name);
        }
        let is_named = self.left_out_for.as_ref().is_some_and(|other| !viewer.includes(other));
        match is_named {
            true => Why { left_out: Some(TAKEN.to_owned()), left_out_for: None, ..self },
            false => self,
        }
    }
}

/// The reason why a tool is left out, where the server that has its name must not be named.
const TAKEN: &str = "its name is taken";

impl Turn {
    pub(super) fn new(dialog: Dialog) -> Self {
        let core = dialog.host.core();
        let (published, reading) = core.read_newest();
        Turn {
            switches: dialog.inner.switches(),
            attached: core.attached.load_full(),
            overrides: core.overrides.load_full(),
            published: dialog.inner.own.over(core, published),
            _reading: reading,
            dialog,
        }
    }

    /// The number of the snapshot.
    pub fn version(&self) -> u64 {
        self.published.snapshot.version()
    }

    pub fn snapshot(&self) -> &Snapshot {
        &self.published.snapshot
    }

    pub fn dialog(&self) -> &Dialog {
        &self.dialog
    }

    /// What the agent sees, in the order of the files.
    pub fn tools(&self) -> Vec<Arc<Tool>> {
        let mut tools = Vec::new();
        for toolset in self.view().toolsets() {
            if !self.is_offered(toolset.server.as_deref()) {
                continue;
            }
            let pass = self.pass(self.toolset(&toolset.name, toolset.server.as_deref(), ""));
            let may = |tool: &Tool| {
                pass.permits(tool.original_name()) || self.may_release(tool.toolset(), tool.name())
            };
            let listed = toolset.tools.iter().filter(|tool| tool.standing().is_listed());
            tools.extend(listed.filter(|tool| may(tool)).cloned());
        }
        tools
    }

    /// A tool that the agent sees, by either name.
    pub fn tool(&self, name: &str) -> Option<Arc<Tool>> {
        let tool = self.view().tool(name)?;
        match self.decide(tool) {
            Decision::Permitted | Decision::Away(_) => Some(Arc::clone(tool)),
            Decision::Denied(_) => None,
        }
    }

    /// The tools of one server that the agent sees, by the server's id or key.
    pub fn tools_of(&self, server: &str) -> Vec<Arc<Tool>> {
        let Some(server) = self.view().server(server) else { return Vec::new() };
        let is_of = |tool: &Arc<Tool>| tool.server().is_some_and(|of| Arc::ptr_eq(of, server));
        self.tools().into_iter().filter(is_of).collect()
    }

    /// A tool that the agent sees, by its server's id or key and the name that it has there.
    pub fn tool_of(&self, server: &str, original_name: &str) -> Option<Arc<Tool>> {
        let mut own = self.view().tools_of(server);
        let tool = own.find(|tool| tool.original_name() == original_name)?;
        self.tool(tool.name())
    }

    /// What this turn's lists depend on: turns of equal sight list the same.
    pub fn sight(&self) -> Sight {
        Sight {
            published: Arc::clone(&self.published),
            agent: Arc::clone(&self.dialog.inner.agent),
            cwd: self.dialog.inner.cwd.clone(),
            switches: Arc::clone(&self.switches),
            attached: Arc::clone(&self.attached),
            holds_leases: self.dialog.has_lease(),
        }
    }

    /// Each gate that a tool passes or fails.
    pub fn why(&self, name: &str) -> Why {
        let view = self.view();
        if let Some(tool) = view.tool(name) {
            let server = tool.server();
            let toolset = self.toolset(tool.toolset(), server.map(|it| &**it), tool.name());
            let gates =
                Gates::of(&self.asked(toolset, server.map(|it| &**it), tool.original_name()));
            let server = server.map(|server| Arc::clone(&server.key));
            return Why {
                name: tool.name().to_owned(),
                server,
                gates: Some(gates),
                left_out: None,
                left_out_for: None,
            };
        }
        let dropped = view.dropped(name).find(|dropped| dropped.list == registry::List::Tool);
        let found = dropped.and_then(|dropped| Some((dropped, view.server(&dropped.server)?)));
        let Some((dropped, server)) = found else {
            return Why::unknown(name);
        };
        let asked = self.asked(Toolset::Server(&server.spec), Some(server), &dropped.original_name);
        let left_out_for = match &dropped.reason {
            registry::Reason::Taken(registry::Holder::Server(key)) => Some(Arc::clone(key)),
            _ => None,
        };
        let would_be = dropped.names.as_ref().map_or(&dropped.original_name, |names| &names.id);
        Why {
            name: would_be.clone(),
            server: Some(Arc::clone(&server.key)),
            gates: Some(Gates::of(&asked)),
            left_out: Some(dropped.reason.to_string()),
            left_out_for,
        }
    }

    /// Whether there is such a tool at all, for anybody.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.view().tool(name).is_some()
    }

    pub(super) fn view(&self) -> View<'_> {
        self.published.snapshot.view(Some(&self.dialog.inner.cwd))
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        self.dialog.host.core()
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.dialog.inner
    }

    pub(super) fn decide(&self, tool: &Tool) -> Decision {
        let server = tool.server().map(|server| &**server);
        let toolset = self.toolset(tool.toolset(), server, tool.name());
        decide(&self.asked(toolset, server, tool.original_name()))
    }

    pub(super) fn serving(&self, server: &registry::Server) -> Option<&Arc<Serving>> {
        self.published.serving(server)
    }

    /// Whether the agent may use all that a server has: its prompts and resources are granted with it as a whole.
    pub(super) fn may_use(&self, server: &registry::Server) -> bool {
        self.is_offered(Some(server)) && self.pass(Toolset::Server(&server.spec)).is_whole()
    }

    /// Whether the agent may use all that a server has whose process died, and which a request starts again.
    pub(super) fn may_start(&self, server: &registry::Server) -> bool {
        let is_stopped = self.serving(server).is_none_or(|it| it.state() == State::Stopped);
        let is_away = server.presence == registry::Presence::Away && !is_stopped;
        let is_on =
            Standing::of(&server.spec, &self.switches, Presence::Here("")) != Standing::Hidden;
        is_away && is_on && self.pass(Toolset::Server(&server.spec)).is_whole()
    }

    fn pass(&self, toolset: Toolset<'_>) -> Pass {
        Pass::of(&self.published.grants, &self.dialog.inner.agent, &self.attached, toolset)
    }

    /// Whether the dialog and the server's state let anything of it be listed.
    fn is_offered(&self, server: Option<&registry::Server>) -> bool {
        let Some(server) = server else { return true };
        let presence = match server.presence {
            registry::Presence::Up => Presence::Here(""),
            registry::Presence::Away => Presence::Away(""),
            registry::Presence::Disabled => Presence::Disabled { by: None },
        };
        Standing::of(&server.spec, &self.switches, presence) != Standing::Hidden
    }

    fn toolset<'a>(
        &self,
        name: &'a str,
        server: Option<&'a registry::Server>,
        tool: &str,
    ) -> Toolset<'a> {
        match server {
            Some(server) => Toolset::Server(&server.spec),
            None if self.may_release(name, tool) => Toolset::Native { name, to: Reach::Everybody },
            None if name == resource_tools::TOOLSET && !self.has_resource_tools() => {
                Toolset::Native { name, to: Reach::ByName }
            }
            None => {
                let to = self.core().reach.get(name).copied().unwrap_or(Reach::Members);
                Toolset::Native { name, to }
            }
        }
    }

    /// Whether the agent may use a server whose resources are offered as tools.
    fn has_resource_tools(&self) -> bool {
        let is_offered = |it: &registry::Server| resource_tools::is_wanted(&it.spec);
        self.view().servers().any(|server| is_offered(server) && self.may_use(server))
    }

    /// Whoever holds a lease can give it back.
    fn may_release(&self, toolset: &str, tool: &str) -> bool {
        toolset == admin::TOOLSET && tool == admin::RELEASE && self.dialog.has_lease()
    }

    fn asked<'a>(
        &'a self,
        toolset: Toolset<'a>,
        server: Option<&'a registry::Server>,
        tool: &'a str,
    ) -> Asked<'a> {
        Asked {
            grants: &self.published.grants,
            attached: &self.attached,
            agent: &self.dialog.inner.agent,
            toolset,
            tool,
            switches: &self.switches,
            presence: server.map_or(Presence::Here("there"), |server| self.presence(server)),
        }
    }

    /// Whether the agent may use a tool of a server, whether or not the server is there.
    pub(super) fn permits_if_present(&self, server: &registry::Server, tool: &str) -> bool {
        let asked = self.asked(Toolset::Server(&server.spec), Some(server), tool);
        decide(&Asked { presence: Presence::Here(""), ..asked }) == Decision::Permitted
    }

    fn presence(&self, server: &registry::Server) -> Presence<'_> {
        let state = self.serving(server).map_or("gone", |serving| serving.state().as_str());
        match server.presence {
            registry::Presence::Up => Presence::Here(state),
            registry::Presence::Away => Presence::Away(state),
            registry::Presence::Disabled => {
                let by = self.overrides.get(&*server.key).filter(|it| !it.enabled);
                Presence::Disabled { by: by.map(|it| it.who.as_str()) }
            }
        }
    }
}
