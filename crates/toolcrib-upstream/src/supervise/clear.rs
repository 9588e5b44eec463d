//! What a host does before all else: end what hosts that were killed left behind.

use std::path::Path;
use std::time::Duration;

use crate::process::{Containment, ReapError, Reaped, reap, reap_cgroups};
use crate::transport::{ContainersReaped, reap_containers};

/// What was found and ended.
#[derive(Debug)]
pub struct Cleared {
    pub processes: Reaped,
    pub containers: ContainersReaped,
}

/// Ends the processes and containers of dead hosts that used this state folder, and the processes in cgroups of dead
/// hosts whose state folder is gone. Living ones are not touched. `limit` bounds each of the three.
pub async fn clear(
    state: &Path,
    containment: &Containment,
    limit: Duration,
) -> Result<Cleared, ReapError> {
    let (folder, containment) = (state.to_owned(), containment.clone());
    let reaping = move || {
        let mut reaped = reap(&folder, limit)?;
        // The ledgers tell more of a process, so they come first.
        let of_cgroups = reap_cgroups(&containment, limit);
        reaped.killed.extend(of_cgroups.killed);
        reaped.left.extend(of_cgroups.left);
        reaped.notes.extend(of_cgroups.notes);
        Ok::<_, ReapError>(reaped)
    };
    let looked = tokio::task::spawn_blocking(reaping).await;
    // It does not panic; if it did, nothing was found.
    let mut processes = looked.unwrap_or_else(|_| Ok(Reaped::default()))?;
    let containers = reap_containers(std::mem::take(&mut processes.estates), limit).await;
    Ok(Cleared { processes, containers })
}
