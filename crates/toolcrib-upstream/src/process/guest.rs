//! What a host has running where its signals do not reach: a process in a container, behind some engine.
//!
//! The keeper notes each guest in the ledger before it can exist and answers for its end, however its handle is
//! lost. How a guest is ended is not known here: whoever lodges it brings that along.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;

use tokio::sync::{mpsc, oneshot, watch};

use super::error::SpawnError;
use super::keeper::Request;
use super::launch::Graces;
use super::ledger::Dead;
use super::mark::{InstanceId, Mark};
use super::minder::Buried;

/// A process in a container, as the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    pub mark: Mark,
    /// The address of the engine that runs the container.
    pub engine: String,
    pub home: Home,
}

/// The container that a guest lives in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// Made for the guest, and removed with it.
    Own {
        /// `None` from the moment before it is made until its id is known.
        container: Option<String>,
        exec: Option<String>,
    },
    /// Somebody else's, or one that is kept: only the guest's processes end.
    Shared {
        container: String,
        /// `None` until there is something that could have been started.
        exec: Option<String>,
    },
}

/// How a guest is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// Its input is closed; it has these graces.
    Gentle(Graces),
    AtOnce,
}

/// Ends a guest; true if nothing of it is left. It runs on the keeper's thread, so it brings its own connection.
pub(crate) type Ending = fn(Guest, Farewell) -> Pin<Box<dyn Future<Output = bool> + Send>>;

/// The hold on a guest. Dropped, the guest is ended at once, and nobody waits for that.
pub(crate) struct Lodging {
    guest: watch::Sender<Guest>,
    keeper: mpsc::WeakSender<Request>,
    leave: Option<oneshot::Sender<Leave>>,
    left: oneshot::Receiver<bool>,
}

/// What a dead host left in containers. Its ledger stays locked with this, and on disk until it is settled.
#[derive(Debug)]
pub struct Estate {
    pub(crate) dead: Dead,
    /// Nothing else keeps the ledger.
    pub(crate) clear: bool,
}

pub(crate) enum Leave {
    Ended,
    Farewell(Farewell),
}

/// The keeper's side of a [`Lodging`].
pub(crate) struct Host {
    guest: watch::Receiver<Guest>,
    leave: oneshot::Receiver<Leave>,
    left: oneshot::Sender<bool>,
    ending: Ending,
    closing: watch::Receiver<bool>,
}

impl Lodging {
    pub(crate) fn new(
        guest: Guest,
        keeper: mpsc::WeakSender<Request>,
        ending: Ending,
        closing: watch::Receiver<bool>,
    ) -> (Self, Host) {
        let (guest, seen) = watch::channel(guest);
        let (leave, asked) = oneshot::channel();
        let (left, gone) = oneshot::channel();
        let host = Host { guest: seen, leave: asked, left, ending, closing };
        (Self { guest, keeper, leave: Some(leave), left: gone }, host)
    }

    pub(crate) fn mark(&self) -> Mark {
        self.guest.borrow().mark
    }

    pub(crate) fn home(&self) -> Home {
        self.guest.borrow().home.clone()
    }

    /// Notes what has become known about the container. It is on disk when this returns.
    pub(crate) async fn moved(&self, home: Home) -> Result<(), SpawnError> {
        self.guest.send_modify(|guest| guest.home = home);
        let guest = self.guest.borrow().clone();
        let (reply, noted) = oneshot::channel();
        let closed = || SpawnError::Closed { program: guest.engine.clone() };
        let keeper = self.keeper.upgrade().ok_or_else(closed)?;
        let request = Request::Moved { guest: guest.clone(), reply };
        keeper.send(request).await.map_err(|_| closed())?;
        noted.await.map_err(|_| closed())?.map_err(SpawnError::Ledger)
    }

    /// There is nothing to end: it never began, or has gone by itself.
    pub(crate) fn ended(mut self) {
        self.say(Leave::Ended);
    }

    /// Ends the guest and waits for it; true if nothing of it is left. Otherwise the next start tries again. If
    /// the future is dropped, the guest is ended at once.
    pub(crate) async fn leave(mut self, farewell: Farewell) -> bool {
        self.say(Leave::Farewell(farewell));
        (&mut self.left).await.unwrap_or(false)
    }

    fn say(&mut self, word: Leave) {
        if let Some(leave) = self.leave.take() {
            // Nobody listens if the keeper is closing: then the guest is being ended.
            let _ = leave.send(word);
        }
    }
}

impl Host {
    pub(crate) async fn mind(mut self) -> Buried {
        let word = tokio::select! {
            word = &mut self.leave => word.unwrap_or(Leave::Farewell(Farewell::AtOnce)),
            // An error means the same: the keeper has gone.
            _ = self.closing.wait_for(|closing| *closing) => Leave::Farewell(Farewell::AtOnce),
        };
        let guest = self.guest.borrow().clone();
        let mark = guest.mark;
        let all_gone = match word {
            Leave::Ended => true,
            Leave::Farewell(farewell) => self.end(guest, farewell).await,
        };
        if !all_gone {
            tracing::warn!(%mark, "a process in a container does not end; the next start will try again");
        }
        // Whoever asked may have stopped waiting.
        let _ = self.left.send(all_gone);
        Buried { mark, all_gone }
    }

    /// There is no more grace once nobody waits, or the host itself ends.
    async fn end(&mut self, guest: Guest, farewell: Farewell) -> bool {
        if farewell != Farewell::AtOnce {
            tokio::select! {
                all_gone = (self.ending)(guest.clone(), farewell) => return all_gone,
                () = self.left.closed() => {}
                _ = self.closing.wait_for(|closing| *closing) => {}
            }
        }
        (self.ending)(guest, Farewell::AtOnce).await
    }
}

impl Estate {
    /// The host that died.
    pub fn instance(&self) -> InstanceId {
        self.dead.instance
    }

    pub fn guests(&self) -> &[Guest] {
        &self.dead.reading.guests
    }

    /// All its guests have ended: the ledger goes, unless something else keeps it.
    pub(crate) fn settle(self) -> io::Result<()> {
        if self.clear { self.dead.remove() } else { Ok(()) }
    }
}

impl Home {
    pub(crate) fn exec(&self) -> Option<&str> {
        let (Self::Own { exec, .. } | Self::Shared { exec, .. }) = self;
        exec.as_deref()
    }

    pub(crate) fn with_exec(self, exec: String) -> Self {
        let exec = Some(exec);
        match self {
            Self::Own { container, .. } => Self::Own { container, exec },
            Self::Shared { container, .. } => Self::Shared { container, exec },
        }
    }
}

impl fmt::Debug for Lodging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lodging").field("guest", &*self.guest.borrow()).finish_non_exhaustive()
    }
}
