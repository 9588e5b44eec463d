//! Runs one round of calls and measures its CPU time, latency and throughput.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinSet;

use crate::BenchResult;
use crate::client::{Client, ToolCaller};
use crate::upstream::ResponseSize;

#[derive(Clone, Copy)]
pub struct Sample {
    /// CPU time per call of this process, all threads; the server is another process.
    pub cpu: Duration,
    /// Median latency.
    pub latency: Duration,
    pub per_second: f64,
}

/// Makes `calls` calls, `in_flight` at any time.
pub async fn run_round(
    client: &Client,
    size: ResponseSize,
    calls: usize,
    in_flight: usize,
) -> BenchResult<Sample> {
    let (cpu, started) = (cpu_time(), Instant::now());
    let mut callers = JoinSet::new();
    for _ in 0..in_flight {
        callers.spawn(call_sequentially(client.caller(), size, calls / in_flight));
    }
    let mut latencies = Vec::with_capacity(calls);
    while let Some(caller) = callers.join_next().await {
        latencies.extend(caller??);
    }
    let (cpu, took) = (cpu_time() - cpu, started.elapsed());
    latencies.sort_unstable();
    let count = latencies.len();
    Ok(Sample {
        cpu: cpu / u32::try_from(count)?,
        latency: latencies[count / 2],
        per_second: count as f64 / took.as_secs_f64(),
    })
}

async fn call_sequentially(
    caller: ToolCaller,
    size: ResponseSize,
    calls: usize,
) -> Result<Vec<Duration>, String> {
    let mut latencies = Vec::with_capacity(calls);
    for _ in 0..calls {
        let started = Instant::now();
        caller.call(size).await?;
        latencies.push(started.elapsed());
    }
    Ok(latencies)
}

/// Returns the best of each value: other load on the machine only ever adds time.
pub fn best_sample(samples: &[Sample]) -> Sample {
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
