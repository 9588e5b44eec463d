//! Startup cleanup: ends processes and containers of hosts that were killed.

use std::path::Path;
use std::time::Duration;

use crate::process::{Containment, ReapError, ReapReport, reap, reap_cgroups};
use crate::transport::{ContainersReaped, reap_containers};

/// Orphans that were found and ended.
#[derive(Debug)]
pub struct OrphansReaped {
    pub processes: ReapReport,
    pub containers: ContainersReaped,
}

/// Ends the processes and containers of dead hosts with this state folder, and processes in cgroups of dead hosts
/// without a state folder. Live hosts are not affected. `limit` bounds each of the three.
pub async fn reap_orphans(
    state: &Path,
    containment: &Containment,
    limit: Duration,
) -> Result<OrphansReaped, ReapError> {
    let (folder, containment) = (state.to_owned(), containment.clone());
    let reaping = move || {
        let mut reaped = reap(&folder, limit)?;
        // Ledgers first, because they know more about a process.
        let of_cgroups = reap_cgroups(&containment, limit);
        reaped.killed.extend(of_cgroups.killed);
        reaped.remaining.extend(of_cgroups.remaining);
        reaped.notes.extend(of_cgroups.notes);
        Ok::<_, ReapError>(reaped)
    };
    let outcome = tokio::task::spawn_blocking(reaping).await;
    // The task does not panic. If it did, nothing was found.
    let mut processes = outcome.unwrap_or_else(|_| Ok(ReapReport::default()))?;
    let containers = reap_containers(std::mem::take(&mut processes.remote_leftovers), limit).await;
    Ok(OrphansReaped { processes, containers })
}
