//! Tests of the lease table step by step, with random events, and through the worker.

mod lease_worker;
mod properties;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use toolcrib_config::model::policy::{SessionPolicy, SessionScope};
use toolcrib_wire::Era;

use super::event::{LeaseEffect, LeaseEvent};
use super::lease_table::LeaseTable;
use super::session_entry::{SessionId, WaiterId};
use super::{Lease, LeasePolicy, reminder_for_lease};

const ERA: Era = Era::Legacy;

fn terms(scope: SessionScope) -> LeasePolicy {
    LeasePolicy {
        scope,
        max_instances: 0,
        max_in_flight: 0,
        max_per_principal: 0,
        queue: 64,
        idle: Duration::ZERO,
    }
}

fn per_dialog(max_instances: u32) -> LeasePolicy {
    LeasePolicy { max_instances, ..terms(SessionScope::PerConversation) }
}

/// A lease table with a manual clock and short texts for effects.
struct TestTable {
    table: LeaseTable,
    start: Instant,
    now: Duration,
}

impl TestTable {
    fn new(terms: LeasePolicy) -> Self {
        let start = Instant::now();
        Self { table: LeaseTable::new(terms, start), start, now: Duration::ZERO }
    }

    fn step(&mut self, event: LeaseEvent) -> Vec<String> {
        let effects = self.table.step(event, self.start + self.now);
        self.leases();
        effects.iter().map(short).collect()
    }

    fn acquire(&mut self, waiter_id: u64, dialog: &str) -> Vec<String> {
        self.acquire_in_era(ERA, waiter_id, dialog)
    }

    fn acquire_in_era(&mut self, era: Era, waiter_id: u64, dialog: &str) -> Vec<String> {
        self.acquire_for(waiter_id, dialog, None, era)
    }

    fn acquire_for(
        &mut self,
        waiter_id: u64,
        dialog: &str,
        principal: Option<&str>,
        era: Era,
    ) -> Vec<String> {
        let (dialog, principal) = (dialog.into(), principal.map(Into::into));
        self.step(LeaseEvent::Acquire { waiter_id: WaiterId(waiter_id), dialog, principal, era })
    }

    fn opened(&mut self, session: u64) -> Vec<String> {
        self.step(LeaseEvent::Opened(SessionId(session)))
    }

    fn call_ended(&mut self, session: u64) -> Vec<String> {
        self.step(LeaseEvent::CallEnded(SessionId(session)))
    }

    fn closed(&mut self, session: u64) -> Vec<String> {
        self.step(LeaseEvent::Closed(SessionId(session)))
    }

    fn dialogs(&self) -> Vec<String> {
        self.leases().iter().map(|lease| lease.dialog.to_string()).collect()
    }

    fn leases(&self) -> Vec<Lease> {
        let leases = self.table.leases(&"s".into());
        // `has_lease` must agree with the list.
        for dialog in ["a", "b", "c", "d", "unknown"].map(Arc::from) {
            let has = leases.iter().any(|lease| lease.dialog == dialog);
            assert_eq!(self.table.has_lease(&dialog), has, "{dialog}");
        }
        leases
    }
}

fn short(effect: &LeaseEffect) -> String {
    match effect {
        LeaseEffect::Grant { waiter_id, session_id } => {
            format!("{} gets #{}", waiter_id.0, session_id.0)
        }
        LeaseEffect::Refuse { waiter_id, reason } => format!("{} refused: {reason:?}", waiter_id.0),
        LeaseEffect::Open { session_id, .. } => format!("open #{}", session_id.0),
        LeaseEffect::Close(session_id) => format!("close #{}", session_id.0),
    }
}

const NOTHING: [&str; 0] = [];

