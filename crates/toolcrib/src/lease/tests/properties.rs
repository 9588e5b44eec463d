//! Property tests: for any sequence of events limits hold, waiters are served, and leases end with their dialogs.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// One random step of a dialog, the server or the clock. Numbers select one of the existing values.
#[derive(Debug, Clone, Copy)]
enum Step {
    Acquire(u8, bool),
    Cancel(u8),
    EndCall(u8),
    Open(u8),
    FailOpen(u8),
    Lose(u8),
    FinishClose(u8),
    Release(u8),
    EndDialog(u8),
    CloseAll,
    Wait(u8),
}

fn any_step() -> impl Strategy<Value = Step> {
    use Step::*;
    let n = 0..6u8;
    prop_oneof![
        6 => (n.clone(), prop::bool::weighted(0.8)).prop_map(|(n, old)| Acquire(n, old)),
        1 => any::<u8>().prop_map(Cancel),
        4 => any::<u8>().prop_map(EndCall),
        5 => any::<u8>().prop_map(Open),
        1 => any::<u8>().prop_map(FailOpen),
        1 => any::<u8>().prop_map(Lose),
        3 => any::<u8>().prop_map(FinishClose),
        1 => n.clone().prop_map(Release),
        1 => n.prop_map(EndDialog),
        1 => Just(CloseAll),
        2 => (0..30u8).prop_map(Wait),
    ]
}

fn any_policy() -> impl Strategy<Value = LeasePolicy> {
    use SessionScope::*;
    let scope = prop::sample::select(vec![Shared, PerConversation, PerConversation, PerCall]);
    let idle = prop::sample::select(vec![0u64, 10]);
    (scope, 0..4u32, 0..3u32, 0..8u32, idle).prop_map(
        |(scope, max_instances, max_in_flight, queue, idle)| {
            let idle = if scope == Shared { 0 } else { idle };
            let idle = Duration::from_secs(idle);
            LeasePolicy { scope, max_instances, max_in_flight, max_per_principal: 0, queue, idle }
        },
    )
}

/// An independent record of all events and effects, to compare with the table.
struct Model {
    table: TestTable,
    policy: LeasePolicy,
    last_waiter_id: u64,
    /// Waiters without a reply, with their dialogs, in order of arrival.
    waiting: BTreeMap<u64, String>,
    opening: BTreeSet<u64>,
    closing: BTreeSet<u64>,
    /// Calls in flight on each open session, with their dialogs.
    open_sessions: BTreeMap<u64, Vec<String>>,
    owner: BTreeMap<u64, String>,
}

impl Model {
    fn new(policy: LeasePolicy) -> Self {
        Self {
            table: TestTable::new(policy),
            policy,
            last_waiter_id: 0,
            waiting: BTreeMap::new(),
            opening: BTreeSet::new(),
            closing: BTreeSet::new(),
            open_sessions: BTreeMap::new(),
            owner: BTreeMap::new(),
        }
    }

    fn run_step(&mut self, step: Step) {
        let pick =
            |from: &BTreeSet<u64>, n: u8| from.iter().nth(n as usize % from.len().max(1)).copied();
        let open_sessions: BTreeSet<u64> = self.open_sessions.keys().copied().collect();
        let busy = self.open_sessions.iter().filter(|(_, calls)| !calls.is_empty());
        let busy: BTreeSet<u64> = busy.map(|(id, _)| *id).collect();
        let open: BTreeSet<u64> = self.waiting.keys().copied().collect();
        let dialog = |n: u8| format!("d{n}");
        let event = match step {
            Step::Acquire(n, old) => {
                self.last_waiter_id += 1;
                self.waiting.insert(self.last_waiter_id, dialog(n));
                let era = if old { Era::Legacy } else { Era::Modern };
                Some(LeaseEvent::Acquire {
                    waiter_id: WaiterId(self.last_waiter_id),
                    dialog: dialog(n).into(),
                    principal: None,
                    era,
                })
            }
            Step::Cancel(n) => pick(&open, n).map(|waiter_id| {
                self.waiting.remove(&waiter_id);
                LeaseEvent::Cancel(WaiterId(waiter_id))
            }),
            Step::EndCall(n) => pick(&busy, n).map(|id| {
                self.open_sessions.get_mut(&id).unwrap().pop();
                LeaseEvent::CallEnded(SessionId(id))
            }),
            Step::Open(n) => pick(&self.opening, n).map(|id| {
                self.opening.remove(&id);
                self.open_sessions.insert(id, Vec::new());
                LeaseEvent::Opened(SessionId(id))
            }),
            Step::FailOpen(n) => pick(&self.opening, n).map(|id| {
                self.opening.remove(&id);
                LeaseEvent::OpenFailed(SessionId(id))
            }),
            Step::Lose(n) => pick(&open_sessions, n).map(|id| LeaseEvent::Lost(SessionId(id))),
            Step::FinishClose(n) => pick(&self.closing, n).map(|id| {
                self.closing.remove(&id);
                LeaseEvent::Closed(SessionId(id))
            }),
            Step::Release(n) => Some(LeaseEvent::Release(dialog(n).into())),
            Step::EndDialog(n) => Some(LeaseEvent::DialogEnded(dialog(n).into())),
            Step::CloseAll => Some(LeaseEvent::CloseAll),
            Step::Wait(seconds) => {
                self.table.now += Duration::from_secs(seconds.into());
                Some(LeaseEvent::Tick)
            }
        };
        let Some(event) = event else { return };
        self.apply(event);
        if let Step::EndDialog(n) = step {
            let gone = dialog(n);
            assert!(!self.waiting.values().any(|d| *d == gone), "{gone} still waits");
            assert!(!self.table.dialogs().contains(&gone), "{gone} still has a lease");
        }
    }

