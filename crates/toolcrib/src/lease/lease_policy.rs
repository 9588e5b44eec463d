//! Scope and limits of a server's sessions.

use std::time::Duration;

use toolcrib_config::model::policy::{SessionPolicy, SessionScope};

/// Scope and limits of a server's sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeasePolicy {
    /// The dialogs that share a session.
    pub scope: SessionScope,
    /// Maximum number of sessions. Zero means no limit.
    pub max_instances: u32,
    /// Maximum calls in flight per session. Zero means no limit.
    pub max_in_flight: u32,
    /// Maximum sessions of one principal. Zero means no limit.
    pub max_per_principal: u32,
    /// Maximum calls that wait for sessions in use by others.
    pub queue: u32,
    /// An unused lease ends after this time. Zero means never.
    pub idle: Duration,
}

impl LeasePolicy {
    /// Reads the policy from a server's configuration.
    pub(crate) fn from_session_policy(session: &SessionPolicy) -> Self {
        Self {
            scope: session.scope,
            max_instances: session.max_instances,
            max_in_flight: session.max_in_flight,
            max_per_principal: session.max_per_principal,
            queue: session.queue,
            // Only leases have an idle timeout. A shared session is stopped explicitly.
            idle: match session.scope {
                SessionScope::Shared => Duration::ZERO,
                _ => session.idle.0,
            },
        }
    }

    pub(super) fn has_room(&self, sessions: usize) -> bool {
        is_below(sessions, self.max_instances)
    }

    pub(super) fn principal_has_room(&self, sessions: usize) -> bool {
        is_below(sessions, self.max_per_principal)
    }

    pub(super) fn allows_call(&self, in_flight: u32) -> bool {
        is_below(in_flight as usize, self.max_in_flight)
    }

    pub(super) fn allows_waiting(&self, waiting: usize) -> bool {
        waiting < self.queue as usize
    }
}

fn is_below(count: usize, limit: u32) -> bool {
    limit == 0 || count < limit as usize
}
