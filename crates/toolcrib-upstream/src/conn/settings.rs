//! Connection settings of a server, taken from its policy.

use std::time::Duration;

use toolcrib_config::model::policy::{
    Connect, DiscoverySession, OnListChanged, Policy, SessionScope,
};
use toolcrib_config::model::units::Period;

use super::backoff::Backoff;

/// Settings that drive the connection state machine.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnSettings {
    /// When to connect.
    pub connect: Connect,
    /// Retries after a failed first connect.
    pub retry: RetrySchedule,
    /// Attempts after a lost session.
    pub reconnect: RetrySchedule,
    /// True if a call or list reconnects a lost server that has no automatic attempts left.
    pub on_demand: bool,
    /// Zero disables this and the following periods.
    pub ping_every: Duration,
    pub stale_after: Duration,
    pub hold_off: Duration,
    pub idle: Duration,
    pub ttl: Duration,
    /// Time limit for draining; then the session is killed. `None`: calls in flight end by their own deadlines.
    pub drain_kill: Option<Duration>,
    pub on_list_changed: OnListChanged,
}

/// Number of attempts and their delays.
#[derive(Debug, Clone, PartialEq)]
pub struct RetrySchedule {
    /// Limit of attempts.
    pub max: u32,
    /// Delays between attempts.
    pub backoff: Backoff,
}

impl ConnSettings {
    /// Settings of a policy. `drain_kill` is the host's default.
    pub fn from_policy(policy: &Policy, drain_kill: Option<Period>) -> ConnSettings {
        let lifecycle = &policy.lifecycle;
        let reconnect = &lifecycle.reconnect;
        ConnSettings {
            connect: lifecycle.connect,
            retry: RetrySchedule {
                max: lifecycle.retry.max,
                backoff: Backoff::from(&lifecycle.retry),
            },
            reconnect: RetrySchedule {
                max: if reconnect.auto { reconnect.max } else { 0 },
                backoff: Backoff::from(reconnect),
            },
            on_demand: reconnect.on_demand,
            ping_every: lifecycle.liveness.ping_every.0,
            stale_after: lifecycle.liveness.stale_after.0,
            hold_off: lifecycle.hold_off.0,
            idle: idle_limit(policy),
            ttl: policy.discovery.ttl.0,
            drain_kill: lifecycle.drain_kill.or(drain_kill).map(|limit| limit.0),
            on_list_changed: policy.discovery.on_list_changed,
        }
    }
}

/// Only leased sessions go idle. A shared session ends on request only (MIN-31), and one kept for discovery stays
/// open.
fn idle_limit(policy: &Policy) -> Duration {
    match (policy.session.scope, policy.session.discovery) {
        (SessionScope::Shared, _) | (_, DiscoverySession::Keep) => Duration::ZERO,
        _ => policy.session.idle.0,
    }
}
