//! Pure state machine of a connection: an event in, the next state and effects out.

use std::time::Duration;

use toolcrib_config::model::policy::{Connect, OnListChanged};

use super::failure::{Failure, FailureKind};
use super::settings::{ConnSettings, RetrySchedule};
use super::state::{
    ActiveSession, AttemptSeries, CacheState, CatalogFreshness, ConnLifecycle, ConnectCause,
    MonotonicTime, Phase, ServerState, SessionNumber, Staleness,
};

/// Debounce time for list changes.
pub const LIST_CHANGE_DEBOUNCE: Duration = Duration::from_millis(200);
/// Minimum lifetime of a session that counts as established. A server may never have known a session that it forgets
/// sooner.
const MIN_SESSION_LIFETIME: Duration = Duration::from_secs(1);
/// Upper limit of a server's `Retry-After`.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// Input of the state machine. Session events carry the session number, so that late events of old sessions are
/// ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnEvent {
    /// The host started or added the server.
    Start,
    Demanded(Demand),
    /// The session is open and its lists are read.
    Connected(SessionNumber),
    /// Connecting failed, or the session was lost.
    Down(SessionNumber, Failure),
    /// The startup timeout expired without output, and `Content-Length` has not been tried yet.
    SilentStart(SessionNumber, Failure),
    /// Diagnosis of a failed start.
    Diagnosed(SessionNumber, Failure),
    /// Time of the last message from the server. One sample before a tick suffices.
    Traffic(SessionNumber, MonotonicTime),
    /// Number of callers that use the session or wait for it.
    InFlight(u32),
    /// Time when the last call ended.
    LastUsed(MonotonicTime),
    /// Reading the lists again succeeded or failed.
    CatalogRead(SessionNumber, Result<(), Failure>),
    /// The server reported a declared list change.
    ListChanged(SessionNumber),
    /// Comparing the lists succeeded or failed.
    CatalogCompared(SessionNumber),
    /// The time of [`ConnLifecycle::wake`] has come.
    Tick,
    Connect,
    Disconnect,
    Restart,
    /// Retry a failed server now with a new attempt count.
    Retry,
    /// The dialog that had the session for itself is done. The session ends, and the next demand opens another.
    Release,
    Refresh,
    Enable,
    Disable,
    /// Drain: accept no new calls and end after the last one.
    Retire,
}

/// Reason to acquire a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    List,
    Call,
}

/// Output of the state machine, in order. A connect starts after the preceding closes have ended, so that a server
/// never sees two sessions of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    Connect(SessionNumber),
    /// Connect with `Content-Length` framing, regardless of configuration and traits.
    ConnectWithContentLength(SessionNumber),
    /// Close the session or cancel its attempt. For a lost session, clean up the rest.
    Close(SessionNumber),
    /// Kill the session, even with calls in flight.
    Kill(SessionNumber),
    Ping(SessionNumber),
    /// Read the lists again.
    ReadCatalog(SessionNumber),
    /// Read the lists only to report differences.
    CompareCatalog(SessionNumber),
    /// Announce a visible change.
    Announce,
}

/// Applies one event. An event without a meaning in the current state changes nothing. `chance` is a random number
/// from 0 to 1.
pub fn step(
    lifecycle: ConnLifecycle,
    event: ConnEvent,
    settings: &ConnSettings,
    now: MonotonicTime,
    chance: f64,
) -> (ConnLifecycle, Vec<Effect>) {
    let before = visible_state(&lifecycle);
    let mut transition = Transition { lifecycle, settings, now, chance, effects: Vec::new() };
    transition.apply(event);
    if visible_state(&transition.lifecycle) != before {
        transition.effects.push(Effect::Announce);
    }
    (transition.lifecycle, transition.effects)
}

/// Parts of the state that users see change.
type VisibleState = (ServerState, CacheState, u32, Option<MonotonicTime>, Option<MonotonicTime>);

