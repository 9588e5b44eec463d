//! How the tools of a slot are known: what they were first seen as, the list that was last looked at, and what is not
//! written yet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use toolcrib_config::model::host::Pins;

use super::pinning::ChangedDefinition;
use crate::conn::Catalog;
use crate::registry::Print;
use crate::signals::chain;
use crate::store::{Pin, StoreError};

/// What could not be written is tried again after this time, or with the next list.
const AGAIN: Duration = Duration::from_secs(10);

/// How the tools of a slot are known.
#[derive(Default)]
pub(super) struct Pinned {
    /// Nothing until the store was asked.
    pub(super) known: Option<HashMap<String, Print>>,
    pub(super) judged: Option<Judged>,
    /// Why nobody knows how the tools were, as long as nobody does.
    pub(super) unread: Option<String>,
    /// How many tools there was no room for.
    pub(super) excess: usize,
    /// A list was looked at since it was last tried to write what is new.
    pub(super) is_news: bool,
    pub(super) unkept: Arc<Mutex<Unkept>>,
}

/// What another host would not know, because it is not written yet.
#[derive(Default)]
pub(super) struct Unkept {
    pub(super) pins: Vec<Arc<[Pin]>>,
    /// Why the last try to write some of it failed, and when that was.
    pub(super) failed: Option<(String, Instant)>,
}

/// A list that was looked at.
pub(super) struct Judged {
    pub(super) catalog: Arc<Catalog>,
    pub(super) changed: Arc<Vec<ChangedDefinition>>,
    /// By which rule.
    pub(super) pins: Pins,
}

impl Unkept {
    /// Whether it is worth another try, although there is nothing new.
    pub(super) fn is_due(&self) -> bool {
        self.failed.as_ref().is_some_and(|(_, at)| at.elapsed() >= AGAIN)
    }

    pub(super) fn tried(&mut self, pins: Arc<[Pin]>, error: Option<&StoreError>) {
        match error {
            Some(error) => {
                self.pins.push(pins);
                self.failed = Some((chain(error), Instant::now()));
            }
            None if self.pins.is_empty() => self.failed = None,
            None => {}
        }
    }
}

impl Pinned {
    /// The list that may be offered, and what of it has changed.
    pub(super) fn judged(&self) -> (Option<Arc<Catalog>>, Arc<Vec<ChangedDefinition>>) {
        match &self.judged {
            Some(judged) => (Some(Arc::clone(&judged.catalog)), Arc::clone(&judged.changed)),
            None => (None, Arc::default()),
        }
    }

    /// Another server is in the slot; its tools are known by what those of the one before were.
    pub(super) fn forget_list(&mut self) {
        self.judged = None;
    }

    /// What could not be read is read again whenever there is an occasion.
    pub(super) fn is_judged(&self, catalog: &Arc<Catalog>, pins: Pins) -> bool {
        let is_it = |it: &Judged| Arc::ptr_eq(&it.catalog, catalog) && it.pins == pins;
        self.judged.as_ref().is_some_and(is_it) && self.unread.is_none()
    }

    /// A list that says the same as the one before needs no further look.
    pub(super) fn is_alike(&self, catalog: &Catalog) -> bool {
        let known = self.judged.as_ref().filter(|it| it.pins != Pins::Off && self.unread.is_none());
        known.is_some_and(|judged| {
            let (old, new) = (&judged.catalog.tools, &catalog.tools);
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| old.raw() == new.raw())
        })
    }

    /// What is to be said of a list; why not, where nobody can tell.
    pub(super) fn judge(
        &mut self,
        catalog: Arc<Catalog>,
        changed: Result<Arc<Vec<ChangedDefinition>>, String>,
        pins: Pins,
    ) {
        self.is_news = true;
        self.unread = changed.as_ref().err().cloned();
        self.judged = match changed {
            // Nobody can tell what has changed, so that nothing of it is offered.
            Err(_) if pins == Pins::Enforce => None,
            changed => Some(Judged { catalog, changed: changed.unwrap_or_default(), pins }),
        };
    }

    pub(super) fn learn(&mut self, pins: Vec<Pin>) {
        self.known = Some(pins.into_iter().map(|pin| (pin.tool.clone(), print(&pin))).collect());
    }

    /// What is to be written. What was tried before may be of a definition that another was accepted for since.
    pub(super) fn take_unkept(&self) -> Vec<Arc<[Pin]>> {
        let mut unkept = self.unkept();
        let pins = std::mem::take(&mut unkept.pins);
        if unkept.failed.is_none() {
            return pins;
        }
        let known = |tool: &str| self.known.as_ref()?.get(tool);
        let is_newest = |pin: &&Pin| known(&pin.tool) == Some(&print(pin));
        pins.iter().map(|some| some.iter().filter(is_newest).cloned().collect()).collect()
    }

    pub(super) fn unkept(&self) -> MutexGuard<'_, Unkept> {
        locked(&self.unkept)
    }
}

pub(super) fn locked(unkept: &Mutex<Unkept>) -> MutexGuard<'_, Unkept> {
    unkept.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn print(pin: &Pin) -> Print {
    Print { text: pin.text, meaning: pin.meaning }
}
