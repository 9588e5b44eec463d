//! State machine of one server's sessions: holders, waiting calls, and the next actions. It performs no IO.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;
use tokio::time::Instant;
use toolcrib_config::model::policy::SessionScope;
use toolcrib_wire::Era;

use super::event::{LeaseEffect, LeaseEvent, RefusalReason};
use super::lease_policy::LeasePolicy;
use super::session_entry::{Lease, SessionEntry, SessionHolder, SessionId, SessionPhase, WaiterId};

#[derive(Debug, Clone)]
pub(super) struct LeaseTable {
    policy: LeasePolicy,
    entries: BTreeMap<SessionId, SessionEntry>,
    /// The session for new calls of each holder.
    assigned: HashMap<SessionHolder, SessionId, RandomState>,
    /// In order of arrival.
    waiters: VecDeque<Waiter>,
    retired: bool,
    last_id: u64,
    /// Changes with the list of leases.
    version: u64,
    now: Instant,
    effects: Vec<LeaseEffect>,
}

#[derive(Debug, Clone)]
struct Waiter {
    waiter_id: WaiterId,
    dialog: Arc<str>,
    principal: Option<Arc<str>>,
    holder: SessionHolder,
    era: Era,
}

impl LeaseTable {
    pub(super) fn new(policy: LeasePolicy, now: Instant) -> Self {
        Self {
            policy,
            entries: BTreeMap::new(),
            assigned: HashMap::default(),
            waiters: VecDeque::new(),
            retired: false,
            last_id: 0,
            version: 0,
            now,
            effects: Vec::new(),
        }
    }

    /// Processes one event. Events without effect in the current state are ignored.
    pub(super) fn step(&mut self, event: LeaseEvent, now: Instant) -> Vec<LeaseEffect> {
        self.now = now;
        self.apply(event);
        self.serve_waiters();
        if self.retired {
            self.close_unneeded();
        }
        std::mem::take(&mut self.effects)
    }

    /// Acquires the dialog's session if it can take a call now. Nearly every call takes this path. Waiting calls have
    /// priority.
    pub(super) fn try_acquire(
        &mut self,
        dialog: &Arc<str>,
        era: Era,
        now: Instant,
    ) -> Option<SessionId> {
        let holder = match self.policy.scope {
            _ if self.retired || !self.waiters.is_empty() => return None,
            SessionScope::Shared => SessionHolder::Shared(era),
            SessionScope::PerConversation => SessionHolder::Dialog(dialog.clone()),
            SessionScope::PerCall => return None,
        };
        self.now = now;
        let id = *self.assigned.get(&holder)?;
        self.start_call(id).then_some(id)
    }

    pub(super) fn next_session_id(&mut self) -> SessionId {
        self.last_id += 1;
        SessionId(self.last_id)
    }

    /// Returns the time at which the next lease reaches its idle timeout.
    pub(super) fn next_idle_deadline(&self) -> Option<Instant> {
        let idle = Some(self.policy.idle).filter(|idle| !idle.is_zero())?;
        self.entries.values().filter_map(|entry| entry.idle_deadline(idle)).min()
    }

    /// Returns whether a waiting call waits for its own session to open, and not for sessions of others.
    pub(super) fn is_waiting_for_open(&self, waiter_id: WaiterId) -> bool {
        self.waiters.iter().any(|w| w.waiter_id == waiter_id && self.waits_for_open(w))
    }

    /// Returns whether a retired server has no sessions and waiting calls left.
    pub(super) fn is_finished(&self) -> bool {
        self.retired && self.entries.is_empty() && self.waiters.is_empty()
    }

    /// Returns whether a dialog has a session to release.
    pub(super) fn has_assigned_session(&self, dialog: &Arc<str>) -> bool {
        self.assigned.contains_key(&SessionHolder::Dialog(dialog.clone()))
    }