#[test]
fn try_acquire_needs_an_open_session_with_room_and_no_waiters() {
    let mut table = TestTable::new(LeasePolicy { max_in_flight: 2, ..per_dialog(0) });
    let acquire = |table: &mut TestTable, dialog: &str| {
        table.table.try_acquire(&dialog.into(), ERA, table.start + table.now)
    };
    assert_eq!(acquire(&mut table, "a"), None, "no session was opened");
    table.acquire(1, "a");
    assert_eq!(
        acquire(&mut table, "a"),
        None,
        "the session is being opened and a call waits for it"
    );
    table.opened(1);
    assert_eq!(acquire(&mut table, "b"), None, "the session belongs to another dialog");
    assert_eq!(acquire(&mut table, "a"), Some(SessionId(1)));
    assert_eq!(acquire(&mut table, "a"), None, "two calls are in flight");
    table.acquire(2, "a");
    assert_eq!(table.call_ended(1), ["2 gets #1"], "waiting calls have priority");
    table.call_ended(1);
    assert_eq!(acquire(&mut table, "a"), Some(SessionId(1)));
    table.step(LeaseEvent::Retire);
    table.call_ended(1);
    assert_eq!(acquire(&mut table, "a"), None, "a retired server takes no new calls");
    let mut each = TestTable::new(terms(SessionScope::PerCall));
    assert_eq!(acquire(&mut each, "a"), None, "each call has its own session");
}

#[test]
fn principal_has_a_session_limit_and_its_own_queue() {
    let mut table = TestTable::new(LeasePolicy { max_per_principal: 2, queue: 1, ..per_dialog(3) });
    let acquire = |table: &mut TestTable, waiter_id, dialog: &str, principal| {
        table.acquire_for(waiter_id, dialog, Some(principal), ERA)
    };
    assert_eq!(acquire(&mut table, 1, "a", "ada"), ["open #1"]);
    assert_eq!(acquire(&mut table, 2, "b", "ada"), ["open #2"]);
    assert_eq!(acquire(&mut table, 3, "c", "ada"), NOTHING, "ada has reached her limit");
    assert_eq!(acquire(&mut table, 4, "d", "ada"), ["4 refused: Full"]);
    assert_eq!(
        acquire(&mut table, 5, "e", "bob"),
        ["open #3"],
        "other principals do not wait for ada"
    );
    assert_eq!(acquire(&mut table, 6, "f", "bob"), NOTHING, "the server has no room");
    table.opened(1);
    // A closing session counts until it is closed.
    assert_eq!(table.step(LeaseEvent::DialogEnded("a".into())), ["close #1"]);
    assert_eq!(table.closed(1), ["open #4"], "ada waited longest");
    assert_eq!(table.opened(4), ["3 gets #4"]);
}

#[test]
fn dom_59_to_61_each_dialog_keeps_its_own_session() {
    let mut table = TestTable::new(per_dialog(0));
    assert_eq!(table.acquire(1, "a"), ["open #1"]);
    assert_eq!(table.acquire(2, "b"), ["open #2"]);
    assert_eq!(table.opened(2), ["2 gets #2"]);
    assert_eq!(table.opened(1), ["1 gets #1"]);
    // DOM-60: later calls of the dialog, sequential or concurrent, use the same session.
    assert_eq!(table.acquire(3, "a"), ["3 gets #1"]);
    assert_eq!(table.call_ended(1), NOTHING);
    assert_eq!(table.call_ended(1), NOTHING);
    assert_eq!(table.acquire(4, "a"), ["4 gets #1"]);
    // DOM-61: never another dialog's session.
    assert_eq!(table.acquire(5, "b"), ["5 gets #2"]);
    assert_eq!(table.dialogs(), ["a", "b"]);
}

