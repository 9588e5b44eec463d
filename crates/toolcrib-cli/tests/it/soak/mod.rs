//! Five hundred clients of one gateway, while servers are killed at random and the configuration is rewritten every
//! second: nothing that is healthy fails, no session is lost, memory stays as it is, nothing is left at the end.

mod load;
mod scene;
mod web;

use std::sync::Arc;
use std::time::{Duration, Instant};

use load::{Clients, Tally};
use scene::Scene;

use crate::Place;
use crate::serving::Serving;

/// How long, unless `SOAK_SECONDS` says otherwise.
const SECONDS: u64 = 60;

const CLIENTS: usize = 500;

/// How much larger the gateway may be at the end than when it had settled, in kilobytes: what an allocator keeps.
const GROWTH: u64 = 8 << 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_notice_nothing_of_what_happens_to_others() {
    let place = Place::new();
    let mut scene = Scene::new(place.root()).await;
    let gateway = Serving::start(place).await;
    let clients = Arc::new(Clients::connect(&gateway.at(""), CLIENTS).await);
    let tally = Arc::new(Tally::default());
    clients.settle(&tally).await;
    let load = clients.start(&tally);
    let memory = disturb(&mut scene, &gateway, Duration::from_secs(seconds())).await;
    tally.stop();
    load.ended().await;
    eprintln!("soak: {tally}; memory {memory:?} KB");
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

/// The last quarter is no larger than the second.
fn is_flat(memory: &[u64]) {
    let quarter = memory.len() / 4;
    let largest = |part: &[u64]| part.iter().copied().max().unwrap_or_default();
    let (before, after) = (largest(&memory[quarter..2 * quarter]), largest(&memory[3 * quarter..]));
    assert!(after <= before + before / 10 + GROWTH, "from {before} KB to {after} KB: {memory:?}");
}

#[allow(clippy::disallowed_methods, reason = "the one way to tell a test how long it may take")]
fn seconds() -> u64 {
    std::env::var("SOAK_SECONDS").map_or(SECONDS, |seconds| seconds.parse().unwrap())
}
