//! State of a connection, with its names in each vocabulary.

use std::time::Duration;

use super::failure::Failure;
use super::settings::ConnSettings;

/// Time since the connection's clock started. Adding to it saturates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MonotonicTime(pub Duration);

/// Number of a session within its connection, counted from 1. Events of earlier sessions are ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionNumber(pub u64);

/// Complete state of a connection. Only [`step`](super::step) changes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnLifecycle {
    pub(super) phase: Phase,
    pub(super) freshness: CatalogFreshness,
    /// Number of the newest session, open or not.
    pub(super) newest_session: SessionNumber,
    pub(super) in_flight: u32,
    pub(super) restarts: u32,
    pub(super) last_connected: Option<MonotonicTime>,
    pub(super) last_error: Option<(MonotonicTime, Failure)>,
}

/// Connection state as users see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    Disabled,
    Idle,
    Connecting,
    Ready,
    /// The session works, but missed the last ping or failed to read the lists again.
    Degraded,
    Reconnecting,
    Backoff,
    Failed,
    Draining,
    Stopped,
}

/// State of the cached lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheState {
    Empty,
    Populating,
    Ready,
    Stale,
}

/// Chance of a call: possible now, pending or failing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnAvailability {
    Up,
    Pending,
    Down,
}

/// Product whose state names are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateVocabulary {
    Plain,
    Dispatch,
    Minion,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Phase {
    Disabled,
    /// Connects on demand or at the start.
    #[default]
    Idle,
    Connecting {
        series: AttemptSeries,
        /// A list changed during the first reading.
        changed: bool,
    },
    Up(ActiveSession),
    /// The startup timeout expired without any output, and all waiting callers have failed. The server is started once
    /// more in the background with `Content-Length` framing; no caller waits for it (DIS-53).
    TryingContentLength {
        series: AttemptSeries,
        /// A retry was requested meanwhile and follows if this attempt fails.
        retry: bool,
    },
    Backoff {
        series: AttemptSeries,
        until: MonotonicTime,
    },
    Failed {
        attempts: u32,
        /// Time from which a demand reconnects. `None` means never.
        until: Option<MonotonicTime>,
    },
    Draining {
        /// Without a limit, draining lasts until the last call ends by its own deadline.
        until: Option<MonotonicTime>,
    },
    /// Only an explicit connect leaves this phase.
    Stopped,
    /// Final.
    Retired,
}

/// Attempts up to one success or one final failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AttemptSeries {
    pub(super) cause: ConnectCause,
    pub(super) failed: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectCause {
    Start,
    /// A call, list or reload reconnects a lost server. Its tools stay hidden until it is up (DIS-32).
    Demand,
    Loss,
}

