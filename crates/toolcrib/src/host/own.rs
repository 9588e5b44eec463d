//! Lists of sessions that are not everybody's: a dialog that has such a session sees what the server lists there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::time::Instant;
use toolcrib_config::model::host::Pins;
use toolcrib_upstream::conn::Catalog;

use super::core::Core;
use super::events::Event;
use super::pinning::{Comparison, look};
use super::published::{Judged, Published};
use super::serving::Listed;
use super::slot::Slot;
use super::steward::{Steward, slots_mut};

/// Servers that have tools only for whoever can be asked add them when a session has just been opened, and say so. Until
/// then what such a session lists is not what it will list.
const SETTLING: Duration = Duration::from_secs(1);

/// What one dialog sees instead of what everybody sees. Nearly always there is nothing.
#[derive(Debug, Default)]
pub(super) struct Own(ArcSwapOption<Lists>);

/// Lists by the numbers of their servers. Dialogs with the same share them.
#[derive(Debug)]
pub(super) struct Lists {
    of: BTreeMap<u64, Judged>,
    /// The newest snapshot, and the same with these lists in it.
    planned: Mutex<Option<(Arc<Published>, Arc<Published>)>>,
}

/// What sessions of one server were found to list.
#[derive(Default)]
pub(super) struct OwnLists(Vec<Looked>);

/// A list that was held against everybody's.
struct Looked {
    catalog: Arc<Catalog>,
    everybodys: Option<Judged>,
    pins: Pins,
    /// Nothing where it is the same.
    list: Option<Judged>,
}

impl Own {
    /// The newest snapshot as this dialog sees it.
    pub(super) fn over(&self, core: &Core, newest: Arc<Published>) -> Arc<Published> {
        match &*self.0.load() {
            None => newest,
            Some(lists) => lists.over(core, newest),
        }
    }
}

impl Lists {
    fn over(&self, core: &Core, newest: Arc<Published>) -> Arc<Published> {
        let mut planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        match &*planned {
            Some((of, with_own)) if Arc::ptr_eq(of, &newest) => Arc::clone(with_own),
            _ => {
                let with_own = Arc::new(newest.with(&core.native, &self.of));
                *planned = Some((newest, Arc::clone(&with_own)));
                with_own
            }
        }
    }
}

impl OwnLists {
    pub(super) fn lists(&self) -> impl Iterator<Item = Judged> {
        self.0.iter().filter_map(|it| it.list.clone())
    }

    /// What was found out does not count any more.
    pub(super) fn look_again(&mut self) {
        self.0.clear();
    }

    /// What is known of a list; nothing where it is new.
    fn known(
        &self,
        catalog: &Arc<Catalog>,
        everybodys: Option<&Judged>,
        pins: Pins,
    ) -> Option<Option<Judged>> {
        let by_now =
            self.0.iter().filter(|it| it.everybodys.as_ref() == everybodys && it.pins == pins);
        let mut alike = by_now
            .filter(|it| Arc::ptr_eq(&it.catalog, catalog) || it.catalog.offers_same(catalog));
        alike.next().map(|it| it.list.clone())
    }

    fn learn(&mut self, looked: Looked) {
        self.0.retain(|it| !Arc::ptr_eq(&it.catalog, &looked.catalog));
        self.0.push(looked);
    }

    fn keep_only(&mut self, listed: &[(Arc<str>, Listed)]) {
        let is_listed =
            |it: &Looked| listed.iter().any(|(_, (listed, _))| Arc::ptr_eq(listed, &it.catalog));
        self.0.retain(is_listed);
    }
}

impl Steward {
    /// Finds out which dialogs have sessions that list something else than everybody is offered, and tells them. When to
    /// look again.
    pub(super) async fn look_at_own(&mut self) -> Option<Instant> {
        let (core, pins) = (Arc::clone(&self.core), self.root().config.host.pins);
        let (now, mut due) = (Instant::now(), None);
        let mut found: HashMap<Arc<str>, BTreeMap<u64, Judged>> = HashMap::new();
        for slot in slots_mut(&mut self.folders, &mut self.added) {
            let listed = slot.serving.own_lists(&core.dialogs);
            slot.own.keep_only(&listed);
            for (dialog, (catalog, opened)) in listed {
                let settled = opened.map(|opened| opened + SETTLING).filter(|at| *at > now);
                if settled.is_some() {
                    due = due.into_iter().chain(settled).min();
                    continue;
                }
                if let Some(list) = own_list(&core, slot, catalog, pins).await {
                    let number = slot.serving.server.number();
                    found.entry(dialog).or_default().insert(number, list);
                }
            }
        }
        self.tell_own(found);
        due
    }

    fn tell_own(&mut self, mut found: HashMap<Arc<str>, BTreeMap<u64, Judged>>) {
        let ids: BTreeSet<Arc<str>> = found.keys().chain(self.own.keys()).cloned().collect();
        for id in ids {
            let (before, now) = (self.own.get(&id), found.remove(&id));
            if before.map(|lists| &lists.of) == now.as_ref() {
                continue;
            }
            let lists = now.map(|of| self.lists(of));
            if let Some(dialog) = self.core.dialogs.get(&id) {
                dialog.own.0.store(lists.clone());
                self.core.events.tell(Event::Offered { dialog: Arc::clone(&id) });
            }
            match lists {
                Some(lists) => self.own.insert(id, lists),
                None => self.own.remove(&id),
            };
        }
    }

    /// The same that others have, where some have the same.
    fn lists(&self, of: BTreeMap<u64, Judged>) -> Arc<Lists> {
        let same = self.own.values().find(|lists| lists.of == of);
        same.cloned().unwrap_or_else(|| Arc::new(Lists { of, planned: Mutex::default() }))
    }
}

/// A list as it may be offered to whoever has the session; nothing where it is everybody's, or where nobody can tell
/// what has changed in it.
async fn own_list(
    core: &Arc<Core>,
    slot: &mut Slot,
    catalog: Arc<Catalog>,
    pins: Pins,
) -> Option<Judged> {
    let everybodys = slot.pinned.judged();
    if let Some(list) = slot.own.known(&catalog, everybodys.as_ref(), pins) {
        slot.own.learn(Looked { catalog, everybodys, pins, list: list.clone() });
        return list;
    }
    let is_same = everybodys.as_ref().is_some_and(|it| it.catalog.offers_same(&catalog));
    let compared = match pins {
        _ if is_same => None,
        Pins::Off => Some(Comparison::default()),
        _ => match look(core, slot, &catalog).await {
            Err(_) if pins == Pins::Enforce => None,
            looked => Some(looked.unwrap_or_default()),
        },
    };
    let list = compared.map(|compared| compared.of(Arc::clone(&catalog)));
    slot.own.learn(Looked { catalog, everybodys, pins, list: list.clone() });
    list
}
