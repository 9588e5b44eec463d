//! The stop sequence of a child: close stdin, SIGTERM, SIGKILL. Pure state transitions.

use std::time::Duration;

use super::launch::GracePeriods;

/// Stage of the stop sequence. `Running` is the initial one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopStage {
    Running,
    StdinClosed,
    Terminate,
    Kill,
}

/// Event that may advance the stop sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopEvent {
    StopRequested,
    /// The leader exited, but other processes of its tree still run.
    LeaderExited,
    /// Leader, group and descendants have all exited.
    AllExited,
    GraceExpired,
}

/// The stage of the stop sequence in which a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMethod {
    /// By itself, at the latest after its stdin was closed.
    Voluntary,
    /// After SIGTERM.
    Terminated,
    /// After SIGKILL.
    Killed,
}

/// Returns the next stage, or `None` when the sequence is over.
pub(crate) fn next_stage(stage: StopStage, event: StopEvent) -> Option<StopStage> {
    match (stage, event) {
        (_, StopEvent::AllExited) | (StopStage::Kill, StopEvent::GraceExpired) => None,
        (StopStage::Running, StopEvent::StopRequested) => Some(StopStage::StdinClosed),
        // No leader is left that could shut the others down, so SIGTERM follows at once.
        (StopStage::Running | StopStage::StdinClosed, StopEvent::LeaderExited) => {
            Some(StopStage::Terminate)
        }
        (StopStage::StdinClosed, StopEvent::GraceExpired) => Some(StopStage::Terminate),
        (StopStage::Terminate, StopEvent::GraceExpired) => Some(StopStage::Kill),
        (stage, _) => Some(stage),
    }
}

impl StopStage {
    /// Returns the grace period of this stage. `None` means without limit.
    pub(crate) fn grace(self, graces: &GracePeriods) -> Option<Duration> {
        match self {
            Self::Running => None,
            Self::StdinClosed => Some(graces.close),
            Self::Terminate => Some(graces.terminate),
            Self::Kill => Some(graces.kill),
        }
    }

    /// The stop method that an exit in this stage is attributed to.
    pub(crate) fn method(self) -> StopMethod {
        match self {
            Self::Running | Self::StdinClosed => StopMethod::Voluntary,
            Self::Terminate => StopMethod::Terminated,
            Self::Kill => StopMethod::Killed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies the events from the initial stage. `None` means that the sequence is over.
    fn check(events: &[StopEvent], wanted: Option<StopStage>) {
        let reached =
            events.iter().try_fold(StopStage::Running, |stage, event| next_stage(stage, *event));
        assert_eq!(reached, wanted, "{events:?}");
    }

    #[test]
    fn each_expired_grace_period_advances_one_stage() {
        use StopEvent::{GraceExpired, StopRequested};
        check(&[], Some(StopStage::Running));
        check(&[StopRequested], Some(StopStage::StdinClosed));
        check(&[StopRequested, GraceExpired], Some(StopStage::Terminate));
        check(&[StopRequested, GraceExpired, GraceExpired], Some(StopStage::Kill));
        check(&[StopRequested, GraceExpired, GraceExpired, GraceExpired], None);
    }

    #[test]
    fn sequence_ends_when_all_processes_exited() {
        use StopEvent::{AllExited, GraceExpired, StopRequested};
        check(&[AllExited], None);
        check(&[StopRequested, AllExited], None);
        check(&[StopRequested, GraceExpired, AllExited], None);
        check(&[StopRequested, GraceExpired, GraceExpired, AllExited], None);
    }

    #[test]
    fn processes_without_a_leader_are_terminated_at_once() {
        use StopEvent::{GraceExpired, LeaderExited, StopRequested};
        check(&[LeaderExited], Some(StopStage::Terminate));
        check(&[StopRequested, LeaderExited], Some(StopStage::Terminate));
        check(&[StopRequested, LeaderExited, GraceExpired], Some(StopStage::Kill));
        check(&[StopRequested, GraceExpired, LeaderExited], Some(StopStage::Terminate));
        check(&[LeaderExited, StopRequested], Some(StopStage::Terminate));
    }
}
