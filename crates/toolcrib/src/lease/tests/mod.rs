//! What the book decides, step by step; at random; and through the clerk.

mod any;
mod clerk;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use toolcrib_config::model::policy::{Session, SessionScope};
use toolcrib_wire::Era;

use super::book::Book;
use super::event::{Effect, Event};
use super::instance::{InstanceId, Ticket};
use super::{Lease, Terms, reminder};

const ERA: Era = Era::Legacy;

fn terms(scope: SessionScope) -> Terms {
    Terms {
        scope,
        max_instances: 0,
        max_in_flight: 0,
        max_per_principal: 0,
        queue: 64,
        idle: Duration::ZERO,
    }
}

fn per_dialog(max_instances: u32) -> Terms {
    Terms { max_instances, ..terms(SessionScope::PerConversation) }
}

/// A book whose clock is set by hand, and which says in short what it wants done.
struct Desk {
    book: Book,
    begin: Instant,
    now: Duration,
}

impl Desk {
    fn new(terms: Terms) -> Self {
        let begin = Instant::now();
        Self { book: Book::new(terms, begin), begin, now: Duration::ZERO }
    }

    fn step(&mut self, event: Event) -> Vec<String> {
        let effects = self.book.step(event, self.begin + self.now);
        self.leases();
        effects.iter().map(short).collect()
    }

    fn take(&mut self, ticket: u64, dialog: &str) -> Vec<String> {
        self.take_in(ERA, ticket, dialog)
    }

    fn take_in(&mut self, era: Era, ticket: u64, dialog: &str) -> Vec<String> {
        self.take_for(ticket, dialog, None, era)
    }

    fn take_for(
        &mut self,
        ticket: u64,
        dialog: &str,
        principal: Option<&str>,
        era: Era,
    ) -> Vec<String> {
        let (dialog, principal) = (dialog.into(), principal.map(Into::into));
        self.step(Event::Take { ticket: Ticket(ticket), dialog, principal, era })
    }

    fn made(&mut self, instance: u64) -> Vec<String> {
        self.step(Event::Made(InstanceId(instance)))
    }

    fn done(&mut self, instance: u64) -> Vec<String> {
        self.step(Event::Done(InstanceId(instance)))
    }

    fn gone(&mut self, instance: u64) -> Vec<String> {
        self.step(Event::Gone(InstanceId(instance)))
    }

    fn offer(&mut self, era: Era) -> Vec<String> {
        let id = self.book.fresh();
        self.step(Event::Offer(id, era))
    }

    fn dialogs(&self) -> Vec<String> {
        self.leases().iter().map(|lease| lease.dialog.to_string()).collect()
    }

    fn leases(&self) -> Vec<Lease> {
        let leases = self.book.leases(&"s".into());
        // Whoever asks only for one dialog is told the same.
        for dialog in ["a", "b", "c", "d", "nobody"].map(Arc::from) {
            let has = leases.iter().any(|lease| lease.dialog == dialog);
            assert_eq!(self.book.has_lease(&dialog), has, "{dialog}");
        }
        leases
    }
}

fn short(effect: &Effect) -> String {
    match effect {
        Effect::Grant { ticket, instance } => format!("{} gets #{}", ticket.0, instance.0),
        Effect::Refuse { ticket, why } => format!("{} refused: {why:?}", ticket.0),
        Effect::Make { instance, .. } => format!("make #{}", instance.0),
        Effect::End(instance) => format!("end #{}", instance.0),
    }
}

const NOTHING: [&str; 0] = [];

