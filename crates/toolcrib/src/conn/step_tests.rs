//! Lives of connections: events with their times in, states and effects out.

use proptest::prelude::*;
use toolcrib_config::model::policy::{Policy, SessionScope};
use toolcrib_config::model::units::Period;

use super::*;
use crate::conn::state::{Outlook, Words};
use Event::{
    Begin, Connected, Disable, Disconnect, Down, Enable, InFlight, ListChanged, Listed, Refresh,
    Restart, Retire, Tick, Traffic, Wanted,
};

/// Tells a life step by step: `<seconds> <state> <effects>`. Ticks come by themselves when they are due.
/// Announcements are left out; they have a test of their own.
fn tell(settings: &Settings, events: &[(f64, Event)]) -> Vec<String> {
    live(settings, events).1
}

fn live(settings: &Settings, events: &[(f64, Event)]) -> (Life, Vec<String>) {
    let mut life = Life::new(true);
    let mut lines = Vec::new();
    for (at, event) in events {
        let at = moment(*at);
        while let Some(due) = life.wake(settings).filter(|due| *due < at) {
            life = one(life, Tick, settings, due, &mut lines);
        }
        life = one(life, event.clone(), settings, at, &mut lines);
    }
    (life, lines)
}

fn one(life: Life, event: Event, settings: &Settings, at: Moment, lines: &mut Vec<String>) -> Life {
    let (life, effects) = step(life, event, settings, at, 0.5);
    let mut line = format!("{} {}", at.0.as_secs_f64(), life.state().as_str());
    for effect in effects {
        let (name, link) = match effect {
            Effect::Connect(link) => ("connect", link),
            Effect::Close(link) => ("close", link),
            Effect::Kill(link) => ("kill", link),
            Effect::Ping(link) => ("ping", link),
            Effect::Discover(link) => ("discover", link),
            Effect::Announce => continue,
        };
        line += &format!(" {name}{}", link.0);
    }
    lines.push(line);
    life
}

fn moment(secs: f64) -> Moment {
    Moment(Duration::from_secs_f64(secs))
}

fn secs(secs: f64) -> Duration {
    Duration::from_secs_f64(secs)
}

fn up(link: u64) -> Event {
    Connected(Link(link))
}

fn down(link: u64) -> Event {
    fails(link, FailureKind::Connection)
}

fn fails(link: u64, kind: FailureKind) -> Event {
    Down(Link(link), Failure::new(kind, "x"))
}

/// Minion's: tries again 3 times, after 1, 2 and 4 seconds.
fn minion() -> Settings {
    let mut policy = Policy::default();
    policy.lifecycle.connect = Connect::OnFirstCall;
    policy.lifecycle.retry.max = 3;
    policy.lifecycle.retry.jitter = 0.0;
    policy.lifecycle.reconnect.max = 3;
    policy.lifecycle.reconnect.jitter = 0.0;
    policy.session.scope = SessionScope::Shared;
    policy.discovery.on_list_changed = OnListChanged::MarkStale;
    Settings::of(&policy, Period::secs(30))
}

/// The Docker platform's with `attempts` in all: one and those after it, each after 2 seconds.
fn docker(attempts: u32) -> Settings {
    let mut settings = minion();
    settings.connect = Connect::Eager;
    settings.retry.max = attempts - 1;
    settings.reconnect.max = attempts;
    for tries in [&mut settings.retry, &mut settings.reconnect] {
        tries.backoff.initial = secs(2.0);
        tries.backoff.max_delay = secs(2.0);
        tries.backoff.factor = 1.0;
    }
    settings.on_list_changed = OnListChanged::Refresh;
    settings
}

/// Dispatch's: nothing is tried again, and for 30 seconds nothing at all.
fn dispatch() -> Settings {
    let mut settings = minion();
    settings.connect = Connect::OnFirstList;
    settings.retry.max = 0;
    settings.reconnect.max = 0;
    settings.hold_off = secs(30.0);
    settings
}

