//! Lives of connections: events with their times in, states and effects out.

mod any;
mod content_length;
mod ending;
mod lists;
mod trying;

use std::sync::Arc;

use toolcrib_config::model::policy::{Policy, SessionScope};
use toolcrib_config::model::units::Period;

use super::*;
use crate::conn::state::{Outlook, Words};
use crate::transport::{HttpFault, LinkFault};

/// Compares a life with what is told of it. Both are lists parted by `,`: events as `<seconds> <event>`, with
/// the number of the session behind the word; what follows as `<seconds> <state> <effects>`. Ticks come by
/// themselves when they are due. Announcements are left out; they have a test of their own.
fn check(settings: &Settings, events: &str, expected: &str) -> Life {
    let (life, lines) = live(settings, events);
    let expected: Vec<_> = expected.split(',').map(str::trim).collect();
    assert_eq!(lines, expected, "{events}");
    life
}

fn live(settings: &Settings, events: &str) -> (Life, Vec<String>) {
    let mut life = Life::new(true);
    let mut lines = Vec::new();
    for (at, event) in events.split(',').map(read) {
        while let Some(due) = life.wake(settings).filter(|due| *due < at) {
            life = one(life, Event::Tick, settings, due, &mut lines);
        }
        life = one(life, event, settings, at, &mut lines);
    }
    (life, lines)
}

fn one(life: Life, event: Event, settings: &Settings, at: Moment, lines: &mut Vec<String>) -> Life {
    let (life, effects) = step(life, event, settings, at, 0.5);
    let mut line = format!("{} {}", at.0.as_secs_f64(), life.state().as_str());
    for effect in effects {
        let (name, link) = match effect {
            Effect::Connect(link) => ("open", link),
            Effect::ConnectContentLength(link) => ("framed", link),
            Effect::Close(link) => ("close", link),
            Effect::Kill(link) => ("kill", link),
            Effect::Ping(link) => ("ping", link),
            Effect::Discover(link) => ("discover", link),
            Effect::Compare(link) => ("compare", link),
            Effect::Announce => continue,
        };
        line += &format!(" {name}{}", link.0);
    }
    lines.push(line);
    life
}

fn read(text: &str) -> (Moment, Event) {
    let (at, word) = text.trim().split_once(' ').unwrap();
    let at = moment(at.parse().unwrap());
    let end = word.find(|c: char| c.is_ascii_digit()).unwrap_or(word.len());
    let number: u64 = word[end..].parse().unwrap_or_default();
    let link = Link(number);
    let down = |kind| Event::Down(link, Failure::new(kind, "x"));
    let event = match &word[..end] {
        "begin" => Event::Begin,
        "list" => Event::Wanted(Want::List),
        "call" => Event::Wanted(Want::Call),
        "up" => Event::Connected(link),
        "down" => down(FailureKind::Connection),
        "gone" => {
            let fault = LinkFault { doing: "x", cause: Arc::new(HttpFault::SessionGone) };
            Event::Down(link, Failure::from(&fault))
        }
        "timeout" => down(FailureKind::Timeout),
        "silent" => Event::Silent(link, Failure::new(FailureKind::Timeout, "silent")),
        "diagnosed" => Event::Diagnosed(link, Failure::new(FailureKind::Timeout, "diagnosed")),
        "config" => down(FailureKind::Config),
        "auth" => down(FailureKind::Authentication),
        "protocol" => down(FailureKind::Protocol),
        "resource" => down(FailureKind::Resource),
        "heard" => Event::Traffic(link, at),
        "busy" => Event::InFlight(u32::try_from(number).unwrap()),
        "listed" => Event::Listed(link, Ok(())),
        "unlisted" => Event::Listed(link, Err(Failure::new(FailureKind::Protocol, "x"))),
        "changed" => Event::ListChanged(link),
        "compared" => Event::Compared(link),
        "tick" => Event::Tick,
        "connect" => Event::Connect,
        "disconnect" => Event::Disconnect,
        "restart" => Event::Restart,
        "retry" => Event::Retry,
        "release" => Event::Release,
        "refresh" => Event::Refresh,
        "enable" => Event::Enable,
        "disable" => Event::Disable,
        "retire" => Event::Retire,
        other => panic!("{other}"),
    };
    (at, event)
}

/// The events up to each, for tests that look at the life after each of them.
fn beginnings<const N: usize>(events: [&str; N]) -> [String; N] {
    std::array::from_fn(|n| events[..=n].join(","))
}

fn moment(at: f64) -> Moment {
    Moment(secs(at))
}

fn secs(secs: f64) -> Duration {
    Duration::from_secs_f64(secs)
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
    Settings::of(&policy, Some(Period::secs(30)))
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

/// HoloDeck's: nothing is tried again but by the next call or list.
fn holodeck() -> Settings {
    Settings { hold_off: Duration::ZERO, ..dispatch() }
}

#[test]
fn policy_becomes_settings() {
    let mut policy = Policy::default();
    policy.lifecycle.reconnect.auto = false;
    let settings = Settings::of(&policy, Some(Period::secs(7)));
    assert_eq!(settings.retry.max, 5);
    assert_eq!(settings.reconnect.max, 0, "MIN-63");
    assert_eq!(settings.drain_kill, Some(secs(7.0)));
    assert_eq!(Settings::of(&policy, None).drain_kill, None, "DOM-96");
    assert_eq!(settings.idle, secs(600.0));
    policy.lifecycle.drain_kill = Some(Period::secs(3));
    policy.session.scope = SessionScope::Shared;
    let settings = Settings::of(&policy, Some(Period::secs(7)));
    assert_eq!((settings.drain_kill, settings.idle), (Some(secs(3.0)), secs(0.0)));
}

#[test]
fn min_28_to_31_and_dis_18_states_in_the_words_of_the_designs() {
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
    for (events, expected) in beginnings(events).iter().zip(words) {
        let (life, _) = live(&minion(), events);
        let words = (life.word(Words::Minion), life.word(Words::Dispatch));
        assert_eq!(words, expected, "{events}");
        assert_eq!(life.word(Words::Plain), life.state().as_str());
    }
}

#[test]
fn only_what_people_see_is_announced() {
    let settings = Settings { ping_every: secs(10.0), ..docker(3) };
    let mut life = Life::new(true);
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
        let (at, read) = read(event);
        let effects;
        (life, effects) = step(life, read, &settings, at, 0.5);
        assert_eq!(effects.contains(&Effect::Announce), announced, "{event}");
    }
}
