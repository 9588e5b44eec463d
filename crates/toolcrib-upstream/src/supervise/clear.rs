//! What a host does before all else: end what hosts that were killed left behind.

use std::path::Path;
use std::time::Duration;

use crate::process::{ReapError, Reaped, reap};
use crate::transport::{ContainersReaped, reap_containers};

/// What was found and ended.
#[derive(Debug)]
pub struct Cleared {
    pub processes: Reaped,
    pub containers: ContainersReaped,
}

/// Ends the processes and containers of dead hosts that used this state folder. Living ones are not touched.
/// `limit` bounds each of the two.
pub async fn clear(state: &Path, limit: Duration) -> Result<Cleared, ReapError> {
    let folder = state.to_owned();
    let looked = tokio::task::spawn_blocking(move || reap(&folder, limit)).await;
    // It does not panic; if it did, nothing was found.
    let mut processes = looked.unwrap_or_else(|_| Ok(Reaped::default()))?;
    let containers = reap_containers(std::mem::take(&mut processes.estates), limit).await;
    Ok(Cleared { processes, containers })
}