fn visible_state(lifecycle: &ConnLifecycle) -> VisibleState {
    let error = lifecycle.last_error().map(|(at, _)| at);
    (lifecycle.state(), lifecycle.cache(), lifecycle.attempts(), lifecycle.next_retry(), error)
}

struct Transition<'a> {
    lifecycle: ConnLifecycle,
    settings: &'a ConnSettings,
    now: MonotonicTime,
    chance: f64,
    effects: Vec<Effect>,
}

impl Transition<'_> {
    fn apply(&mut self, event: ConnEvent) {
        match event {
            ConnEvent::Start => self.start(),
            ConnEvent::Demanded(demand) => self.handle_demand(demand),
            ConnEvent::Connected(number) if self.is_current(number) => self.handle_connected(),
            ConnEvent::Down(number, failure) if self.is_current(number) => {
                self.handle_down(failure)
            }
            ConnEvent::SilentStart(number, failure) if self.is_current(number) => {
                self.handle_silent_start(failure)
            }
            ConnEvent::Diagnosed(number, failure) => self.handle_diagnosis(number, failure),
            ConnEvent::Traffic(number, at) if self.is_current(number) => self.record_traffic(at),
            ConnEvent::CatalogRead(number, outcome) if self.is_current(number) => {
                self.handle_catalog_read(outcome)
            }
            ConnEvent::ListChanged(number) if self.is_current(number) => self.handle_list_change(),
            ConnEvent::CatalogCompared(number) if self.is_current(number) => self.handle_compared(),
            ConnEvent::InFlight(count) => self.set_in_flight(count),
            ConnEvent::LastUsed(at) => self.record_use(at),
            ConnEvent::Tick => self.handle_tick(),
            ConnEvent::Connect => self.connect_explicitly(),
            ConnEvent::Disconnect => self.end_session(Phase::Stopped),
            ConnEvent::Restart => self.restart(),
            ConnEvent::Retry => self.retry(),
            ConnEvent::Release => self.release(),
            ConnEvent::Refresh => self.read_catalog(),
            ConnEvent::Enable => self.enable(),
            ConnEvent::Disable => self.end_session(Phase::Disabled),
            ConnEvent::Retire => self.retire(),
            // Events of an old session.
            ConnEvent::Connected(_)
            | ConnEvent::Down(..)
            | ConnEvent::SilentStart(..)
            | ConnEvent::Traffic(..)
            | ConnEvent::CatalogRead(..)
            | ConnEvent::ListChanged(_)
            | ConnEvent::CatalogCompared(_) => {}
        }
    }

    fn is_current(&self, number: SessionNumber) -> bool {
        self.lifecycle.session_number() == Some(number)
    }

    fn start(&mut self) {
        let unasked = matches!(self.settings.connect, Connect::Eager | Connect::Background);
        if unasked && self.lifecycle.phase == Phase::Idle {
            self.connect(ConnectCause::Start, 0);
        }
    }

    fn handle_demand(&mut self, demand: Demand) {
        match self.lifecycle.phase {
            Phase::Idle if self.starts_for(demand) => self.connect(ConnectCause::Start, 0),
            Phase::Failed { until: Some(until), .. }
                if self.now >= until && self.reconnects_for(demand) =>
            {
                self.reconnect();
            }
            Phase::Up(_) if demand == Demand::List => self.read_if_expired(),
            _ => {}
        }
    }

    /// With `on_first_call`, a list demand does not start a server whose lists are known.
    fn starts_for(&self, demand: Demand) -> bool {
        match (self.settings.connect, demand) {
            (Connect::OnFirstCall, Demand::List) => {
                self.lifecycle.freshness == CatalogFreshness::Absent
            }
            _ => true,
        }
    }

    /// Returns whether a demand reconnects a failed server. A list demand does so only after an earlier success or with a
    /// hold-off, else every list would start a broken server.
    fn reconnects_for(&self, demand: Demand) -> bool {
        let was_up = self.lifecycle.last_connected.is_some();
        demand == Demand::Call || was_up || !self.settings.hold_off.is_zero()
    }

    fn reconnect(&mut self) {
        let was_up = self.lifecycle.last_connected.is_some();
        self.connect(if was_up { ConnectCause::Demand } else { ConnectCause::Start }, 0);
    }

    fn connect(&mut self, cause: ConnectCause, failed: u32) {
        self.lifecycle.newest_session.0 += 1;
        let series = AttemptSeries { cause, failed };
        self.lifecycle.phase = Phase::Connecting { series, changed: false };
        self.effects.push(Effect::Connect(self.lifecycle.newest_session));
    }

    fn handle_connected(&mut self) {
        let (series, changed) = match self.lifecycle.phase {
            Phase::Connecting { series, changed } => (series, changed),
            Phase::TryingContentLength { series, .. } => (series, false),
            _ => return,
        };
        let mut up = ActiveSession::after(series, self.now);
        up.read_at = changed.then(|| self.now.after(LIST_CHANGE_DEBOUNCE));
        self.lifecycle.phase = Phase::Up(up);
        self.lifecycle.last_connected = Some(self.now);
        self.lifecycle.freshness = CatalogFreshness::Fresh { at: self.now };
    }

    fn handle_down(&mut self, failure: Failure) {
        match self.lifecycle.phase {
            Phase::Connecting { series, .. } => {
                let failed = series.failed.saturating_add(1);
                self.fail_attempt(AttemptSeries { failed, ..series }, failure);
            }
            Phase::TryingContentLength { series, retry } => {
                self.handle_content_length_failure(series, retry)
            }
            Phase::Up(up) => self.lose_session(up, failure),
            Phase::Draining { .. } => {
                self.push_close();
                self.record_failure(failure);
                self.lifecycle.phase = Phase::Retired;
            }
            _ => {}
        }
    }

    /// Fails all waiting callers after one startup timeout. The `Content-Length` attempt follows in the background, so
    /// that no caller waits for a second timeout.
    fn handle_silent_start(&mut self, failure: Failure) {
        let Phase::Connecting { series, .. } = self.lifecycle.phase else {
            return self.handle_down(failure);
        };
        self.record_failure(failure);
        self.lifecycle.newest_session.0 += 1;
        let series = AttemptSeries { failed: series.failed.saturating_add(1), ..series };
        self.lifecycle.phase = Phase::TryingContentLength { series, retry: false };
        self.effects.push(Effect::ConnectWithContentLength(self.lifecycle.newest_session));
    }

    /// Keeps the first failure, because the server may just not support `Content-Length`.
    fn handle_content_length_failure(&mut self, series: AttemptSeries, retry: bool) {
        let Some((_, first)) = self.lifecycle.last_error.clone() else { return };
        if retry {
            self.record_failure(first);
            self.reconnect();
        } else {
            self.fail_attempt(series, first);
        }
    }

    /// Applies a diagnosis only to the newest session, and only while it is down.
    fn handle_diagnosis(&mut self, number: SessionNumber, failure: Failure) {
        if self.lifecycle.newest_session == number
            && self.lifecycle.session_number().is_none()
            && let Some((_, known)) = &mut self.lifecycle.last_error
        {
            *known = failure;
            self.effects.push(Effect::Announce);
        }
    }

    /// Closes the lost session too, because its process may still run.
    fn lose_session(&mut self, up: ActiveSession, failure: Failure) {
        let lasted = |time| self.now >= up.since.after(time);
        // A session that is lost sooner than the longest backoff does not reset the attempt count. Else a server that
        // crashes on its first call would restart at the shortest delay forever.
        let longest = self.settings.reconnect.backoff.max_delay.max(MIN_SESSION_LIFETIME);
        let failed = if lasted(longest) { 0 } else { up.failed };
        let (is_session_gone, is_lasting) =
            (failure.is_session_gone(), lasted(MIN_SESSION_LIFETIME));
        self.push_close();
        self.lifecycle.restarts = self.lifecycle.restarts.saturating_add(1);
        self.mark_stale();
        // DOM-93: the protocol requires a new `initialize` after a 404 for the session, regardless of the reconnect
        // policy. A short session is reopened on the next demand only, so that a server that forgets every session is
        // not initialized in a loop.
        match is_session_gone {
            true if is_lasting => {
                self.record_failure(failure);
                self.connect(ConnectCause::Loss, 0);
            }
            true => {
                self.record_failure(failure);
                self.lifecycle.phase = Phase::Failed { attempts: failed, until: Some(self.now) };
            }
            false => {
                self.fail_attempt(AttemptSeries { cause: ConnectCause::Loss, failed }, failure)
            }
        }
    }

    fn fail_attempt(&mut self, series: AttemptSeries, failure: Failure) {
        let wait = self.next_wait(series).filter(|_| failure.is_transient());
        let server_wait = failure.retry_after.unwrap_or_default();
        self.record_failure(failure);
        self.lifecycle.phase = match wait {
            Some(wait) => Phase::Backoff {
                series,
                until: self.now.after(wait.max(server_wait.min(MAX_RETRY_AFTER))),
            },
            None => Phase::Failed { attempts: series.failed, until: self.held_off_until(series) },
        };
    }

    /// A start has one attempt before the retries of the policy. After a loss the policy counts every attempt.
    fn next_wait(&self, series: AttemptSeries) -> Option<Duration> {
        let (tries, nth) = self.next_retry(series);
        (nth <= tries.max).then(|| tries.backoff.delay(nth, self.chance))
    }

    fn next_retry(&self, series: AttemptSeries) -> (&RetrySchedule, u32) {
        match series.cause {
            ConnectCause::Start | ConnectCause::Demand => (&self.settings.retry, series.failed),
            ConnectCause::Loss => (&self.settings.reconnect, series.failed.saturating_add(1)),
        }
    }

    /// Time from which a demand may reconnect: after the hold-off, or at once if nothing was tried yet. `None` if the
    /// failure is final, because the attempts are exhausted or the policy does not start on demand.
    fn held_off_until(&self, series: AttemptSeries) -> Option<MonotonicTime> {
        let (tries, nth) = self.next_retry(series);
        let has_tries_left = match series.cause {
            // Without automatic attempts, each call may reconnect.
            ConnectCause::Start | ConnectCause::Demand => {
                tries.max == 0 && self.settings.reconnect.max == 0
            }
            // DOM-94: a failure that is not retried automatically, such as a broken message, does not exhaust the
            // attempts.
            ConnectCause::Loss => tries.max == 0 || nth <= tries.max,
        };
        let hold_off = self.settings.hold_off;
        let may_start = !hold_off.is_zero() || (self.settings.on_demand && has_tries_left);
        let wait = if series.failed == 0 { Duration::ZERO } else { hold_off };
        may_start.then(|| self.now.after(wait))
    }

    fn record_traffic(&mut self, at: MonotonicTime) {
        if let Phase::Up(up) = &mut self.lifecycle.phase {
            up.last_received = up.last_received.max(at.min(self.now));
            if up.last_ping.is_none_or(|last_ping| up.last_received >= last_ping) {
                up.missed_pings = 0;
            }
        }
    }

    fn record_use(&mut self, at: MonotonicTime) {
        if let Phase::Up(up) = &mut self.lifecycle.phase {
            up.last_used = up.last_used.max(at.min(self.now));
        }
    }

    fn set_in_flight(&mut self, count: u32) {
        let before = std::mem::replace(&mut self.lifecycle.in_flight, count);
        match &mut self.lifecycle.phase {
            // Zero after zero is not a use.
            Phase::Up(up) if before > 0 || count > 0 => up.last_used = self.now,
            Phase::Draining { .. } if count == 0 => self.end_session(Phase::Retired),
            _ => {}
        }
    }

    fn handle_catalog_read(&mut self, outcome: Result<(), Failure>) {
        let Phase::Up(up) = &mut self.lifecycle.phase else {
            return;
        };
        up.is_reading = false;
        up.read_failed = outcome.is_err();
        match outcome {
            Ok(()) => self.lifecycle.freshness = CatalogFreshness::Fresh { at: self.now },
            Err(failure) => {
                self.lifecycle.freshness = CatalogFreshness::Stale(Staleness::Expired);
                self.record_failure(failure);
            }
        }
        self.read_if_due();
    }

    fn handle_list_change(&mut self) {
        match (self.settings.on_list_changed, &mut self.lifecycle.phase) {
            (OnListChanged::Refresh, Phase::Connecting { changed, .. }) => *changed = true,
            (OnListChanged::Refresh, Phase::Up(up)) => {
                // The first change sets the time, so that a steady stream of changes cannot postpone the reading.
                up.read_at.get_or_insert(self.now.after(LIST_CHANGE_DEBOUNCE));
            }
            (OnListChanged::MarkStale, Phase::Up(up)) => {
                up.compare_at.get_or_insert(self.now.after(LIST_CHANGE_DEBOUNCE));
                self.lifecycle.freshness = CatalogFreshness::Stale(Staleness::Changed);
            }
            _ => {}
        }
    }

    fn handle_compared(&mut self) {
        if let Phase::Up(up) = &mut self.lifecycle.phase {
            up.is_comparing = false;
        }
        self.compare_if_due();
    }

    fn handle_tick(&mut self) {
        if is_due(self.lifecycle.expiry(self.settings), self.now) {
            self.lifecycle.freshness = CatalogFreshness::Stale(Staleness::Expired);
        }
        match self.lifecycle.phase {
            Phase::Backoff { series, until } if self.now >= until => {
                self.connect(series.cause, series.failed);
            }
            Phase::Draining { until } if is_due(until, self.now) => {
                self.effects.push(Effect::Kill(self.lifecycle.newest_session));
                self.lifecycle.phase = Phase::Retired;
            }
            Phase::Up(up) => self.check_deadlines(up),
            _ => {}
        }
    }

    fn check_deadlines(&mut self, up: ActiveSession) {
        if is_due(up.stale_at(self.settings), self.now) {
            let text = format!("nothing was heard for {:?}", self.settings.stale_after);
            self.lose_session(up, Failure::new(FailureKind::Timeout, text));
        } else if is_due(self.lifecycle.idle_at(&up, self.settings), self.now) {
            self.release();
        } else {
            self.ping_if_due();
            self.read_if_due();
            self.compare_if_due();
        }
    }

    fn compare_if_due(&mut self) {
        if let Phase::Up(up) = &mut self.lifecycle.phase
            && !up.is_comparing
            && !up.is_reading
            && is_due(up.compare_at, self.now)
        {
            up.is_comparing = true;
            up.compare_at = None;
            self.effects.push(Effect::CompareCatalog(self.lifecycle.newest_session));
        }
    }

    fn ping_if_due(&mut self) {
        if let Phase::Up(up) = &mut self.lifecycle.phase
            && is_due(up.ping_at(self.settings), self.now)
        {
            let unanswered = up.last_ping.is_some_and(|last_ping| up.last_received < last_ping);
            up.missed_pings = up.missed_pings.saturating_add(u32::from(unanswered));
            up.last_ping = Some(self.now);
            self.effects.push(Effect::Ping(self.lifecycle.newest_session));
        }
    }

    fn read_if_due(&mut self) {
        if let Phase::Up(up) = &self.lifecycle.phase
            && !up.is_reading
            && is_due(up.read_at, self.now)
        {
            self.read_catalog();
        }
    }

    fn read_if_expired(&mut self) {
        let expired = is_due(self.lifecycle.expiry(self.settings), self.now)
            || self.lifecycle.freshness == CatalogFreshness::Stale(Staleness::Expired);
        if let Phase::Up(up) = &self.lifecycle.phase
            && !up.is_reading
            && expired
        {
            self.read_catalog();
        }
    }

    /// Runs one reading at a time. A request meanwhile runs after it, because the current one may have read the old
    /// list.
    fn read_catalog(&mut self) {
        let Phase::Up(up) = &mut self.lifecycle.phase else {
            return;
        };
        if up.is_reading {
            up.read_at = Some(self.now);
        } else {
            up.is_reading = true;
            up.read_at = None;
            // Reading also reports the differences.
            up.compare_at = None;
            self.effects.push(Effect::ReadCatalog(self.lifecycle.newest_session));
        }
    }

    fn connect_explicitly(&mut self) {
        match self.lifecycle.phase {
            Phase::Idle | Phase::Stopped | Phase::Backoff { .. } | Phase::Failed { .. } => {
                self.connect(ConnectCause::Start, 0);
            }
            _ => {}
        }
    }

    /// A stopped or disabled server stays as it is, because a user chose that.
    fn retry(&mut self) {
        match &mut self.lifecycle.phase {
            Phase::Backoff { .. } | Phase::Failed { .. } => self.reconnect(),
            // Two processes of one connection must not run concurrently, and the attempt must not be lost.
            Phase::TryingContentLength { retry, .. } => *retry = true,
            _ => {}
        }
    }

    fn restart(&mut self) {
        if let Phase::Connecting { .. } | Phase::TryingContentLength { .. } | Phase::Up(_) =
            self.lifecycle.phase
        {
            self.push_close();
            self.mark_stale();
            self.lifecycle.restarts = self.lifecycle.restarts.saturating_add(1);
            self.connect(ConnectCause::Start, 0);
        } else {
            self.connect_explicitly();
        }
    }

    /// The known lists stay, because they belong to the server and not to the session.
    fn release(&mut self) {
        match self.lifecycle.phase {
            Phase::Connecting { .. } | Phase::TryingContentLength { .. } | Phase::Up(_) => {
                self.push_close();
                self.lifecycle.phase = Phase::Idle;
            }
            // The failure concerned the previous dialog only.
            Phase::Backoff { .. } | Phase::Failed { .. } => self.lifecycle.phase = Phase::Idle,
            _ => {}
        }
    }

    fn enable(&mut self) {
        if self.lifecycle.phase == Phase::Disabled {
            self.lifecycle.phase = Phase::Idle;
            self.start();
        }
    }

    /// Ends the session unless the connection already drains or is retired. `Retired` also ends draining.
    fn end_session(&mut self, end: Phase) {
        let keeps = match self.lifecycle.phase {
            Phase::Retired => true,
            Phase::Draining { .. } => end != Phase::Retired,
            // Disconnecting a disabled server must not make it connectable.
            Phase::Disabled => end == Phase::Stopped,
            _ => false,
        };
        if !keeps {
            self.push_close();
            self.mark_stale();
            self.lifecycle.phase = end;
        }
    }

    /// Lets calls in flight finish, including those that wait for the session to open.
    fn retire(&mut self) {
        match self.lifecycle.phase {
            Phase::Connecting { .. } | Phase::Up(_) if self.lifecycle.in_flight > 0 => {
                let until = self.settings.drain_kill.map(|limit| self.now.after(limit));
                self.lifecycle.phase = Phase::Draining { until };
            }
            Phase::Draining { .. } => {}
            _ => self.end_session(Phase::Retired),
        }
    }

    fn push_close(&mut self) {
        if let Some(number) = self.lifecycle.session_number() {
            self.effects.push(Effect::Close(number));
        }
    }

    fn mark_stale(&mut self) {
        if let CatalogFreshness::Fresh { .. } = self.lifecycle.freshness {
            self.lifecycle.freshness = CatalogFreshness::Stale(Staleness::Lost);
        }
    }

    fn record_failure(&mut self, failure: Failure) {
        self.lifecycle.last_error = Some((self.now, failure));
    }
}

fn is_due(moment: Option<MonotonicTime>, now: MonotonicTime) -> bool {
    moment.is_some_and(|moment| now >= moment)
}

#[cfg(test)]
#[path = "tests/mod.rs"]
mod tests;