#[test]
fn what_a_dialog_has_is_taken_at_once_unless_it_is_full_or_somebody_waits() {
    let mut desk = Desk::new(Terms { max_in_flight: 2, ..per_dialog(0) });
    let take = |desk: &mut Desk, dialog: &str| {
        desk.book.take_held(&dialog.into(), ERA, desk.begin + desk.now)
    };
    assert_eq!(take(&mut desk, "a"), None, "nobody has opened it");
    desk.take(1, "a");
    assert_eq!(take(&mut desk, "a"), None, "it is being opened, and somebody waits");
    desk.made(1);
    assert_eq!(take(&mut desk, "b"), None, "it is another's");
    assert_eq!(take(&mut desk, "a"), Some(InstanceId(1)));
    assert_eq!(take(&mut desk, "a"), None, "two are in flight");
    desk.take(2, "a");
    assert_eq!(desk.done(1), ["2 gets #1"], "who waits comes first");
    desk.done(1);
    assert_eq!(take(&mut desk, "a"), Some(InstanceId(1)));
    desk.step(Event::Retire);
    desk.done(1);
    assert_eq!(take(&mut desk, "a"), None, "nothing new on what is retired");
    let mut each = Desk::new(terms(SessionScope::PerCall));
    assert_eq!(take(&mut each, "a"), None, "each call has its own");
}

#[test]
fn a_principal_has_a_limited_number_of_sessions_and_a_queue_of_its_own() {
    let mut desk = Desk::new(Terms { max_per_principal: 2, queue: 1, ..per_dialog(3) });
    let take = |desk: &mut Desk, ticket, dialog: &str, whose| {
        desk.take_for(ticket, dialog, Some(whose), ERA)
    };
    assert_eq!(take(&mut desk, 1, "a", "ada"), ["make #1"]);
    assert_eq!(take(&mut desk, 2, "b", "ada"), ["make #2"]);
    assert_eq!(take(&mut desk, 3, "c", "ada"), NOTHING, "there is room, but not for ada");
    assert_eq!(take(&mut desk, 4, "d", "ada"), ["4 refused: Full"]);
    assert_eq!(take(&mut desk, 5, "e", "bob"), ["make #3"], "others are not behind ada");
    assert_eq!(take(&mut desk, 6, "f", "bob"), NOTHING, "the server has no room");
    desk.made(1);
    // What ends counts until it is gone.
    assert_eq!(desk.step(Event::DialogEnded("a".into())), ["end #1"]);
    assert_eq!(desk.gone(1), ["make #4"], "ada came first");
    assert_eq!(desk.made(4), ["3 gets #4"]);
}

#[test]
fn dom_59_to_61_each_dialog_has_a_session_of_its_own_and_keeps_it() {
    let mut desk = Desk::new(per_dialog(0));
    assert_eq!(desk.take(1, "a"), ["make #1"]);
    assert_eq!(desk.take(2, "b"), ["make #2"]);
    assert_eq!(desk.made(2), ["2 gets #2"]);
    assert_eq!(desk.made(1), ["1 gets #1"]);
    // DOM-60: its later calls, one after the other or at once, go to the same one.
    assert_eq!(desk.take(3, "a"), ["3 gets #1"]);
    assert_eq!(desk.done(1), NOTHING);
    assert_eq!(desk.done(1), NOTHING);
    assert_eq!(desk.take(4, "a"), ["4 gets #1"]);
    // DOM-61: never to another dialog's.
    assert_eq!(desk.take(5, "b"), ["5 gets #2"]);
    assert_eq!(desk.dialogs(), ["a", "b"]);
}

