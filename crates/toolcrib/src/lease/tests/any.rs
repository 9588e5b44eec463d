//! Whatever happens, in whatever order: limits hold, nobody starves, no lease outlives its dialog.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// What a dialog, a server or the clock may do next. Numbers pick one of what there is.
#[derive(Debug, Clone, Copy)]
enum Move {
    Take(u8, bool),
    GiveUp(u8),
    Done(u8),
    Made(u8),
    Failed(u8),
    Lost(u8),
    Gone(u8),
    Release(u8),
    EndDialog(u8),
    Offer(bool),
    EndAll,
    Wait(u8),
}

fn any_move() -> impl Strategy<Value = Move> {
    use Move::*;
    let n = 0..6u8;
    prop_oneof![
        6 => (n.clone(), prop::bool::weighted(0.8)).prop_map(|(n, old)| Take(n, old)),
        1 => any::<u8>().prop_map(GiveUp),
        4 => any::<u8>().prop_map(Done),
        5 => any::<u8>().prop_map(Made),
        1 => any::<u8>().prop_map(Failed),
        1 => any::<u8>().prop_map(Lost),
        3 => any::<u8>().prop_map(Gone),
        1 => n.clone().prop_map(Release),
        1 => n.prop_map(EndDialog),
        1 => any::<bool>().prop_map(Offer),
        1 => Just(EndAll),
        2 => (0..30u8).prop_map(Wait),
    ]
}

fn any_terms() -> impl Strategy<Value = Terms> {
    use SessionScope::*;
    let scope = prop::sample::select(vec![Shared, PerConversation, PerConversation, PerCall]);
    let idle = prop::sample::select(vec![0u64, 10]);
    (scope, 0..4u32, 0..3u32, 0..8u32, idle).prop_map(
        |(scope, max_instances, max_in_flight, queue, idle)| {
            let idle = if scope == Shared { 0 } else { idle };
            let idle = Duration::from_secs(idle);
            Terms { scope, max_instances, max_in_flight, max_per_principal: 0, queue, idle }
        },
    )
}

/// Everything that was said, kept apart from the book, to hold it against.
struct Witness {
    desk: Desk,
    terms: Terms,
    tickets: u64,
    /// Tickets that nobody has answered, with their dialogs, in the order of their coming.
    open: BTreeMap<u64, String>,
    making: BTreeSet<u64>,
    ending: BTreeSet<u64>,
    /// Calls in flight on each session that is open, with their dialogs.
    live: BTreeMap<u64, Vec<String>>,
    owner: BTreeMap<u64, String>,
    /// Sessions that were offered where there was no room: they had been open before anybody asked.
    unasked: BTreeSet<u64>,
}

impl Witness {
    fn new(terms: Terms) -> Self {
        Self {
            desk: Desk::new(terms),
            terms,
            tickets: 0,
            open: BTreeMap::new(),
            making: BTreeSet::new(),
            ending: BTreeSet::new(),
            live: BTreeMap::new(),
            owner: BTreeMap::new(),
            unasked: BTreeSet::new(),
        }
    }

    fn make_move(&mut self, what: Move) {
        let pick =
            |from: &BTreeSet<u64>, n: u8| from.iter().nth(n as usize % from.len().max(1)).copied();
        let live: BTreeSet<u64> = self.live.keys().copied().collect();
        let busy = self.live.iter().filter(|(_, calls)| !calls.is_empty());
        let busy: BTreeSet<u64> = busy.map(|(id, _)| *id).collect();
        let open: BTreeSet<u64> = self.open.keys().copied().collect();
        let dialog = |n: u8| format!("d{n}");
        let event = match what {
            Move::Take(n, old) => {
                self.tickets += 1;
                self.open.insert(self.tickets, dialog(n));
                let era = if old { Era::Legacy } else { Era::Modern };
                Some(Event::Take {
                    ticket: Ticket(self.tickets),
                    dialog: dialog(n).into(),
                    principal: None,
                    era,
                })
            }
            Move::GiveUp(n) => pick(&open, n).map(|ticket| {
                self.open.remove(&ticket);
                Event::GiveUp(Ticket(ticket))
            }),
            Move::Done(n) => pick(&busy, n).map(|id| {
                self.live.get_mut(&id).unwrap().pop();
                Event::Done(InstanceId(id))
            }),
            Move::Made(n) => pick(&self.making, n).map(|id| {
                self.making.remove(&id);
                self.live.insert(id, Vec::new());
                Event::Made(InstanceId(id))
            }),
            Move::Failed(n) => pick(&self.making, n).map(|id| {
                self.making.remove(&id);
                Event::Failed(InstanceId(id))
            }),
            Move::Lost(n) => pick(&live, n).map(|id| Event::Lost(InstanceId(id))),
            Move::Gone(n) => pick(&self.ending, n).map(|id| {
                self.ending.remove(&id);
                self.unasked.remove(&id);
                Event::Gone(InstanceId(id))
            }),
            Move::Release(n) => Some(Event::Release(dialog(n).into())),
            Move::EndDialog(n) => Some(Event::DialogEnded(dialog(n).into())),
            Move::Offer(old) => {
                let id = self.desk.book.fresh();
                self.live.insert(id.0, Vec::new());
                Some(Event::Offer(id, if old { Era::Legacy } else { Era::Modern }))
            }
            Move::EndAll => Some(Event::EndAll),
            Move::Wait(seconds) => {
                self.desk.now += Duration::from_secs(seconds.into());
                Some(Event::Tick)
            }
        };
        let Some(event) = event else { return };
        self.happened(event);
        if let Move::EndDialog(n) = what {
            let gone = dialog(n);
            assert!(!self.open.values().any(|d| *d == gone), "{gone} still waits");
            assert!(!self.desk.dialogs().contains(&gone), "{gone} still has a lease");
        }
    }

