//! Restarts a dead server when one of its tools is called, and waits for it (DOM-94, DIS-51).

use std::time::Duration;

use tokio::time::Instant;
use toolcrib_upstream::conn::{Demand, ServerState};

use super::call::{CallRequest, request_limits, session_wait_limit};
use super::call_record::CallRecorder;
use super::running_server::SessionError;
use super::turn::Turn;
use super::upstream_request::session_error;
use crate::registry;
use crate::results::CallError;

/// A turn in which the server is running again.
pub(super) struct RestartedTurn {
    pub(super) turn: Turn,
    /// The caller's time limit minus the wait, if there is a limit.
    pub(super) timeout: Option<Duration>,
}

impl Turn {
    /// Restarts the server of a tool that is missing only because its server is away, and waits for
    /// it within the call's limit. Returns `None` if the tool is missing for another reason.
    pub(super) async fn restart_server_for_call(
        &self,
        recorder: &mut CallRecorder<'_>,
        request: &CallRequest,
    ) -> Option<Result<RestartedTurn, CallError>> {
        let server = self.find_away_server(&request.tool)?;
        recorder.set_waiting_server(server, &self.running_server(server)?.metrics);
        Some(self.restart_and_wait(server, request.timeout).await)
    }

    /// The newest turn, after restarting the server of a tool that is missing only because its
    /// server is away. Returns this turn if there is no such server or the restart fails.
    pub(super) async fn into_restarted_turn(self, tool: &str) -> Turn {
        match self.find_away_server(tool) {
            Some(server) => match self.restart_and_wait(server, None).await {
                Ok(restarted) => restarted.turn,
                Err(_) => self,
            },
            None => self,
        }
    }

    async fn restart_and_wait(
        &self,
        server: &registry::RegisteredServer,
        timeout: Option<Duration>,
    ) -> Result<RestartedTurn, CallError> {
        let not_there = || CallError::not_connected(server.id());
        let running = self.running_server(server).ok_or_else(not_there)?;
        let limits = request_limits(timeout, &server.spec.policy.timeouts);
        let (started_at, total_paused, clock) =
            (Instant::now(), running.total_paused(), running.server.clock());
        let deadline = clock.deadline_after(session_wait_limit(limits));
        let ready =
            clock.run_until(deadline, running.server.main().acquire_session(Demand::Call)).await;
        let ready = ready
            .ok_or(SessionError::Timeout)
            .and_then(|ready| ready.map_err(SessionError::NotConnected));
        ready.map_err(|error| session_error(server.id(), error, started_at.elapsed()))?;
        self.core().publish_pending_lists().await;
        let waited = running.counted_wait(started_at, total_paused);
        let timeout = limits.request.map(|limit| limit.saturating_sub(waited));
        Ok(RestartedTurn { turn: Turn::new(self.dialog.clone()), timeout })
    }

    /// The server of a tool that the agent could use if the server were running. A call may restart
    /// this server.
    pub(super) fn find_away_server(&self, name: &str) -> Option<&registry::RegisteredServer> {
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
        let running = self.running_server(server)?;
        let is_away = server.presence == registry::Presence::Away;
        // A server that was stopped on request starts only on request.
        let is_away = is_away && running.state() != ServerState::Stopped;
        (is_away && self.permits_if_present(server, original_name)).then_some(&**server)
    }

    /// The registry name of a server's tool that the agent could use if the server were running.
    pub fn find_away_tool(&self, server: &str, original_name: &str) -> Option<String> {
        let view = self.view();
        let found = view.server(server)?;
        let mut hidden = view.tools_of(server);
        let name = match hidden.find(|tool| tool.original_name() == original_name) {
            Some(tool) => tool.name().to_owned(),
            None => {
                let is_it = |it: &&registry::DroppedItem| {
                    it.is_away_tool() && it.server == found.key && it.original_name == original_name
                };
                view.all_dropped().find(is_it)?.names.as_ref()?.id.clone()
            }
        };
        self.find_away_server(&name).map(|_| name)
    }
}
