//! The dialogs of a host, by id.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::dialog::DialogState;

#[derive(Debug, Default)]
pub(super) struct DialogTable(Mutex<HashMap<Arc<str>, Arc<DialogState>>>);

impl DialogTable {
    pub(super) fn get(&self, id: &str) -> Option<Arc<DialogState>> {
        self.lock().get(id).cloned()
    }

    /// Returns the dialog with the same id, or inserts this one.
    pub(super) fn get_or_insert(&self, new: Arc<DialogState>) -> Arc<DialogState> {
        Arc::clone(self.lock().entry(Arc::clone(&new.id)).or_insert(new))
    }

    pub(super) fn remove(&self, id: &str) -> Option<Arc<DialogState>> {
        self.lock().remove(id)
    }

    /// All dialogs, ordered by id.
    pub(super) fn list(&self) -> Vec<Arc<DialogState>> {
        let mut list: Vec<_> = self.lock().values().cloned().collect();
        list.sort_by(|a, b| a.id.cmp(&b.id));
        list
    }

    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<DialogState>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