#[test]
fn policy_becomes_settings() {
    let mut policy = Policy::default();
    policy.lifecycle.reconnect.auto = false;
    let settings = Settings::of(&policy, Period::secs(7));
    assert_eq!(settings.retry.max, 5);
    assert_eq!(settings.reconnect.max, 0, "MIN-63");
    assert_eq!(settings.drain_kill, secs(7.0));
    assert_eq!(settings.idle, secs(600.0));
    policy.lifecycle.drain_kill = Some(Period::secs(3));
    policy.session.scope = SessionScope::Shared;
    let settings = Settings::of(&policy, Period::secs(7));
    assert_eq!((settings.drain_kill, settings.idle), (secs(3.0), secs(0.0)));
}

#[test]
fn dis_17_many_wants_are_one_connect() {
    let wants = [
        (0.0, Wanted(Want::Call)),
        (0.1, Wanted(Want::List)),
        (0.2, Event::Connect),
    ];
    assert_eq!(
        tell(&dispatch(), &wants),
        ["0 connecting connect1", "0.1 connecting", "0.2 connecting"]
    );
    let later = [
        (0.0, Wanted(Want::Call)),
        (1.0, up(1)),
        (2.0, Wanted(Want::Call)),
        (3.0, Event::Connect),
    ];
    assert_eq!(
        tell(&dispatch(), &later),
        ["0 connecting connect1", "1 ready", "2 ready", "3 ready"]
    );
}

#[test]
fn min_25_a_lazy_server_waits_for_its_first_use() {
    for (connect, event, connects) in [
        (Connect::Eager, Begin, true),
        (Connect::Background, Begin, true),
        (Connect::OnFirstList, Begin, false),
        (Connect::OnFirstCall, Begin, false),
        (Connect::OnFirstList, Wanted(Want::List), true),
        (Connect::OnFirstCall, Wanted(Want::Call), true),
        (Connect::OnFirstCall, Wanted(Want::List), true),
    ] {
        let settings = Settings {
            connect,
            ..minion()
        };
        let lines = tell(&settings, &[(0.0, event.clone())]);
        let expected = if connects {
            "0 connecting connect1"
        } else {
            "0 idle"
        };
        assert_eq!(lines, [expected], "{connect:?} {event:?}");
    }
    // What is known from an earlier run can be listed without the server.
    let known = Life::new(true).remembering();
    let (life, effects) = step(known, Wanted(Want::List), &minion(), moment(0.0), 0.5);
    assert_eq!((life.state(), effects), (State::Idle, vec![]));
}

#[test]
fn min_26_what_was_disconnected_stays_down_until_connected() {
    let events = [
        (0.0, Event::Connect),
        (1.0, up(1)),
        (2.0, Disconnect),
        (3.0, Wanted(Want::Call)),
        (4.0, Begin),
        (5.0, Disconnect), // MIN-24: nothing more to close
        (6.0, Event::Connect),
    ];
    assert_eq!(
        tell(&minion(), &events),
        [
            "0 connecting connect1",
            "1 ready",
            "2 stopped close1",
            "3 stopped",
            "4 stopped",
            "5 stopped",
            "6 connecting connect2"
        ]
    );
    let (life, _) = live(&minion(), &events[..4]);
    assert_eq!(life.outlook(), Outlook::Down);
}

#[test]
fn min_61_three_retries_after_1_2_and_4_seconds_then_no_more() {
    let events = [
        (0.0, Wanted(Want::Call)),
        (0.0, down(1)),
        (1.0, Tick),
        (1.0, down(2)),
        (3.0, Tick),
        (3.0, down(3)),
        (7.0, Tick),
        (7.0, down(4)),
        (1000.0, Wanted(Want::Call)),
        (1001.0, Event::Connect),
    ];
    assert_eq!(
        tell(&minion(), &events),
        [
            "0 connecting connect1",
            "0 backoff",
            "1 connecting connect2",
            "1 backoff",
            "3 connecting connect3",
            "3 backoff",
            "7 connecting connect4",
            "7 failed",
            "1000 failed",
            "1001 connecting connect5"
        ]
    );
    // A tick before its time is no try.
    let early = [
        (0.0, Event::Connect),
        (0.0, down(1)),
        (0.9, Tick),
        (0.95, Wanted(Want::Call)),
    ];
    assert_eq!(
        tell(&minion(), &early)[2..],
        ["0.9 backoff", "0.95 backoff"]
    );
}

