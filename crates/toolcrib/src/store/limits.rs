//! Limits of the store.

use std::time::Duration;

/// Limits of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreLimits {
    /// Maximum age of call records.
    pub max_record_age: Duration,
    /// Maximum number of call records.
    pub calls: u32,
    /// Maximum queued records. Beyond it the oldest are dropped.
    pub max_queued_calls: usize,
    /// Delay in which records are collected for one write.
    pub batch: Duration,
    /// Maximum size of all stored catalogs. Beyond it the oldest are deleted.
    pub catalog_bytes: u64,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            max_record_age: Duration::from_secs(7 * 24 * 3600),
            calls: 100_000,
            max_queued_calls: 8192,
            batch: Duration::from_secs(1),
            catalog_bytes: 64 << 20,
        }
    }
}
