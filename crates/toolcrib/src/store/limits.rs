//! How much the store keeps.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Records of calls are kept this long, and at most so many of them.
    pub calls_for: Duration,
    pub calls: u32,
    /// The most records that wait to be written; beyond it the oldest are dropped.
    pub ring: usize,
    /// How long a record waits for others to be written with.
    pub batch: Duration,
    /// How much all remembered catalogues may take; beyond it the oldest are forgotten.
    pub catalog_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            calls_for: Duration::from_secs(7 * 24 * 3600),
            calls: 100_000,
            ring: 8192,
            batch: Duration::from_secs(1),
            catalog_bytes: 64 << 20,
        }
    }
}
