//! Ends remote processes that dead hosts left in containers, after [`crate::process::reap`] has found their ledgers.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::timeout;

use super::process_termination::terminate;
use crate::process::{RemoteLeftovers, RemoteProcess, StopMode};

/// Remote processes of one host that are ended concurrently.
const CONCURRENCY: usize = 16;

/// Result of reaping containers.
#[derive(Debug, Default)]
pub struct ContainersReaped {
    /// Remote processes that have ended completely.
    pub ended: Vec<RemoteProcess>,
    /// Remote processes that could not be ended, or whose engine did not answer. Their ledgers stay for the next start.
    pub left: Vec<RemoteProcess>,
    /// Problems as texts.
    pub notes: Vec<String>,
}

/// Removes the containers of dead hosts and ends their processes in foreign containers, each within about `limit`.
/// Running hosts are not touched, since their ledgers are not among the leftovers.
pub async fn reap_containers(leftovers: Vec<RemoteLeftovers>, limit: Duration) -> ContainersReaped {
    let mut reaped = ContainersReaped::default();
    for leftover in leftovers {
        let processes = leftover.processes().to_vec();
        let ending = stream::iter(processes).map(|remote_process| async move {
            let gone = timeout(limit, terminate(remote_process.clone(), StopMode::Immediate)).await;
            (remote_process, gone.unwrap_or(false))
        });
        let (gone, left): (Vec<_>, Vec<_>) = ending
            .buffer_unordered(CONCURRENCY)
            .collect::<Vec<_>>()
            .await
            .into_iter()
            .partition(|(_, gone)| *gone);
        let instance = leftover.instance();
        if left.is_empty()
            && let Err(error) = leftover.remove_ledger()
        {
            reaped.notes.push(format!("cannot remove the ledger of {instance}: {error}"));
        }
        reaped.ended.extend(gone.into_iter().map(|(remote_process, _)| remote_process));
        reaped.left.extend(left.into_iter().map(|(remote_process, _)| remote_process));
    }
    reaped
}
