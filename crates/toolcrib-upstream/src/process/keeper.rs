//! The keeper: the one thread that starts all children of an instance, writes its ledger and reaps its dead.
//!
//! The kernel ends a child when the *thread* that started it ends, so no worker of some runtime may start one.

use std::collections::BTreeMap;
use std::io;
use std::process::{ChildStdin, ChildStdout};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal as Kill, WaitOptions, getpgrp, waitpid};
use tokio::process::ChildStderr;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::child::{Child, Life};
use super::containment::{Guarantee, Held};
use super::error::SpawnError;
use super::family::Family;
use super::guest::{Ending, Guest, Home, Lodging};
use super::launch::Launch;
use super::leash::Leash;
use super::ledger::{Entry, Ledger};
use super::mark::Mark;
use super::minder::{Buried, Minder};
use super::orphans::{adopted, is_ownerless};
use super::spawn::spawn;
use super::stderr::StderrTail;
use super::sys::{self, Born, Cgroup, Process};

/// How long a closing keeper waits for killed children. What takes longer stays in the ledger.
const WIND_DOWN: Duration = Duration::from_secs(5);

/// How often a closing keeper looks whether what it killed has gone.
const POLL: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(crate) enum Request {
    Spawn {
        launch: Launch,
        reply: oneshot::Sender<Result<Newborn, SpawnError>>,
    },
    Lodge {
        engine: String,
        home: Home,
        ending: Ending,
        /// For what the handle will have to say later; weak, because a handle is no instance.
        desk: mpsc::WeakSender<Request>,
        reply: oneshot::Sender<io::Result<Lodging>>,
    },
    Moved {
        guest: Guest,
        reply: oneshot::Sender<io::Result<()>>,
    },
    Close,
}

/// A child whose pipes are not yet bound to a runtime: that is the caller's.
#[derive(Debug)]
pub(crate) struct Newborn {
    pub(crate) child: Child,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
}

/// What a keeper works with.
#[derive(Debug)]
pub(crate) struct Tools {
    pub(crate) ledger: Ledger,
    /// The instance's cgroup.
    pub(crate) cgroup: Option<Cgroup>,
    /// Tells what is guaranteed.
    pub(crate) hold: watch::Sender<Held>,
    /// Whether to adopt orphans where there is no cgroup.
    pub(crate) adopts: bool,
}

/// A child that is minded.
#[derive(Debug)]
struct Alive {
    leash: Arc<Leash>,
    pid: u32,
    start: u64,
}

#[derive(Debug)]
pub(crate) struct Keeper {
    ledger: Ledger,
    cgroup: Option<Cgroup>,
    hold: watch::Sender<Held>,
    adopts: bool,
    requests: mpsc::Receiver<Request>,
    next_session: u64,
    children: BTreeMap<Mark, Alive>,
    /// When the first child began: no orphan is older.
    first_start: Option<u64>,
    /// The look for adopted orphans that is under way, and whether another is to follow.
    looks: JoinSet<io::Result<Vec<Process>>>,
    look_again: bool,
    minders: JoinSet<Buried>,
    sigchld: Signal,
    /// Passes SIGCHLD on to every minder.
    deaths: watch::Sender<()>,
    /// Tells the minders of guests that the host ends.
    closing: watch::Sender<bool>,
}

impl Keeper {
    /// Must be called, and run, on the keeper's own thread.
    pub(crate) fn new(tools: Tools, requests: mpsc::Receiver<Request>) -> io::Result<Self> {
        let Tools { ledger, cgroup, hold, adopts } = tools;
        Ok(Self {
            ledger,
            cgroup,
            hold,
            adopts,
            requests,
            next_session: 1,
            children: BTreeMap::new(),
            first_start: None,
            looks: JoinSet::new(),
            look_again: false,
            minders: JoinSet::new(),
            sigchld: signal(SignalKind::child())?,
            deaths: watch::Sender::new(()),
            closing: watch::Sender::new(false),
        })
    }