/// An open session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ActiveSession {
    pub(super) since: MonotonicTime,
    /// Failed attempts to count if this session does not last.
    pub(super) failed: u32,
    pub(super) last_received: MonotonicTime,
    pub(super) last_used: MonotonicTime,
    pub(super) last_ping: Option<MonotonicTime>,
    /// Consecutive pings without any traffic after them.
    pub(super) missed_pings: u32,
    pub(super) is_reading: bool,
    pub(super) read_failed: bool,
    /// Time of the next scheduled reading.
    pub(super) read_at: Option<MonotonicTime>,
    /// A comparison is running.
    pub(super) is_comparing: bool,
    /// Time of the next scheduled comparison.
    pub(super) compare_at: Option<MonotonicTime>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum CatalogFreshness {
    #[default]
    Absent,
    Fresh {
        at: MonotonicTime,
    },
    Stale(Staleness),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Staleness {
    /// Its TTL expired or reading failed. The next list demand reads again.
    Expired,
    /// The server reported a change, and the policy waits for a refresh.
    Changed,
    /// There is no session.
    Lost,
}

impl MonotonicTime {
    /// Adds a duration.
    pub fn after(self, wait: Duration) -> MonotonicTime {
        MonotonicTime(self.0.saturating_add(wait))
    }
}

impl ConnLifecycle {
    /// State of a server before its first connect.
    pub fn new(enabled: bool) -> ConnLifecycle {
        let phase = if enabled { Phase::Idle } else { Phase::Disabled };
        ConnLifecycle { phase, ..ConnLifecycle::default() }
    }

    /// Adds lists that an earlier host has stored.
    pub fn with_stored_catalog(self) -> ConnLifecycle {
        ConnLifecycle { freshness: CatalogFreshness::Stale(Staleness::Expired), ..self }
    }

    /// State as users see it.
    pub fn state(&self) -> ServerState {
        match &self.phase {
            Phase::Disabled => ServerState::Disabled,
            Phase::Idle => ServerState::Idle,
            Phase::Connecting { series, .. } => match series.cause {
                ConnectCause::Start => ServerState::Connecting,
                ConnectCause::Loss | ConnectCause::Demand => ServerState::Reconnecting,
            },
            Phase::Up(up) if up.read_failed || up.missed_pings > 0 => ServerState::Degraded,
            Phase::Up(_) => ServerState::Ready,
            Phase::Backoff { .. } => ServerState::Backoff,
            Phase::Failed { .. } | Phase::TryingContentLength { .. } => ServerState::Failed,
            Phase::Draining { .. } => ServerState::Draining,
            Phase::Stopped | Phase::Retired => ServerState::Stopped,
        }
    }

    /// Name of the state in a vocabulary.
    pub fn state_label(&self, vocabulary: StateVocabulary) -> &'static str {
        let state = self.state();
        match (vocabulary, state) {
            // MIN-28: Minion has five state names and `unknown`.
            (StateVocabulary::Minion, ServerState::Disabled) => "unknown",
            (StateVocabulary::Plain, _) | (_, ServerState::Disabled) => state.as_str(),
            (_, ServerState::Idle | ServerState::Draining | ServerState::Stopped) => "disconnected",
            (_, ServerState::Connecting) => "connecting",
            (_, ServerState::Ready | ServerState::Degraded) => "connected",
            (_, ServerState::Failed) => "error",
            // Only `error` hides the tools, and these cannot be called.
            (StateVocabulary::Dispatch, ServerState::Reconnecting | ServerState::Backoff) => {
                "error"
            }
            // MIN-30, MIN-31: a failed start is an error, a lost session reconnects.
            (StateVocabulary::Minion, ServerState::Backoff) if !self.was_lost() => "error",
            (StateVocabulary::Minion, ServerState::Reconnecting | ServerState::Backoff) => {
                "reconnecting"
            }
        }
    }

    /// State of the cached lists.
    pub fn cache(&self) -> CacheState {
        match (&self.phase, self.freshness) {
            (Phase::Connecting { .. } | Phase::Up(ActiveSession { is_reading: true, .. }), _) => {
                CacheState::Populating
            }
            (_, CatalogFreshness::Absent) => CacheState::Empty,
            (_, CatalogFreshness::Fresh { .. }) => CacheState::Ready,
            (_, CatalogFreshness::Stale(_)) => CacheState::Stale,
        }
    }

    /// Returns whether a call can be made now.
    pub fn availability(&self) -> ConnAvailability {
        match self.phase {
            Phase::Up(_) => ConnAvailability::Up,
            Phase::Connecting { .. } | Phase::Backoff { .. } => ConnAvailability::Pending,
            _ => ConnAvailability::Down,
        }
    }

    /// Number of the session that is opening, open or draining.
    pub fn session_number(&self) -> Option<SessionNumber> {
        match self.phase {
            Phase::Connecting { .. }
            | Phase::TryingContentLength { .. }
            | Phase::Up(_)
            | Phase::Draining { .. } => Some(self.newest_session),
            _ => None,
        }
    }

    /// Returns whether a session is open, opening or will be retried.
    pub(super) fn is_connected_or_coming(&self) -> bool {
        self.session_number().is_some() || self.availability() != ConnAvailability::Down
    }

    /// Returns whether a background attempt with `Content-Length` is running.
    pub fn is_trying_content_length(&self) -> bool {
        matches!(self.phase, Phase::TryingContentLength { .. })
    }

    /// Returns whether the connection is retired, so that its task may end.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Retired
    }

    /// Failed attempts since the last success.
    pub fn attempts(&self) -> u32 {
        match self.phase {
            Phase::Connecting { series, .. }
            | Phase::TryingContentLength { series, .. }
            | Phase::Backoff { series, .. } => series.failed,
            Phase::Failed { attempts, .. } => attempts,
            _ => 0,
        }
    }

    /// Time of the next automatic or allowed attempt.
    pub fn next_retry(&self) -> Option<MonotonicTime> {
        match self.phase {
            Phase::Backoff { until, .. } => Some(until),
            Phase::Failed { until, .. } => until,
            _ => None,
        }
    }

    /// Time of the last successful connect.
    pub fn last_connected(&self) -> Option<MonotonicTime> {
        self.last_connected
    }

    /// Last failure with its time.
    pub fn last_error(&self) -> Option<(MonotonicTime, &Failure)> {
        self.last_error.as_ref().map(|(at, failure)| (*at, failure))
    }

    /// Number of lost and restarted sessions.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// Number of callers that use or await the session.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Time of the next tick. No tick is needed before it.
    pub fn wake(&self, settings: &ConnSettings) -> Option<MonotonicTime> {
        let phase_deadline = match &self.phase {
            Phase::Retired => return None,
            Phase::Backoff { until, .. } => Some(*until),
            Phase::Draining { until } => *until,
            Phase::Up(up) => self.up_deadlines(up, settings).into_iter().flatten().min(),
            _ => None,
        };
        let expiry = self.expiry(settings);
        phase_deadline.into_iter().chain(expiry).min()
    }

    fn up_deadlines(
        &self,
        up: &ActiveSession,
        settings: &ConnSettings,
    ) -> [Option<MonotonicTime>; 5] {
        [
            up.stale_at(settings),
            up.ping_at(settings),
            self.idle_at(up, settings),
            up.read_at.filter(|_| !up.is_reading),
            up.compare_at.filter(|_| !up.is_comparing && !up.is_reading),
        ]
    }

    pub(super) fn idle_at(
        &self,
        up: &ActiveSession,
        settings: &ConnSettings,
    ) -> Option<MonotonicTime> {
        deadline_after(up.last_used, settings.idle).filter(|_| self.in_flight == 0)
    }

    pub(super) fn expiry(&self, settings: &ConnSettings) -> Option<MonotonicTime> {
        match self.freshness {
            CatalogFreshness::Fresh { at } => deadline_after(at, settings.ttl),
            _ => None,
        }
    }

    fn was_lost(&self) -> bool {
        matches!(
            self.phase,
            Phase::Backoff { series: AttemptSeries { cause: ConnectCause::Loss, .. }, .. }
        )
    }
}