#[test]
fn dom_62_a_lease_has_one_reminder_which_goes_with_it() {
    let mut desk = Desk::new(per_dialog(0));
    let policy = Session::default();
    let reminders = |desk: &Desk| -> Vec<_> {
        desk.leases().iter().filter_map(|lease| reminder(lease, &policy)).collect()
    };
    assert_eq!(reminders(&desk), []);
    desk.take(1, "a");
    desk.made(1);
    let first = reminders(&desk);
    assert_eq!((first.len(), first[0].server.as_str()), (1, "s"));
    assert!(first[0].text.contains(r#"`mcp_release` with {"serverId":"s"}"#), "{}", first[0].text);
    desk.done(1);
    desk.take(2, "a");
    assert_eq!(reminders(&desk), first);
    desk.done(1);
    // DOM-63: the release drops it.
    desk.step(Event::Release("a".into()));
    assert_eq!(reminders(&desk), []);
}

#[test]
fn a_reminder_only_where_the_policy_wants_one() {
    let mut desk = Desk::new(per_dialog(0));
    desk.take(1, "a");
    desk.made(1);
    let [lease] = &desk.leases()[..] else { panic!() };
    let with = |scope, wanted| Session { scope, reminder: wanted, ..Session::default() };
    assert!(reminder(lease, &with(SessionScope::PerConversation, true)).is_some());
    assert_eq!(reminder(lease, &with(SessionScope::PerConversation, false)), None);
    assert_eq!(reminder(lease, &with(SessionScope::PerCall, true)), None);
}

#[test]
fn dom_63_a_release_ends_the_dialogs_own_session_only() {
    let mut desk = Desk::new(per_dialog(0));
    desk.take(1, "a");
    desk.take(2, "b");
    desk.made(1);
    desk.made(2);
    desk.done(1);
    assert_eq!(desk.step(Event::Release("a".into())), ["end #1"]);
    assert_eq!(desk.dialogs(), ["b"]);
    assert_eq!(desk.take(3, "a"), ["make #3"]);
    assert_eq!(desk.step(Event::Release("nobody".into())), NOTHING);
}

#[test]
fn a_call_in_flight_outlives_the_release_of_its_lease() {
    let mut desk = Desk::new(per_dialog(0));
    desk.take(1, "a");
    desk.made(1);
    assert_eq!(desk.step(Event::Release("a".into())), NOTHING);
    assert_eq!(desk.dialogs(), NOTHING);
    assert_eq!(desk.take(2, "a"), ["make #2"], "the next call has a lease of its own");
    assert_eq!(desk.done(1), ["end #1"]);
}

#[test]
fn dom_64_all_dialogs_share_one_and_nobody_has_a_lease() {
    let mut desk = Desk::new(terms(SessionScope::Shared));
    assert_eq!(desk.take(1, "a"), ["make #1"]);
    assert_eq!(desk.take(2, "b"), NOTHING);
    assert_eq!(desk.made(1), ["1 gets #1", "2 gets #1"]);
    assert_eq!(desk.take(3, "c"), ["3 gets #1"]);
    assert_eq!(desk.leases(), []);
    assert_eq!(desk.step(Event::Release("a".into())), NOTHING);
    assert_eq!(desk.step(Event::DialogEnded("a".into())), NOTHING);
}

#[test]
fn a_shared_server_has_a_session_for_each_era_unless_that_is_one_too_many() {
    for (max_instances, second) in [(0, vec!["make #2"]), (1, vec!["2 gets #1"])] {
        let mut desk = Desk::new(Terms { max_instances, ..terms(SessionScope::Shared) });
        desk.take_in(Era::Legacy, 1, "a");
        desk.made(1);
        assert_eq!(desk.take_in(Era::Modern, 2, "b"), second, "{max_instances}");
    }
}

#[test]
fn dis_24_calls_on_one_session_wait_for_each_other_where_only_one_is_allowed() {
    let mut desk = Desk::new(Terms { max_in_flight: 1, ..terms(SessionScope::Shared) });
    desk.take(1, "a");
    assert_eq!(desk.made(1), ["1 gets #1"]);
    assert_eq!(desk.take(2, "b"), NOTHING);
    assert_eq!(desk.take(3, "a"), NOTHING);
    assert_eq!(desk.done(1), ["2 gets #1"]);
    assert_eq!(desk.done(1), ["3 gets #1"]);
}

#[test]
fn dis_17_concurrent_first_calls_open_one_session() {
    let mut desk = Desk::new(terms(SessionScope::Shared));
    let made: usize = (1..=10).map(|ticket| desk.take(ticket, "a").len()).sum();
    assert_eq!(made, 1);
    assert_eq!(desk.made(1).len(), 10);
}

#[test]
fn every_call_has_its_own_session_where_the_scope_is_one_call() {
    let mut desk = Desk::new(Terms { max_instances: 1, ..terms(SessionScope::PerCall) });
    assert_eq!(desk.take(1, "a"), ["make #1"]);
    assert_eq!(desk.made(1), ["1 gets #1"]);
    assert_eq!(desk.take(2, "a"), NOTHING);
    assert_eq!(desk.done(1), ["end #1"]);
    assert_eq!(desk.gone(1), ["make #2"]);
    // Nobody else could use what was being opened for one call.
    assert_eq!(desk.step(Event::GiveUp(Ticket(2))), ["end #2"]);
}

#[test]
fn a_slot_is_free_when_its_session_has_ended_and_not_before() {
    let mut desk = Desk::new(per_dialog(1));
    desk.take(1, "a");
    desk.made(1);
    desk.done(1);
    assert_eq!(desk.take(2, "b"), NOTHING);
    assert_eq!(desk.take(3, "a"), ["3 gets #1"], "whoever has a lease goes on using it");
    desk.done(1);
    assert_eq!(desk.step(Event::Release("a".into())), ["end #1"]);
    assert_eq!(desk.take(4, "c"), NOTHING);
    assert_eq!(desk.gone(1), ["make #2"]);
    assert_eq!(desk.made(2), ["2 gets #2"], "first come, first served");
}

#[test]
fn the_queue_is_bounded_and_waiting_for_ones_own_start_is_no_queue() {
    let mut desk = Desk::new(Terms { queue: 1, ..per_dialog(1) });
    desk.take(1, "a");
    assert_eq!(desk.take(2, "a"), NOTHING);
    assert_eq!(desk.take(3, "a"), NOTHING);
    assert_eq!(desk.take(4, "b"), NOTHING);
    assert_eq!(desk.take(5, "c"), ["5 refused: Full"]);
    desk.step(Event::GiveUp(Ticket(4)));
    assert_eq!(desk.take(6, "c"), NOTHING);
    assert!(desk.book.is_starting(Ticket(3)) && !desk.book.is_starting(Ticket(6)));
}

#[test]
fn an_idle_lease_ends_and_a_used_one_does_not() {
    let idle = Duration::from_secs(600);
    let mut desk = Desk::new(Terms { idle, ..per_dialog(0) });
    desk.take(1, "a");
    desk.made(1);
    assert_eq!(desk.book.next_due(), None, "nothing is idle during a call");
    desk.now += idle * 2;
    assert_eq!(desk.step(Event::Tick), NOTHING);
    desk.done(1);
    assert_eq!(desk.book.next_due(), Some(desk.begin + idle * 3));
    desk.now += idle - Duration::from_millis(1);
    assert_eq!(desk.step(Event::Tick), NOTHING);
    desk.now += Duration::from_millis(1);
    assert_eq!(desk.step(Event::Tick), ["end #1"]);
    assert_eq!(desk.leases(), []);
}

#[test]
fn only_leases_grow_old() {
    let of = |scope| Terms::of(&Session { scope, ..Session::default() }).idle;
    assert_eq!(of(SessionScope::Shared), Duration::ZERO);
    assert_eq!(of(SessionScope::PerConversation), Duration::from_secs(600));
}

#[test]
fn the_catalogue_session_becomes_the_first_lease() {
    let mut desk = Desk::new(per_dialog(2));
    assert_eq!(desk.offer(ERA), NOTHING);
    assert_eq!(desk.leases(), []);
    assert_eq!(desk.take(1, "a"), ["1 gets #1"]);
    assert_eq!(desk.dialogs(), ["a"]);
    assert_eq!(desk.take(2, "b"), ["make #2"]);
}

#[test]
fn a_catalogue_session_of_the_wrong_era_makes_room_where_there_is_none() {
    let mut desk = Desk::new(per_dialog(1));
    desk.offer(Era::Modern);
    assert_eq!(desk.take_in(Era::Legacy, 1, "a"), ["end #1"]);
    assert_eq!(desk.gone(1), ["make #2"]);
}

#[test]
fn a_catalogue_session_that_nobody_can_use_is_closed() {
    let mut full = Desk::new(per_dialog(1));
    full.take(1, "a");
    assert_eq!(full.offer(ERA), ["end #2"]);
    let mut twice = Desk::new(per_dialog(0));
    twice.offer(ERA);
    assert_eq!(twice.offer(ERA), ["end #2"]);
    let mut retired = Desk::new(per_dialog(0));
    retired.step(Event::Retire);
    assert_eq!(retired.offer(ERA), ["end #1"]);
}

#[test]
fn a_failed_start_refuses_those_who_waited_for_it_and_lets_the_next_try() {
    let mut desk = Desk::new(per_dialog(1));
    desk.take(1, "a");
    desk.take(2, "a");
    desk.take(3, "b");
    let effects = desk.step(Event::Failed(InstanceId(1)));
    assert_eq!(effects, ["1 refused: Failed", "2 refused: Failed", "make #2"]);
    assert_eq!(desk.made(2), ["3 gets #2"]);
}

#[test]
fn a_lost_session_is_replaced_at_the_next_call() {
    let mut desk = Desk::new(per_dialog(0));
    desk.take(1, "a");
    desk.made(1);
    assert_eq!(desk.step(Event::Lost(InstanceId(1))), ["end #1"]);
    assert_eq!(desk.done(1), NOTHING, "the call on it ends later");
    assert_eq!(desk.take(2, "a"), ["make #2"]);
}

#[test]
fn a_start_that_nobody_waits_for_any_more_still_becomes_the_dialogs_lease() {
    let mut desk = Desk::new(per_dialog(0));
    desk.take(1, "a");
    assert_eq!(desk.step(Event::GiveUp(Ticket(1))), NOTHING);
    assert_eq!(desk.made(1), NOTHING);
    assert_eq!(desk.take(2, "a"), ["2 gets #1"]);
}

#[test]
fn the_end_of_a_dialog_ends_its_sessions_at_once_and_its_waiting() {
    let mut desk = Desk::new(per_dialog(1));
    desk.take(1, "a");
    desk.made(1);
    desk.take(2, "b");
    assert_eq!(desk.step(Event::DialogEnded("b".into())), ["2 refused: DialogEnded"]);
    assert_eq!(desk.step(Event::DialogEnded("a".into())), ["end #1"], "calls in flight or not");
    assert_eq!(desk.leases(), []);
}

#[test]
fn dom_79_a_retired_server_serves_who_is_there_and_dom_80_nobody_else() {
    let mut desk = Desk::new(per_dialog(2));
    desk.take(1, "a");
    desk.made(1);
    desk.take(2, "b");
    desk.made(2);
    desk.done(2);
    desk.take(3, "c");
    assert_eq!(desk.step(Event::Retire), ["end #2"], "DOM-79: it waits for the call in flight");
    assert_eq!(desk.take(4, "a"), ["4 refused: Retired"]);
    assert_eq!(desk.gone(2), ["make #3"], "who was here before is served");
    assert_eq!(desk.made(3), ["3 gets #3"]);
    assert_eq!(desk.done(1), ["end #1"]);
    assert!(!desk.book.is_over());
    assert_eq!(desk.done(3), ["end #3"]);
    desk.gone(1);
    desk.gone(3);
    assert!(desk.book.is_over());
}

#[test]
fn dom_81_a_retired_server_that_does_not_drain_can_be_ended() {
    let mut desk = Desk::new(per_dialog(1));
    desk.take(1, "a");
    desk.made(1);
    desk.take(2, "b");
    desk.step(Event::Retire);
    assert_eq!(desk.step(Event::EndAll), ["end #1", "2 refused: Retired"]);
}

#[test]
fn a_restart_ends_all_sessions_and_the_next_calls_open_new_ones() {
    let mut desk = Desk::new(per_dialog(0));
    desk.take(1, "a");
    desk.made(1);
    desk.take(2, "b");
    assert_eq!(desk.step(Event::EndAll), ["end #1", "end #2", "make #3"], "`b` still waits");
    assert_eq!(desk.take(3, "a"), ["make #4"]);
}

#[test]
fn a_late_word_about_what_has_ended_changes_nothing() {
    let mut desk = Desk::new(per_dialog(0));
    desk.take(1, "a");
    desk.made(1);
    desk.step(Event::DialogEnded("a".into()));
    desk.gone(1);
    for event in [
        Event::Done(InstanceId(1)),
        Event::Made(InstanceId(1)),
        Event::Failed(InstanceId(1)),
        Event::Lost(InstanceId(1)),
        Event::Gone(InstanceId(1)),
        Event::GiveUp(Ticket(1)),
    ] {
        assert_eq!(desk.step(event), NOTHING);
    }
}