    pub(super) fn is_reminded(&self, session_id: SessionId) -> bool {
        self.entries.get(&session_id).is_none_or(|it| it.is_reminded)
    }

    /// Records that the session's dialog has been reminded of it. Returns false if it was reminded before or the
    /// session has ended.
    pub(super) fn mark_reminded(&mut self, session_id: SessionId) -> bool {
        let Some(entry) = self.entries.get_mut(&session_id) else { return false };
        !std::mem::replace(&mut entry.is_reminded, true)
    }

    pub(super) fn is_opening(&self, session_id: SessionId) -> bool {
        self.entries.get(&session_id).is_some_and(|entry| entry.phase == SessionPhase::Opening)
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn leases(&self, server: &Arc<str>) -> Vec<Lease> {
        let open = self.entries.values().filter(|entry| entry.phase == SessionPhase::Open);
        open.filter_map(|entry| {
            Some(Lease {
                server: server.clone(),
                dialog: entry.holder.dialog()?.clone(),
                since: entry.since,
                last_use: entry.last_use,
                idle_after: Some(self.policy.idle).filter(|idle| !idle.is_zero()),
                in_flight: entry.in_flight,
            })
        })
        .collect()
    }

    /// Returns the open sessions of single dialogs.
    pub(super) fn dialog_sessions(&self) -> impl Iterator<Item = (&Arc<str>, SessionId)> {
        let open = self.entries.iter().filter(|(_, it)| it.phase == SessionPhase::Open);
        open.filter_map(|(id, it)| match &it.holder {
            SessionHolder::Dialog(dialog) => Some((dialog, *id)),
            SessionHolder::Shared(_) | SessionHolder::Call(..) => None,
        })
    }

    /// Returns whether `leases` contains one of this dialog, without building the list.
    pub(super) fn has_lease(&self, dialog: &Arc<str>) -> bool {
        let is_open = |entry: &SessionEntry| entry.phase == SessionPhase::Open;
        match self.policy.scope {
            SessionScope::Shared => false,
            SessionScope::PerConversation => {
                let assigned = self.assigned.get(&SessionHolder::Dialog(dialog.clone()));
                assigned.and_then(|id| self.entries.get(id)).is_some_and(is_open)
            }
            // There are at most as many sessions as calls in flight.
            SessionScope::PerCall => {
                let mut own = self.entries.values().filter(|it| it.holder.dialog() == Some(dialog));
                own.any(is_open)
            }
        }
    }

    fn apply(&mut self, event: LeaseEvent) {
        match event {
            LeaseEvent::Acquire { waiter_id, dialog, principal, era } => {
                self.enqueue(waiter_id, dialog, principal, era);
            }
            LeaseEvent::Cancel(waiter_id) => self.cancel_waiter(waiter_id),
            LeaseEvent::CallEnded(id) => self.call_ended(id),
            LeaseEvent::Opened(id) => self.session_opened(id),
            LeaseEvent::OpenFailed(id) => self.open_failed(id),
            LeaseEvent::Lost(id) => self.close(id),
            LeaseEvent::Closed(id) => drop(self.entries.remove(&id)),
            LeaseEvent::Release(dialog) => self.release_session(dialog),
            LeaseEvent::DialogEnded(dialog) => self.end_dialog(&dialog),
            LeaseEvent::CloseAll => self.close_all(),
            LeaseEvent::Retire => self.retired = true,
            LeaseEvent::Tick => self.close_idle(),
        }
    }

    fn enqueue(
        &mut self,
        waiter_id: WaiterId,
        dialog: Arc<str>,
        principal: Option<Arc<str>>,
        era: Era,
    ) {
        if self.retired {
            return self.refuse(waiter_id, RefusalReason::Retired);
        }
        let holder = match self.policy.scope {
            SessionScope::Shared => SessionHolder::Shared(era),
            SessionScope::PerConversation => SessionHolder::Dialog(dialog.clone()),
            SessionScope::PerCall => SessionHolder::Call(waiter_id, dialog.clone()),
        };
        self.waiters.push_back(Waiter {
            waiter_id,
            dialog,
            principal: principal.clone(),
            holder,
            era,
        });
        self.serve_waiters();
        // Each principal has its own queue, so no principal can fill another's.
        let blocked =
            |waiter: &&Waiter| waiter.principal == principal && !self.waits_for_open(waiter);
        let is_blocked =
            self.waiters.back().filter(blocked).is_some_and(|w| w.waiter_id == waiter_id);
        let before = self.waiters.iter().filter(blocked).count().saturating_sub(1);
        if is_blocked && !self.policy.allows_waiting(before) {
            self.waiters.pop_back();
            self.refuse(waiter_id, RefusalReason::Full);
        }
    }

    fn cancel_waiter(&mut self, waiter_id: WaiterId) {
        let Some(at) = self.waiters.iter().position(|waiter| waiter.waiter_id == waiter_id) else {
            return;
        };
        // The opening continues for the next caller, except for a session of a single call, which no other call may
        // use.
        if let Some(waiter) = self.waiters.remove(at)
            && let SessionHolder::Call(..) = waiter.holder
            && let Some(id) = self.assigned.get(&waiter.holder)
        {
            self.close(*id);
        }
    }

    fn call_ended(&mut self, id: SessionId) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        entry.in_flight = entry.in_flight.saturating_sub(1);
        entry.last_use = self.now;
        let over = entry.in_flight == 0 && entry.phase == SessionPhase::Draining;
        if over || matches!(entry.holder, SessionHolder::Call(..)) {
            self.close(id);
        }
    }

