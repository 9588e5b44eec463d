//! What happens next in the life of a connection: an event in, the next state and what to do out.

use std::time::Duration;

use toolcrib_config::model::policy::{Connect, OnListChanged};

use super::failure::{Failure, FailureKind};
use super::settings::{Settings, Tries};
use super::state::{
    CacheState, Cause, Known, Life, Link, Moment, Phase, Run, Staleness, State, Up,
};

/// Changes of a list that come this close together are one.
pub const LIST_CHANGE_WINDOW: Duration = Duration::from_millis(200);
/// A session that lasted this long was one; what is forgotten sooner may never have been known.
const LASTING: Duration = Duration::from_secs(1);
/// A server may ask for patience, but not for ever.
pub const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// What can happen. What is heard of a session names it, so that a late word of an old one is told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The host started, or took the server in.
    Begin,
    Wanted(Want),
    /// Opened, shaken hands and listed: all of it.
    Connected(Link),
    /// It could not be made, or it was lost.
    Down(Link, Failure),
    /// The start-up limit passed and the server wrote nothing; `Content-Length` has not been tried with it yet.
    Silent(Link, Failure),
    /// What a look at the server's address adds to the failure of this session's start.
    Diagnosed(Link, Failure),
    /// When something was last heard from the server; one sample before a tick is enough.
    Traffic(Link, Moment),
    /// Calls that use the session or wait for it.
    InFlight(u32),
    /// When the last of them ended that has.
    Used(Moment),
    /// The lists were read anew, or could not be.
    Listed(Link, Result<(), Failure>),
    /// The server says that a list changed, and had declared that it would.
    ListChanged(Link),
    /// The lists were compared with those that are known, or could not be.
    Compared(Link),
    /// The moment of [`Life::wake`] has come.
    Tick,
    Connect,
    Disconnect,
    Restart,
    /// What failed is tried again now, with a new count: somebody may have mended it.
    Retry,
    /// Whoever had the session to himself has done with it: it ends, and the next want begins another.
    Release,
    Refresh,
    Enable,
    Disable,
    /// No new calls; the end comes when the last one in flight has ended.
    Retire,
}

/// Who needs the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    List,
    Call,
}

/// What is to be done, in this order. A connect begins only when the closes before it have ended, so that a
/// server never sees two sessions of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    Connect(Link),
    /// The same with `Content-Length` framing, whatever is configured or remembered.
    ConnectContentLength(Link),
    /// Ends the session in good order, or the attempt to open it; for one that is down already, whatever is
    /// left of it.
    Close(Link),
    /// Ends it at once, calls in flight or not.
    Kill(Link),
    Ping(Link),
    /// Reads the lists anew.
    Discover(Link),
    /// Reads the lists only to tell how they differ from those that are known.
    Compare(Link),
    /// Something that people see has changed.
    Announce,
}

/// One step. It is total: an event that means nothing in a state changes nothing. `chance` is a random number
/// from 0 to 1.
pub fn step(
    life: Life,
    event: Event,
    settings: &Settings,
    now: Moment,
    chance: f64,
) -> (Life, Vec<Effect>) {
    let before = seen(&life);
    let mut turn = Turn { life, settings, now, chance, effects: Vec::new() };
    turn.take(event);
    if seen(&turn.life) != before {
        turn.effects.push(Effect::Announce);
    }
    (turn.life, turn.effects)
}

/// What people see of a life, as far as it can change.
type Seen = (State, CacheState, u32, Option<Moment>, Option<Moment>);

fn seen(life: &Life) -> Seen {
    let error = life.last_error().map(|(at, _)| at);
    (life.state(), life.cache(), life.attempts(), life.next_retry(), error)
}

struct Turn<'a> {
    life: Life,
    settings: &'a Settings,
    now: Moment,
    chance: f64,
    effects: Vec<Effect>,
}

