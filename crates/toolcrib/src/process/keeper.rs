//! The keeper: the one thread that starts all children of an instance, writes its ledger and reaps its dead.
//!
//! The kernel ends a child when the *thread* that started it ends, so no worker of some runtime may start one.

use std::collections::BTreeMap;
use std::io;
use std::process::{ChildStdin, ChildStdout};
use std::sync::Arc;
use std::time::Duration;

use tokio::process::ChildStderr;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tracing::warn;

use super::child::{Child, Life};
use super::error::SpawnError;
use super::family::Family;
use super::guest::{Ending, Guest, Home, Lodging};
use super::launch::Launch;
use super::leash::Leash;
use super::ledger::{Entry, Ledger};
use super::mark::Mark;
use super::minder::{Buried, Minder};
use super::spawn::spawn;
use super::stderr::StderrTail;
use super::sys::{self, Born};

/// How long a closing keeper waits for killed children. What takes longer stays in the ledger.
const WIND_DOWN: Duration = Duration::from_secs(5);

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

#[derive(Debug)]
pub(crate) struct Keeper {
    ledger: Ledger,
    requests: mpsc::Receiver<Request>,
    next_session: u64,
    leashes: BTreeMap<Mark, Arc<Leash>>,
    minders: JoinSet<Buried>,
    sigchld: Signal,
    /// Passes SIGCHLD on to every minder.
    deaths: watch::Sender<()>,
    /// Tells the minders of guests that the host ends.
    closing: watch::Sender<bool>,
}

impl Keeper {
    /// Must be called, and run, on the keeper's own thread.
    pub(crate) fn new(ledger: Ledger, requests: mpsc::Receiver<Request>) -> io::Result<Self> {
        Ok(Self {
            ledger,
            requests,
            next_session: 1,
            leashes: BTreeMap::new(),
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
                () = next_death(&mut self.sigchld, &self.deaths) => {}
                Some(buried) = self.minders.join_next() => self.buried(buried),
            }
        }
        self.requests.close();
        self.leashes.values().for_each(|leash| leash.abandon());
        self.closing.send_replace(true);
        let _ = timeout(WIND_DOWN, self.bury_all()).await;
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

    /// The ledger knows of the child before it exists: if the host is killed in between, the mark in the
    /// child's environment leads to it.
    fn spawn(&mut self, launch: &Launch) -> Result<Newborn, SpawnError> {
        let mark = self.next_mark();
        let entry = Entry { mark, program: launch.name(), leader: None };
        self.ledger.enter(entry.clone()).map_err(SpawnError::Ledger)?;
        let born = spawn(launch, mark).inspect_err(|_| self.strike_out(mark))?;
        // It cannot have gone: nobody has reaped it yet.
        let leader = sys::identity_in(self.ledger.realm().clone(), sys::number(born.pid));
        let start = leader.as_ref().map_or(0, |leader| leader.start);
        let noted =
            leader.and_then(|leader| self.ledger.enter(Entry { leader: Some(leader), ..entry }));
        if let Err(error) = noted {
            warn!(%mark, %error, "cannot note a child's pid; its mark must do");
        }
        self.raise(born, start, mark, launch)
    }

    /// Gives the new process a minder and its caller a handle. If this fails, the handle is dropped, which kills
    /// the process, and the minder buries it.
    fn raise(
        &mut self,
        born: Born,
        start: u64,
        mark: Mark,
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
            deaths: self.deaths.subscribe(),
        };
        let minder = Minder { family, graces: launch.graces, stop: stop_asked, life, stderr };
        self.minders.spawn(minder.mind());
        self.leashes.insert(mark, leash);
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
        self.leashes.remove(&mark);
        if all_gone {
            self.strike_out(mark);
        }
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
