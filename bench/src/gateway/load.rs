//! Runs concurrent calls through one gateway and measures them.

use std::net::SocketAddr;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use super::cpu_affinity::{CorePlacement, PinTarget};
use super::http_client::{Connection, initialize};
use super::process::{self, Gateway};
use crate::BenchResult;
use crate::upstream::ResponseSize;

#[derive(Clone, Copy)]
pub struct LoadResult {
    pub per_second: f64,
    pub p50: Duration,
    /// CPU time per call of the gateway's own processes; `None` without a gateway.
    pub cpu: Option<Duration>,
}

/// Makes `calls` calls, `in_flight` at any time, all in one session.
pub fn run(
    gateway: &Gateway,
    size: ResponseSize,
    in_flight: usize,
    calls: usize,
    placement: CorePlacement,
) -> BenchResult<LoadResult> {
    // Threads inherit the affinity of the thread that starts them.
    let _affinity = placement.pin(PinTarget::Client)?;
    let (address, path) = (gateway.address, gateway.path.as_str());
    let session = initialize(address, path)?;
    let call = format!(
        r#""method":"tools/call","params":{{"name":"{}{}","arguments":{{}}}}}}"#,
        gateway.prefix,
        size.tool()
    );
    let (cpu, started) = (gateway.cpu(), Instant::now());
    let each = calls / in_flight;
    let latencies = thread::scope(|threads| {
        let callers: Vec<_> = (0..in_flight)
            .map(|number| {
                // Concurrent requests of one session need distinct ids.
                let ids = number * each..(number + 1) * each;
                let (session, call) = (session.as_deref(), call.as_str());
                threads.spawn(move || run_caller(address, path, session, call, ids, size))
            })
            .collect();
        let joined =
            callers.into_iter().map(|caller| caller.join().map_err(|_| "a caller thread panicked"));
        let mut all = Vec::with_capacity(calls);
        for latencies in joined {
            all.extend(latencies??);
        }
        Ok::<_, String>(all)
    })?;
    let took = started.elapsed();
    let spent = gateway.cpu().zip(cpu).map(|(after, before)| after.saturating_sub(before));
    let mut latencies = latencies;
    latencies.sort_unstable();
    Ok(LoadResult {
        per_second: latencies.len() as f64 / took.as_secs_f64(),
        p50: latencies[latencies.len() / 2],
        cpu: spent.map(|spent| spent / u32::try_from(latencies.len()).unwrap_or(1)),
    })
}

fn run_caller(
    address: SocketAddr,
    path: &str,
    session: Option<&str>,
    call: &str,
    ids: Range<usize>,
    size: ResponseSize,
) -> Result<Vec<Duration>, String> {
    let fail = |error: Box<dyn std::error::Error>| error.to_string();
    let mut connection = Connection::open(address, path, session).map_err(fail)?;
    let mut latencies = Vec::with_capacity(ids.len());
    let least = if matches!(size, ResponseSize::Large) { 1 << 20 } else { 60 };
    for id in ids {
        let message = format!(r#"{{"jsonrpc":"2.0","id":{},{call}"#, id + 1);
        let started = Instant::now();
        let status = connection.post(&message).map_err(fail)?;
        latencies.push(started.elapsed());
        let is_result = process::contains(&connection.body, b"\"result\"");
        if status != 200 || connection.body.len() < least || !is_result {
            let body = String::from_utf8_lossy(&connection.body);
            return Err(format!("status {status}: {}", body.chars().take(200).collect::<String>()));
        }
    }
    Ok(latencies)
}
