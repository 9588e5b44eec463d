//! How much memory of the host a session takes that does nothing, without its server's process.

use std::fs;

use crate::Fallible;
use crate::client::Host;
use crate::upstream::{Over, Upstream};

const SESSIONS: usize = 200;

/// Opened first, so that what all sessions share is there before it is counted.
const WARM: usize = 20;

const AIM_KB: usize = 100;

pub async fn report() -> Fallible {
    let host = Host::new()?;
    let upstream = Upstream::start(Over::Stdio)?;
    let mut open = Vec::new();
    for _ in 0..WARM {
        open.push(host.session(&upstream).await?);
    }
    let before = resident_kb()?;
    for _ in 0..SESSIONS {
        open.push(host.session(&upstream).await?);
    }
    let each = resident_kb()?.saturating_sub(before) / SESSIONS;
    println!("an idle stdio session takes {each} KB, the aim is under {AIM_KB}");
    Ok(())
}

fn resident_kb() -> Fallible<usize> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
