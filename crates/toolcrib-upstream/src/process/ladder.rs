//! The stop ladder: how a child is brought to its end, step by step.

use std::time::Duration;

use super::launch::Graces;

/// Where on the ladder a child is. `Running` is the ground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rung {
    Running,
    StdinClosed,
    Terminate,
    Kill,
}

/// What happened to the child since the last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    StopAsked,
    /// The leader ended, but some of its family live.
    LeaderGone,
    /// Leader, group and descendants: all ended.
    AllGone,
    GraceOver,
}

/// How the child came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// By itself, at the latest when its stdin was closed.
    Itself,
    /// After SIGTERM.
    Terminated,
    /// After SIGKILL.
    Killed,
}

/// The next rung, or `None` when nothing is left to do.
pub(crate) fn next(rung: Rung, event: Event) -> Option<Rung> {
    match (rung, event) {
        (_, Event::AllGone) | (Rung::Kill, Event::GraceOver) => None,
        (Rung::Running, Event::StopAsked) => Some(Rung::StdinClosed),
        // Nobody is left who could tell the others to end, so they are told at once.
        (Rung::Running | Rung::StdinClosed, Event::LeaderGone) => Some(Rung::Terminate),
        (Rung::StdinClosed, Event::GraceOver) => Some(Rung::Terminate),
        (Rung::Terminate, Event::GraceOver) => Some(Rung::Kill),
        (rung, _) => Some(rung),
    }
}

impl Rung {
    /// `None`: no limit.
    pub(crate) fn grace(self, graces: &Graces) -> Option<Duration> {
        match self {
            Self::Running => None,
            Self::StdinClosed => Some(graces.close),
            Self::Terminate => Some(graces.terminate),
            Self::Kill => Some(graces.kill),
        }
    }

    /// What an end on this rung is put down to.
    pub(crate) fn means(self) -> Means {
        match self {
            Self::Running | Self::StdinClosed => Means::Itself,
            Self::Terminate => Means::Terminated,
            Self::Kill => Means::Killed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows the events from the ground; `None` means that the ladder has ended.
    fn check(events: &[Event], wanted: Option<Rung>) {
        let reached = events.iter().try_fold(Rung::Running, |rung, event| next(rung, *event));
        assert_eq!(reached, wanted, "{events:?}");
    }

    #[test]
    fn each_grace_leads_one_rung_up_and_the_last_one_ends_it() {
        use Event::{GraceOver, StopAsked};
        check(&[], Some(Rung::Running));
        check(&[StopAsked], Some(Rung::StdinClosed));
        check(&[StopAsked, GraceOver], Some(Rung::Terminate));
        check(&[StopAsked, GraceOver, GraceOver], Some(Rung::Kill));
        check(&[StopAsked, GraceOver, GraceOver, GraceOver], None);
    }

    #[test]
    fn it_ends_wherever_all_are_gone() {
        use Event::{AllGone, GraceOver, StopAsked};
        check(&[AllGone], None);
        check(&[StopAsked, AllGone], None);
        check(&[StopAsked, GraceOver, AllGone], None);
        check(&[StopAsked, GraceOver, GraceOver, AllGone], None);
    }

    #[test]
    fn a_family_without_its_leader_is_told_to_end_at_once() {
        use Event::{GraceOver, LeaderGone, StopAsked};
        check(&[LeaderGone], Some(Rung::Terminate));
        check(&[StopAsked, LeaderGone], Some(Rung::Terminate));
        check(&[StopAsked, LeaderGone, GraceOver], Some(Rung::Kill));
        check(&[StopAsked, GraceOver, LeaderGone], Some(Rung::Terminate));
        check(&[LeaderGone, StopAsked], Some(Rung::Terminate));
    }
}