    /// Until it is asked to close, or nobody is left who could ask for anything; then ends all that lives.
    pub(crate) async fn run(mut self) {
        loop {
            tokio::select! {
                request = self.requests.recv() => match request {
                    Some(Request::Spawn { launch, reply }) => {
                        // If the caller has gone meanwhile, the answer is dropped here, and the child with it.
                        let _ = reply.send(self.spawn(&launch));
                    }
                    Some(Request::Lodge { engine, home, ending, desk, reply }) => {
                        // If the caller has gone meanwhile, the handle is dropped here, and the note with it.
                        let _ = reply.send(self.lodge(engine, home, ending, desk));
                    }
                    Some(Request::Moved { guest, reply }) => {
                        let _ = reply.send(self.ledger.lodge(guest));
                    }
                    Some(Request::Close) | None => break,
                },
                () = next_death(&mut self.sigchld, &self.deaths) => self.look_for_orphans(),
                Some(buried) = self.minders.join_next() => self.buried(buried),
                Some(table) = self.looks.join_next() => self.looked(table),
            }
        }
        self.requests.close();
        self.children.values().for_each(|child| child.leash.abandon());
        self.closing.send_replace(true);
        let _ = timeout(WIND_DOWN, self.bury_all()).await;
        let _ = timeout(WIND_DOWN, self.end_orphans()).await;
        if timeout(WIND_DOWN, self.end_cgroup()).await.is_err() {
            return warn!("processes do not end; the next start will try again");
        }
        if let Err(error) = self.ledger.close() {
            warn!(%error, "cannot remove the ledger of children");
        }
    }

    async fn bury_all(&mut self) {
        while !self.minders.is_empty() {
            tokio::select! {
                () = next_death(&mut self.sigchld, &self.deaths) => {}
                Some(buried) = self.minders.join_next() => self.buried(buried),
            }
        }
    }

    /// Kills what is left in the instance's cgroup, and removes it.
    async fn end_cgroup(&mut self) {
        let Some(cgroup) = self.cgroup.take() else { return };
        while let Err(error) = cgroup.kill().and_then(|()| cgroup.remove()) {
            debug!(%error, "the host's cgroup is still there");
            sleep(POLL).await;
        }
    }

    fn adopts_orphans(&self) -> bool {
        self.hold.borrow().guarantee == Guarantee::Subreaper
    }

    /// Looks beside the keeper's other work, one look at a time.
    fn look_for_orphans(&mut self) {
        let Some(start) = self.first_start.filter(|_| self.adopts_orphans()) else { return };
        self.look_again = !self.looks.is_empty();
        if !self.look_again {
            self.looks.spawn_blocking(move || sys::processes(start));
        }
    }

    fn looked(&mut self, table: Result<io::Result<Vec<Process>>, JoinError>) {
        if let Ok(Ok(table)) = table {
            let living: Vec<u64> = self.children.values().map(|child| child.start).collect();
            self.end_ownerless(table, &living);
        }
        if std::mem::take(&mut self.look_again) {
            self.look_for_orphans();
        }
    }

    /// Kills adopted orphans that none of `living` can have started, and takes dead ones out of the process table;
    /// how many were killed. The children are asked for now, not when the table was read: nobody else starts one.
    fn end_ownerless(&self, table: Vec<Process>, living: &[u64]) -> usize {
        let leaders: Vec<u32> = self.children.values().map(|child| child.pid).collect();
        let mut killed = 0;
        for orphan in adopted(table, std::process::id(), sys::number(getpgrp()), &leaders) {
            if orphan.zombie {
                let pid = i32::try_from(orphan.pid).ok().and_then(Pid::from_raw);
                // It fails only if somebody else has reaped it, which is as good.
                let _ = pid.map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
            } else if is_ownerless(&orphan, living) {
                killed += 1;
                // Whom we may not signal is seen again.
                let _ = sys::signal(&orphan, Kill::KILL);
            }
        }
        killed
    }

    /// All orphans end with the host, whoever started them.
    async fn end_orphans(&mut self) {
        let Some(start) = self.first_start.filter(|_| self.adopts_orphans()) else { return };
        loop {
            let table = tokio::task::spawn_blocking(move || sys::processes(start)).await;
            if let Ok(Ok(table)) = table
                && self.end_ownerless(table, &[]) == 0
            {
                return;
            }
            sleep(POLL).await;
        }
    }

