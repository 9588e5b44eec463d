//! What a server's policy says about the life of its connection.

use std::time::Duration;

use toolcrib_config::model::policy::{
    Connect, DiscoverySession, OnListChanged, Policy, SessionScope,
};
use toolcrib_config::model::units::Period;

use super::backoff::Backoff;

/// What the life of a connection is decided by.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub connect: Connect,
    /// After a first connect that failed: tries besides the first.
    pub retry: Tries,
    /// After a session was lost: tries in all.
    pub reconnect: Tries,
    /// Whether a call or a list starts a server again that was lost and does not come back by itself.
    pub on_demand: bool,
    /// These are off where they are zero.
    pub ping_every: Duration,
    pub stale_after: Duration,
    pub hold_off: Duration,
    pub idle: Duration,
    pub ttl: Duration,
    /// A session that does not drain is killed after this time. `None`: calls in flight end by their own deadlines.
    pub drain_kill: Option<Duration>,
    pub on_list_changed: OnListChanged,
}

/// How often something is tried again, and after which waits.
#[derive(Debug, Clone, PartialEq)]
pub struct Tries {
    pub max: u32,
    pub backoff: Backoff,
}

impl Settings {
    /// What a server's policy says; `drain_kill` is the host's, for servers that have none of their own.
    pub fn of(policy: &Policy, drain_kill: Option<Period>) -> Settings {
        let lifecycle = &policy.lifecycle;
        let reconnect = &lifecycle.reconnect;
        Settings {
            connect: lifecycle.connect,
            retry: Tries { max: lifecycle.retry.max, backoff: Backoff::from(&lifecycle.retry) },
            reconnect: Tries {
                max: if reconnect.auto { reconnect.max } else { 0 },
                backoff: Backoff::from(reconnect),
            },
            on_demand: reconnect.on_demand,
            ping_every: lifecycle.liveness.ping_every.0,
            stale_after: lifecycle.liveness.stale_after.0,
            hold_off: lifecycle.hold_off.0,
            idle: idle(policy),
            ttl: policy.discovery.ttl.0,
            drain_kill: lifecycle.drain_kill.or(drain_kill).map(|limit| limit.0),
            on_list_changed: policy.discovery.on_list_changed,
        }
    }
}

/// Only leases grow old: a session that all share goes down when it is told to (MIN-31), and one that is
/// kept for discovery stays.
fn idle(policy: &Policy) -> Duration {
    match (policy.session.scope, policy.session.discovery) {
        (SessionScope::Shared, _) | (_, DiscoverySession::Keep) => Duration::ZERO,
        _ => policy.session.idle.0,
    }
}