#[test]
fn min_59_and_61_only_what_may_pass_is_tried_again() {
    for (kind, again) in [
        (FailureKind::Connection, true),
        (FailureKind::Timeout, true),
        (FailureKind::Config, false),
        (FailureKind::Authentication, false),
        (FailureKind::Protocol, false),
        (FailureKind::Resource, false),
    ] {
        let expected = if again { "backoff" } else { "failed" };
        let start = [(0.0, Event::Connect), (0.0, fails(1, kind))];
        assert_eq!(
            live(&minion(), &start).0.state().as_str(),
            expected,
            "{kind:?}"
        );
        let loss = [(0.0, Event::Connect), (0.0, up(1)), (0.0, fails(1, kind))];
        assert_eq!(
            live(&minion(), &loss).0.state().as_str(),
            expected,
            "{kind:?}"
        );
    }
}

#[test]
fn a_server_that_says_when_is_asked_then() {
    for (asked, waits) in [(0.2, 1.0), (20.0, 20.0), (1e9, 3600.0)] {
        let mut failure = Failure::new(FailureKind::Resource, "429");
        failure.retry_after = Some(secs(asked));
        let (life, _) = live(
            &minion(),
            &[(0.0, Event::Connect), (0.0, Down(Link(1), failure))],
        );
        assert_eq!(life.next_retry(), Some(moment(waits)));
    }
}

#[test]
fn min_31_a_lost_session_is_made_anew_and_the_old_one_closed_first() {
    let events = [
        (0.0, Event::Connect),
        (1.0, up(1)),
        (10.0, down(1)),
        (11.0, Tick),
        (11.5, down(2)),
        (13.5, Tick),
        (14.0, up(3)),
    ];
    let (life, lines) = live(&minion(), &events);
    assert_eq!(
        lines,
        [
            "0 connecting connect1",
            "1 ready",
            "10 backoff close1",
            "11 reconnecting connect2",
            "11.5 backoff",
            "13.5 reconnecting connect3",
            "14 ready"
        ]
    );
    assert_eq!(
        (life.restarts(), life.attempts(), life.last_connected()),
        (1, 0, Some(moment(14.0)))
    );
}

#[test]
fn min_63_reconnects_are_counted_and_can_be_off() {
    let mut events = vec![(0.0, Event::Connect), (0.0, up(1)), (0.0, down(1))];
    for (at, link) in [(1.0, 2), (3.0, 3), (7.0, 4)] {
        events.extend([(at, Tick), (at, down(link))]);
    }
    events.push((100.0, Wanted(Want::Call)));
    let lines = tell(&minion(), &events);
    let tries: usize = lines
        .iter()
        .map(|line| line.matches(" connect").count())
        .sum();
    let waiting = lines
        .iter()
        .filter(|line| line.contains(" connecting"))
        .count();
    // The first and three more; the state of the first is a word that looks alike.
    assert_eq!(tries - waiting, 1 + 3);
    assert_eq!(lines.last().unwrap(), "100 failed");

    let mut off = minion();
    off.reconnect.max = 0;
    assert_eq!(
        tell(
            &off,
            &[
                (0.0, Event::Connect),
                (0.0, up(1)),
                (1.0, down(1)),
                (9.0, Wanted(Want::Call))
            ]
        ),
        [
            "0 connecting connect1",
            "0 ready",
            "1 failed close1",
            "9 failed"
        ]
    );
}

#[test]
fn dkr_27_exactly_n_attempts_and_dkr_28_equal_waits() {
    // At the start: the first and two more.
    let start = [
        (0.0, Begin),
        (0.0, down(1)),
        (2.0, Tick),
        (2.0, down(2)),
        (4.0, Tick),
        (4.0, down(3)),
        (99.0, Tick),
    ];
    let (life, lines) = live(&docker(3), &start);
    assert_eq!(
        lines,
        [
            "0 connecting connect1",
            "0 backoff",
            "2 connecting connect2",
            "2 backoff",
            "4 connecting connect3",
            "4 failed",
            "99 failed"
        ]
    );
    assert_eq!((life.attempts(), life.next_retry()), (3, None));
    // After a loss: three.
    let loss = [
        (0.0, Begin),
        (0.0, up(1)),
        (0.0, down(1)),
        (2.0, Tick),
        (2.0, down(2)),
        (4.0, Tick),
        (4.0, down(3)),
        (6.0, Tick),
        (6.0, down(4)),
    ];
    let lines = tell(&docker(3), &loss);
    assert_eq!(lines.last().unwrap(), "6 failed");
}

