//! A bounded memory of what was made from a text.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const ENTRIES: usize = 1_024;
/// Bytes of all texts; what is made from them may take several times as much.
const BYTES: usize = 4 * 1024 * 1024;

/// By the text itself: nobody can write a schema that is taken for another one.
#[derive(Debug)]
pub(super) struct Cache<T> {
    known: Mutex<Known<T>>,
}

#[derive(Debug)]
struct Known<T> {
    entries: HashMap<Arc<str>, Entry<T>>,
    bytes: usize,
    clock: u64,
}

#[derive(Debug)]
struct Entry<T> {
    made: Arc<T>,
    used: u64,
}

impl<T> Cache<T> {
    /// Made outside of the lock, since it may take long; two who want the same may both make it.
    pub(super) fn get_or(&self, text: &str, make: impl FnOnce() -> T) -> Arc<T> {
        if let Some(made) = self.lock().get(text) {
            return made;
        }
        let made = Arc::new(make());
        self.lock().insert(text, Arc::clone(&made));
        made
    }

    /// Nothing is left half done where a thread panics, so the lock is good whatever happened.
    fn lock(&self) -> MutexGuard<'_, Known<T>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        let known = Known { entries: HashMap::new(), bytes: 0, clock: 0 };
        Cache { known: Mutex::new(known) }
    }
}

impl<T> Known<T> {
    fn get(&mut self, text: &str) -> Option<Arc<T>> {
        self.clock += 1;
        let entry = self.entries.get_mut(text)?;
        entry.used = self.clock;
        Some(Arc::clone(&entry.made))
    }

    fn insert(&mut self, text: &str, made: Arc<T>) {
        self.bytes += text.len();
        if self.entries.insert(text.into(), Entry { made, used: self.clock }).is_some() {
            self.bytes -= text.len();
        }
        while self.entries.len() > ENTRIES || self.bytes > BYTES {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
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
    fn what_was_made_is_kept_and_the_least_used_goes_first() {
        let cache = Cache::default();
        let make = |n: usize| *cache.get_or(&format!("{n:04}"), || n);
        for n in 0..ENTRIES {
            make(n);
            make(0);
        }
        make(ENTRIES);
        let known = cache.lock();
        assert_eq!(known.entries.len(), ENTRIES);
        assert!(known.entries.contains_key("0000") && !known.entries.contains_key("0001"));
        assert_eq!(known.bytes, 4 * ENTRIES);
    }

    #[test]
    fn large_texts_push_others_out() {
        let cache = Cache::default();
        for n in 0..10 {
            cache.get_or(&n.to_string().repeat(BYTES / 2), || n);
        }
        assert_eq!(cache.lock().entries.len(), 2);
    }
}
