//! The dialogs of a host, by their id.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::dialog::Inner;

#[derive(Debug, Default)]
pub(super) struct Dialogs(Mutex<HashMap<Arc<str>, Arc<Inner>>>);

impl Dialogs {
    pub(super) fn get(&self, id: &str) -> Option<Arc<Inner>> {
        self.all().get(id).cloned()
    }

    /// The dialog of that id, or this one from now on.
    pub(super) fn get_or_add(&self, new: Arc<Inner>) -> Arc<Inner> {
        Arc::clone(self.all().entry(Arc::clone(&new.id)).or_insert(new))
    }

    pub(super) fn remove(&self, id: &str) -> Option<Arc<Inner>> {
        self.all().remove(id)
    }

    /// By their ids, in order.
    pub(super) fn list(&self) -> Vec<Arc<Inner>> {
        let mut list: Vec<_> = self.all().values().cloned().collect();
        list.sort_by(|a, b| a.id.cmp(&b.id));
        list
    }

    pub(super) fn count(&self) -> usize {
        self.all().len()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Inner>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
