//! Tests of the state machine: timed events in, states and effects out.

mod catalog_refresh;
mod content_length;
mod random_events;
mod retries;
mod shutdown;

use std::sync::Arc;

use toolcrib_config::model::policy::{Policy, SessionScope};
use toolcrib_config::model::units::Period;

use super::*;
use crate::conn::state::{ConnAvailability, StateVocabulary};
use crate::transport::{HttpFault, LinkFault};

/// Replays events and compares the transitions. Both arguments are comma-separated: events as `<seconds>
/// <event><session number>`, transitions as `<seconds> <state> <effects>`. Due ticks are inserted. Announcements are
/// left out; they have their own test.
fn check(settings: &ConnSettings, events: &str, expected: &str) -> ConnLifecycle {
    let (lifecycle, lines) = replay(settings, events);
    let expected: Vec<_> = expected.split(',').map(str::trim).collect();
    assert_eq!(lines, expected, "{events}");
    lifecycle
}

fn replay(settings: &ConnSettings, events: &str) -> (ConnLifecycle, Vec<String>) {
    let mut lifecycle = ConnLifecycle::new(true);
    let mut lines = Vec::new();
    for (at, event) in events.split(',').map(parse_event) {
        while let Some(due) = lifecycle.wake(settings).filter(|due| *due < at) {
            lifecycle = apply_event(lifecycle, ConnEvent::Tick, settings, due, &mut lines);
        }
        lifecycle = apply_event(lifecycle, event, settings, at, &mut lines);
    }
    (lifecycle, lines)
}

fn apply_event(
    lifecycle: ConnLifecycle,
    event: ConnEvent,
    settings: &ConnSettings,
    at: MonotonicTime,
    lines: &mut Vec<String>,
) -> ConnLifecycle {
    let (lifecycle, effects) = step(lifecycle, event, settings, at, 0.5);
    let mut line = format!("{} {}", at.0.as_secs_f64(), lifecycle.state().as_str());
    for effect in effects {
        let (name, number) = match effect {
            Effect::Connect(number) => ("open", number),
            Effect::ConnectWithContentLength(number) => ("framed", number),
            Effect::Close(number) => ("close", number),
            Effect::Kill(number) => ("kill", number),
            Effect::Ping(number) => ("ping", number),
            Effect::ReadCatalog(number) => ("discover", number),
            Effect::CompareCatalog(number) => ("compare", number),
            Effect::Announce => continue,
        };
        line += &format!(" {name}{}", number.0);
    }
    lines.push(line);
    lifecycle
}

fn parse_event(text: &str) -> (MonotonicTime, ConnEvent) {
    let (at, word) = text.trim().split_once(' ').unwrap();
    let at = moment(at.parse().unwrap());
    let end = word.find(|c: char| c.is_ascii_digit()).unwrap_or(word.len());
    let number: u64 = word[end..].parse().unwrap_or_default();
    let number = SessionNumber(number);
    let down = |kind| ConnEvent::Down(number, Failure::new(kind, "x"));
    let event = match &word[..end] {
        "begin" => ConnEvent::Start,
        "list" => ConnEvent::Demanded(Demand::List),
        "call" => ConnEvent::Demanded(Demand::Call),
        "up" => ConnEvent::Connected(number),
        "down" => down(FailureKind::Connection),
        "gone" => {
            let fault = LinkFault { operation: "x", cause: Arc::new(HttpFault::SessionGone) };
            ConnEvent::Down(number, Failure::from(&fault))
        }
        "timeout" => down(FailureKind::Timeout),
        "silent" => ConnEvent::SilentStart(number, Failure::new(FailureKind::Timeout, "silent")),
        "diagnosed" => {
            ConnEvent::Diagnosed(number, Failure::new(FailureKind::Timeout, "diagnosed"))
        }
        "config" => down(FailureKind::Config),
        "auth" => down(FailureKind::Authentication),
        "protocol" => down(FailureKind::Protocol),
        "resource" => down(FailureKind::Resource),
        "heard" => ConnEvent::Traffic(number, at),
        "busy" => ConnEvent::InFlight(u32::try_from(number.0).unwrap()),
        "listed" => ConnEvent::CatalogRead(number, Ok(())),
        "unlisted" => ConnEvent::CatalogRead(number, Err(Failure::new(FailureKind::Protocol, "x"))),
        "changed" => ConnEvent::ListChanged(number),
        "compared" => ConnEvent::CatalogCompared(number),
        "tick" => ConnEvent::Tick,
        "connect" => ConnEvent::Connect,
        "disconnect" => ConnEvent::Disconnect,
        "restart" => ConnEvent::Restart,
        "retry" => ConnEvent::Retry,
        "release" => ConnEvent::Release,
        "refresh" => ConnEvent::Refresh,
        "enable" => ConnEvent::Enable,
        "disable" => ConnEvent::Disable,
        "retire" => ConnEvent::Retire,
        other => panic!("{other}"),
    };
    (at, event)
}