impl Turn<'_> {
    fn take(&mut self, event: Event) {
        match event {
            Event::Begin => self.begin(),
            Event::Wanted(want) => self.wanted(want),
            Event::Connected(link) if self.is_current(link) => self.connected(),
            Event::Down(link, failure) if self.is_current(link) => self.down(failure),
            Event::Silent(link, failure) if self.is_current(link) => self.silent(failure),
            Event::Diagnosed(link, failure) => self.diagnosed(link, failure),
            Event::Traffic(link, at) if self.is_current(link) => self.heard(at),
            Event::Listed(link, outcome) if self.is_current(link) => self.listed(outcome),
            Event::ListChanged(link) if self.is_current(link) => self.list_changed(),
            Event::Compared(link) if self.is_current(link) => self.compared(),
            Event::InFlight(count) => self.in_flight(count),
            Event::Used(at) => self.used(at),
            Event::Tick => self.tick(),
            Event::Connect => self.connect_now(),
            Event::Disconnect => self.stop(Phase::Stopped),
            Event::Restart => self.restart(),
            Event::Retry => self.retry(),
            Event::Release => self.release(),
            Event::Refresh => self.relist(),
            Event::Enable => self.enable(),
            Event::Disable => self.stop(Phase::Disabled),
            Event::Retire => self.retire(),
            // Word of a session that is over.
            Event::Connected(_)
            | Event::Down(..)
            | Event::Silent(..)
            | Event::Traffic(..)
            | Event::Listed(..)
            | Event::ListChanged(_)
            | Event::Compared(_) => {}
        }
    }

    fn is_current(&self, link: Link) -> bool {
        self.life.link() == Some(link)
    }

    fn begin(&mut self) {
        let unasked = matches!(self.settings.connect, Connect::Eager | Connect::Background);
        if unasked && self.life.phase == Phase::Idle {
            self.connect(Cause::Start, 0);
        }
    }

    fn wanted(&mut self, want: Want) {
        match self.life.phase {
            Phase::Idle if self.starts_for(want) => self.connect(Cause::Start, 0),
            Phase::Failed { until: Some(until), .. }
                if self.now >= until && self.starts_again_for(want) =>
            {
                self.connect_again();
            }
            Phase::Up(_) if want == Want::List => self.relist_if_expired(),
            _ => {}
        }
    }

    /// A list of what is already known needs no server where only calls are to start one.
    fn starts_for(&self, want: Want) -> bool {
        match (self.settings.connect, want) {
            (Connect::OnFirstCall, Want::List) => self.life.known == Known::Nothing,
            _ => true,
        }
    }

    /// A list starts again a server that was up before, or whose hold-off has passed. Without a hold-off, a server
    /// that never came up would be started by every list.
    fn starts_again_for(&self, want: Want) -> bool {
        let was_up = self.life.last_connected.is_some();
        want == Want::Call || was_up || !self.settings.hold_off.is_zero()
    }

    fn connect_again(&mut self) {
        let was_up = self.life.last_connected.is_some();
        self.connect(if was_up { Cause::Demand } else { Cause::Start }, 0);
    }

    fn connect(&mut self, cause: Cause, failed: u32) {
        self.life.link.0 += 1;
        let run = Run { cause, failed };
        self.life.phase = Phase::Connecting { run, changed: false };
        self.effects.push(Effect::Connect(self.life.link));
    }

    fn connected(&mut self) {
        let (run, changed) = match self.life.phase {
            Phase::Connecting { run, changed } => (run, changed),
            Phase::TryingContentLength { run, .. } => (run, false),
            _ => return,
        };
        let mut up = Up::after(run, self.now);
        up.relist_at = changed.then(|| self.now.after(LIST_CHANGE_WINDOW));
        self.life.phase = Phase::Up(up);
        self.life.last_connected = Some(self.now);
        self.life.known = Known::Fresh { at: self.now };
    }

    fn down(&mut self, failure: Failure) {
        match self.life.phase {
            Phase::Connecting { run, .. } => {
                let failed = run.failed.saturating_add(1);
                self.failed(Run { failed, ..run }, failure);
            }
            Phase::TryingContentLength { run, retry } => self.content_length_failed(run, retry),
            Phase::Up(up) => self.lost(up, failure),
            Phase::Draining { .. } => {
                self.close();
                self.note(failure);
                self.life.phase = Phase::Retired;
            }
            _ => {}
        }
    }

    /// Everybody who waits fails now, after one start-up limit. The attempt with `Content-Length` follows in the
    /// background, so that nobody waits for a second limit.
    fn silent(&mut self, failure: Failure) {
        let Phase::Connecting { run, .. } = self.life.phase else {
            return self.down(failure);
        };
        self.note(failure);
        self.life.link.0 += 1;
        let run = Run { failed: run.failed.saturating_add(1), ..run };
        self.life.phase = Phase::TryingContentLength { run, retry: false };
        self.effects.push(Effect::ConnectContentLength(self.life.link));
    }

    /// The first failure stays the known one: a server that fails at `Content-Length` may only not speak it.
    fn content_length_failed(&mut self, run: Run, retry: bool) {
        let Some((_, first)) = self.life.last_error.clone() else { return };
        if retry {
            self.note(first);
            self.connect_again();
        } else {
            self.failed(run, first);
        }
    }

    /// A diagnosis may come late: it belongs to the newest session only, and only while that one is down.
    fn diagnosed(&mut self, link: Link, failure: Failure) {
        if self.life.link == link
            && self.life.link().is_none()
            && let Some((_, known)) = &mut self.life.last_error
        {
            *known = failure;
            self.effects.push(Effect::Announce);
        }
    }

    /// The peer may be gone while its process is not, so what is lost is closed as well.
    fn lost(&mut self, up: Up, failure: Failure) {
        let lasted = |time| self.now >= up.since.after(time);
        // One that is lost sooner than it took to come back was no success: else a server that dies of its
        // first call would be started again and again, as fast as the shortest wait allows.
        let longest = self.settings.reconnect.backoff.max_delay.max(LASTING);
        let failed = if lasted(longest) { 0 } else { up.failed };
        let (is_session_gone, is_lasting) = (failure.is_session_gone(), lasted(LASTING));
        self.close();
        self.life.restarts = self.life.restarts.saturating_add(1);
        self.forget_freshness();
        // DOM-93: the protocol requires a new `initialize` after a 404 for the session, whatever the policy says of
        // lost connections. A session that did not last is opened again by the next want only, so that a server that
        // forgets every session is not initialized in a loop.
        match is_session_gone {
            true if is_lasting => {
                self.note(failure);
                self.connect(Cause::Loss, 0);
            }
            true => {
                self.note(failure);
                self.life.phase = Phase::Failed { attempts: failed, until: Some(self.now) };
            }
            false => self.failed(Run { cause: Cause::Loss, failed }, failure),
        }
    }

    fn failed(&mut self, run: Run, failure: Failure) {
        let wait = self.next_wait(run).filter(|_| failure.is_passing());
        let patience = failure.retry_after.unwrap_or_default();
        self.note(failure);
        self.life.phase = match wait {
            Some(wait) => Phase::Backoff {
                run,
                until: self.now.after(wait.max(patience.min(LONGEST_RETRY_AFTER))),
            },
            None => Phase::Failed { attempts: run.failed, until: self.held_off_until(run) },
        };
    }

    /// A start has a first try before those that the policy counts; after a loss the policy counts each.
    fn next_wait(&self, run: Run) -> Option<Duration> {
        let (tries, nth) = self.next_try(run);
        (nth <= tries.max).then(|| tries.backoff.delay(nth, self.chance))
    }

    fn next_try(&self, run: Run) -> (&Tries, u32) {
        match run.cause {
            Cause::Start | Cause::Demand => (&self.settings.retry, run.failed),
            Cause::Loss => (&self.settings.reconnect, run.failed.saturating_add(1)),
        }
    }

    /// From when on a want may try again: after the hold-off, or at once where nothing was tried yet. `None` where
    /// the failure is final: the policy's tries are exhausted, or the policy starts nothing on demand.
    fn held_off_until(&self, run: Run) -> Option<Moment> {
        let (tries, nth) = self.next_try(run);
        let has_tries_left = match run.cause {
            // Where the policy tries nothing by itself, each call may.
            Cause::Start | Cause::Demand => tries.max == 0 && self.settings.reconnect.max == 0,
            // DOM-94: a failure that the policy does not retry by itself, such as a broken message, exhausts nothing.
            Cause::Loss => tries.max == 0 || nth <= tries.max,
        };
        let hold_off = self.settings.hold_off;
        let may_start = !hold_off.is_zero() || (self.settings.on_demand && has_tries_left);
        let wait = if run.failed == 0 { Duration::ZERO } else { hold_off };
        may_start.then(|| self.now.after(wait))
    }

    fn heard(&mut self, at: Moment) {
        if let Phase::Up(up) = &mut self.life.phase {
            up.heard = up.heard.max(at.min(self.now));
            if up.pinged.is_none_or(|pinged| up.heard >= pinged) {
                up.missed = 0;
            }
        }
    }

    fn used(&mut self, at: Moment) {
        if let Phase::Up(up) = &mut self.life.phase {
            up.used = up.used.max(at.min(self.now));
        }
    }

    fn in_flight(&mut self, count: u32) {
        let before = std::mem::replace(&mut self.life.in_flight, count);
        match &mut self.life.phase {
            // The same nothing told twice is no use of it.
            Phase::Up(up) if before > 0 || count > 0 => up.used = self.now,
            Phase::Draining { .. } if count == 0 => self.stop(Phase::Retired),
            _ => {}
        }
    }

    fn listed(&mut self, outcome: Result<(), Failure>) {
        let Phase::Up(up) = &mut self.life.phase else {
            return;
        };
        up.listing = false;
        up.list_failed = outcome.is_err();
        match outcome {
            Ok(()) => self.life.known = Known::Fresh { at: self.now },
            Err(failure) => {
                self.life.known = Known::Stale(Staleness::Expired);
                self.note(failure);
            }
        }
        self.relist_if_due();
    }

    fn list_changed(&mut self) {
        match (self.settings.on_list_changed, &mut self.life.phase) {
            (OnListChanged::Refresh, Phase::Connecting { changed, .. }) => *changed = true,
            (OnListChanged::Refresh, Phase::Up(up)) => {
                // The first of many counts: a server that never rests is still listed.
                up.relist_at.get_or_insert(self.now.after(LIST_CHANGE_WINDOW));
            }
            (OnListChanged::MarkStale, Phase::Up(up)) => {
                up.compare_at.get_or_insert(self.now.after(LIST_CHANGE_WINDOW));
                self.life.known = Known::Stale(Staleness::Changed);
            }
            _ => {}
        }
    }

    fn compared(&mut self) {
        if let Phase::Up(up) = &mut self.life.phase {
            up.comparing = false;
        }
        self.compare_if_due();
    }

    fn tick(&mut self) {
        if is_due(self.life.expiry(self.settings), self.now) {
            self.life.known = Known::Stale(Staleness::Expired);
        }
        match self.life.phase {
            Phase::Backoff { run, until } if self.now >= until => {
                self.connect(run.cause, run.failed);
            }
            Phase::Draining { until } if is_due(until, self.now) => {
                self.effects.push(Effect::Kill(self.life.link));
                self.life.phase = Phase::Retired;
            }
            Phase::Up(up) => self.tick_up(up),
            _ => {}
        }
    }

    fn tick_up(&mut self, up: Up) {
        if is_due(up.stale_at(self.settings), self.now) {
            let text = format!("nothing was heard for {:?}", self.settings.stale_after);
            self.lost(up, Failure::new(FailureKind::Timeout, text));
        } else if is_due(self.life.idle_at(&up, self.settings), self.now) {
            self.release();
        } else {
            self.ping_if_due();
            self.relist_if_due();
            self.compare_if_due();
        }
    }

    fn compare_if_due(&mut self) {
        if let Phase::Up(up) = &mut self.life.phase
            && !up.comparing
            && !up.listing
            && is_due(up.compare_at, self.now)
        {
            up.comparing = true;
            up.compare_at = None;
            self.effects.push(Effect::Compare(self.life.link));
        }
    }

    fn ping_if_due(&mut self) {
        if let Phase::Up(up) = &mut self.life.phase
            && is_due(up.ping_at(self.settings), self.now)
        {
            let unanswered = up.pinged.is_some_and(|pinged| up.heard < pinged);
            up.missed = up.missed.saturating_add(u32::from(unanswered));
            up.pinged = Some(self.now);
            self.effects.push(Effect::Ping(self.life.link));
        }
    }

    fn relist_if_due(&mut self) {
        if let Phase::Up(up) = &self.life.phase
            && !up.listing
            && is_due(up.relist_at, self.now)
        {
            self.relist();
        }
    }

    fn relist_if_expired(&mut self) {
        let expired = is_due(self.life.expiry(self.settings), self.now)
            || self.life.known == Known::Stale(Staleness::Expired);
        if let Phase::Up(up) = &self.life.phase
            && !up.listing
            && expired
        {
            self.relist();
        }
    }

    /// One reading at a time: what is asked for meanwhile follows it, since it may have read the old list.
    fn relist(&mut self) {
        let Phase::Up(up) = &mut self.life.phase else {
            return;
        };
        if up.listing {
            up.relist_at = Some(self.now);
        } else {
            up.listing = true;
            up.relist_at = None;
            // Reading the lists tells how they differ, too.
            up.compare_at = None;
            self.effects.push(Effect::Discover(self.life.link));
        }
    }

    fn connect_now(&mut self) {
        match self.life.phase {
            Phase::Idle | Phase::Stopped | Phase::Backoff { .. } | Phase::Failed { .. } => {
                self.connect(Cause::Start, 0);
            }
            _ => {}
        }
    }

    /// A stopped or disabled server stays so: a person said that.
    fn retry(&mut self) {
        match &mut self.life.phase {
            Phase::Backoff { .. } | Phase::Failed { .. } => self.connect_again(),
            // Two processes of one connection must not run at once, and the attempt must not be lost.
            Phase::TryingContentLength { retry, .. } => *retry = true,
            _ => {}
        }
    }

    fn restart(&mut self) {
        if let Phase::Connecting { .. } | Phase::TryingContentLength { .. } | Phase::Up(_) =
            self.life.phase
        {
            self.close();
            self.forget_freshness();
            self.life.restarts = self.life.restarts.saturating_add(1);
            self.connect(Cause::Start, 0);
        } else {
            self.connect_now();
        }
    }

    /// What is known of the lists stays known: they are not the session's but the server's.
    fn release(&mut self) {
        match self.life.phase {
            Phase::Connecting { .. } | Phase::TryingContentLength { .. } | Phase::Up(_) => {
                self.close();
                self.life.phase = Phase::Idle;
            }
            // It was lost to whoever had it; whoever comes next has nothing to do with that.
            Phase::Backoff { .. } | Phase::Failed { .. } => self.life.phase = Phase::Idle,
            _ => {}
        }
    }

    fn enable(&mut self) {
        if self.life.phase == Phase::Disabled {
            self.life.phase = Phase::Idle;
            self.begin();
        }
    }

    /// A word to someone who is leaving comes too late, unless it is the last.
    fn stop(&mut self, end: Phase) {
        let keeps = match self.life.phase {
            Phase::Retired => true,
            Phase::Draining { .. } => end != Phase::Retired,
            // Nobody may connect what is disabled; disconnecting it must not allow it.
            Phase::Disabled => end == Phase::Stopped,
            _ => false,
        };
        if !keeps {
            self.close();
            self.forget_freshness();
            self.life.phase = end;
        }
    }

    /// Calls in flight end in peace, also those that still wait for the session to open.
    fn retire(&mut self) {
        match self.life.phase {
            Phase::Connecting { .. } | Phase::Up(_) if self.life.in_flight > 0 => {
                let until = self.settings.drain_kill.map(|limit| self.now.after(limit));
                self.life.phase = Phase::Draining { until };
            }
            Phase::Draining { .. } => {}
            _ => self.stop(Phase::Retired),
        }
    }

    fn close(&mut self) {
        if let Some(link) = self.life.link() {
            self.effects.push(Effect::Close(link));
        }
    }

    fn forget_freshness(&mut self) {
        if let Known::Fresh { .. } = self.life.known {
            self.life.known = Known::Stale(Staleness::Lost);
        }
    }

    fn note(&mut self, failure: Failure) {
        self.life.last_error = Some((self.now, failure));
    }
}

fn is_due(moment: Option<Moment>, now: Moment) -> bool {
    moment.is_some_and(|moment| now >= moment)
}

#[cfg(test)]
#[path = "tests/mod.rs"]
mod tests;
