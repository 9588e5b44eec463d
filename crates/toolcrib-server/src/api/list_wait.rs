//! Waits until the servers have listed enough to answer a list request.

use std::pin::pin;
use std::time::Duration;

use tokio::time::sleep;
use toolcrib::{Dialog, Host, ServerStatus, Turn};
use toolcrib_upstream::conn::ServerState;

/// Interval between checks, in addition to host events.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Waiting policy of a list request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitMode {
    /// Starts no server and waits for none.
    Never,
    /// Waits like an ordinary list request: for servers that start on a list.
    Listed,
    /// Waits until each server has listed its items or has failed once.
    AllServers,
}

impl WaitMode {
    pub(crate) fn from_query(wait: Option<bool>) -> Self {
        match wait {
            None => WaitMode::Listed,
            Some(false) => WaitMode::Never,
            Some(true) => WaitMode::AllServers,
        }
    }

    /// Returns a snapshot reader when enough is known. `is_enough` can end the longest wait early.
    pub(crate) async fn wait_for_turn(
        self,
        dialog: &Dialog,
        is_enough: impl Fn(&Turn) -> bool + Send + Sync,
    ) -> Turn {
        match self {
            WaitMode::Never => dialog.turn_now(),
            WaitMode::Listed => dialog.turn().await,
            WaitMode::AllServers => wait_for_servers(dialog, is_enough).await,
        }
    }
}

/// Starts on-demand servers only if the others do not know enough.
async fn wait_for_servers(
    dialog: &Dialog,
    is_enough: impl Fn(&Turn) -> bool + Send + Sync,
) -> Turn {
    if !wait_until_enough(dialog, dialog.host().wait_until_settled(), &is_enough).await {
        let listed = async { drop(dialog.turn().await) };
        wait_until_enough(dialog, listed, &is_enough).await;
    }
    dialog.turn_now()
}

/// Waits for `work`. Returns `true` as soon as enough is known.
async fn wait_until_enough(
    dialog: &Dialog,
    work: impl Future<Output = ()> + Send,
    is_enough: &(impl Fn(&Turn) -> bool + Sync),
) -> bool {
    let mut events = dialog.host().subscribe();
    let mut work = pin!(work);
    loop {
        if is_enough(&dialog.turn_now()) {
            return true;
        }
        tokio::select! {
            () = &mut work => return is_enough(&dialog.turn_now()),
            event = events.next() => if event.is_none() {
                events = dialog.host().subscribe();
                // A closed host sends no events, so sleep instead of spinning.
                sleep(POLL_INTERVAL).await;
            },
            () = sleep(POLL_INTERVAL) => {}
        }
    }
}

/// Returns whether everything that will be known of this server is known.
pub(crate) fn is_server_settled(host: &Host, turn: &Turn, name: &str) -> bool {
    let listed = turn.snapshot().servers().find(|server| server.matches_name(name));
    let is_listed = listed.is_some_and(|server| server.is_discovered && !server.from_cache);
    let server = host.server(name);
    // Before the first snapshot, the set of servers is unknown.
    let is_unknown = turn.version() > 0 && server.is_err();
    is_unknown || is_listed || server.is_ok_and(|server| is_unavailable(&server))
}

pub(crate) fn is_up(server: &ServerStatus) -> bool {
    matches!(server.state, ServerState::Ready | ServerState::Degraded)
}

fn is_unavailable(server: &ServerStatus) -> bool {
    use ServerState::{Backoff, Failed, Reconnecting, Stopped};
    matches!(server.state, Backoff | Failed | Reconnecting | Stopped)
}
