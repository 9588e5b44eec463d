//! Lives at random: rules that hold whatever happens.

use proptest::prelude::*;

use super::*;
use Event::{
    Begin, Compared, Connected, Disable, Disconnect, Down, Enable, InFlight, ListChanged, Listed,
    Refresh, Restart, Retire, Silent, Tick, Traffic, Used, Wanted,
};

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
        Compared(link),
        Tick,
        Tick,
        Tick,
        Event::Connect,
        Disconnect,
        Restart,
        Event::Retry,
        Event::Release,
        Refresh,
        Enable,
        Disable,
    ]);
    let event = prop_oneof![
        6 => simple,
        3 => any_failure().prop_map(move |failure| Down(link, failure)),
        1 => any_failure().prop_map(move |failure| Silent(link, failure)),
        1 => any_failure().prop_map(move |failure| Event::Diagnosed(link, failure)),
        1 => any_failure().prop_map(move |failure| Listed(link, Err(failure))),
        1 => (0u32..3).prop_map(InFlight),
        1 => any::<Duration>().prop_map(|at| Used(Moment(at))),
        1 => any::<Duration>().prop_map(move |at| Traffic(link, Moment(at))),
    ];
    (prop::bool::weighted(0.9), event)
}

fn about(event: Event, link: Link) -> Event {
    match event {
        Connected(_) => Connected(link),
        Down(_, failure) => Down(link, failure),
        Silent(_, failure) => Silent(link, failure),
        Event::Diagnosed(_, failure) => Event::Diagnosed(link, failure),
        Traffic(_, at) => Traffic(link, at),
        Listed(_, outcome) => Listed(link, outcome),
        ListChanged(_) => ListChanged(link),
        Compared(_) => Compared(link),
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
        let is_opening =
            matches!(life.phase, Phase::Connecting { .. } | Phase::TryingContentLength { .. });
        if let Down(link, _) | Silent(link, _) = event
            && self.open == Some(*link)
            && is_opening
        {
            self.open = None;
        }
    }

    fn sees(&mut self, effects: &[Effect]) -> Result<(), TestCaseError> {
        for effect in effects {
            match effect {
                Effect::Connect(link) | Effect::ConnectContentLength(link) => {
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
                Effect::Ping(link) | Effect::Discover(link) | Effect::Compare(link) => {
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
                    Cause::Start | Cause::Demand => settings.retry.max,
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