#[test]
fn dkr_30_a_success_begins_the_count_anew() {
    let events = [
        (0.0, Begin),
        (0.0, down(1)),
        (2.0, Tick),
        (2.0, up(2)),
        (5.0, down(2)),
        (7.0, Tick),
        (7.0, down(3)),
    ];
    let (life, lines) = live(&docker(2), &events);
    assert_eq!(
        (life.attempts(), lines.last().unwrap().as_str()),
        (1, "7 backoff")
    );
}

#[test]
fn ext_11_after_a_failed_connect_nothing_is_tried_for_a_while() {
    let events = [
        (0.0, Wanted(Want::List)),
        (1.0, down(1)),
        (30.9, Wanted(Want::List)),
        (31.0, Wanted(Want::List)),
        (32.0, up(2)),
        (40.0, down(2)), // not a failed connect: the next turn may try at once
        (40.0, Wanted(Want::Call)),
    ];
    let (life, lines) = live(&dispatch(), &events);
    assert_eq!(
        lines,
        [
            "0 connecting connect1",
            "1 failed",
            "30.9 failed",
            "31 connecting connect2",
            "32 ready",
            "40 failed close2",
            "40 connecting connect3"
        ]
    );
    assert_eq!(life.word(Words::Dispatch), "connecting");
    assert_eq!(
        live(&dispatch(), &events[..3]).0.word(Words::Dispatch),
        "error"
    );
}

#[test]
fn dkr_24_pings_go_out_at_their_interval_and_silence_degrades() {
    let settings = Settings {
        ping_every: secs(10.0),
        ..docker(3)
    };
    let events = [
        (0.0, Begin),
        (1.0, up(1)),
        (11.5, Traffic(Link(1), moment(11.2))),
        (31.5, Traffic(Link(1), moment(31.2))),
    ];
    assert_eq!(
        tell(&settings, &events),
        [
            "0 connecting connect1",
            "1 ready",
            "11 ready ping1",
            "11.5 ready",
            "21 ready ping1",
            "31 degraded ping1",
            "31.5 ready"
        ]
    );
}

#[test]
fn dkr_25_silence_restarts_and_traffic_alone_keeps_alive() {
    let settings = Settings {
        stale_after: secs(30.0),
        ..docker(3)
    };
    let quiet = [
        (0.0, Begin),
        (0.0, up(1)),
        (20.0, Traffic(Link(1), moment(20.0))),
        (55.0, Tick),
    ];
    assert_eq!(
        tell(&settings, &quiet)[2..],
        [
            "20 ready",
            "50 backoff close1", // DKR-26: closed first
            "52 reconnecting connect2",
            "55 reconnecting"
        ]
    );
    let mut busy = vec![(0.0, Begin), (0.0, up(1))];
    busy.extend(
        (1..20)
            .map(|n| f64::from(n) * 29.0)
            .map(|at| (at, Traffic(Link(1), moment(at)))),
    );
    assert!(
        tell(&settings, &busy)[1..]
            .iter()
            .all(|line| line.ends_with("ready"))
    );
    // Zero means never.
    let never = tell(&docker(3), &[(0.0, Begin), (0.0, up(1)), (1e6, Tick)]);
    assert_eq!(never.last().unwrap(), "1000000 ready");
}

#[test]
fn dkr_26_a_restart_closes_the_old_session_first() {
    let events = [
        (0.0, Begin),
        (0.5, Restart),
        (1.0, up(2)),
        (2.0, Restart),
        (2.1, down(2)),
        (2.2, up(2)),
    ];
    assert_eq!(
        tell(&docker(3), &events),
        [
            "0 connecting connect1",
            "0.5 connecting close1 connect2",
            "1 ready",
            "2 connecting close2 connect3",
            "2.1 connecting", // late words of a session that is over
            "2.2 connecting"
        ]
    );
    for from in [Disconnect, fails(1, FailureKind::Config)] {
        let lines = tell(&docker(3), &[(0.0, Begin), (0.1, from), (0.2, Restart)]);
        assert_eq!(lines.last().unwrap(), "0.2 connecting connect2");
    }
}

