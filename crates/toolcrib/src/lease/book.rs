//! The book of one server's sessions: who has which, who waits, and what happens next. It decides and does nothing.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;
use tokio::time::Instant;
use toolcrib_config::model::policy::SessionScope;
use toolcrib_wire::Era;

use super::event::{Effect, Event, Refusal};
use super::instance::{Holder, Instance, InstanceId, Lease, Phase, Ticket};
use super::terms::Terms;

#[derive(Debug, Clone)]
pub(super) struct Book {
    terms: Terms,
    instances: BTreeMap<InstanceId, Instance>,
    /// The sessions that new calls of their holder may use.
    held: HashMap<Holder, InstanceId, RandomState>,
    /// First come, first served.
    waiting: VecDeque<Waiter>,
    retired: bool,
    ids: u64,
    /// Changes with the list of leases.
    version: u64,
    now: Instant,
    effects: Vec<Effect>,
}

#[derive(Debug, Clone)]
struct Waiter {
    ticket: Ticket,
    dialog: Arc<str>,
    principal: Option<Arc<str>>,
    holder: Holder,
    era: Era,
}

impl Book {
    pub(super) fn new(terms: Terms, now: Instant) -> Self {
        Self {
            terms,
            instances: BTreeMap::new(),
            held: HashMap::default(),
            waiting: VecDeque::new(),
            retired: false,
            ids: 0,
            version: 0,
            now,
            effects: Vec::new(),
        }
    }

    /// One step. It is total: an event that means nothing changes nothing.
    pub(super) fn step(&mut self, event: Event, now: Instant) -> Vec<Effect> {
        self.now = now;
        self.take_in(event);
        self.serve_all();
        if self.retired {
            self.end_unneeded();
        }
        std::mem::take(&mut self.effects)
    }

    /// The session of a dialog that has one and may call on it now: what nearly every call finds. Whoever waits comes
    /// first.
    pub(super) fn take_held(
        &mut self,
        dialog: &Arc<str>,
        era: Era,
        now: Instant,
    ) -> Option<InstanceId> {
        let holder = match self.terms.scope {
            _ if self.retired || !self.waiting.is_empty() => return None,
            SessionScope::Shared => Holder::Shared(era),
            SessionScope::PerConversation => Holder::Dialog(dialog.clone()),
            SessionScope::PerCall => return None,
        };
        self.now = now;
        let id = *self.held.get(&holder)?;
        self.admit(id).then_some(id)
    }

    pub(super) fn fresh(&mut self) -> InstanceId {
        self.ids += 1;
        InstanceId(self.ids)
    }