    fn apply(&mut self, event: LeaseEvent) {
        let effects = self.table.table.step(event, self.table.start + self.table.now);
        self.check_order(&effects);
        effects.into_iter().for_each(|effect| self.record(effect));
        self.check();
    }

    fn record(&mut self, effect: LeaseEffect) {
        match effect {
            LeaseEffect::Grant { waiter_id, session_id: SessionId(id) } => {
                let dialog =
                    self.waiting.remove(&waiter_id.0).expect("the call waits and has no reply");
                let calls = self.open_sessions.get_mut(&id).expect("the session is open");
                calls.push(dialog.clone());
                if self.policy.scope != SessionScope::Shared {
                    let owner = self.owner.entry(id).or_insert_with(|| dialog.clone());
                    assert_eq!(*owner, dialog, "#{id} passed from one dialog to another");
                }
            }
            LeaseEffect::Refuse { waiter_id, .. } => {
                self.waiting.remove(&waiter_id.0).expect("the call waits and has no reply");
            }
            LeaseEffect::Open { session_id, .. } => assert!(self.opening.insert(session_id.0)),
            LeaseEffect::Close(SessionId(id)) => {
                assert!(
                    self.opening.remove(&id) || self.open_sessions.remove(&id).is_some(),
                    "#{id} closed twice"
                );
                assert!(self.closing.insert(id));
            }
        }
    }

    /// Checks that a new session goes to the longest waiter without one.
    fn check_order(&self, effects: &[LeaseEffect]) {
        for effect in effects {
            let LeaseEffect::Open { dialog: Some(dialog), .. } = effect else { continue };
            let refused = |waiter_id: u64| {
                effects.iter().any(
                    |e| matches!(e, LeaseEffect::Refuse { waiter_id: t, .. } if t.0 == waiter_id),
                )
            };
            let is_served = |waiter_id: u64, dialog: &String| {
                self.table.dialogs().contains(dialog)
                    || self.table.table.is_waiting_for_open(WaiterId(waiter_id))
            };
            let waiting = self.waiting.iter().filter(|(waiter_id, _)| !refused(**waiter_id));
            let earlier = waiting
                .take_while(|(_, other)| ***other != **dialog)
                .find(|(waiter_id, other)| !is_served(**waiter_id, other));
            assert_eq!(earlier, None, "{dialog} got a place before it");
        }
    }

    fn check(&self) {
        let all = self.opening.len() + self.open_sessions.len() + self.closing.len();
        let (max, in_flight) =
            (self.policy.max_instances as usize, self.policy.max_in_flight as usize);
        assert!(max == 0 || all <= max, "{all} sessions");
        let most = self.open_sessions.values().map(Vec::len).max().unwrap_or(0);
        assert!(in_flight == 0 || most <= in_flight, "{most} calls at once");
        if self.policy.scope == SessionScope::PerConversation {
            let dialogs = self.table.dialogs();
            let once: BTreeSet<_> = dialogs.iter().collect();
            assert_eq!(once.len(), dialogs.len(), "a dialog has two leases: {dialogs:?}");
        }
    }

    /// Lets everything finish: opens succeed, calls end, dialogs release their sessions.
    fn drain(&mut self) {
        for _ in 0..200 {
            (0..4).for_each(|_| self.run_step(Step::Open(0)));
            (0..4).for_each(|_| self.run_step(Step::EndCall(0)));
            (0..6).for_each(|n| self.run_step(Step::Release(n)));
            (0..4).for_each(|_| self.run_step(Step::FinishClose(0)));
        }
    }
}

proptest! {
    #[test]
    fn limits_hold_waiters_are_served_and_leases_end_with_their_dialog(
        policy in any_policy(),
        steps in prop::collection::vec(any_step(), 0..120),
    ) {
        let mut model = Model::new(policy);
        steps.into_iter().for_each(|step| model.run_step(step));
        model.drain();
        prop_assert!(model.waiting.is_empty(), "calls wait forever: {:?}", model.waiting);
    }

    #[test]
    fn retired_server_finishes(
        policy in any_policy(),
        steps in prop::collection::vec(any_step(), 0..80),
    ) {
        let mut model = Model::new(policy);
        steps.into_iter().for_each(|step| model.run_step(step));
        model.apply(LeaseEvent::Retire);
        model.drain();
        prop_assert!(model.waiting.is_empty() && model.table.table.is_finished());
    }
}
