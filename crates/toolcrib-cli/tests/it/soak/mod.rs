//! Five hundred clients of one gateway, while servers are killed at random and the configuration is rewritten every
//! second: nothing that is healthy fails, no session is lost, memory stays as it is, nothing is left at the end.

mod load;
mod scene;
mod web;

use std::sync::Arc;
use std::time::{Duration, Instant};

use load::{Clients, Tally};
use scene::{Killed, Scene};

use crate::Place;
use crate::serving::Serving;

/// How long, unless `SOAK_SECONDS` says otherwise.
const SECONDS: u64 = 60;

const CLIENTS: usize = 500;

/// The allocator returns free pages at once, so that resident memory is what the gateway uses, not what the allocator
/// keeps for later.
const RETURN_PAGES: [(&str, &str); 2] =
    [("MIMALLOC_PURGE_DELAY", "0"), ("MIMALLOC_ABANDONED_PAGE_PURGE", "1")];

/// How much larger the gateway may be at the end than when it had settled, in kilobytes, besides a sixteenth: what an
/// allocator keeps. In the ten minutes of `make soak` that is less than ten for each kill or forty for each reload, so
/// that whatever leaks a connection, a snapshot or some bytes of a call goes beyond it.
const GROWTH: u64 = 6 << 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_notice_nothing_of_what_happens_to_others() {
    let place = Place::new();
    let mut scene = Scene::new(place.root()).await;
    let gateway = Serving::start_in(place, &RETURN_PAGES).await;
    let clients = Arc::new(Clients::connect(&gateway.at(""), CLIENTS).await);
    let tally = Arc::new(Tally::default());
    clients.settle(&tally).await;
    let load = clients.start(&tally);
    let reloads = clients.figure("toolcrib_reloads_total").await;
    let memory = disturb(&mut scene, &gateway, Duration::from_secs(seconds())).await;
    tally.stop();
    load.ended().await;
    let reloads = clients.figure("toolcrib_reloads_total").await - reloads;
    let lost = clients.figure("toolcrib_server_restarts_total{server=\"mortal").await;
    eprintln!("soak: {tally}; memory {memory:?} KB");
    eprintln!("soak: {} rounds, {:?}, {reloads} reloads, {lost} lost", memory.len(), scene.killed);
    was_disturbed(memory.len(), &scene.killed, reloads, lost);
    assert_eq!(tally.failures(), [] as [String; 0]);
    clients.are_all_there().await;
    clients.reach("mortal__echo").await;
    clients.reach("mortal_far__echo").await;
    clients.reach("mortal_stateful__echo").await;
    is_flat(&memory);
    gateway.end().await;
    assert_eq!(scene.orphans(), [] as [u32; 0]);
}

/// Rewrites and kills until the time is over; how much memory the gateway had, once a second.
async fn disturb(scene: &mut Scene, gateway: &Serving, time: Duration) -> Vec<u64> {
    let (begun, mut version, mut chance, mut memory) = (Instant::now(), 0, 1_u64, Vec::new());
    while begun.elapsed() < time {
        version += 1;
        scene.write(version);
        for _ in 0..4 {
            // As good as any dice, and the same each time.
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            scene.kill(chance >> 33).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        memory.push(gateway.memory());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    memory
}

/// It proves nothing where nothing happened: servers were killed and files rewritten, and the gateway noticed.
fn was_disturbed(rounds: usize, killed: &Killed, reloads: f64, lost: f64) {
    // A round takes a second, on a machine that is busy otherwise up to four.
    assert!(rounds * 4 >= usize::try_from(seconds()).unwrap(), "{rounds} rounds");
    // Four are chosen in a round, of which some have just ended by themselves.
    assert!(killed.near + killed.far >= 2 * rounds, "{killed:?} in {rounds} rounds");
    assert!(killed.near > 0 && killed.far > 0, "{killed:?}");
    assert!(lost > 0.0, "the gateway lost nobody");
    // What is written while a file is being taken up is taken up with the next one.
    assert!(reloads * 2.0 >= rounds as f64, "{reloads} reloads in {rounds} rounds");
}

/// The last fifth is no larger than the second. In the first one, every client is served by every server for the first
/// time, and the allocator gets the pages that it keeps: with neither kills nor reloads the size rises as much, and
/// then no more.
fn is_flat(memory: &[u64]) {
    let fifth = memory.len() / 5;
    let (before, after) = (median(&memory[fifth..2 * fifth]), median(&memory[4 * fifth..]));
    let allowed = before / 16 + GROWTH;
    assert!(after <= before + allowed, "from {before} KB to {after} KB: {memory:?}");
}

/// What most of the samples are about, whatever was under way at some of them.
fn median(samples: &[u64]) -> u64 {
    let mut samples = samples.to_vec();
    samples.sort_unstable();
    samples[samples.len() / 2]
}

#[allow(clippy::disallowed_methods, reason = "the one way to tell a test how long it may take")]
fn seconds() -> u64 {
    std::env::var("SOAK_SECONDS").map_or(SECONDS, |seconds| seconds.parse().unwrap())
}