    /// When the next lease will have been idle for too long.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let idle = Some(self.terms.idle).filter(|idle| !idle.is_zero())?;
        self.instances.values().filter_map(|instance| instance.due(idle)).min()
    }

    /// Whether a call that waits does so for its own session to open, and not for what others use.
    pub(super) fn is_starting(&self, ticket: Ticket) -> bool {
        self.waiting.iter().any(|w| w.ticket == ticket && self.waits_for_start(w))
    }

    /// Whether nothing is left of a retired server.
    pub(super) fn is_over(&self) -> bool {
        self.retired && self.instances.is_empty() && self.waiting.is_empty()
    }

    /// Whether a dialog has a session that it could release.
    pub(super) fn is_held_by(&self, dialog: &Arc<str>) -> bool {
        self.held.contains_key(&Holder::Dialog(dialog.clone()))
    }

    pub(super) fn is_reminded(&self, instance: InstanceId) -> bool {
        self.instances.get(&instance).is_none_or(|it| it.is_reminded)
    }

    /// Notes that the session's dialog is reminded of it. False where it was before, or where the session has ended.
    pub(super) fn remind(&mut self, instance: InstanceId) -> bool {
        let Some(instance) = self.instances.get_mut(&instance) else { return false };
        !std::mem::replace(&mut instance.is_reminded, true)
    }

    pub(super) fn is_making(&self, instance: InstanceId) -> bool {
        self.instances.get(&instance).is_some_and(|i| i.phase == Phase::Making)
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn leases(&self, server: &Arc<str>) -> Vec<Lease> {
        let live = self.instances.values().filter(|instance| instance.phase == Phase::Live);
        live.filter_map(|instance| {
            Some(Lease {
                server: server.clone(),
                dialog: instance.holder.dialog()?.clone(),
                since: instance.since,
                last_use: instance.last_use,
                idle_after: Some(self.terms.idle).filter(|idle| !idle.is_zero()),
                in_flight: instance.in_flight,
            })
        })
        .collect()
    }

    /// The sessions that are one dialog's, and whose.
    pub(super) fn owned(&self) -> impl Iterator<Item = (&Arc<str>, InstanceId)> {
        let live = self.instances.iter().filter(|(_, it)| it.phase == Phase::Live);
        live.filter_map(|(id, it)| match &it.holder {
            Holder::Dialog(dialog) => Some((dialog, *id)),
            Holder::Shared(_) | Holder::Call(..) | Holder::Nobody => None,
        })
    }

    /// Whether `leases` has one of this dialog, without writing all of them down.
    pub(super) fn has_lease(&self, dialog: &Arc<str>) -> bool {
        let is_live = |instance: &Instance| instance.phase == Phase::Live;
        match self.terms.scope {
            SessionScope::Shared => false,
            SessionScope::PerConversation => {
                let held = self.held.get(&Holder::Dialog(dialog.clone()));
                held.and_then(|id| self.instances.get(id)).is_some_and(is_live)
            }
            // There are only as many as there are calls under way.
            SessionScope::PerCall => {
                let mut own =
                    self.instances.values().filter(|it| it.holder.dialog() == Some(dialog));
                own.any(is_live)
            }
        }
    }

    fn take_in(&mut self, event: Event) {
        match event {
            Event::Take { ticket, dialog, principal, era } => {
                self.ask(ticket, dialog, principal, era);
            }
            Event::GiveUp(ticket) => self.give_up(ticket),
            Event::Done(id) => self.done(id),
            Event::Made(id) => self.made(id),
            Event::Failed(id) => self.failed(id),
            Event::Offer(id, era) => self.offered(id, era),
            Event::Lost(id) => self.end(id),
            Event::Gone(id) => drop(self.instances.remove(&id)),
            Event::Release(dialog) => self.release(dialog),
            Event::DialogEnded(dialog) => self.dialog_ended(&dialog),
            Event::EndAll => self.end_all(),
            Event::Retire => self.retired = true,
            Event::Tick => self.tick(),
        }
    }

    fn ask(&mut self, ticket: Ticket, dialog: Arc<str>, principal: Option<Arc<str>>, era: Era) {
        if self.retired {
            return self.refuse(ticket, Refusal::Retired);
        }
        let holder = match self.terms.scope {
            SessionScope::Shared => Holder::Shared(era),
            SessionScope::PerConversation => Holder::Dialog(dialog.clone()),
            SessionScope::PerCall => Holder::Call(ticket, dialog.clone()),
        };
        self.waiting.push_back(Waiter {
            ticket,
            dialog,
            principal: principal.clone(),
            holder,
            era,
        });
        self.serve_all();
        // Each principal has a queue of its own: nobody can fill that of another.
        let blocked =
            |waiter: &&Waiter| waiter.principal == principal && !self.waits_for_start(waiter);
        let is_blocked = self.waiting.back().filter(blocked).is_some_and(|w| w.ticket == ticket);
        let before = self.waiting.iter().filter(blocked).count().saturating_sub(1);
        if is_blocked && !self.terms.may_wait(before) {
            self.waiting.pop_back();
            self.refuse(ticket, Refusal::Full);
        }
    }

    fn give_up(&mut self, ticket: Ticket) {
        let Some(at) = self.waiting.iter().position(|waiter| waiter.ticket == ticket) else {
            return;
        };
        // A start goes on, for whoever asks next; but that of one call's own session is nobody's now.
        if let Some(waiter) = self.waiting.remove(at)
            && let Holder::Call(..) = waiter.holder
            && let Some(id) = self.held.get(&waiter.holder)
        {
            self.end(*id);
        }
    }

    fn done(&mut self, id: InstanceId) {
        let Some(instance) = self.instances.get_mut(&id) else {
            return;
        };
        instance.in_flight = instance.in_flight.saturating_sub(1);
        instance.last_use = self.now;
        let over = instance.in_flight == 0 && instance.phase == Phase::Leaving;
        if over || matches!(instance.holder, Holder::Call(..)) {
            self.end(id);
        }
    }

    fn made(&mut self, id: InstanceId) {
        if let Some(instance) = self.instances.get_mut(&id)
            && instance.phase == Phase::Making
        {
            instance.phase = Phase::Live;
            instance.last_use = self.now;
            self.version += 1;
        }
    }

    fn failed(&mut self, id: InstanceId) {
        let Some(instance) = self.instances.remove(&id) else {
            return;
        };
        if self.held.get(&instance.holder) == Some(&id) {
            self.held.remove(&instance.holder);
            self.refuse_those(Refusal::Failed, |waiter| waiter.holder == instance.holder);
        }
    }

    fn offered(&mut self, id: InstanceId, era: Era) {
        let wanted = !self.retired
            && self.terms.has_room(self.instances.len())
            && !self.held.contains_key(&Holder::Nobody)
            && !self.held.contains_key(&Holder::Shared(era));
        self.instances.insert(id, Instance::new(Holder::Nobody, era, Phase::Live, self.now));
        if wanted {
            self.held.insert(Holder::Nobody, id);
        } else {
            self.end(id);
        }
    }

    fn release(&mut self, dialog: Arc<str>) {
        let Some(id) = self.held.remove(&Holder::Dialog(dialog)) else {
            return;
        };
        match self.instances.get_mut(&id) {
            Some(instance) if instance.in_flight > 0 => {
                instance.phase = Phase::Leaving;
                self.version += 1;
            }
            _ => self.end(id),
        }
    }

    fn dialog_ended(&mut self, dialog: &Arc<str>) {
        self.refuse_those(Refusal::DialogEnded, |waiter| waiter.dialog == *dialog);
        self.end_those(|instance| instance.holder.dialog() == Some(dialog));
    }

    fn end_all(&mut self) {
        self.end_those(|_| true);
        if self.retired {
            self.refuse_those(Refusal::Retired, |_| true);
        }
    }

    fn tick(&mut self) {
        let (now, idle) = (self.now, self.terms.idle);
        self.end_those(|instance| instance.due(idle).is_some_and(|due| due <= now));
    }

    /// Of a retired server only what serves a call, or will serve one, stays.
    fn end_unneeded(&mut self) {
        let wanted: Vec<_> = self.waiting.iter().map(|w| w.holder.clone()).collect();
        self.end_those(|instance| instance.in_flight == 0 && !wanted.contains(&instance.holder));
    }

    fn end_those(&mut self, which: impl Fn(&Instance) -> bool) {
        let ids: Vec<_> =
            self.instances.iter().filter(|(_, i)| which(i)).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.end(id));
    }

    /// It counts until its end is complete: there are never more processes than the limit says.
    fn end(&mut self, id: InstanceId) {
        let Some(instance) = self.instances.get_mut(&id) else {
            return;
        };
        if instance.phase == Phase::Ending {
            return;
        }
        instance.phase = Phase::Ending;
        if self.held.get(&instance.holder) == Some(&id) {
            self.held.remove(&instance.holder);
        }
        self.version += 1;
        self.effects.push(Effect::End(id));
    }

    fn refuse(&mut self, ticket: Ticket, why: Refusal) {
        self.effects.push(Effect::Refuse { ticket, why });
    }

    fn refuse_those(&mut self, why: Refusal, which: impl Fn(&Waiter) -> bool) {
        let waiting = std::mem::take(&mut self.waiting);
        let (refused, left): (VecDeque<_>, _) = waiting.into_iter().partition(which);
        self.waiting = left;
        refused.iter().for_each(|waiter| self.refuse(waiter.ticket, why));
    }

    /// Lets everybody in for whom there is a session now, those who came first before the others.
    fn serve_all(&mut self) {
        for waiter in std::mem::take(&mut self.waiting) {
            if !self.serve(&waiter) {
                self.waiting.push_back(waiter);
            }
        }
    }

    fn serve(&mut self, waiter: &Waiter) -> bool {
        let found = self.held.get(&waiter.holder).copied().or_else(|| self.seat(waiter));
        let Some(id) = found.filter(|id| self.admit(*id)) else { return false };
        self.effects.push(Effect::Grant { ticket: waiter.ticket, instance: id });
        true
    }

    /// One more call on a session, if it takes one.
    fn admit(&mut self, id: InstanceId) -> bool {
        let Some(instance) = self.instances.get_mut(&id) else { return false };
        let free = instance.phase == Phase::Live && self.terms.takes_more(instance.in_flight);
        if free {
            instance.in_flight += 1;
            instance.last_use = self.now;
        }
        free
    }

    /// A session for a holder that has none: the one that nobody has, a new one, or a shared one of the other era.
    fn seat(&mut self, waiter: &Waiter) -> Option<InstanceId> {
        if !self.principal_has_room(waiter) {
            return None;
        }
        let spare = self.held.get(&Holder::Nobody).copied();
        let fits = |id: &InstanceId| self.instances.get(id).is_some_and(|i| i.era == waiter.era);
        if let Some(id) = spare.filter(fits) {
            return Some(self.adopt(id, waiter));
        }
        if self.terms.has_room(self.instances.len()) {
            return Some(self.order(waiter));
        }
        if let Some(id) = spare {
            self.end(id);
        }
        match waiter.holder {
            Holder::Shared(era) => self.held.get(&Holder::Shared(other(era))).copied(),
            _ => None,
        }
    }

    /// Whether the waiter's principal may have one more session. A shared session is no principal's.
    fn principal_has_room(&self, waiter: &Waiter) -> bool {
        let (Some(principal), Some(_)) = (&waiter.principal, waiter.holder.dialog()) else {
            return true;
        };
        let is_own = |instance: &&Instance| instance.principal.as_ref() == Some(principal);
        self.terms.principal_has_room(self.instances.values().filter(is_own).count())
    }

    fn adopt(&mut self, id: InstanceId, waiter: &Waiter) -> InstanceId {
        let holder = &waiter.holder;
        self.held.remove(&Holder::Nobody);
        self.held.insert(holder.clone(), id);
        if let Some(instance) = self.instances.get_mut(&id) {
            instance.holder = holder.clone();
            instance.principal.clone_from(&waiter.principal);
            instance.since = self.now;
        }
        self.version += 1;
        id
    }

    fn order(&mut self, waiter: &Waiter) -> InstanceId {
        let (id, era) = (self.fresh(), waiter.era);
        let holder = waiter.holder.clone();
        let dialog = holder.dialog().cloned();
        self.held.insert(holder.clone(), id);
        let mut instance = Instance::new(holder, era, Phase::Making, self.now);
        instance.principal.clone_from(&waiter.principal);
        self.instances.insert(id, instance);
        self.effects.push(Effect::Make { instance: id, dialog, era });
        id
    }

    fn waits_for_start(&self, waiter: &Waiter) -> bool {
        self.held.get(&waiter.holder).is_some_and(|id| self.is_making(*id))
    }
}

fn other(era: Era) -> Era {
    match era {
        Era::Legacy => Era::Modern,
        Era::Modern => Era::Legacy,
    }
}
