//! Which servers a principal may know of. To whoever asks, a server without a grant looks unknown.

use std::sync::Arc;

use toolcrib_config::{Problem, ServerSpec};
use toolcrib_upstream::conn::{Change, ChangeKind, List};

use super::published::Published;
use super::reload::{Reload, Step};
use crate::access::{Attached, Pass, Toolset};

/// What one principal may know of the servers of one snapshot.
#[derive(Clone, Debug)]
pub struct Visibility {
    published: Arc<Published>,
    attached: Arc<Attached>,
    /// `None` for the owner.
    agent: Option<Arc<str>>,
}

impl Visibility {
    pub(super) fn new(
        published: Arc<Published>,
        attached: Arc<Attached>,
        agent: Option<&str>,
    ) -> Self {
        Visibility { published, attached, agent: agent.map(Into::into) }
    }

    pub fn is_owner(&self) -> bool {
        self.agent.is_none()
    }

    /// Whether the principal may know of every server, configured or gone: the owner, and `default` where the
    /// configuration does not name it.
    pub fn is_unrestricted(&self) -> bool {
        self.agent.as_deref().is_none_or(|agent| self.published.grants.is_unrestricted(agent))
    }

    /// Whether the principal may know of a server.
    pub fn includes_spec(&self, spec: &ServerSpec) -> bool {
        self.pass(spec).is_none_or(|pass| !pass.is_empty())
    }

    /// Whether the principal may know of a server, by its id or key. Where several have the id, of all of them. Only an
    /// unrestricted principal may know of a server that is gone.
    pub fn includes(&self, server: &str) -> bool {
        self.all_called(server, |spec| self.includes_spec(spec))
    }

    /// Whether the principal may know of a tool, by its server's id or key and the server's own name for it.
    pub fn includes_tool(&self, server: &str, tool: &str) -> bool {
        self.all_called(server, |spec| self.pass(spec).is_none_or(|pass| pass.permits(tool)))
    }

    /// The same by the name that the tool has in the registry.
    pub fn includes_registered(&self, server: &str, name: &str) -> bool {
        let mut tools = self.published.snapshot.view(None).tools_of(server);
        let own = tools.find(|tool| tool.name() == name);
        self.is_unrestricted()
            || own.is_some_and(|tool| self.includes_tool(server, tool.original_name()))
    }

    /// Whether the principal may know of a change in a server's lists. Resources and prompts are granted with their
    /// server as a whole.
    pub fn includes_change(&self, server: &str, change: &Change) -> bool {
        match change.list {
            List::Tools => match &change.kind {
                ChangeKind::Renamed { to } => {
                    self.includes_tool(server, &change.name) && self.includes_tool(server, to)
                }
                _ => self.includes_tool(server, &change.name),
            },
            _ => self.all_called(server, |spec| self.pass(spec).is_none_or(|it| it.is_whole())),
        }
    }

    /// Whether the principal may know of a problem: of its server, its tool and every other server that it names. A
    /// problem of no server is a matter of the host.
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

    /// The part of a reload that the principal may know of.
    pub fn reload(&self, reload: &Reload) -> Reload {
        let step = |step: &&Step| self.includes(&step.server);
        let problem = |problem: &&Problem| self.includes_problem(problem);
        Reload {
            version: reload.version,
            steps: reload.steps.iter().filter(step).cloned().collect(),
            problems: reload.problems.iter().filter(problem).cloned().collect(),
            took: reload.took,
        }
    }

    fn all_called(&self, name: &str, is_so: impl Fn(&ServerSpec) -> bool) -> bool {
        let called = self.published.snapshot.servers().filter(|server| server.is_called(name));
        let mut called = called.peekable();
        match called.peek() {
            Some(_) => called.all(|server| is_so(&server.spec)),
            None => self.is_unrestricted(),
        }
    }

    /// The grants on a server; `None` for the owner, who needs none.
    fn pass(&self, spec: &ServerSpec) -> Option<Pass> {
        let agent = self.agent.as_deref()?;
        Some(Pass::of(&self.published.grants, agent, &self.attached, Toolset::Server(spec)))
    }
}