#[test]
fn dom_62_lease_has_one_reminder_until_it_ends() {
    let mut table = TestTable::new(per_dialog(0));
    let policy = SessionPolicy::default();
    let reminders = |table: &TestTable| -> Vec<_> {
        table.leases().iter().filter_map(|lease| reminder_for_lease(lease, &policy)).collect()
    };
    assert_eq!(reminders(&table), []);
    table.acquire(1, "a");
    table.opened(1);
    let first = reminders(&table);
    assert_eq!((first.len(), first[0].server.as_str()), (1, "s"));
    assert!(first[0].text.contains(r#"`mcp_release` with {"serverId":"s"}"#), "{}", first[0].text);
    table.call_ended(1);
    table.acquire(2, "a");
    assert_eq!(reminders(&table), first);
    table.call_ended(1);
    // DOM-63: the release ends the reminder.
    table.step(LeaseEvent::Release("a".into()));
    assert_eq!(reminders(&table), []);
}

#[test]
fn reminder_exists_only_with_the_policy() {
    let mut table = TestTable::new(per_dialog(0));
    table.acquire(1, "a");
    table.opened(1);
    let [lease] = &table.leases()[..] else { panic!() };
    let with =
        |scope, wanted| SessionPolicy { scope, reminder: wanted, ..SessionPolicy::default() };
    assert!(reminder_for_lease(lease, &with(SessionScope::PerConversation, true)).is_some());
    assert_eq!(reminder_for_lease(lease, &with(SessionScope::PerConversation, false)), None);
    assert_eq!(reminder_for_lease(lease, &with(SessionScope::PerCall, true)), None);
}

#[test]
fn dom_63_release_closes_only_the_dialogs_session() {
    let mut table = TestTable::new(per_dialog(0));
    table.acquire(1, "a");
    table.acquire(2, "b");
    table.opened(1);
    table.opened(2);
    table.call_ended(1);
    assert_eq!(table.step(LeaseEvent::Release("a".into())), ["close #1"]);
    assert_eq!(table.dialogs(), ["b"]);
    assert_eq!(table.acquire(3, "a"), ["open #3"]);
    assert_eq!(table.step(LeaseEvent::Release("unknown".into())), NOTHING);
}

#[test]
fn call_in_flight_outlives_the_release() {
    let mut table = TestTable::new(per_dialog(0));
    table.acquire(1, "a");
    table.opened(1);
    assert_eq!(table.step(LeaseEvent::Release("a".into())), NOTHING);
    assert_eq!(table.dialogs(), NOTHING);
    assert_eq!(table.acquire(2, "a"), ["open #2"], "the next call gets a new lease");
    assert_eq!(table.call_ended(1), ["close #1"]);
}

#[test]
fn dom_64_shared_scope_has_one_session_and_no_leases() {
    let mut table = TestTable::new(terms(SessionScope::Shared));
    assert_eq!(table.acquire(1, "a"), ["open #1"]);
    assert_eq!(table.acquire(2, "b"), NOTHING);
    assert_eq!(table.opened(1), ["1 gets #1", "2 gets #1"]);
    assert_eq!(table.acquire(3, "c"), ["3 gets #1"]);
    assert_eq!(table.leases(), []);
    assert_eq!(table.step(LeaseEvent::Release("a".into())), NOTHING);
    assert_eq!(table.step(LeaseEvent::DialogEnded("a".into())), NOTHING);
}

#[test]
fn shared_scope_opens_one_session_per_era_within_the_limit() {
    for (max_instances, second) in [(0, vec!["open #2"]), (1, vec!["2 gets #1"])] {
        let mut table =
            TestTable::new(LeasePolicy { max_instances, ..terms(SessionScope::Shared) });
        table.acquire_in_era(Era::Legacy, 1, "a");
        table.opened(1);
        assert_eq!(table.acquire_in_era(Era::Modern, 2, "b"), second, "{max_instances}");
    }
}

#[test]
fn dis_24_calls_wait_when_one_in_flight_is_allowed() {
    let mut table = TestTable::new(LeasePolicy { max_in_flight: 1, ..terms(SessionScope::Shared) });
    table.acquire(1, "a");
    assert_eq!(table.opened(1), ["1 gets #1"]);
    assert_eq!(table.acquire(2, "b"), NOTHING);
    assert_eq!(table.acquire(3, "a"), NOTHING);
    assert_eq!(table.call_ended(1), ["2 gets #1"]);
    assert_eq!(table.call_ended(1), ["3 gets #1"]);
}

#[test]
fn dis_17_concurrent_first_calls_open_one_session() {
    let mut table = TestTable::new(terms(SessionScope::Shared));
    let made: usize = (1..=10).map(|waiter_id| table.acquire(waiter_id, "a").len()).sum();
    assert_eq!(made, 1);
    assert_eq!(table.opened(1).len(), 10);
}

#[test]
fn per_call_scope_opens_a_session_per_call() {
    let mut table =
        TestTable::new(LeasePolicy { max_instances: 1, ..terms(SessionScope::PerCall) });
    assert_eq!(table.acquire(1, "a"), ["open #1"]);
    assert_eq!(table.opened(1), ["1 gets #1"]);
    assert_eq!(table.acquire(2, "a"), NOTHING);
    assert_eq!(table.call_ended(1), ["close #1"]);
    assert_eq!(table.closed(1), ["open #2"]);
    // No other call could use the session that was being opened for this call.
    assert_eq!(table.step(LeaseEvent::Cancel(WaiterId(2))), ["close #2"]);
}

#[test]
fn slot_is_freed_when_its_session_is_closed() {
    let mut table = TestTable::new(per_dialog(1));
    table.acquire(1, "a");
    table.opened(1);
    table.call_ended(1);
    assert_eq!(table.acquire(2, "b"), NOTHING);
    assert_eq!(table.acquire(3, "a"), ["3 gets #1"], "a dialog with a lease keeps using it");
    table.call_ended(1);
    assert_eq!(table.step(LeaseEvent::Release("a".into())), ["close #1"]);
    assert_eq!(table.acquire(4, "c"), NOTHING);
    assert_eq!(table.closed(1), ["open #2"]);
    assert_eq!(table.opened(2), ["2 gets #2"], "calls are served in order of arrival");
}

#[test]
fn queue_is_bounded_and_ignores_waiters_for_their_own_open() {
    let mut table = TestTable::new(LeasePolicy { queue: 1, ..per_dialog(1) });
    table.acquire(1, "a");
    assert_eq!(table.acquire(2, "a"), NOTHING);
    assert_eq!(table.acquire(3, "a"), NOTHING);
    assert_eq!(table.acquire(4, "b"), NOTHING);
    assert_eq!(table.acquire(5, "c"), ["5 refused: Full"]);
    table.step(LeaseEvent::Cancel(WaiterId(4)));
    assert_eq!(table.acquire(6, "c"), NOTHING);
    assert!(
        table.table.is_waiting_for_open(WaiterId(3))
            && !table.table.is_waiting_for_open(WaiterId(6))
    );
}

#[test]
fn idle_lease_is_closed_and_a_used_one_is_not() {
    let idle = Duration::from_secs(600);
    let mut table = TestTable::new(LeasePolicy { idle, ..per_dialog(0) });
    table.acquire(1, "a");
    table.opened(1);
    assert_eq!(table.table.next_idle_deadline(), None, "nothing is idle during a call");
    table.now += idle * 2;
    assert_eq!(table.step(LeaseEvent::Tick), NOTHING);
    table.call_ended(1);
    assert_eq!(table.table.next_idle_deadline(), Some(table.start + idle * 3));
    table.now += idle - Duration::from_millis(1);
    assert_eq!(table.step(LeaseEvent::Tick), NOTHING);
    table.now += Duration::from_millis(1);
    assert_eq!(table.step(LeaseEvent::Tick), ["close #1"]);
    assert_eq!(table.leases(), []);
}

#[test]
fn shared_sessions_have_no_idle_timeout() {
    let of = |scope| {
        LeasePolicy::from_session_policy(&SessionPolicy { scope, ..SessionPolicy::default() }).idle
    };
    assert_eq!(of(SessionScope::Shared), Duration::ZERO);
    assert_eq!(of(SessionScope::PerConversation), Duration::from_secs(600));
}

#[test]
fn failed_open_refuses_its_waiters_and_the_next_call_retries() {
    let mut table = TestTable::new(per_dialog(1));
    table.acquire(1, "a");
    table.acquire(2, "a");
    table.acquire(3, "b");
    let effects = table.step(LeaseEvent::OpenFailed(SessionId(1)));
    assert_eq!(effects, ["1 refused: Failed", "2 refused: Failed", "open #2"]);
    assert_eq!(table.opened(2), ["3 gets #2"]);
}

#[test]
fn lost_session_is_replaced_at_the_next_call() {
    let mut table = TestTable::new(per_dialog(0));
    table.acquire(1, "a");
    table.opened(1);
    assert_eq!(table.step(LeaseEvent::Lost(SessionId(1))), ["close #1"]);
    assert_eq!(table.call_ended(1), NOTHING, "the call ends after its session");
    assert_eq!(table.acquire(2, "a"), ["open #2"]);
}

#[test]
fn open_without_waiters_still_becomes_the_dialogs_lease() {
    let mut table = TestTable::new(per_dialog(0));
    table.acquire(1, "a");
    assert_eq!(table.step(LeaseEvent::Cancel(WaiterId(1))), NOTHING);
    assert_eq!(table.opened(1), NOTHING);
    assert_eq!(table.acquire(2, "a"), ["2 gets #1"]);
}

#[test]
fn ending_a_dialog_closes_its_sessions_and_refuses_its_waiters() {
    let mut table = TestTable::new(per_dialog(1));
    table.acquire(1, "a");
    table.opened(1);
    table.acquire(2, "b");
    assert_eq!(table.step(LeaseEvent::DialogEnded("b".into())), ["2 refused: DialogEnded"]);
    assert_eq!(
        table.step(LeaseEvent::DialogEnded("a".into())),
        ["close #1"],
        "with or without calls in flight"
    );
    assert_eq!(table.leases(), []);
}

#[test]
fn dom_79_and_80_retired_server_finishes_waiting_calls_and_refuses_new_ones() {
    let mut table = TestTable::new(per_dialog(2));
    table.acquire(1, "a");
    table.opened(1);
    table.acquire(2, "b");
    table.opened(2);
    table.call_ended(2);
    table.acquire(3, "c");
    assert_eq!(
        table.step(LeaseEvent::Retire),
        ["close #2"],
        "DOM-79: the session with a call in flight stays"
    );
    assert_eq!(table.acquire(4, "a"), ["4 refused: Retired"]);
    assert_eq!(table.closed(2), ["open #3"], "calls from before the retirement are served");
    assert_eq!(table.opened(3), ["3 gets #3"]);
    assert_eq!(table.call_ended(1), ["close #1"]);
    assert!(!table.table.is_finished());
    assert_eq!(table.call_ended(3), ["close #3"]);
    table.closed(1);
    table.closed(3);
    assert!(table.table.is_finished());
}

#[test]
fn dom_81_retired_server_can_be_closed_without_draining() {
    let mut table = TestTable::new(per_dialog(1));
    table.acquire(1, "a");
    table.opened(1);
    table.acquire(2, "b");
    table.step(LeaseEvent::Retire);
    assert_eq!(table.step(LeaseEvent::CloseAll), ["close #1", "2 refused: Retired"]);
}

#[test]
fn close_all_lets_the_next_calls_open_new_sessions() {
    let mut table = TestTable::new(per_dialog(0));
    table.acquire(1, "a");
    table.opened(1);
    table.acquire(2, "b");
    assert_eq!(
        table.step(LeaseEvent::CloseAll),
        ["close #1", "close #2", "open #3"],
        "`b` still waits"
    );
    assert_eq!(table.acquire(3, "a"), ["open #4"]);
}

#[test]
fn late_events_of_closed_sessions_change_nothing() {
    let mut table = TestTable::new(per_dialog(0));
    table.acquire(1, "a");
    table.opened(1);
    table.step(LeaseEvent::DialogEnded("a".into()));
    table.closed(1);
    for event in [
        LeaseEvent::CallEnded(SessionId(1)),
        LeaseEvent::Opened(SessionId(1)),
        LeaseEvent::OpenFailed(SessionId(1)),
        LeaseEvent::Lost(SessionId(1)),
        LeaseEvent::Closed(SessionId(1)),
        LeaseEvent::Cancel(WaiterId(1)),
    ] {
        assert_eq!(table.step(event), NOTHING);
    }
}
