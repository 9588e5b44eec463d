//! Which servers a principal may see. A server without a grant looks unknown.

use std::sync::Arc;

use toolcrib_config::{Problem, ServerSpec};
use toolcrib_upstream::conn::{CatalogChange, ChangeKind, ListKind};

use super::host_snapshot::HostSnapshot;
use super::reload::{Reload, ReloadedServer};
use crate::access::{Attachments, ToolsetPermissions, ToolsetRef};

/// The servers of one snapshot, as one principal may see them.
#[derive(Clone, Debug)]
pub struct Visibility {
    published: Arc<HostSnapshot>,
    attached: Arc<Attachments>,
    /// `None` for the owner.
    agent: Option<Arc<str>>,
}

impl Visibility {
    pub(super) fn new(
        published: Arc<HostSnapshot>,
        attached: Arc<Attachments>,
        agent: Option<&str>,
    ) -> Self {
        Visibility { published, attached, agent: agent.map(Into::into) }
    }

    /// Whether the principal is the owner of the host.
    pub fn is_owner(&self) -> bool {
        self.agent.is_none()
    }

    /// Whether the principal may see every server, configured or removed: the owner, and `default`
    /// unless the configuration names it.
    pub fn is_unrestricted(&self) -> bool {
        self.agent.as_deref().is_none_or(|agent| self.published.grants.is_unrestricted(agent))
    }

    /// Whether the principal may see a server.
    pub fn includes_spec(&self, spec: &ServerSpec) -> bool {
        self.permissions(spec).is_none_or(|permissions| !permissions.is_empty())
    }

    /// Whether the principal may see a server, by its id or key. If several servers have the id,
    /// whether it may see all of them. Only an unrestricted principal may see a removed server.
    pub fn includes(&self, server: &str) -> bool {
        self.all_named(server, |spec| self.includes_spec(spec))
    }

    /// Whether the principal may see a tool, by its server's id or key and its original name.
    pub fn includes_tool(&self, server: &str, tool: &str) -> bool {
        self.all_named(server, |spec| {
            self.permissions(spec).is_none_or(|permissions| permissions.permits(tool))
        })
    }

    /// [`Visibility::includes_tool`] by the tool's name in the registry.
    pub fn includes_registered(&self, server: &str, name: &str) -> bool {
        let mut tools = self.published.registry.view(None).tools_of(server);
        let own = tools.find(|tool| tool.name() == name);
        self.is_unrestricted()
            || own.is_some_and(|tool| self.includes_tool(server, tool.original_name()))
    }

    /// Whether the principal may see a change in a server's lists. Resources and prompts are
    /// granted only with their whole server.
    pub fn includes_change(&self, server: &str, change: &CatalogChange) -> bool {
        match change.list {
            ListKind::Tools => match &change.kind {
                ChangeKind::Renamed { to } => {
                    self.includes_tool(server, &change.name) && self.includes_tool(server, to)
                }
                _ => self.includes_tool(server, &change.name),
            },
            _ => self.all_named(server, |spec| {
                self.permissions(spec).is_none_or(|it| it.allows_every_tool())
            }),
        }
    }

    /// Whether the principal may see a problem: its server, its tool and every other server that it
    /// names. A problem without a server concerns the host.
    pub fn includes_problem(&self, problem: &Problem) -> bool {
        if self.is_unrestricted() {
            return true;
        }
        let Some(server) = &problem.server else { return false };
        let is_own = |agent: &String| self.agent.as_deref() == Some(agent);
        self.includes(server)
            && problem.tool.as_ref().is_none_or(|tool| self.includes_tool(server, tool))
            && problem.agent.as_ref().is_none_or(is_own)
            && problem.related.iter().all(|other| self.includes(other))
    }

    /// The part of a reload that the principal may see.
    pub fn filter_reload(&self, reload: &Reload) -> Reload {
        let step = |step: &&ReloadedServer| self.includes(&step.server);
        let problem = |problem: &&Problem| self.includes_problem(problem);
        Reload {
            version: reload.version,
            steps: reload.steps.iter().filter(step).cloned().collect(),
            problems: reload.problems.iter().filter(problem).cloned().collect(),
            took: reload.took,
        }
    }

    fn all_named(&self, name: &str, is_so: impl Fn(&ServerSpec) -> bool) -> bool {
        let called = self.published.registry.servers().filter(|server| server.matches_name(name));
        let mut called = called.peekable();
        match called.peek() {
            Some(_) => called.all(|server| is_so(&server.spec)),
            None => self.is_unrestricted(),
        }
    }

    /// The grants on a server; `None` for the owner, which needs none.
    fn permissions(&self, spec: &ServerSpec) -> Option<ToolsetPermissions> {
        let agent = self.agent.as_deref()?;
        Some(ToolsetPermissions::new(
            &self.published.grants,
            agent,
            &self.attached,
            ToolsetRef::Server(spec),
        ))
    }
}