#[test]
fn an_unused_lease_is_closed_and_comes_back_when_wanted() {
    let settings = Settings {
        idle: secs(60.0),
        ..minion()
    };
    let events = [
        (0.0, Wanted(Want::Call)),
        (0.0, InFlight(1)),
        (1.0, up(1)),
        (100.0, InFlight(0)),
        (130.0, InFlight(0)),
        (170.0, Wanted(Want::Call)),
    ];
    assert_eq!(
        tell(&settings, &events),
        [
            "0 connecting connect1",
            "0 connecting",
            "1 ready",
            "100 ready",
            "130 ready",
            "160 idle close1",
            "170 connecting connect2"
        ]
    );
}

#[test]
fn dom_79_a_retired_session_ends_with_its_last_call() {
    let settings = docker(3);
    let events = [
        (0.0, Begin),
        (0.0, up(1)),
        (0.0, InFlight(2)),
        (0.5, Retire),
        (0.6, Wanted(Want::Call)), // DOM-80
        (0.7, Restart),
        (1.0, InFlight(1)),
        (2.0, InFlight(0)),
    ];
    let (life, lines) = live(&settings, &events);
    assert_eq!(
        lines[3..],
        [
            "0.5 draining",
            "0.6 draining",
            "0.7 draining",
            "1 draining",
            "2 stopped close1"
        ]
    );
    assert!(life.is_over());
    // Calls that wait for the session to open are in flight too.
    let waiting = [
        (0.0, Begin),
        (0.0, InFlight(1)),
        (0.5, Retire),
        (1.0, up(1)),
        (2.0, InFlight(0)),
    ];
    assert_eq!(
        tell(&settings, &waiting)[2..],
        ["0.5 draining", "1 draining", "2 stopped close1"]
    );
    let idle = [
        (0.0, Begin),
        (0.0, up(1)),
        (0.5, Retire),
        (1.0, Event::Connect),
    ];
    assert_eq!(
        tell(&settings, &idle)[2..],
        ["0.5 stopped close1", "1 stopped"]
    );
}

#[test]
fn dom_81_a_server_that_does_not_drain_is_killed() {
    let settings = Settings {
        drain_kill: secs(3.0),
        ..docker(3)
    };
    let events = [
        (0.0, Begin),
        (0.0, up(1)),
        (0.0, InFlight(1)),
        (1.0, Retire),
        (9.0, Tick),
    ];
    assert_eq!(
        tell(&settings, &events)[3..],
        ["1 draining", "4 stopped kill1", "9 stopped"]
    );
}

#[test]
fn a_disabled_server_is_closed_and_only_enabling_brings_it_back() {
    let events = [
        (0.0, Begin),
        (1.0, up(1)),
        (2.0, Disable),
        (3.0, Wanted(Want::Call)),
        (4.0, Event::Connect),
        (5.0, Disconnect),
        (6.0, Enable),
    ];
    assert_eq!(
        tell(&docker(3), &events)[2..],
        [
            "2 disabled close1",
            "3 disabled",
            "4 disabled",
            "5 disabled",
            "6 connecting connect2"
        ]
    );
    assert_eq!(Life::new(false).state(), State::Disabled);
    let lazy = tell(&minion(), &[(0.0, Disable), (1.0, Enable)]);
    assert_eq!(lazy, ["0 disabled", "1 idle"]);
}

#[test]
fn min_32_what_happened_stays_visible() {
    let events = [
        (0.0, Event::Connect),
        (1.0, up(1)),
        (5.0, down(1)),
        (6.0, Tick),
        (6.5, down(2)),
        (8.5, Tick),
        (9.0, down(3)),
    ];
    let (life, _) = live(&minion(), &events);
    assert_eq!(life.attempts(), 2);
    assert_eq!(life.last_connected(), Some(moment(1.0)));
    assert_eq!(life.next_retry(), Some(moment(13.0)));
    let (at, failure) = life.last_error().unwrap();
    assert_eq!((at, failure.message.as_str()), (moment(9.0), "x"));
}