    /// The ledger knows of the child before it exists: if the host is killed in between, the mark in the
    /// child's environment leads to it.
    fn spawn(&mut self, launch: &Launch) -> Result<Newborn, SpawnError> {
        let mark = self.next_mark();
        let entry = Entry { mark, program: launch.name(), leader: None };
        self.ledger.enter(entry.clone()).map_err(SpawnError::Ledger)?;
        let cgroup = self.make_cgroup(mark);
        let born = spawn(launch, mark, cgroup.as_ref()).inspect_err(|_| {
            self.strike_out(mark);
            cgroup.as_ref().map(Cgroup::remove);
        })?;
        let cgroup = self.joined(cgroup, &born);
        // It cannot have gone: nobody has reaped it yet.
        let leader = sys::identity_in(self.ledger.realm().clone(), sys::number(born.pid));
        let start = leader.as_ref().map_or(0, |leader| leader.start);
        let noted =
            leader.and_then(|leader| self.ledger.enter(Entry { leader: Some(leader), ..entry }));
        if let Err(error) = noted {
            warn!(%mark, %error, "cannot note a child's pid; its mark must do");
        }
        self.first_start.get_or_insert(start);
        self.raise(born, start, mark, cgroup, launch)
    }

    fn make_cgroup(&self, mark: Mark) -> Option<Cgroup> {
        let made = self.cgroup.as_ref()?.create_child(mark.session);
        made.inspect_err(|error| warn!(%mark, %error, "cannot make a cgroup for a child")).ok()
    }

    /// The child's cgroup if the child is in it. One child that is in none lowers what is guaranteed.
    fn joined(&mut self, cgroup: Option<Cgroup>, born: &Born) -> Option<Cgroup> {
        if born.is_in_cgroup {
            return cgroup;
        }
        if let Some(Err(error)) = cgroup.as_ref().map(Cgroup::remove) {
            debug!(%error, "an empty cgroup stays until the host ends");
        }
        if self.hold.borrow().guarantee == Guarantee::Cgroup {
            let why = "a child could not be put into its cgroup".to_owned();
            self.hold.send_replace(Held::without_cgroup(why, self.adopts));
        }
        None
    }

    /// Gives the new process a minder and its caller a handle. If this fails, the handle is dropped, which kills
    /// the process, and the minder buries it.
    fn raise(
        &mut self,
        born: Born,
        start: u64,
        mark: Mark,
        cgroup: Option<Cgroup>,
        launch: &Launch,
    ) -> Result<Newborn, SpawnError> {
        let leash = Arc::new(Leash::new(born.pid));
        let (stop, stop_asked) = oneshot::channel();
        let (life, life_seen) = watch::channel(Life::Running);
        let tail = StderrTail::new(launch.stderr_limit);
        let newborn = Newborn {
            stdin: born.stdin,
            stdout: born.stdout,
            child: Child::new(
                sys::number(born.pid),
                mark,
                tail.clone(),
                Arc::clone(&leash),
                stop,
                life_seen,
            ),
        };
        let mut stderr = JoinSet::new();
        let piped = ChildStderr::from_std(born.stderr);
        let drained = piped.map(|pipe| stderr.spawn(tail.drain(pipe)));

        let family = Family {
            leader: born.pid,
            mark,
            start,
            leash: Arc::clone(&leash),
            cgroup,
            deaths: self.deaths.subscribe(),
        };
        let minder = Minder { family, graces: launch.graces, stop: stop_asked, life, stderr };
        self.minders.spawn(minder.mind());
        self.children.insert(mark, Alive { leash, pid: sys::number(born.pid), start });
        match drained {
            Ok(_) => Ok(newborn),
            Err(cause) => Err(SpawnError::Other { program: launch.name(), cause }),
        }
    }

    /// The ledger knows of a guest before it can exist, as with children.
    fn lodge(
        &mut self,
        engine: String,
        home: Home,
        ending: Ending,
        desk: mpsc::WeakSender<Request>,
    ) -> io::Result<Lodging> {
        let guest = Guest { mark: self.next_mark(), engine, home };
        self.ledger.lodge(guest.clone())?;
        let (lodging, host) = Lodging::new(guest, desk, ending, self.closing.subscribe());
        self.minders.spawn(host.mind());
        Ok(lodging)
    }

    fn next_mark(&mut self) -> Mark {
        let mark = Mark { instance: self.ledger.instance(), session: self.next_session };
        self.next_session += 1;
        mark
    }

    fn buried(&mut self, buried: Result<Buried, JoinError>) {
        let Ok(Buried { mark, all_gone }) = buried else {
            return;
        };
        self.children.remove(&mark);
        if all_gone {
            self.strike_out(mark);
        }
        self.look_for_orphans();
    }

    fn strike_out(&mut self, mark: Mark) {
        if let Err(error) = self.ledger.ended(mark) {
            warn!(%mark, %error, "cannot note a child's end");
        }
    }
}

async fn next_death(sigchld: &mut Signal, deaths: &watch::Sender<()>) {
    sigchld.recv().await;
    deaths.send_replace(());
}
