//! Calls to tools whose server died: the call starts the server again and waits for it (DOM-94, DIS-51).

use std::time::Duration;

use tokio::time::Instant;
use toolcrib_upstream::conn::{State, Want};

use super::call::{CallRequest, longest_wait, patience};
use super::note::Note;
use super::send::unsent;
use super::serving::NoSession;
use super::turn::Turn;
use crate::registry;
use crate::shape::CallError;

/// A turn in which the server is up again.
pub(super) struct Restarted {
    pub(super) turn: Turn,
    /// The caller's time limit without the wait, where there is a limit.
    pub(super) timeout: Option<Duration>,
}

impl Turn {
    /// Starts the server of a tool that is missing only because its server is away, and waits for it within the
    /// call's limit. `None` where the tool is missing for another reason.
    pub(super) async fn restart_for(
        &self,
        note: &mut Note<'_>,
        request: &CallRequest,
    ) -> Option<Result<Restarted, CallError>> {
        let server = self.away_server(&request.tool)?;
        note.waits_for(server, &self.serving(server)?.meter);
        Some(self.restart(server, request.timeout).await)
    }

    /// The newest turn, after the server of a tool that is missing only because its server is away was started again;
    /// this turn where that is not so or fails.
    pub(super) async fn with_restarted(self, tool: &str) -> Turn {
        match self.away_server(tool) {
            Some(server) => match self.restart(server, None).await {
                Ok(restarted) => restarted.turn,
                Err(_) => self,
            },
            None => self,
        }
    }

    async fn restart(
        &self,
        server: &registry::Server,
        timeout: Option<Duration>,
    ) -> Result<Restarted, CallError> {
        let not_there = || CallError::not_connected(server.id());
        let serving = self.serving(server).ok_or_else(not_there)?;
        let limits = patience(timeout, &server.spec.policy.timeouts);
        let (begun, stood, clock) = (Instant::now(), serving.stood(), serving.server.clock());
        let late = clock.late_after(longest_wait(limits));
        let ready = clock.by(late, serving.server.main().ready(Want::Call)).await;
        let ready = ready.ok_or(NoSession::Late).and_then(|ready| ready.map_err(NoSession::Down));
        ready.map_err(|why| unsent(server.id(), why, begun.elapsed()))?;
        self.core().listed().await;
        let waited = serving.waited(begun, stood);
        let timeout = limits.request.map(|limit| limit.saturating_sub(waited));
        Ok(Restarted { turn: Turn::new(self.dialog.clone()), timeout })
    }

    /// The server of a tool that the agent could use if only its server were there, and that a call may start.
    pub(super) fn away_server(&self, name: &str) -> Option<&registry::Server> {
        let view = self.view();
        let (server, original_name) = match view.tool(name) {
            Some(tool) => (tool.server()?, tool.original_name()),
            None => {
                let mut dropped = view.all_dropped().filter(|it| it.is_away_tool());
                let dropped = dropped.find(|it| {
                    it.names.as_ref().is_some_and(|names| names.id == name || names.model == name)
                })?;
                (view.server(&dropped.server)?, &*dropped.original_name)
            }
        };
        let serving = self.serving(server)?;
        let is_away = server.presence == registry::Presence::Away;
        // Whoever stopped a server starts it again.
        let is_away = is_away && serving.state() != State::Stopped;
        (is_away && self.permits_if_present(server, original_name)).then_some(&**server)
    }

    /// The name of a server's tool that the agent could use if only the server were there.
    pub fn away_tool_of(&self, server: &str, original_name: &str) -> Option<String> {
        let view = self.view();
        let found = view.server(server)?;
        let mut hidden = view.tools_of(server);
        let name = match hidden.find(|tool| tool.original_name() == original_name) {
            Some(tool) => tool.name().to_owned(),
            None => {
                let is_it = |it: &&registry::Dropped| {
                    it.is_away_tool() && it.server == found.key && it.original_name == original_name
                };
                view.all_dropped().find(is_it)?.names.as_ref()?.id.clone()
            }
        };
        self.away_server(&name).map(|_| name)
    }
}