#[test]
fn min_33_to_35_the_cache_is_empty_then_read_then_old() {
    let settings = Settings {
        ttl: secs(1.0),
        ..minion()
    };
    let life = [
        (0.0, Event::Connect, "populating"),
        (1.0, up(1), "ready"),
        (1.5, Wanted(Want::List), "ready"),
        (3.0, Wanted(Want::List), "populating"), // MIN-35: its time was up
        (3.2, Wanted(Want::List), "populating"),
        (3.5, Listed(Link(1), Ok(())), "ready"),
        (3.6, Refresh, "populating"), // MIN-34
        (
            3.7,
            Listed(Link(1), Err(Failure::new(FailureKind::Timeout, "x"))),
            "stale",
        ),
        (4.0, Refresh, "populating"),
        (4.1, Listed(Link(1), Ok(())), "ready"),
        (4.2, down(1), "stale"),
        (5.2, Tick, "populating"),
        (5.3, up(2), "ready"), // MIN-34: read anew with the new session
    ];
    let events: Vec<_> = life
        .iter()
        .map(|(at, event, _)| (*at, event.clone()))
        .collect();
    assert_eq!(Life::new(true).cache().as_str(), "empty");
    for (n, (at, _, cache)) in life.iter().enumerate() {
        let (life, _) = live(&settings, &events[..=n]);
        assert_eq!(life.cache().as_str(), *cache, "at {at}");
    }
    let discovers = tell(&settings, &events)
        .join("\n")
        .matches("discover1")
        .count();
    assert_eq!(discovers, 3);
}

#[test]
fn min_38_there_is_nothing_to_refresh_without_a_session() {
    assert_eq!(tell(&minion(), &[(0.0, Refresh)]), ["0 idle"]);
}

#[test]
fn dis_14_a_changed_list_is_read_once_however_often_it_is_told() {
    let changed = ListChanged(Link(1));
    let events = [
        (0.0, Begin),
        (1.0, up(1)),
        (2.0, changed.clone()),
        (2.15, changed.clone()),
        (3.0, changed.clone()), // the first reading still runs
        (4.0, Listed(Link(1), Ok(()))),
        (5.0, Listed(Link(1), Ok(()))),
    ];
    assert_eq!(
        tell(&docker(3), &events)[2..],
        [
            "2 ready",
            "2.15 ready",
            "2.2 ready discover1",
            "3 ready",
            "4 ready discover1",
            "5 ready"
        ]
    );
    // Told while the lists are first read: they are read once more.
    let early = [
        (0.0, Begin),
        (0.5, changed.clone()),
        (1.0, up(1)),
        (2.0, Tick),
    ];
    assert_eq!(tell(&docker(3), &early)[3], "1.2 ready discover1");
    let mut ignoring = docker(3);
    ignoring.on_list_changed = OnListChanged::Ignore;
    assert_eq!(tell(&ignoring, &early)[2..], ["1 ready", "2 ready"]);
}

#[test]
fn min_64_a_changed_list_is_only_marked_until_it_is_refreshed() {
    let events = [
        (0.0, Event::Connect),
        (1.0, up(1)),
        (2.0, ListChanged(Link(1))),
        (3.0, Wanted(Want::List)),
        (4.0, Refresh),
    ];
    assert_eq!(
        tell(&minion(), &events)[2..],
        ["2 ready", "3 ready", "4 ready discover1"]
    );
    assert_eq!(live(&minion(), &events[..4]).0.cache().as_str(), "stale");
}

#[test]
fn a_list_that_cannot_be_read_anew_degrades_and_is_no_loss() {
    let failure = Failure::new(FailureKind::Protocol, "x");
    let events = [
        (0.0, Event::Connect),
        (1.0, up(1)),
        (2.0, Refresh),
        (3.0, Listed(Link(1), Err(failure))),
        (4.0, Wanted(Want::List)),
        (5.0, Listed(Link(1), Ok(()))),
    ];
    assert_eq!(
        tell(&minion(), &events)[2..],
        [
            "2 ready discover1",
            "3 degraded",
            "4 degraded discover1",
            "5 ready"
        ]
    );
}

