//! What a server's policy says about leases.

use std::time::Duration;

use toolcrib_config::model::policy::{Session, SessionScope};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    pub scope: SessionScope,
    /// These two mean any number where they are 0.
    pub max_instances: u32,
    pub max_in_flight: u32,
    /// The most sessions of one principal; any number where it is 0.
    pub max_per_principal: u32,
    /// How many calls may wait for what others use.
    pub queue: u32,
    /// An unused lease ends after this time; never, where it is zero.
    pub idle: Duration,
}

impl Terms {
    pub fn of(session: &Session) -> Self {
        Self {
            scope: session.scope,
            max_instances: session.max_instances,
            max_in_flight: session.max_in_flight,
            max_per_principal: session.max_per_principal,
            queue: session.queue,
            // Only leases grow old: a session that all share goes down when it is told to.
            idle: match session.scope {
                SessionScope::Shared => Duration::ZERO,
                _ => session.idle.0,
            },
        }
    }

    pub(super) fn has_room(&self, instances: usize) -> bool {
        is_below(instances, self.max_instances)
    }

    pub(super) fn principal_has_room(&self, instances: usize) -> bool {
        is_below(instances, self.max_per_principal)
    }

    pub(super) fn takes_more(&self, in_flight: u32) -> bool {
        is_below(in_flight as usize, self.max_in_flight)
    }

    pub(super) fn may_wait(&self, waiting: usize) -> bool {
        waiting < self.queue as usize
    }
}

fn is_below(count: usize, limit: u32) -> bool {
    limit == 0 || count < limit as usize
}