    fn session_opened(&mut self, id: SessionId) {
        if let Some(entry) = self.entries.get_mut(&id)
            && entry.phase == SessionPhase::Opening
        {
            entry.phase = SessionPhase::Open;
            entry.last_use = self.now;
            self.version += 1;
        }
    }

    fn open_failed(&mut self, id: SessionId) {
        let Some(entry) = self.entries.remove(&id) else {
            return;
        };
        if self.assigned.get(&entry.holder) == Some(&id) {
            self.assigned.remove(&entry.holder);
            self.refuse_where(RefusalReason::Failed, |waiter| waiter.holder == entry.holder);
        }
    }

    fn release_session(&mut self, dialog: Arc<str>) {
        let Some(id) = self.assigned.remove(&SessionHolder::Dialog(dialog)) else {
            return;
        };
        match self.entries.get_mut(&id) {
            Some(entry) if entry.in_flight > 0 => {
                entry.phase = SessionPhase::Draining;
                self.version += 1;
            }
            _ => self.close(id),
        }
    }

    fn end_dialog(&mut self, dialog: &Arc<str>) {
        self.refuse_where(RefusalReason::DialogEnded, |waiter| waiter.dialog == *dialog);
        self.close_where(|entry| entry.holder.dialog() == Some(dialog));
    }

    fn close_all(&mut self) {
        self.close_where(|_| true);
        if self.retired {
            self.refuse_where(RefusalReason::Retired, |_| true);
        }
    }

    fn close_idle(&mut self) {
        let (now, idle) = (self.now, self.policy.idle);
        self.close_where(|entry| entry.idle_deadline(idle).is_some_and(|due| due <= now));
    }

    /// Closes all sessions of a retired server that neither serve a call nor will serve one.
    fn close_unneeded(&mut self) {
        let wanted: Vec<_> = self.waiters.iter().map(|w| w.holder.clone()).collect();
        self.close_where(|entry| entry.in_flight == 0 && !wanted.contains(&entry.holder));
    }