    fn happened(&mut self, event: Event) {
        let offered = match event {
            Event::Offer(InstanceId(id), _) => Some(id),
            _ => None,
        };
        let effects = self.desk.book.step(event, self.desk.begin + self.desk.now);
        self.first_come(&effects);
        effects.into_iter().for_each(|effect| self.saw(effect));
        self.unasked.extend(offered.filter(|id| self.ending.contains(id)));
        self.check();
    }

    fn saw(&mut self, effect: Effect) {
        match effect {
            Effect::Grant { ticket, instance: InstanceId(id) } => {
                let dialog =
                    self.open.remove(&ticket.0).expect("it waited, and was not answered yet");
                let calls = self.live.get_mut(&id).expect("it is open");
                calls.push(dialog.clone());
                if self.terms.scope != SessionScope::Shared {
                    let owner = self.owner.entry(id).or_insert_with(|| dialog.clone());
                    assert_eq!(*owner, dialog, "#{id} passed from one dialog to another");
                }
            }
            Effect::Refuse { ticket, .. } => {
                self.open.remove(&ticket.0).expect("it waited, and was not answered yet");
            }
            Effect::Make { instance, .. } => assert!(self.making.insert(instance.0)),
            Effect::End(InstanceId(id)) => {
                assert!(
                    self.making.remove(&id) || self.live.remove(&id).is_some(),
                    "#{id} ended twice"
                );
                assert!(self.ending.insert(id));
            }
        }
    }

    /// A place goes to whoever has waited longest of those who have none.
    fn first_come(&self, effects: &[Effect]) {
        for effect in effects {
            let Effect::Make { dialog: Some(dialog), .. } = effect else { continue };
            let refused = |ticket: u64| {
                effects
                    .iter()
                    .any(|e| matches!(e, Effect::Refuse { ticket: t, .. } if t.0 == ticket))
            };
            let seated = |ticket: u64, dialog: &String| {
                self.desk.dialogs().contains(dialog) || self.desk.book.is_starting(Ticket(ticket))
            };
            let waiting = self.open.iter().filter(|(ticket, _)| !refused(**ticket));
            let elder = waiting
                .take_while(|(_, other)| ***other != **dialog)
                .find(|(ticket, other)| !seated(**ticket, other));
            assert_eq!(elder, None, "{dialog} got a place before it");
        }
    }

    fn check(&self) {
        let all = self.making.len() + self.live.len() + self.ending.len();
        let (max, in_flight) =
            (self.terms.max_instances as usize, self.terms.max_in_flight as usize);
        assert!(max == 0 || all - self.unasked.len() <= max, "{all} sessions");
        let most = self.live.values().map(Vec::len).max().unwrap_or(0);
        assert!(in_flight == 0 || most <= in_flight, "{most} calls at once");
        if self.terms.scope == SessionScope::PerConversation {
            let dialogs = self.desk.dialogs();
            let once: BTreeSet<_> = dialogs.iter().collect();
            assert_eq!(once.len(), dialogs.len(), "a dialog has two leases: {dialogs:?}");
        }
    }

    /// Lets everything run its course: starts succeed, calls end, dialogs release what they have.
    fn wind_down(&mut self) {
        for _ in 0..200 {
            (0..4).for_each(|_| self.make_move(Move::Made(0)));
            (0..4).for_each(|_| self.make_move(Move::Done(0)));
            (0..6).for_each(|n| self.make_move(Move::Release(n)));
            (0..4).for_each(|_| self.make_move(Move::Gone(0)));
        }
    }
}

proptest! {
    #[test]
    fn limits_hold_nobody_starves_and_no_lease_outlives_its_dialog(
        terms in any_terms(),
        moves in prop::collection::vec(any_move(), 0..120),
    ) {
        let mut witness = Witness::new(terms);
        moves.into_iter().for_each(|what| witness.make_move(what));
        witness.wind_down();
        prop_assert!(witness.open.is_empty(), "these wait for ever: {:?}", witness.open);
    }

    #[test]
    fn a_retired_server_comes_to_an_end(
        terms in any_terms(),
        moves in prop::collection::vec(any_move(), 0..80),
    ) {
        let mut witness = Witness::new(terms);
        moves.into_iter().for_each(|what| witness.make_move(what));
        witness.happened(Event::Retire);
        witness.wind_down();
        prop_assert!(witness.open.is_empty() && witness.desk.book.is_over());
    }
}
