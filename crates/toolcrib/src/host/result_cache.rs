//! Caches of results: results of one server by policy, and the full results of truncated calls.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use toolcrib_wire::RawJson;
use toolcrib_wire::view::CallToolResult;

/// Size limits of one cache.
const MAX_BYTES: usize = 32 << 20;
const MAX_RESULTS: usize = 1000;

/// Cached results of one server, by tool, arguments and, for sessions per dialog, the dialog.
#[derive(Debug)]
pub(super) struct ResultCache {
    ttl: Duration,
    is_shared: bool,
    entries: Mutex<BoundedMap<CacheKey, (Instant, CallToolResult)>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CacheKey {
    dialog: Option<String>,
    tool: String,
    arguments: String,
}

/// Full results of truncated calls, by the URI in the truncated result.
#[derive(Debug, Default)]
pub(super) struct FullResults(Mutex<BoundedMap<String, (String, RawJson)>>);

/// A map with a size limit that drops the oldest entries.
#[derive(Debug)]
struct BoundedMap<K, V> {
    items: HashMap<K, (V, usize)>,
    order: VecDeque<K>,
    bytes: usize,
}

impl<K, V> Default for BoundedMap<K, V> {
    fn default() -> Self {
        BoundedMap { items: HashMap::new(), order: VecDeque::new(), bytes: 0 }
    }
}

impl ResultCache {
    /// Creates a cache. A TTL of zero disables it.
    pub(super) fn new(ttl: Duration, is_shared: bool) -> Self {
        ResultCache { ttl, is_shared, entries: Mutex::default() }
    }

    /// The key of a call, or `None` if the cache is disabled.
    pub(super) fn key(&self, dialog: &str, tool: &str, arguments: &RawJson) -> Option<CacheKey> {
        (!self.ttl.is_zero()).then(|| CacheKey {
            dialog: (!self.is_shared).then(|| dialog.to_owned()),
            tool: tool.to_owned(),
            arguments: arguments.text().to_owned(),
        })
    }

    pub(super) fn get(&self, key: &CacheKey) -> Option<CallToolResult> {
        let known = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, result) = known.get(key)?;
        (at.elapsed() < self.ttl).then(|| result.clone())
    }

    /// Caches a result. Failed results are not cached, because the next attempt may succeed.
    pub(super) fn insert(&self, key: CacheKey, result: &CallToolResult) {
        if result.is_error() {
            return;
        }
        let bytes = result.raw().text().len() + key.arguments.len();
        let mut known = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(key, (Instant::now(), result.clone()), bytes);
    }
}

impl FullResults {
    pub(super) fn insert(&self, dialog: &str, uri: String, full: RawJson) {
        let bytes = full.text().len();
        self.lock().insert(uri, (dialog.to_owned(), full), bytes);
    }

    /// A full result of this dialog. The results of other dialogs are invisible.
    pub(super) fn get(&self, dialog: &str, uri: &str) -> Option<RawJson> {
        let kept = self.lock();
        let (owner, full) = kept.get(&uri.to_owned())?;
        (owner == dialog).then(|| full.clone())
    }

    pub(super) fn remove_dialog(&self, dialog: &str) {
        self.lock().retain(|(owner, _)| owner != dialog);
    }

    fn lock(&self) -> MutexGuard<'_, BoundedMap<String, (String, RawJson)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + std::hash::Hash, V> BoundedMap<K, V> {
    fn get(&self, key: &K) -> Option<&V> {
        self.items.get(key).map(|(value, _)| value)
    }

    fn insert(&mut self, key: K, value: V, bytes: usize) {
        if let Some((_, before)) = self.items.insert(key.clone(), (value, bytes)) {
            self.bytes -= before;
            self.order.retain(|known| *known != key);
        }
        self.order.push_back(key);
        self.bytes += bytes;
        // The newest entry stays, whatever its size: its URI has been handed out.
        while self.items.len() > 1 && (self.items.len() > MAX_RESULTS || self.bytes > MAX_BYTES) {
            let Some(oldest) = self.order.pop_front() else { break };
            if let Some((_, bytes)) = self.items.remove(&oldest) {
                self.bytes -= bytes;
            }
        }
    }

    fn retain(&mut self, keep: impl Fn(&V) -> bool) {
        self.items.retain(|_, (value, _)| keep(value));
        self.order.retain(|key| self.items.contains_key(key));
        self.bytes = self.items.values().map(|(_, bytes)| bytes).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(text: &str) -> CallToolResult {
        let raw = format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#);
        CallToolResult::read(RawJson::parse(raw, &toolcrib_wire::MessageLimits::default()).unwrap())
            .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn min_74_cached_results_depend_on_ttl_arguments_and_dialog() {
        for is_shared in [true, false] {
            let results = ResultCache::new(Duration::from_secs(60), is_shared);
            let key = |dialog, tool, n| results.key(dialog, tool, &RawJson::string(n)).unwrap();
            results.insert(key("d", "t", "1"), &result("a"));
            assert_eq!(results.get(&key("d", "t", "1")), Some(result("a")));
            assert_eq!(results.get(&key("d", "t", "2")), None);
            assert_eq!(results.get(&key("d", "u", "1")), None);
            assert_eq!(results.get(&key("e", "t", "1")).is_some(), is_shared);
            tokio::time::advance(Duration::from_secs(61)).await;
            assert_eq!(results.get(&key("d", "t", "1")), None);
        }
        let off = ResultCache::new(Duration::ZERO, true);
        assert_eq!(off.key("d", "t", &RawJson::string("1")), None);
    }

    #[test]
    fn cache_is_bounded_and_drops_the_oldest() {
        let mut cache = BoundedMap::default();
        (0..MAX_RESULTS + 10).for_each(|n| cache.insert(n, n, 1));
        assert_eq!(
            (cache.items.len(), cache.order.len(), cache.bytes),
            (MAX_RESULTS, MAX_RESULTS, MAX_RESULTS)
        );
        assert_eq!((cache.get(&9), cache.get(&10)), (None, Some(&10)));
        cache.insert(MAX_RESULTS, 0, MAX_BYTES + 1);
        assert_eq!((cache.items.len(), cache.get(&MAX_RESULTS)), (1, Some(&0)));
    }

    #[test]
    fn full_results_belong_to_one_dialog() {
        let full = FullResults::default();
        full.insert("a", "toolcrib://results/1".to_owned(), RawJson::string("x"));
        assert_eq!(full.get("b", "toolcrib://results/1"), None);
        assert_eq!(full.get("a", "toolcrib://results/1"), Some(RawJson::string("x")));
        full.remove_dialog("a");
        assert_eq!(full.get("a", "toolcrib://results/1"), None);
    }
}