#[test]
fn min_28_to_31_and_dis_18_states_in_the_words_of_the_designs() {
    let script = [
        (0.0, Begin, "disconnected", "disconnected"),
        (0.0, Wanted(Want::Call), "connecting", "connecting"), // MIN-29
        (0.0, down(1), "error", "error"),                      // MIN-30
        (1.0, Tick, "connecting", "connecting"),
        (1.0, up(2), "connected", "connected"),
        (2.0, down(2), "reconnecting", "error"), // MIN-31
        (3.0, Tick, "reconnecting", "error"),
        (3.0, fails(3, FailureKind::Authentication), "error", "error"),
        (4.0, Event::Connect, "connecting", "connecting"),
        (4.0, up(4), "connected", "connected"),
        (5.0, Disconnect, "disconnected", "disconnected"),
        (6.0, Disable, "disabled", "disabled"),
    ];
    let events: Vec<_> = script
        .iter()
        .map(|(at, event, ..)| (*at, event.clone()))
        .collect();
    for (n, (at, event, minions, dispatchs)) in script.iter().enumerate() {
        let (life, _) = live(&minion(), &events[..=n]);
        let words = (life.word(Words::Minion), life.word(Words::Dispatch));
        assert_eq!(words, (*minions, *dispatchs), "{at} {event:?}");
        assert_eq!(life.word(Words::Plain), life.state().as_str());
    }
}

#[test]
fn only_what_people_see_is_announced() {
    let settings = Settings {
        ping_every: secs(10.0),
        ..docker(3)
    };
    let mut life = Life::new(true);
    for (at, event, announced) in [
        (0.0, Begin, true),
        (0.0, Begin, false),
        (1.0, up(1), true),
        (11.0, Tick, false),
        (11.1, Traffic(Link(1), moment(11.1)), false),
        (11.2, InFlight(1), false),
        (12.0, Refresh, true),
        (
            13.0,
            Listed(Link(1), Err(Failure::new(FailureKind::Timeout, "a"))),
            true,
        ),
        (14.0, down(1), true),
        (16.0, Tick, true),
        (16.1, down(2), true),
    ] {
        let effects;
        (life, effects) = step(life, event.clone(), &settings, moment(at), 0.5);
        assert_eq!(
            effects.contains(&Effect::Announce),
            announced,
            "{at} {event:?}"
        );
    }
}

fn any_failure() -> impl Strategy<Value = Failure> {
    use FailureKind::*;
    let kind = prop::sample::select(vec![
        Config,
        Connection,
        Connection,
        Authentication,
        Protocol,
        Timeout,
        Resource,
    ]);
    kind.prop_map(|kind| Failure::new(kind, "x"))
}

/// Which session an event is about: the newest at the time, or the one before it.
fn any_event() -> impl Strategy<Value = (bool, Event)> {
    let link = Link(0);
    let simple = prop::sample::select(vec![
        Begin,
        Wanted(Want::List),
        Wanted(Want::Call),
        Connected(link),
        Connected(link),
        Connected(link),
        ListChanged(link),
        Listed(link, Ok(())),
        Tick,
        Tick,
        Tick,
        Event::Connect,
        Disconnect,
        Restart,
        Refresh,
        Enable,
        Disable,
    ]);
    let event = prop_oneof![
        6 => simple,
        3 => any_failure().prop_map(move |failure| Down(link, failure)),
        1 => any_failure().prop_map(move |failure| Listed(link, Err(failure))),
        1 => (0u32..3).prop_map(InFlight),
        1 => any::<Duration>().prop_map(move |at| Traffic(link, Moment(at))),
    ];
    (prop::bool::weighted(0.9), event)
}

fn about(event: Event, link: Link) -> Event {
    match event {
        Connected(_) => Connected(link),
        Down(_, failure) => Down(link, failure),
        Traffic(_, at) => Traffic(link, at),
        Listed(_, outcome) => Listed(link, outcome),
        ListChanged(_) => ListChanged(link),
        other => other,
    }
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let period = || prop::sample::select(vec![0.0, 0.5, 3.0, 40.0]).prop_map(secs);
    let connect = prop::sample::select(vec![
        Connect::Eager,
        Connect::Background,
        Connect::OnFirstList,
        Connect::OnFirstCall,
    ]);
    let changed = prop::sample::select(vec![
        OnListChanged::Refresh,
        OnListChanged::MarkStale,
        OnListChanged::Ignore,
    ]);
    let times = (period(), period(), period(), period(), period());
    (connect, changed, 0u32..4, 0u32..4, times).prop_map(
        |(connect, on_list_changed, retry, reconnect, times)| {
            let mut settings = minion();
            settings.retry.max = retry;
            settings.reconnect.max = reconnect;
            let (ping_every, stale_after, hold_off, idle, ttl) = times;
            Settings {
                connect,
                on_list_changed,
                ping_every,
                stale_after,
                hold_off,
                idle,
                ttl,
                ..settings
            }
        },
    )
}

