//! Invariants of the state machine under random events.

use proptest::prelude::*;

use super::*;
use ConnEvent::{
    CatalogCompared, CatalogRead, Connected, Demanded, Disable, Disconnect, Down, Enable, InFlight,
    LastUsed, ListChanged, Refresh, Restart, Retire, SilentStart, Start, Tick, Traffic,
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

/// An event, and whether it concerns the newest session or the one before.
fn any_event() -> impl Strategy<Value = (bool, ConnEvent)> {
    let number = SessionNumber(0);
    let simple = prop::sample::select(vec![
        Start,
        Demanded(Demand::List),
        Demanded(Demand::Call),
        Connected(number),
        Connected(number),
        Connected(number),
        ListChanged(number),
        CatalogRead(number, Ok(())),
        CatalogCompared(number),
        Tick,
        Tick,
        Tick,
        ConnEvent::Connect,
        Disconnect,
        Restart,
        ConnEvent::Retry,
        ConnEvent::Release,
        Refresh,
        Enable,
        Disable,
    ]);
    let event = prop_oneof![
        6 => simple,
        3 => any_failure().prop_map(move |failure| Down(number, failure)),
        1 => any_failure().prop_map(move |failure| SilentStart(number, failure)),
        1 => any_failure().prop_map(move |failure| ConnEvent::Diagnosed(number, failure)),
        1 => any_failure().prop_map(move |failure| CatalogRead(number, Err(failure))),
        1 => (0u32..3).prop_map(InFlight),
        1 => any::<Duration>().prop_map(|at| LastUsed(MonotonicTime(at))),
        1 => any::<Duration>().prop_map(move |at| Traffic(number, MonotonicTime(at))),
    ];
    (prop::bool::weighted(0.9), event)
}

fn with_number(event: ConnEvent, number: SessionNumber) -> ConnEvent {
    match event {
        Connected(_) => Connected(number),
        Down(_, failure) => Down(number, failure),
        SilentStart(_, failure) => SilentStart(number, failure),
        ConnEvent::Diagnosed(_, failure) => ConnEvent::Diagnosed(number, failure),
        Traffic(_, at) => Traffic(number, at),
        CatalogRead(_, outcome) => CatalogRead(number, outcome),
        ListChanged(_) => ListChanged(number),
        CatalogCompared(_) => CatalogCompared(number),
        other => other,
    }
}

fn any_settings() -> impl Strategy<Value = ConnSettings> {
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
            ConnSettings {
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

/// Tracks the sessions that the effects open and close.
#[derive(Default)]
struct SessionObserver {
    open: Option<SessionNumber>,
    newest: SessionNumber,
}

impl SessionObserver {
    /// A failed attempt is closed.
    fn observe_event(&mut self, lifecycle: &ConnLifecycle, event: &ConnEvent) {
        let is_opening =
            matches!(lifecycle.phase, Phase::Connecting { .. } | Phase::TryingContentLength { .. });
        if let Down(number, _) | SilentStart(number, _) = event
            && self.open == Some(*number)
            && is_opening
        {
            self.open = None;
        }
    }

    fn observe_effects(&mut self, effects: &[Effect]) -> Result<(), TestCaseError> {
        for effect in effects {
            match effect {
                Effect::Connect(number) | Effect::ConnectWithContentLength(number) => {
                    prop_assert_eq!(self.open, None, "two sessions at a time");
                    prop_assert!(*number > self.newest, "a session number is used once");
                    self.newest = *number;
                    self.open = Some(*number);
                }
                Effect::Close(number) | Effect::Kill(number) => {
                    if self.open == Some(*number) {
                        self.open = None;
                    }
                }
                Effect::Ping(number)
                | Effect::ReadCatalog(number)
                | Effect::CompareCatalog(number) => {
                    prop_assert_eq!(self.open, Some(*number), "no session is open");
                }
                Effect::Announce => {}
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn random_events_keep_invariants_and_retire_ends(
        settings in any_settings(),
        events in prop::collection::vec((0.0f64..20.0, 0.0f64..1.0, any_event()), 0..60),
    ) {
        let mut lifecycle = ConnLifecycle::new(true);
        let mut now = moment(0.0);
        let mut observer = SessionObserver::default();
        for (wait, chance, (current, event)) in events {
            now = now.after(secs(wait));
            let number = SessionNumber(lifecycle.newest_session.0.saturating_sub(u64::from(!current)));
            let event = with_number(event, number);
            observer.observe_event(&lifecycle, &event);
            let effects;
            (lifecycle, effects) = step(lifecycle, event, &settings, now, chance);
            observer.observe_effects(&effects)?;
            // The open session matches the state.
            prop_assert_eq!(lifecycle.session_number(), observer.open);
            let most = match lifecycle.phase {
                Phase::Connecting { series, .. } | Phase::Backoff { series, .. } => match series.cause {
                    ConnectCause::Start | ConnectCause::Demand => settings.retry.max,
                    ConnectCause::Loss => settings.reconnect.max,
                },
                _ => (settings.retry.max + 1).max(settings.reconnect.max),
            };
            prop_assert!(lifecycle.attempts() <= most, "{} > {}", lifecycle.attempts(), most);
            if let Phase::Backoff { until, .. } = lifecycle.phase {
                let longest = settings.retry.backoff.max_delay.max(settings.reconnect.backoff.max_delay);
                prop_assert!(until <= now.after(longest));
            }
        }
        let effects;
        (lifecycle, effects) = step(lifecycle, Retire, &settings, now, 0.5);
        observer.observe_effects(&effects)?;
        if let Some(wake) = lifecycle.wake(&settings).filter(|_| !lifecycle.is_over()) {
            let effects;
            (lifecycle, effects) = step(lifecycle, Tick, &settings, wake.max(now), 0.5);
            observer.observe_effects(&effects)?;
            // The lists may expire before the limit.
            if let Some(wake) = lifecycle.wake(&settings) {
                let effects;
                (lifecycle, effects) = step(lifecycle, Tick, &settings, wake, 0.5);
                observer.observe_effects(&effects)?;
            }
        }
        prop_assert!(lifecycle.is_over());
        prop_assert_eq!(lifecycle.state(), ServerState::Stopped);
        prop_assert_eq!(observer.open, None);
    }

    #[test]
    fn due_tick_is_not_due_again_at_once(
        settings in any_settings(),
        events in prop::collection::vec((0.0f64..5.0, any_event()), 0..40),
    ) {
        let mut lifecycle = ConnLifecycle::new(true);
        let mut now = moment(0.0);
        for (wait, (_, event)) in events {
            now = now.after(secs(wait));
            let event = with_number(event, lifecycle.newest_session);
            (lifecycle, _) = step(lifecycle, event, &settings, now, 0.5);
            let mut ticks = 0;
            while lifecycle.wake(&settings).is_some_and(|wake| wake <= now) {
                (lifecycle, _) = step(lifecycle, Tick, &settings, now, 0.5);
                ticks += 1;
                prop_assert!(ticks < 3, "the state machine never sleeps");
            }
        }
    }
}
