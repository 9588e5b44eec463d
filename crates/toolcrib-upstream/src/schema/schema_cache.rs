//! Bounded LRU cache of values by schema text.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const MAX_ENTRIES: usize = 1_024;
/// Byte limit of all texts. The cached values may take several times as much.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Keyed by the full text, so that no schema can collide with another.
#[derive(Debug)]
pub(super) struct SchemaCache<T> {
    state: Mutex<CacheEntries<T>>,
}

#[derive(Debug)]
struct CacheEntries<T> {
    entries: HashMap<Arc<str>, CacheEntry<T>>,
    bytes: usize,
    clock: u64,
}

#[derive(Debug)]
struct CacheEntry<T> {
    value: Arc<T>,
    last_used: u64,
}

impl<T> SchemaCache<T> {
    /// Computes outside of the lock, because it may take long. Two callers may compute the same value.
    pub(super) fn get_or_insert_with(&self, text: &str, compute: impl FnOnce() -> T) -> Arc<T> {
        if let Some(value) = self.lock().get(text) {
            return value;
        }
        let value = Arc::new(compute());
        self.lock().insert(text, Arc::clone(&value));
        value
    }

    /// A panic leaves no inconsistent state, so a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, CacheEntries<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for SchemaCache<T> {
    fn default() -> Self {
        let state = CacheEntries { entries: HashMap::new(), bytes: 0, clock: 0 };
        SchemaCache { state: Mutex::new(state) }
    }
}

impl<T> CacheEntries<T> {
    fn get(&mut self, text: &str) -> Option<Arc<T>> {
        self.clock += 1;
        let entry = self.entries.get_mut(text)?;
        entry.last_used = self.clock;
        Some(Arc::clone(&entry.value))
    }

    fn insert(&mut self, text: &str, value: Arc<T>) {
        self.bytes += text.len();
        if self.entries.insert(text.into(), CacheEntry { value, last_used: self.clock }).is_some() {
            self.bytes -= text.len();
        }
        while self.entries.len() > MAX_ENTRIES || self.bytes > MAX_BYTES {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.last_used);
            let Some(oldest) = oldest.map(|(text, _)| Arc::clone(text)) else { return };
            self.entries.remove(&oldest);
            self.bytes -= oldest.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_entry_is_evicted_first() {
        let cache = SchemaCache::default();
        let compute = |n: usize| *cache.get_or_insert_with(&format!("{n:04}"), || n);
        for n in 0..MAX_ENTRIES {
            compute(n);
            compute(0);
        }
        compute(MAX_ENTRIES);
        let state = cache.lock();
        assert_eq!(state.entries.len(), MAX_ENTRIES);
        assert!(state.entries.contains_key("0000") && !state.entries.contains_key("0001"));
        assert_eq!(state.bytes, 4 * MAX_ENTRIES);
    }

    #[test]
    fn large_texts_evict_other_entries() {
        let cache = SchemaCache::default();
        for n in 0..10 {
            cache.get_or_insert_with(&n.to_string().repeat(MAX_BYTES / 2), || n);
        }
        assert_eq!(cache.lock().entries.len(), 2);
    }
}