/// Watches the sessions that a life opens and ends.
#[derive(Default)]
struct Watch {
    open: Option<Link>,
    newest: Link,
}

impl Watch {
    /// What has failed is over by itself.
    fn hears(&mut self, life: &Life, event: &Event) {
        if let Down(link, _) = event
            && self.open == Some(*link)
            && matches!(life.state(), State::Connecting | State::Reconnecting)
        {
            self.open = None;
        }
    }

    fn sees(&mut self, effects: &[Effect]) -> Result<(), TestCaseError> {
        for effect in effects {
            match effect {
                Effect::Connect(link) => {
                    prop_assert_eq!(self.open, None, "two at a time");
                    prop_assert!(*link > self.newest, "a session is opened once");
                    self.newest = *link;
                    self.open = Some(*link);
                }
                Effect::Close(link) | Effect::Kill(link) => {
                    if self.open == Some(*link) {
                        self.open = None;
                    }
                }
                Effect::Ping(link) | Effect::Discover(link) => {
                    prop_assert_eq!(self.open, Some(*link), "nobody is there");
                }
                Effect::Announce => {}
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn whatever_happens_rules_hold_and_a_retired_life_ends(
        settings in any_settings(),
        events in prop::collection::vec((0.0f64..20.0, 0.0f64..1.0, any_event()), 0..60),
    ) {
        let mut life = Life::new(true);
        let mut now = moment(0.0);
        let mut watch = Watch::default();
        for (wait, chance, (current, event)) in events {
            now = now.after(secs(wait));
            let link = Link(life.link.0.saturating_sub(u64::from(!current)));
            let event = about(event, link);
            watch.hears(&life, &event);
            let effects;
            (life, effects) = step(life, event, &settings, now, chance);
            watch.sees(&effects)?;
            // What is open is what the life says is open.
            prop_assert_eq!(life.link(), watch.open);
            let most = match life.phase {
                Phase::Connecting { run, .. } | Phase::Backoff { run, .. } => match run.cause {
                    Cause::Start => settings.retry.max,
                    Cause::Loss => settings.reconnect.max,
                },
                _ => (settings.retry.max + 1).max(settings.reconnect.max),
            };
            prop_assert!(life.attempts() <= most, "{} > {}", life.attempts(), most);
            if let Phase::Backoff { until, .. } = life.phase {
                let longest = settings.retry.backoff.max_delay.max(settings.reconnect.backoff.max_delay);
                prop_assert!(until <= now.after(longest));
            }
        }
        let effects;
        (life, effects) = step(life, Retire, &settings, now, 0.5);
        watch.sees(&effects)?;
        if let Some(wake) = life.wake(&settings).filter(|_| !life.is_over()) {
            let effects;
            (life, effects) = step(life, Tick, &settings, wake.max(now), 0.5);
            watch.sees(&effects)?;
            // The lists may grow old before the limit is reached.
            if let Some(wake) = life.wake(&settings) {
                let effects;
                (life, effects) = step(life, Tick, &settings, wake, 0.5);
                watch.sees(&effects)?;
            }
        }
        prop_assert!(life.is_over());
        prop_assert_eq!(life.state(), State::Stopped);
        prop_assert_eq!(watch.open, None);
    }

    #[test]
    fn a_tick_that_was_due_is_not_due_again_at_once(
        settings in any_settings(),
        events in prop::collection::vec((0.0f64..5.0, any_event()), 0..40),
    ) {
        let mut life = Life::new(true);
        let mut now = moment(0.0);
        for (wait, (_, event)) in events {
            now = now.after(secs(wait));
            let event = about(event, life.link);
            (life, _) = step(life, event, &settings, now, 0.5);
            let mut ticks = 0;
            while life.wake(&settings).is_some_and(|wake| wake <= now) {
                (life, _) = step(life, Tick, &settings, now, 0.5);
                ticks += 1;
                prop_assert!(ticks < 3, "it never sleeps");
            }
        }
    }
}
