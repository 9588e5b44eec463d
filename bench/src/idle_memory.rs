//! Measures the host's memory per idle session, without the server's process.

use std::fs;

use crate::BenchResult;
use crate::client::ClientHost;
use crate::upstream::{Upstream, UpstreamTransport};

const SESSIONS: usize = 200;

/// Sessions opened before the measurement, so that shared memory is already allocated.
const WARM_UP_SESSIONS: usize = 20;

const TARGET_KB: usize = 100;

pub async fn report() -> BenchResult {
    let host = ClientHost::new()?;
    let upstream = Upstream::start(UpstreamTransport::Stdio)?;
    let mut open = Vec::new();
    for _ in 0..WARM_UP_SESSIONS {
        open.push(host.open_session(&upstream).await?);
    }
    let before = resident_kb()?;
    for _ in 0..SESSIONS {
        open.push(host.open_session(&upstream).await?);
    }
    let each = resident_kb()?.saturating_sub(before) / SESSIONS;
    println!("an idle stdio session uses {each} KB, target below {TARGET_KB}");
    Ok(())
}

fn resident_kb() -> BenchResult<usize> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