    fn close_where(&mut self, matches: impl Fn(&SessionEntry) -> bool) {
        let ids: Vec<_> =
            self.entries.iter().filter(|(_, entry)| matches(entry)).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.close(id));
    }

    /// Starts to close a session. It counts against the limit until it is closed, so the number of processes never
    /// exceeds the limit.
    fn close(&mut self, id: SessionId) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        if entry.phase == SessionPhase::Closing {
            return;
        }
        entry.phase = SessionPhase::Closing;
        if self.assigned.get(&entry.holder) == Some(&id) {
            self.assigned.remove(&entry.holder);
        }
        self.version += 1;
        self.effects.push(LeaseEffect::Close(id));
    }

    fn refuse(&mut self, waiter_id: WaiterId, reason: RefusalReason) {
        self.effects.push(LeaseEffect::Refuse { waiter_id, reason });
    }

    fn refuse_where(&mut self, reason: RefusalReason, matches: impl Fn(&Waiter) -> bool) {
        let waiters = std::mem::take(&mut self.waiters);
        let (refused, left): (VecDeque<_>, _) = waiters.into_iter().partition(matches);
        self.waiters = left;
        refused.iter().for_each(|waiter| self.refuse(waiter.waiter_id, reason));
    }

    /// Assigns sessions to all waiting calls that can have one, in order of arrival.
    fn serve_waiters(&mut self) {
        for waiter in std::mem::take(&mut self.waiters) {
            if !self.serve_waiter(&waiter) {
                self.waiters.push_back(waiter);
            }
        }
    }

    fn serve_waiter(&mut self, waiter: &Waiter) -> bool {
        let found =
            self.assigned.get(&waiter.holder).copied().or_else(|| self.find_session(waiter));
        let Some(id) = found.filter(|id| self.start_call(*id)) else { return false };
        self.effects.push(LeaseEffect::Grant { waiter_id: waiter.waiter_id, session_id: id });
        true
    }

    /// Starts a call on the session if the session has room.
    fn start_call(&mut self, id: SessionId) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        let free = entry.phase == SessionPhase::Open && self.policy.allows_call(entry.in_flight);
        if free {
            entry.in_flight += 1;
            entry.last_use = self.now;
        }
        free
    }

    /// Finds a session for a holder without one: a new session, or a shared session of the other era.
    fn find_session(&mut self, waiter: &Waiter) -> Option<SessionId> {
        if !self.principal_has_room(waiter) {
            return None;
        }
        if self.policy.has_room(self.entries.len()) {
            return Some(self.open_session(waiter));
        }
        match waiter.holder {
            SessionHolder::Shared(era) => {
                self.assigned.get(&SessionHolder::Shared(other_era(era))).copied()
            }
            _ => None,
        }
    }

    /// Returns whether the waiter's principal may have another session. Shared sessions belong to no principal.
    fn principal_has_room(&self, waiter: &Waiter) -> bool {
        let (Some(principal), Some(_)) = (&waiter.principal, waiter.holder.dialog()) else {
            return true;
        };
        let is_own = |entry: &&SessionEntry| entry.principal.as_ref() == Some(principal);
        self.policy.principal_has_room(self.entries.values().filter(is_own).count())
    }

    fn open_session(&mut self, waiter: &Waiter) -> SessionId {
        let (id, era) = (self.next_session_id(), waiter.era);
        let holder = waiter.holder.clone();
        let dialog = holder.dialog().cloned();
        self.assigned.insert(holder.clone(), id);
        let mut entry = SessionEntry::new(holder, SessionPhase::Opening, self.now);
        entry.principal.clone_from(&waiter.principal);
        self.entries.insert(id, entry);
        self.effects.push(LeaseEffect::Open { session_id: id, dialog, era });
        id
    }

    fn waits_for_open(&self, waiter: &Waiter) -> bool {
        self.assigned.get(&waiter.holder).is_some_and(|id| self.is_opening(*id))
    }
}

fn other_era(era: Era) -> Era {
    match era {
        Era::Legacy => Era::Modern,
        Era::Modern => Era::Legacy,
    }
}
