//! Minds one child from its birth to its end: watches, leads it down the stop ladder, reaps.

use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::warn;

use super::child::{Ended, Exit, Life};
use super::family::Family;
use super::ladder::{self, Event, Means, Rung};
use super::launch::Graces;
use super::mark::Mark;
use super::sys;

/// A dead leader's stderr is usually at its end; a descendant that holds it open shall not delay the news.
const LAST_WORDS: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Minder {
    pub(crate) family: Family,
    pub(crate) graces: Graces,
    pub(crate) stop: oneshot::Receiver<()>,
    pub(crate) life: watch::Sender<Life>,
    /// The one task that drains stderr.
    pub(crate) stderr: JoinSet<()>,
}

/// A child that needs no more minding.
#[derive(Debug)]
pub(crate) struct Buried {
    pub(crate) mark: Mark,
    /// Otherwise some of its family were given up.
    pub(crate) all_gone: bool,
}

impl Minder {
    pub(crate) async fn mind(mut self) -> Buried {
        let mut rung = Rung::Running;
        let mut deadline = None;
        let mut end = None;
        loop {
            let event = self.next_event(rung, deadline, &mut end).await;
            let Some(next) = ladder::next(rung, event) else {
                return self.bury(end, event == Event::AllGone).await;
            };
            if next != rung {
                rung = next;
                deadline = rung.grace(&self.graces).map(|grace| Instant::now() + grace);
                self.climb(rung).await;
            }
        }
    }

    async fn next_event(
        &mut self,
        rung: Rung,
        deadline: Option<Instant>,
        end: &mut Option<(Means, Exit)>,
    ) -> Event {
        let led = end.is_none();
        tokio::select! {
            exit = self.family.leader_exit(), if led => {
                *end = Some((self.means(rung), exit));
                self.leader_ended(exit).await
            }
            () = self.family.all_gone(rung == Rung::Kill), if !led => Event::AllGone,
            Ok(()) = &mut self.stop, if rung == Rung::Running => Event::StopAsked,
            () = reached(deadline) => Event::GraceOver,
        }
    }

    async fn leader_ended(&mut self, exit: Exit) -> Event {
        let _ = timeout(LAST_WORDS, self.stderr.join_next()).await;
        self.life.send_replace(Life::Exited(exit));
        match self.family.rest().await {
            Ok(rest) if rest.is_empty() => Event::AllGone,
            Ok(_) | Err(_) => Event::LeaderGone,
        }
    }

    fn means(&self, rung: Rung) -> Means {
        if self.family.leash.abandoned() { Means::Killed } else { rung.means() }
    }

    async fn climb(&self, rung: Rung) {
        match rung {
            // The handle has closed stdin before it asked.
            Rung::Running | Rung::StdinClosed => {}
            Rung::Terminate => self.family.signal(Signal::TERM).await,
            Rung::Kill => self.family.signal(Signal::KILL).await,
        }
    }

    /// `end` is `None` if not even the leader has ended.
    async fn bury(self, end: Option<(Means, Exit)>, all_gone: bool) -> Buried {
        let mark = self.family.mark;
        if all_gone && let Some((means, exit)) = end {
            self.family.release();
            self.life.send_replace(Life::Ended(Ended { means, exit, left: Vec::new() }));
            return Buried { mark, all_gone };
        }
        let (means, exit) = end.unwrap_or((Means::Killed, Exit::Unknown));
        let left = self.left(end.is_none()).await;
        warn!(%mark, ?left, "processes do not end; the next start will try again");
        self.life.send_replace(Life::Ended(Ended { means, exit, left }));
        // Nobody waits any more, but a leader shall not stay as a zombie when the kernel lets go of it at last.
        self.family.leader_exit().await;
        self.family.release();
        Buried { mark, all_gone }
    }

    async fn left(&self, with_leader: bool) -> Vec<u32> {
        let rest = self.family.rest().await.unwrap_or_default();
        let leader = with_leader.then(|| sys::number(self.family.leader));
        leader.into_iter().chain(rest.iter().map(|process| process.pid)).collect()
    }
}

async fn reached(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
