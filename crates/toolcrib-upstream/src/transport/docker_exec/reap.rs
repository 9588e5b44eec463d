//! Ends what earlier hosts left in containers, after [`crate::process::reap`] has found their ledgers.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::timeout;

use super::ending::end;
use crate::process::{Estate, Farewell, Guest};

/// Guests of one host that are ended side by side.
const AT_A_TIME: usize = 16;

/// What a reaping of containers came to.
#[derive(Debug, Default)]
pub struct ContainersReaped {
    /// Guests of which nothing is left now.
    pub ended: Vec<Guest>,
    /// What could not be ended, or whose engine did not answer. Their ledgers stay for the next start.
    pub left: Vec<Guest>,
    /// Oddities in words.
    pub notes: Vec<String>,
}

/// Removes the containers of dead hosts and ends their processes in the containers of others, each within about
/// `limit`. Living hosts are not touched: their ledgers are not among the estates.
pub async fn reap_containers(estates: Vec<Estate>, limit: Duration) -> ContainersReaped {
    let mut reaped = ContainersReaped::default();
    for estate in estates {
        let guests = estate.guests().to_vec();
        let ending = stream::iter(guests).map(|guest| async move {
            let gone = timeout(limit, end(guest.clone(), Farewell::AtOnce)).await;
            (guest, gone.unwrap_or(false))
        });
        let (gone, left): (Vec<_>, Vec<_>) = ending
            .buffer_unordered(AT_A_TIME)
            .collect::<Vec<_>>()
            .await
            .into_iter()
            .partition(|(_, gone)| *gone);
        let instance = estate.instance();
        if left.is_empty()
            && let Err(error) = estate.settle()
        {
            reaped.notes.push(format!("cannot remove the ledger of {instance}: {error}"));
        }
        reaped.ended.extend(gone.into_iter().map(|(guest, _)| guest));
        reaped.left.extend(left.into_iter().map(|(guest, _)| guest));
    }
    reaped
}
