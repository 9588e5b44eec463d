//! What one principal may use.

use std::time::Duration;

use toolcrib_config::model::host::GatewayLimits;

/// Limits for each principal; what is not limited is as large as can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest request, in bytes.
    pub body: usize,
    /// The most sessions, and the most dialogs of the control API.
    pub sessions: usize,
    /// The most connections that come from one address.
    pub connections: usize,
    /// The most requests in a second, where there is a limit.
    pub rate: Option<u32>,
    /// A session or a dialog that is not used ends after this time, where there is a limit.
    pub idle: Option<Duration>,
    /// How long the head of a request may take, and its body.
    pub read: Duration,
    /// How long a client may read nothing of what it is sent.
    pub write: Duration,
}

impl Limits {
    pub fn of(keys: &GatewayLimits) -> Self {
        let most = |number: u64| match number {
            0 => usize::MAX,
            number => usize::try_from(number).unwrap_or(usize::MAX),
        };
        Limits {
            body: most(keys.body.0),
            sessions: most(keys.sessions.into()),
            connections: most(keys.connections.into()),
            rate: Some(keys.rate).filter(|rate| *rate > 0),
            idle: Some(keys.idle.0).filter(|idle| !idle.is_zero()),
            read: longest(keys.read.0),
            write: longest(keys.write.0),
        }
    }
}

/// Zero is without limit; a year is as long, and can be counted with.
fn longest(time: Duration) -> Duration {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    match time.is_zero() {
        true => YEAR,
        false => time.min(YEAR),
    }
}