impl ActiveSession {
    pub(super) fn after(series: AttemptSeries, now: MonotonicTime) -> ActiveSession {
        ActiveSession {
            since: now,
            failed: match series.cause {
                ConnectCause::Start | ConnectCause::Demand => 0,
                ConnectCause::Loss => series.failed.saturating_add(1),
            },
            last_received: now,
            last_used: now,
            last_ping: None,
            missed_pings: 0,
            is_reading: false,
            read_failed: false,
            read_at: None,
            is_comparing: false,
            compare_at: None,
        }
    }

    pub(super) fn stale_at(&self, settings: &ConnSettings) -> Option<MonotonicTime> {
        deadline_after(self.last_received, settings.stale_after)
    }

    pub(super) fn ping_at(&self, settings: &ConnSettings) -> Option<MonotonicTime> {
        deadline_after(self.last_ping.unwrap_or(self.since), settings.ping_every)
    }
}

/// `None` for a zero wait, which means never.
fn deadline_after(from: MonotonicTime, wait: Duration) -> Option<MonotonicTime> {
    (!wait.is_zero()).then(|| from.after(wait))
}

impl ServerState {
    /// Stable name of the state.
    pub fn as_str(self) -> &'static str {
        match self {
            ServerState::Disabled => "disabled",
            ServerState::Idle => "idle",
            ServerState::Connecting => "connecting",
            ServerState::Ready => "ready",
            ServerState::Degraded => "degraded",
            ServerState::Reconnecting => "reconnecting",
            ServerState::Backoff => "backoff",
            ServerState::Failed => "failed",
            ServerState::Draining => "draining",
            ServerState::Stopped => "stopped",
        }
    }
}

impl CacheState {
    /// Stable name of the state.
    pub fn as_str(self) -> &'static str {
        match self {
            CacheState::Empty => "empty",
            CacheState::Populating => "populating",
            CacheState::Ready => "ready",
            CacheState::Stale => "stale",
        }
    }
}
