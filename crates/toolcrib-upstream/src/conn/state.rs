//! Where a connection stands: what is known of it at one moment, and the words for it.

use std::time::Duration;

use super::failure::Failure;
use super::settings::Settings;

/// A point in time, as the time since the host's clock began: it can be added to without ever failing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub Duration);

/// One session in the life of a connection, counted from 1. What is heard from an earlier one is nobody's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link(pub u64);

/// Everything that is known of a connection. Only [`step`](super::step) changes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Life {
    pub(super) phase: Phase,
    pub(super) known: Known,
    /// The newest session, living or not.
    pub(super) link: Link,
    pub(super) in_flight: u32,
    pub(super) restarts: u32,
    pub(super) last_connected: Option<Moment>,
    pub(super) last_error: Option<(Moment, Failure)>,
}

/// The states that people see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Disabled,
    Idle,
    Connecting,
    Ready,
    /// It serves, but did not answer the last ping or could not be listed anew.
    Degraded,
    Reconnecting,
    Backoff,
    Failed,
    Draining,
    Stopped,
}

/// What is known of a server's tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheState {
    Empty,
    Populating,
    Ready,
    Stale,
}

/// Whether a call should be made, should wait, or is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    Up,
    Coming,
    Down,
}

/// Whose words a state is told in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    Plain,
    Dispatch,
    Minion,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Phase {
    Disabled,
    /// A want or a start connects it.
    #[default]
    Idle,
    Connecting {
        run: Run,
        /// The list changed while it was first being read.
        changed: bool,
    },
    Up(Up),
    /// The start-up limit passed in silence and everybody who waited has the failure. The server is started once more
    /// in the background and spoken to with `Content-Length`; nobody waits for that (DIS-53).
    TryingContentLength {
        run: Run,
        /// Somebody asked for a retry meanwhile: it follows if this attempt fails.
        retry: bool,
    },
    Backoff {
        run: Run,
        until: Moment,
    },
    Failed {
        attempts: u32,
        /// A want connects it again from then on; never, where there is no such moment.
        until: Option<Moment>,
    },
    Draining {
        /// Without a limit it lasts until the last call in flight has ended, each by its own deadline.
        until: Option<Moment>,
    },
    /// Only an explicit connect brings it back.
    Stopped,
    /// Nothing brings it back.
    Retired,
}

/// Tries that belong together: they end with a success or a failure for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) cause: Cause,
    pub(super) failed: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Start,
    /// A call, a list or a reload starts again what was lost and did not come back by itself. Its tools stay away
    /// until it is up (DIS-32).
    Demand,
    Loss,
}

