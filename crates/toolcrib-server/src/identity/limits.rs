//! Limits of one principal.

use std::time::Duration;

use toolcrib_config::model::host::GatewayLimits;

/// Limits of each principal. Unlimited values are set to their maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrincipalLimits {
    /// Maximum request size in bytes.
    pub body: usize,
    /// Maximum number of sessions, and of dialogs of the control API.
    pub sessions: usize,
    /// Maximum number of connections from one address.
    pub connections: usize,
    /// Maximum number of requests per second, if limited.
    pub rate: Option<u32>,
    /// Time after which unused sessions and dialogs end, if limited.
    pub idle: Option<Duration>,
    /// Timeout for a request head and for a request body.
    pub read: Duration,
    /// Timeout for a client that reads nothing of its response.
    pub write: Duration,
}

impl PrincipalLimits {
    /// Reads the limits from the configuration.
    pub fn from_config(keys: &GatewayLimits) -> Self {
        let most = |number: u64| match number {
            0 => usize::MAX,
            number => usize::try_from(number).unwrap_or(usize::MAX),
        };
        PrincipalLimits {
            body: most(keys.body.0),
            sessions: most(keys.sessions.into()),
            connections: most(keys.connections.into()),
            rate: Some(keys.rate).filter(|rate| *rate > 0),
            idle: Some(keys.idle.0).filter(|idle| !idle.is_zero()),
            read: or_unlimited(keys.read.0),
            write: or_unlimited(keys.write.0),
        }
    }
}

/// Zero means unlimited. A year is long enough, and adding it to a time cannot overflow.
fn or_unlimited(time: Duration) -> Duration {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    match time.is_zero() {
        true => YEAR,
        false => time.min(YEAR),
    }
}
