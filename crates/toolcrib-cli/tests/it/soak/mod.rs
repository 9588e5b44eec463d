//! Soak test: five hundred clients of one gateway while servers are killed and the configuration is rewritten. Healthy
//! servers do not fail, no session is lost, memory stays flat, and no process is left.

mod environment;
mod http_client;
mod load;

use std::sync::Arc;
use std::time::{Duration, Instant};

use environment::{KillCounts, SoakEnvironment};
use load::{Clients, LoadStats};

use crate::TestWorkspace;
use crate::test_gateway::TestGateway;

/// Default duration; `SOAK_SECONDS` overrides it.
const SECONDS: u64 = 60;

const CLIENTS: usize = 500;

/// Makes the allocator return free pages at once, so that resident memory is what the gateway uses.
const RETURN_PAGES: [(&str, &str); 2] =
    [("MIMALLOC_PURGE_DELAY", "0"), ("MIMALLOC_ABANDONED_PAGE_PURGE", "1")];

/// Allowed growth in kilobytes, besides a sixteenth for memory that the allocator keeps. In the ten minutes of `make
/// soak` that is less than ten for each kill or forty for each reload, so any leak of a connection, a snapshot or some
/// bytes per call exceeds it.
const GROWTH: u64 = 6 << 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn healthy_clients_are_unaffected_by_kills_and_reloads() {
    let workspace = TestWorkspace::new();
    let mut environment = SoakEnvironment::new(workspace.root()).await;
    let gateway = TestGateway::start_with_env(workspace, &RETURN_PAGES).await;
    let clients = Arc::new(Clients::connect(&gateway.url(""), CLIENTS).await);
    let stats = Arc::new(LoadStats::default());
    clients.open_server_sessions(&stats).await;
    let load = clients.start(&stats);
    let reloads = clients.metric("toolcrib_reloads_total").await;
    let memory =
        disturb_servers(&mut environment, &gateway, Duration::from_secs(duration_seconds())).await;
    stats.stop();
    load.finish().await;
    let reloads = clients.metric("toolcrib_reloads_total").await - reloads;
    let lost = clients.metric("toolcrib_server_restarts_total{server=\"mortal").await;
    eprintln!("soak: {stats}; memory {memory:?} KB");
    eprintln!(
        "soak: {} rounds, {:?}, {reloads} reloads, {lost} lost",
        memory.len(),
        environment.killed
    );
    check_disturbance(memory.len(), &environment.killed, reloads, lost);
    assert_eq!(stats.failures(), [] as [String; 0]);
    clients.check_all_sessions().await;
    clients.wait_for_tool("mortal__echo").await;
    clients.wait_for_tool("mortal_far__echo").await;
    clients.wait_for_tool("mortal_stateful__echo").await;
    check_memory_growth(&memory);
    gateway.stop().await;
    assert_eq!(environment.orphans(), [] as [u32; 0]);
}

/// Rewrites and kills until the time is over. Returns the memory of the gateway, sampled once per second.
async fn disturb_servers(
    environment: &mut SoakEnvironment,
    gateway: &TestGateway,
    time: Duration,
) -> Vec<u64> {
    let (started_at, mut version, mut chance, mut memory) = (Instant::now(), 0, 1_u64, Vec::new());
    while started_at.elapsed() < time {
        version += 1;
        environment.write(version);
        for _ in 0..4 {
            // A linear congruential generator, equal in every run.
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            environment.kill(chance >> 33).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        memory.push(gateway.resident_kilobytes());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    memory
}

/// Control: servers were killed and files rewritten, and the gateway noticed.
fn check_disturbance(rounds: usize, killed: &KillCounts, reloads: f64, lost: f64) {
    // A round takes one second, on a busy machine up to four.
    assert!(rounds * 4 >= usize::try_from(duration_seconds()).unwrap(), "{rounds} rounds");
    // Four victims per round, some of which have just ended by themselves.
    assert!(killed.stdio + killed.http >= 2 * rounds, "{killed:?} in {rounds} rounds");
    assert!(killed.stdio > 0 && killed.http > 0, "{killed:?}");
    assert!(lost > 0.0, "the gateway noticed no lost server");
    // A change during a reload is applied by the next one.
    assert!(reloads * 2.0 >= rounds as f64, "{reloads} reloads in {rounds} rounds");
}

/// Compares the last fifth with the second. During the first fifth every client uses every server for the first time,
/// and the allocator grows: the size rises as much without kills and reloads, and then stays flat.
fn check_memory_growth(memory: &[u64]) {
    let fifth = memory.len() / 5;
    let (before, after) = (median(&memory[fifth..2 * fifth]), median(&memory[4 * fifth..]));
    let allowed = before / 16 + GROWTH;
    assert!(after <= before + allowed, "from {before} KB to {after} KB: {memory:?}");
}

/// The median, which ignores outliers.
fn median(samples: &[u64]) -> u64 {
    let mut samples = samples.to_vec();
    samples.sort_unstable();
    samples[samples.len() / 2]
}

#[allow(clippy::disallowed_methods, reason = "a variable is the only way to configure a test")]
fn duration_seconds() -> u64 {
    std::env::var("SOAK_SECONDS").map_or(SECONDS, |seconds| seconds.parse().unwrap())
}
