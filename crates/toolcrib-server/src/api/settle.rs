//! Waiting until enough is known: no longer than servers may take to start, and no longer than needed.

use std::pin::pin;
use std::time::Duration;

use tokio::time::sleep;
use toolcrib::{Dialog, Host, ServerStatus, Turn};
use toolcrib_upstream::conn::State;

/// How often is looked besides being told.
const TICK: Duration = Duration::from_secs(1);

/// How long a request waits for servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Nothing is started or waited for.
    No,
    /// As any list does: for those that start with a list.
    Lists,
    /// Until each server has told what it offers, or has failed once.
    All,
}

impl Wait {
    pub(crate) fn of(said: Option<bool>) -> Self {
        match said {
            None => Wait::Lists,
            Some(false) => Wait::No,
            Some(true) => Wait::All,
        }
    }

    /// A turn, when enough is known. `is_enough` ends the longest wait before its end.
    pub(crate) async fn turn(
        self,
        dialog: &Dialog,
        is_enough: impl Fn(&Turn) -> bool + Send + Sync,
    ) -> Turn {
        match self {
            Wait::No => dialog.turn_now(),
            Wait::Lists => dialog.turn().await,
            Wait::All => settled(dialog, is_enough).await,
        }
    }
}

/// What starts only when it is wanted is started only if the others do not know enough.
async fn settled(dialog: &Dialog, is_enough: impl Fn(&Turn) -> bool + Send + Sync) -> Turn {
    if !wait(dialog, dialog.host().settled(), &is_enough).await {
        let listed = async { drop(dialog.turn().await) };
        wait(dialog, listed, &is_enough).await;
    }
    dialog.turn_now()
}

/// Whether enough was known before the work was done.
async fn wait(
    dialog: &Dialog,
    work: impl Future<Output = ()> + Send,
    is_enough: &(impl Fn(&Turn) -> bool + Sync),
) -> bool {
    let mut events = dialog.host().listen();
    let mut work = pin!(work);
    loop {
        if is_enough(&dialog.turn_now()) {
            return true;
        }
        tokio::select! {
            () = &mut work => return is_enough(&dialog.turn_now()),
            heard = events.next() => if heard.is_none() {
                events = dialog.host().listen();
                // Where the host has ended there is nothing to hear.
                sleep(TICK).await;
            },
            () = sleep(TICK) => {}
        }
    }
}

/// Whether all is known of one server that will be.
pub(crate) fn is_settled(host: &Host, turn: &Turn, name: &str) -> bool {
    let listed = turn.snapshot().servers().find(|server| server.is_called(name));
    let is_listed = listed.is_some_and(|server| server.is_discovered && !server.from_cache);
    let server = host.server(name);
    // Before anything is published, nobody knows which servers there are.
    let is_nobody = turn.version() > 0 && server.is_err();
    is_nobody || is_listed || server.is_ok_and(|server| is_away(&server))
}

pub(crate) fn is_up(server: &ServerStatus) -> bool {
    matches!(server.state, State::Ready | State::Degraded)
}

fn is_away(server: &ServerStatus) -> bool {
    use State::{Backoff, Failed, Reconnecting, Stopped};
    matches!(server.state, Backoff | Failed | Reconnecting | Stopped)
}