/// A session that serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Up {
    pub(super) since: Moment,
    /// Tries that will have failed if this session does not last.
    pub(super) failed: u32,
    pub(super) heard: Moment,
    pub(super) used: Moment,
    pub(super) pinged: Option<Moment>,
    /// Pings in a row after which nothing was heard.
    pub(super) missed: u32,
    pub(super) listing: bool,
    pub(super) list_failed: bool,
    /// The lists are to be read anew from then on.
    pub(super) relist_at: Option<Moment>,
    /// The lists are being compared with those that are known.
    pub(super) comparing: bool,
    /// The lists are to be compared from then on.
    pub(super) compare_at: Option<Moment>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Known {
    #[default]
    Nothing,
    Fresh {
        at: Moment,
    },
    Stale(Staleness),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Staleness {
    /// Its time was up, or reading it anew failed: the next listing tries again.
    Expired,
    /// The server said so, and policy waits for a refresh.
    Changed,
    /// There is nobody to ask.
    Lost,
}

impl Moment {
    pub fn after(self, wait: Duration) -> Moment {
        Moment(self.0.saturating_add(wait))
    }
}

impl Life {
    /// A server that is not connected yet.
    pub fn new(enabled: bool) -> Life {
        let phase = if enabled { Phase::Idle } else { Phase::Disabled };
        Life { phase, ..Life::default() }
    }

    /// The same, with lists that an earlier run of the host left behind.
    pub fn remembering(self) -> Life {
        Life { known: Known::Stale(Staleness::Expired), ..self }
    }

    pub fn state(&self) -> State {
        match &self.phase {
            Phase::Disabled => State::Disabled,
            Phase::Idle => State::Idle,
            Phase::Connecting { run, .. } => match run.cause {
                Cause::Start => State::Connecting,
                Cause::Loss | Cause::Demand => State::Reconnecting,
            },
            Phase::Up(up) if up.list_failed || up.missed > 0 => State::Degraded,
            Phase::Up(_) => State::Ready,
            Phase::Backoff { .. } => State::Backoff,
            Phase::Failed { .. } | Phase::TryingContentLength { .. } => State::Failed,
            Phase::Draining { .. } => State::Draining,
            Phase::Stopped | Phase::Retired => State::Stopped,
        }
    }

    pub fn word(&self, words: Words) -> &'static str {
        let state = self.state();
        match (words, state) {
            // MIN-28: that design has five words and one for all else.
            (Words::Minion, State::Disabled) => "unknown",
            (Words::Plain, _) | (_, State::Disabled) => state.as_str(),
            (_, State::Idle | State::Draining | State::Stopped) => "disconnected",
            (_, State::Connecting) => "connecting",
            (_, State::Ready | State::Degraded) => "connected",
            (_, State::Failed) => "error",
            // Tools that cannot be called are hidden, and only an error hides them.
            (Words::Dispatch, State::Reconnecting | State::Backoff) => "error",
            // MIN-30 and 31: a start that failed is an error, a loss is made good.
            (Words::Minion, State::Backoff) if !self.was_lost() => "error",
            (Words::Minion, State::Reconnecting | State::Backoff) => "reconnecting",
        }
    }

    pub fn cache(&self) -> CacheState {
        match (&self.phase, self.known) {
            (Phase::Connecting { .. } | Phase::Up(Up { listing: true, .. }), _) => {
                CacheState::Populating
            }
            (_, Known::Nothing) => CacheState::Empty,
            (_, Known::Fresh { .. }) => CacheState::Ready,
            (_, Known::Stale(_)) => CacheState::Stale,
        }
    }

    pub fn outlook(&self) -> Outlook {
        match self.phase {
            Phase::Up(_) => Outlook::Up,
            Phase::Connecting { .. } | Phase::Backoff { .. } => Outlook::Coming,
            _ => Outlook::Down,
        }
    }

    /// The session that is being opened, serves or drains.
    pub fn link(&self) -> Option<Link> {
        match self.phase {
            Phase::Connecting { .. }
            | Phase::TryingContentLength { .. }
            | Phase::Up(_)
            | Phase::Draining { .. } => Some(self.link),
            _ => None,
        }
    }

    /// Whether there is a session, or one is being opened or will be tried again.
    pub(super) fn is_connected_or_coming(&self) -> bool {
        self.link().is_some() || self.outlook() != Outlook::Down
    }

    /// Whether `Content-Length` is being tried in the background, after a silent start.
    pub fn is_trying_content_length(&self) -> bool {
        matches!(self.phase, Phase::TryingContentLength { .. })
    }

    /// Nothing more will happen: whoever runs this life may end.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Retired
    }

    /// Tries that failed since the last success.
    pub fn attempts(&self) -> u32 {
        match self.phase {
            Phase::Connecting { run, .. }
            | Phase::TryingContentLength { run, .. }
            | Phase::Backoff { run, .. } => run.failed,
            Phase::Failed { attempts, .. } => attempts,
            _ => 0,
        }
    }

    pub fn next_retry(&self) -> Option<Moment> {
        match self.phase {
            Phase::Backoff { until, .. } => Some(until),
            Phase::Failed { until, .. } => until,
            _ => None,
        }
    }

    pub fn last_connected(&self) -> Option<Moment> {
        self.last_connected
    }

    pub fn last_error(&self) -> Option<(Moment, &Failure)> {
        self.last_error.as_ref().map(|(at, failure)| (*at, failure))
    }

    /// Sessions that were lost or begun anew on request.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// When something happens by itself: a tick is due then, and none before.
    pub fn wake(&self, settings: &Settings) -> Option<Moment> {
        let own = match &self.phase {
            Phase::Retired => return None,
            Phase::Backoff { until, .. } => Some(*until),
            Phase::Draining { until } => *until,
            Phase::Up(up) => self.up_deadlines(up, settings).into_iter().flatten().min(),
            _ => None,
        };
        let expiry = self.expiry(settings);
        own.into_iter().chain(expiry).min()
    }

    fn up_deadlines(&self, up: &Up, settings: &Settings) -> [Option<Moment>; 5] {
        [
            up.stale_at(settings),
            up.ping_at(settings),
            self.idle_at(up, settings),
            up.relist_at.filter(|_| !up.listing),
            up.compare_at.filter(|_| !up.comparing && !up.listing),
        ]
    }

    pub(super) fn idle_at(&self, up: &Up, settings: &Settings) -> Option<Moment> {
        due(up.used, settings.idle).filter(|_| self.in_flight == 0)
    }

    pub(super) fn expiry(&self, settings: &Settings) -> Option<Moment> {
        match self.known {
            Known::Fresh { at } => due(at, settings.ttl),
            _ => None,
        }
    }

    fn was_lost(&self) -> bool {
        matches!(self.phase, Phase::Backoff { run: Run { cause: Cause::Loss, .. }, .. })
    }
}

impl Up {
    pub(super) fn after(run: Run, now: Moment) -> Up {
        Up {
            since: now,
            failed: match run.cause {
                Cause::Start | Cause::Demand => 0,
                Cause::Loss => run.failed.saturating_add(1),
            },
            heard: now,
            used: now,
            pinged: None,
            missed: 0,
            listing: false,
            list_failed: false,
            relist_at: None,
            comparing: false,
            compare_at: None,
        }
    }

    pub(super) fn stale_at(&self, settings: &Settings) -> Option<Moment> {
        due(self.heard, settings.stale_after)
    }

    pub(super) fn ping_at(&self, settings: &Settings) -> Option<Moment> {
        due(self.pinged.unwrap_or(self.since), settings.ping_every)
    }
}

/// Zero means never.
fn due(from: Moment, wait: Duration) -> Option<Moment> {
    (!wait.is_zero()).then(|| from.after(wait))
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            State::Disabled => "disabled",
            State::Idle => "idle",
            State::Connecting => "connecting",
            State::Ready => "ready",
            State::Degraded => "degraded",
            State::Reconnecting => "reconnecting",
            State::Backoff => "backoff",
            State::Failed => "failed",
            State::Draining => "draining",
            State::Stopped => "stopped",
        }
    }
}

impl CacheState {
    pub fn as_str(self) -> &'static str {
        match self {
            CacheState::Empty => "empty",
            CacheState::Populating => "populating",
            CacheState::Ready => "ready",
            CacheState::Stale => "stale",
        }
    }
}
