//! Results that are kept for a while: the answers of one server where its policy wants that, and whole results of
//! which callers got a part.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use toolcrib_wire::Raw;
use toolcrib_wire::view::CallToolResult;

/// What one memory holds at most, in bytes and in results.
const MOST_BYTES: usize = 32 << 20;
const MOST: usize = 1000;

/// Answers of one server: same tool, same arguments, and the same dialog where each has a session of its own.
#[derive(Debug)]
pub(super) struct Results {
    ttl: Duration,
    is_shared: bool,
    known: Mutex<Bounded<Asked, (Instant, CallToolResult)>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    dialog: Option<String>,
    tool: String,
    arguments: String,
}

/// Whole results, by the URI that a caller was given.
#[derive(Debug, Default)]
pub(super) struct Whole(Mutex<Bounded<String, (String, Raw)>>);

/// A map that forgets the oldest.
#[derive(Debug)]
struct Bounded<K, V> {
    items: HashMap<K, (V, usize)>,
    order: VecDeque<K>,
    bytes: usize,
}

impl<K, V> Default for Bounded<K, V> {
    fn default() -> Self {
        Bounded { items: HashMap::new(), order: VecDeque::new(), bytes: 0 }
    }
}

impl Results {
    /// A time of zero means that nothing is kept.
    pub(super) fn new(ttl: Duration, is_shared: bool) -> Self {
        Results { ttl, is_shared, known: Mutex::default() }
    }

    /// What was asked, where answers are kept at all.
    pub(super) fn asked(&self, dialog: &str, tool: &str, arguments: &Raw) -> Option<Asked> {
        (!self.ttl.is_zero()).then(|| Asked {
            dialog: (!self.is_shared).then(|| dialog.to_owned()),
            tool: tool.to_owned(),
            arguments: arguments.text().to_owned(),
        })
    }

    pub(super) fn get(&self, asked: &Asked) -> Option<CallToolResult> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, result) = known.get(asked)?;
        (at.elapsed() < self.ttl).then(|| result.clone())
    }

    /// A failure is not kept: the next try may go better.
    pub(super) fn keep(&self, asked: Asked, result: &CallToolResult) {
        if result.is_error() {
            return;
        }
        let bytes = result.raw().text().len() + asked.arguments.len();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.put(asked, (Instant::now(), result.clone()), bytes);
    }
}

impl Whole {
    pub(super) fn keep(&self, dialog: &str, uri: String, whole: Raw) {
        let bytes = whole.text().len();
        self.kept().put(uri, (dialog.to_owned(), whole), bytes);
    }

    /// A dialog's own result; others' do not exist for it.
    pub(super) fn get(&self, dialog: &str, uri: &str) -> Option<Raw> {
        let kept = self.kept();
        let (owner, whole) = kept.get(&uri.to_owned())?;
        (owner == dialog).then(|| whole.clone())
    }

    pub(super) fn forget(&self, dialog: &str) {
        self.kept().retain(|(owner, _)| owner != dialog);
    }

    fn kept(&self) -> MutexGuard<'_, Bounded<String, (String, Raw)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + std::hash::Hash, V> Bounded<K, V> {
    fn get(&self, key: &K) -> Option<&V> {
        self.items.get(key).map(|(value, _)| value)
    }

    fn put(&mut self, key: K, value: V, bytes: usize) {
        if let Some((_, before)) = self.items.insert(key.clone(), (value, bytes)) {
            self.bytes -= before;
            self.order.retain(|known| *known != key);
        }
        self.order.push_back(key);
        self.bytes += bytes;
        // The newest stays, however large: whoever was promised it comes for it.
        while self.items.len() > 1 && (self.items.len() > MOST || self.bytes > MOST_BYTES) {
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
        CallToolResult::read(Raw::parse(raw, &toolcrib_wire::Limits::default()).unwrap()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn min_74_a_result_is_kept_for_its_time_its_arguments_and_its_dialog() {
        for is_shared in [true, false] {
            let results = Results::new(Duration::from_secs(60), is_shared);
            let asked = |dialog, tool, n| results.asked(dialog, tool, &Raw::string(n)).unwrap();
            results.keep(asked("d", "t", "1"), &result("a"));
            assert_eq!(results.get(&asked("d", "t", "1")), Some(result("a")));
            assert_eq!(results.get(&asked("d", "t", "2")), None);
            assert_eq!(results.get(&asked("d", "u", "1")), None);
            assert_eq!(results.get(&asked("e", "t", "1")).is_some(), is_shared);
            tokio::time::advance(Duration::from_secs(61)).await;
            assert_eq!(results.get(&asked("d", "t", "1")), None);
        }
        let off = Results::new(Duration::ZERO, true);
        assert_eq!(off.asked("d", "t", &Raw::string("1")), None);
    }

    #[test]
    fn a_memory_is_bounded_and_forgets_the_oldest() {
        let mut memory = Bounded::default();
        (0..MOST + 10).for_each(|n| memory.put(n, n, 1));
        assert_eq!((memory.items.len(), memory.order.len(), memory.bytes), (MOST, MOST, MOST));
        assert_eq!((memory.get(&9), memory.get(&10)), (None, Some(&10)));
        memory.put(MOST, 0, MOST_BYTES + 1);
        assert_eq!((memory.items.len(), memory.get(&MOST)), (1, Some(&0)));
    }

    #[test]
    fn a_whole_result_is_its_dialogs_alone() {
        let whole = Whole::default();
        whole.keep("a", "toolcrib://results/1".to_owned(), Raw::string("x"));
        assert_eq!(whole.get("b", "toolcrib://results/1"), None);
        assert_eq!(whole.get("a", "toolcrib://results/1"), Some(Raw::string("x")));
        whole.forget("a");
        assert_eq!(whole.get("a", "toolcrib://results/1"), None);
    }
}
