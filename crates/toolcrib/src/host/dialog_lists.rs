//! Lists per dialog: a dialog with a session of its own sees the lists of that session.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::time::Instant;
use toolcrib_config::model::host::Pins;
use toolcrib_upstream::conn::Catalog;

use super::core::Core;
use super::events::HostEvent;
use super::host_snapshot::{CheckedCatalog, HostSnapshot};
use super::pinning::{PinCheck, check_catalog};
use super::reconciler::{Reconciler, slots_mut};
use super::running_server::SessionList;
use super::slot::ServerSlot;

/// Some servers add tools right after a session opens, depending on the client's capabilities, and
/// announce the change. Lists of younger sessions are not final.
const LIST_SETTLE_TIME: Duration = Duration::from_secs(1);

/// The lists that one dialog sees instead of the shared lists. Nearly always there are none.
#[derive(Debug, Default)]
pub(super) struct DialogLists(ArcSwapOption<ListOverlay>);

/// Lists by server number, shared by all dialogs with equal lists.
#[derive(Debug)]
pub(super) struct ListOverlay {
    by_server: BTreeMap<u64, CheckedCatalog>,
    /// The newest snapshot, and that snapshot with these lists applied.
    cached: Mutex<Option<(Arc<HostSnapshot>, Arc<HostSnapshot>)>>,
}

/// The checked lists of one server's dialog sessions.
#[derive(Default)]
pub(super) struct SessionLists(Vec<CheckedList>);

/// A session's list, compared with the shared list.
struct CheckedList {
    catalog: Arc<Catalog>,
    shared: Option<CheckedCatalog>,
    pins: Pins,
    /// `None` if the list equals the shared list.
    list: Option<CheckedCatalog>,
}

impl DialogLists {
    /// The newest snapshot as this dialog sees it.
    pub(super) fn apply_to(&self, core: &Core, newest: Arc<HostSnapshot>) -> Arc<HostSnapshot> {
        match &*self.0.load() {
            None => newest,
            Some(lists) => lists.apply_to(core, newest),
        }
    }
}

impl ListOverlay {
    fn apply_to(&self, core: &Core, newest: Arc<HostSnapshot>) -> Arc<HostSnapshot> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        match &*cached {
            Some((of, with_own)) if Arc::ptr_eq(of, &newest) => Arc::clone(with_own),
            _ => {
                let with_own = Arc::new(newest.with_lists(&core.native_toolsets, &self.by_server));
                *cached = Some((newest, Arc::clone(&with_own)));
                with_own
            }
        }
    }
}

impl SessionLists {
    pub(super) fn lists(&self) -> impl Iterator<Item = CheckedCatalog> {
        self.0.iter().filter_map(|it| it.list.clone())
    }

    /// Discards all results, so that every list is checked again.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The result for a list; `None` if the list has not been checked.
    fn find(
        &self,
        catalog: &Arc<Catalog>,
        shared: Option<&CheckedCatalog>,
        pins: Pins,
    ) -> Option<Option<CheckedCatalog>> {
        let by_now = self.0.iter().filter(|it| it.shared.as_ref() == shared && it.pins == pins);
        let mut alike = by_now
            .filter(|it| Arc::ptr_eq(&it.catalog, catalog) || it.catalog.offers_same(catalog));
        alike.next().map(|it| it.list.clone())
    }

    fn insert(&mut self, result: CheckedList) {
        self.0.retain(|it| !Arc::ptr_eq(&it.catalog, &result.catalog));
        self.0.push(result);
    }

    fn retain_listed(&mut self, listed: &[(Arc<str>, SessionList)]) {
        let is_listed = |it: &CheckedList| {
            listed.iter().any(|(_, (listed, _))| Arc::ptr_eq(listed, &it.catalog))
        };
        self.0.retain(is_listed);
    }
}

impl Reconciler {
    /// Updates which dialogs see other lists than the shared ones, and publishes the changes.
    /// Returns when the next check is due.
    pub(super) async fn update_dialog_lists(&mut self) -> Option<Instant> {
        let (core, pins) = (Arc::clone(&self.core), self.root_folder().config.host.pins);
        let (now, mut due) = (Instant::now(), None);
        let mut found: HashMap<Arc<str>, BTreeMap<u64, CheckedCatalog>> = HashMap::new();
        for slot in slots_mut(&mut self.folders, &mut self.added) {
            let listed = slot.running.session_lists(&core.dialogs);
            slot.session_lists.retain_listed(&listed);
            for (dialog, (catalog, opened)) in listed {
                let settled = opened.map(|opened| opened + LIST_SETTLE_TIME).filter(|at| *at > now);
                if settled.is_some() {
                    due = due.into_iter().chain(settled).min();
                    continue;
                }
                if let Some(list) = check_session_list(&core, slot, catalog, pins).await {
                    let number = slot.running.server.number();
                    found.entry(dialog).or_default().insert(number, list);
                }
            }
        }
        self.publish_dialog_lists(found);
        due
    }

    fn publish_dialog_lists(
        &mut self,
        mut found: HashMap<Arc<str>, BTreeMap<u64, CheckedCatalog>>,
    ) {
        let ids: BTreeSet<Arc<str>> = found.keys().chain(self.overlays.keys()).cloned().collect();
        for id in ids {
            let (before, now) = (self.overlays.get(&id), found.remove(&id));
            if before.map(|lists| &lists.by_server) == now.as_ref() {
                continue;
            }
            let lists = now.map(|by_server| self.shared_overlay(by_server));
            if let Some(dialog) = self.core.dialogs.get(&id) {
                dialog.lists.0.store(lists.clone());
                self.core.events.publish(HostEvent::DialogListsChanged { dialog: Arc::clone(&id) });
            }
            match lists {
                Some(lists) => self.overlays.insert(id, lists),
                None => self.overlays.remove(&id),
            };
        }
    }

    /// Returns the overlay of another dialog if it is equal, else a new one.
    fn shared_overlay(&self, by_server: BTreeMap<u64, CheckedCatalog>) -> Arc<ListOverlay> {
        let same = self.overlays.values().find(|lists| lists.by_server == by_server);
        same.cloned()
            .unwrap_or_else(|| Arc::new(ListOverlay { by_server, cached: Mutex::default() }))
    }
}

/// Checks a session's list against the pinned definitions. Returns `None` if the list equals the
/// shared list, or if its changes cannot be determined and pins are enforced.
async fn check_session_list(
    core: &Arc<Core>,
    slot: &mut ServerSlot,
    catalog: Arc<Catalog>,
    pins: Pins,
) -> Option<CheckedCatalog> {
    let shared = slot.pins.checked();
    if let Some(list) = slot.session_lists.find(&catalog, shared.as_ref(), pins) {
        slot.session_lists.insert(CheckedList { catalog, shared, pins, list: list.clone() });
        return list;
    }
    let is_same = shared.as_ref().is_some_and(|it| it.catalog.offers_same(&catalog));
    let compared = match pins {
        _ if is_same => None,
        Pins::Off => Some(PinCheck::default()),
        _ => match check_catalog(core, slot, &catalog).await {
            Err(_) if pins == Pins::Enforce => None,
            result => Some(result.unwrap_or_default()),
        },
    };
    let list = compared.map(|compared| compared.with_catalog(Arc::clone(&catalog)));
    slot.session_lists.insert(CheckedList { catalog, shared, pins, list: list.clone() });
    list
}
