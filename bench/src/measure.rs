//! One round of calls, and what it took: time of the processor, time of the caller.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinSet;

use crate::Fallible;
use crate::client::{Caller, Client};
use crate::upstream::Size;

#[derive(Clone, Copy)]
pub struct Sample {
    /// Of this process, all threads, for each call; the server is another process.
    pub cpu: Duration,
    /// Half of the calls took no longer.
    pub latency: Duration,
    pub per_second: f64,
}

/// Makes `calls` calls, `in_flight` at any time.
pub async fn round(
    client: &Client,
    size: Size,
    calls: usize,
    in_flight: usize,
) -> Fallible<Sample> {
    let (cpu, begun) = (cpu_time(), Instant::now());
    let mut callers = JoinSet::new();
    for _ in 0..in_flight {
        callers.spawn(one_after_the_other(client.caller(), size, calls / in_flight));
    }
    let mut latencies = Vec::with_capacity(calls);
    while let Some(caller) = callers.join_next().await {
        latencies.extend(caller??);
    }
    let (cpu, took) = (cpu_time() - cpu, begun.elapsed());
    latencies.sort_unstable();
    let count = latencies.len();
    Ok(Sample {
        cpu: cpu / u32::try_from(count)?,
        latency: latencies[count / 2],
        per_second: count as f64 / took.as_secs_f64(),
    })
}

async fn one_after_the_other(
    caller: Caller,
    size: Size,
    calls: usize,
) -> Result<Vec<Duration>, String> {
    let mut latencies = Vec::with_capacity(calls);
    for _ in 0..calls {
        let begun = Instant::now();
        caller.call(size).await?;
        latencies.push(begun.elapsed());
    }
    Ok(latencies)
}

/// Each value by itself, where it was least disturbed: whatever else the machine does only ever adds.
pub fn best(samples: &[Sample]) -> Sample {
    let times = |time: fn(&Sample) -> Duration| samples.iter().map(time).min().unwrap_or_default();
    Sample {
        cpu: times(|sample| sample.cpu),
        latency: times(|sample| sample.latency),
        per_second: samples.iter().map(|sample| sample.per_second).fold(0.0, f64::max),
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