/// Returns all prefixes of the events.
fn event_prefixes<const N: usize>(events: [&str; N]) -> [String; N] {
    std::array::from_fn(|n| events[..=n].join(","))
}

fn moment(at: f64) -> MonotonicTime {
    MonotonicTime(secs(at))
}

fn secs(secs: f64) -> Duration {
    Duration::from_secs_f64(secs)
}

/// Minion's settings: 3 retries after 1, 2 and 4 seconds.
fn minion() -> ConnSettings {
    let mut policy = Policy::default();
    policy.lifecycle.connect = Connect::OnFirstCall;
    policy.lifecycle.retry.max = 3;
    policy.lifecycle.retry.jitter = 0.0;
    policy.lifecycle.reconnect.max = 3;
    policy.lifecycle.reconnect.jitter = 0.0;
    policy.session.scope = SessionScope::Shared;
    policy.discovery.on_list_changed = OnListChanged::MarkStale;
    ConnSettings::from_policy(&policy, Some(Period::secs(30)))
}

/// Docker's settings: `attempts` in total, 2 seconds apart.
fn docker(attempts: u32) -> ConnSettings {
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

/// Dispatch's settings: no retries and a hold-off of 30 seconds.
fn dispatch() -> ConnSettings {
    let mut settings = minion();
    settings.connect = Connect::OnFirstList;
    settings.retry.max = 0;
    settings.reconnect.max = 0;
    settings.hold_off = secs(30.0);
    settings
}

/// HoloDeck's settings: reconnects only on the next call or list.
fn holodeck() -> ConnSettings {
    ConnSettings { hold_off: Duration::ZERO, ..dispatch() }
}

#[test]
fn policy_maps_to_settings() {
    let mut policy = Policy::default();
    policy.lifecycle.reconnect.auto = false;
    let settings = ConnSettings::from_policy(&policy, Some(Period::secs(7)));
    assert_eq!(settings.retry.max, 5);
    assert_eq!(settings.reconnect.max, 0, "MIN-63");
    assert_eq!(settings.drain_kill, Some(secs(7.0)));
    assert_eq!(ConnSettings::from_policy(&policy, None).drain_kill, None, "DOM-96");
    assert_eq!(settings.idle, secs(600.0));
    policy.lifecycle.drain_kill = Some(Period::secs(3));
    policy.session.scope = SessionScope::Shared;
    let settings = ConnSettings::from_policy(&policy, Some(Period::secs(7)));
    assert_eq!((settings.drain_kill, settings.idle), (Some(secs(3.0)), secs(0.0)));
}

#[test]
fn min_28_to_31_and_dis_18_state_labels_of_each_vocabulary() {
    let (events, words): (Vec<_>, Vec<_>) = [
        ("0 begin", ("disconnected", "disconnected")),
        ("0 call", ("connecting", "connecting")), // MIN-29
        ("0 down1", ("error", "error")),          // MIN-30
        ("1 tick", ("connecting", "connecting")),
        ("1 up2", ("connected", "connected")),
        ("2 down2", ("reconnecting", "error")), // MIN-31
        ("3 tick", ("reconnecting", "error")),
        ("3 auth3", ("error", "error")),
        ("4 connect", ("connecting", "connecting")),
        ("4 up4", ("connected", "connected")),
        ("5 disconnect", ("disconnected", "disconnected")),
        ("6 disable", ("unknown", "disabled")), // MIN-28
    ]
    .into_iter()
    .unzip();
    let events: [&str; 12] = events.try_into().unwrap();
    for (events, expected) in event_prefixes(events).iter().zip(words) {
        let (lifecycle, _) = replay(&minion(), events);
        let words = (
            lifecycle.state_label(StateVocabulary::Minion),
            lifecycle.state_label(StateVocabulary::Dispatch),
        );
        assert_eq!(words, expected, "{events}");
        assert_eq!(lifecycle.state_label(StateVocabulary::Plain), lifecycle.state().as_str());
    }
}

#[test]
fn only_visible_changes_are_announced() {
    let settings = ConnSettings { ping_every: secs(10.0), ..docker(3) };
    let mut lifecycle = ConnLifecycle::new(true);
    for (event, announced) in [
        ("0 begin", true),
        ("0 begin", false),
        ("1 up1", true),
        ("11 tick", false),
        ("11.1 heard1", false),
        ("11.2 busy1", false),
        ("12 refresh", true),
        ("13 unlisted1", true),
        ("14 down1", true),
        ("16 tick", true),
        ("16.1 down2", true),
    ] {
        let (at, read) = parse_event(event);
        let effects;
        (lifecycle, effects) = step(lifecycle, read, &settings, at, 0.5);
        assert_eq!(effects.contains(&Effect::Announce), announced, "{event}");
    }
}
