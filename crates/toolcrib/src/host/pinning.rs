//! Tools held against the definitions that they were first seen with: what became another is told, and withheld
//! where that is wanted, until somebody accepts it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use toolcrib_config::ServerSpec;
use toolcrib_config::model::host::Pins;
use toolcrib_upstream::conn::Catalog;
use toolcrib_upstream::signals::chain;
use toolcrib_wire::view::Tool;

use super::core::Core;
use super::events::Event;
use super::pin_problems::{and_more, problem, too_many, unreadable, unwritten};
use super::published::Judged;
use super::slot::Slot;
use super::steward::{Steward, slots, slots_mut};
use crate::registry::{Compared, Print, compare, definition, difference};
use crate::store::{Pin, PinnedServer, StoreError};

/// Of so many tools is told how they changed; a server that changed all of thousands is told of by their number.
const TOLD: usize = 100;

/// What could not be written is tried again after this time, or with the next list.
const AGAIN: Duration = Duration::from_secs(10);

/// A tool that is not what it was when it was first seen, or last accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedDefinition {
    /// The server's key.
    pub server: Arc<str>,
    /// The server's own name for it.
    pub tool: String,
    /// The name that it is offered by.
    pub name: String,
    /// What went and what came, in lines that begin with `-` and `+`. What would command a terminal is written out.
    pub difference: String,
}

/// How the tools of a slot are known.
#[derive(Default)]
pub(super) struct Pinned {
    /// Nothing until the store was asked.
    known: Option<HashMap<String, Print>>,
    /// The list that was last looked at, and by which rule.
    judged: Option<(Judged, Pins)>,
    /// Why nobody knows how the tools were, as long as nobody does.
    unread: Option<String>,
    unkept: Arc<Mutex<Unkept>>,
}

/// What another host would not know, because it is not written yet.
#[derive(Default)]
struct Unkept {
    pins: Vec<Arc<[Pin]>>,
    /// Why the last try to write some of it failed, and when that was.
    failed: Option<(String, Instant)>,
}

/// What looking at a list found out.
struct Found {
    known: HashMap<String, Print>,
    pins: Vec<Pin>,
    new: Vec<String>,
    /// The new ones that there was no room for.
    unpinned: HashSet<String>,
    /// The names and definitions of what changed.
    changed: Vec<(String, Option<String>)>,
}

/// The tools of a list that are not as they were accepted, and those that cannot be remembered.
#[derive(Default)]
pub(super) struct Comparison {
    pub(super) changed: Arc<Vec<ChangedDefinition>>,
    pub(super) unpinned: Arc<HashSet<String>>,
}

impl Unkept {
    /// Whether it is worth another try, although there is nothing new.
    fn is_due(&self) -> bool {
        self.failed.as_ref().is_some_and(|(_, at)| at.elapsed() >= AGAIN)
    }
}

impl Pinned {
    /// The list that everybody may be offered.
    pub(super) fn judged(&self) -> Option<Judged> {
        self.judged.as_ref().map(|(judged, _)| judged.clone())
    }

    /// Another server is in the slot; its tools are known by what those of the one before were.
    pub(super) fn forget_list(&mut self) {
        self.judged = None;
    }

    /// What could not be read is read again whenever there is an occasion.
    fn is_judged(&self, catalog: &Arc<Catalog>, pins: Pins) -> bool {
        let known = self.judged.as_ref().filter(|(_, by)| *by == pins && self.unread.is_none());
        known.is_some_and(|(judged, _)| Arc::ptr_eq(&judged.catalog, catalog))
    }

    /// A list that says the same as the one before needs no further look.
    fn is_alike(&self, catalog: &Catalog) -> bool {
        let known = self.judged.as_ref().filter(|it| it.1 != Pins::Off && self.unread.is_none());
        known.is_some_and(|(judged, _)| judged.catalog.has_same_tools(catalog))
    }

    fn learn(&mut self, pins: Vec<Pin>) {
        self.known = Some(pins.into_iter().map(|pin| (pin.tool.clone(), print(&pin))).collect());
    }

    /// What is to be written. What was tried before may be of a definition that another was accepted for since.
    fn take_unkept(&self) -> Vec<Arc<[Pin]>> {
        let mut unkept = self.unkept();
        let pins = std::mem::take(&mut unkept.pins);
        if unkept.failed.is_none() {
            return pins;
        }
        let known = |tool: &str| self.known.as_ref()?.get(tool);
        let is_newest = |pin: &&Pin| known(&pin.tool) == Some(&print(pin));
        pins.iter().map(|some| some.iter().filter(is_newest).cloned().collect()).collect()
    }

    fn unkept(&self) -> MutexGuard<'_, Unkept> {
        locked(&self.unkept)
    }
}

impl Steward {
    /// Looks at every list that came since it last did.
    pub(super) async fn judge(&mut self) {
        let pins = self.root().config.host.pins;
        if pins != Pins::Off {
            self.recall().await;
        }
        let core = Arc::clone(&self.core);
        for slot in slots_mut(&mut self.folders, &mut self.added) {
            let Some(catalog) = slot.catalog() else {
                slot.pinned.forget_list();
                continue;
            };
            if slot.pinned.is_judged(&catalog, pins) {
                if slot.pinned.unkept().is_due() {
                    keep(&core, slot);
                }
                continue;
            }
            let looked = match pins {
                Pins::Off => Ok(Comparison::default()),
                _ if slot.pinned.is_alike(&catalog) => {
                    Ok(slot.pinned.judged().map(Comparison::from).unwrap_or_default())
                }
                _ => look(&core, slot, &catalog).await,
            };
            keep(&core, slot);
            slot.pinned.unread = looked.as_ref().err().cloned();
            slot.pinned.judged = match looked {
                // Nobody can tell what has changed, so that nothing of it is offered.
                Err(_) if pins == Pins::Enforce => None,
                looked => Some((looked.unwrap_or_default().of(catalog), pins)),
            };
        }
    }

    /// Reads how the tools of all servers were, together: one after the other they would wait for what is written of
    /// those that were first. Where that fails it is done one by one, so that one server's do not stand for all.
    async fn recall(&mut self) {
        let all = slots_mut(&mut self.folders, &mut self.added);
        let unknown: Vec<&mut Slot> = all.filter(|slot| slot.pinned.known.is_none()).collect();
        if unknown.is_empty() {
            return;
        }
        let server = |slot: &Slot| pinned_server(&self.core, &slot.key);
        let servers = unknown.iter().map(|slot| server(slot)).collect();
        if let Ok(pins) = self.core.store.pins(servers).await {
            return unknown.into_iter().zip(pins).for_each(|(slot, pins)| slot.pinned.learn(pins));
        }
        for slot in unknown {
            match self.core.store.pins(vec![server(slot)]).await {
                Ok(pins) => slot.pinned.learn(pins.into_iter().flatten().collect()),
                Err(error) => slot.pinned.unread = Some(chain(&error)),
            }
        }
    }

    pub(super) fn changed_definitions(&self) -> Vec<ChangedDefinition> {
        let all = slots(&self.folders, &self.added);
        all.flat_map(Slot::changed).map(|(changed, _)| changed).collect()
    }

    /// Accepts what is called so, or all; what was accepted.
    pub(super) async fn accept(
        &mut self,
        tool: Option<&str>,
    ) -> Result<Vec<ChangedDefinition>, StoreError> {
        let mut accepted = Vec::new();
        let core = Arc::clone(&self.core);
        for slot in slots_mut(&mut self.folders, &mut self.added) {
            let is_meant =
                |it: &ChangedDefinition| tool.is_none_or(|name| it.name == name || it.tool == name);
            let meant: Vec<_> = slot.changed().filter(|(changed, _)| is_meant(changed)).collect();
            if meant.is_empty() {
                continue;
            }
            let (meant, pins): (Vec<_>, Vec<Pin>) =
                meant.into_iter().map(|(changed, tool)| (changed, pin(&tool))).unzip();
            let prints = pins.iter().map(|pin| (pin.tool.clone(), print(pin))).collect::<Vec<_>>();
            let (server, limit) = (pinned_server(&core, &slot.key), pin_limit(&slot.spec));
            core.store.set_pins(&server, pins.into(), limit).await?;
            if let Some((judged, _)) = &mut slot.pinned.judged {
                let rest = judged.changed.iter().filter(|it| !is_meant(it)).cloned();
                judged.changed = Arc::new(rest.collect());
            }
            slot.own.look_again();
            slot.pinned.known.get_or_insert_default().extend(prints);
            accepted.extend(meant);
        }
        Ok(accepted)
    }

    pub(super) fn tell_changed(&self) {
        let pins = self.root().config.host.pins;
        let is_enforced = pins == Pins::Enforce;
        for slot in slots(&self.folders, &self.added) {
            let changed: Vec<_> = slot.changed().map(|(changed, _)| changed).collect();
            let told = changed.iter().take(TOLD).map(|it| problem(&slot.spec, it, is_enforced));
            let more = changed.len().saturating_sub(TOLD);
            let rest = (more > 0).then(|| and_more(&slot.spec, more));
            let unread = slot.pinned.unread.as_ref();
            let unread = unread.map(|why| unreadable(&slot.spec, why, is_enforced));
            let unkept = slot.pinned.unkept().failed.clone().filter(|_| pins != Pins::Off);
            let unkept = unkept.map(|(why, _)| unwritten(&slot.spec, &why));
            let excess = Some(slot.unpinned()).filter(|it| *it > 0 && pins != Pins::Off);
            let full = excess.map(|count| too_many(&slot.spec, count, is_enforced));
            let all = told.chain(rest).chain(unread).chain(unkept).chain(full).collect();
            self.core.tell_problems(&format!("{} pins", slot.matter()), all);
        }
    }
}

/// Holds a list against what is known; what is new is known from now on. An error where nobody can tell.
pub(super) async fn look(
    core: &Arc<Core>,
    slot: &mut Slot,
    catalog: &Arc<Catalog>,
) -> Result<Comparison, String> {
    let server = pinned_server(core, &slot.key);
    let unread =
        || slot.pinned.unread.clone().unwrap_or_else(|| "nobody has looked yet".to_owned());
    let known = slot.pinned.known.take().ok_or_else(unread)?;
    let (was_known, list) = (!known.is_empty(), Arc::clone(catalog));
    let limit = pin_limit(&slot.spec);
    let found = tokio::task::spawn_blocking(move || find(known, &list.tools, limit)).await;
    // It does not panic; if it did, the store would be asked again.
    let found = found.map_err(|error| error.to_string())?;
    let Found { known, pins, new, unpinned, changed } = found;
    slot.pinned.known = Some(known);
    if was_known && !new.is_empty() {
        let server = Arc::clone(&slot.key);
        core.events.tell(Event::Pinned { server, tools: new });
    }
    if !pins.is_empty() {
        slot.pinned.unkept().pins.push(pins.into());
    }
    let changed = told(core, slot, &server, changed).await;
    Ok(Comparison { changed: Arc::new(changed), unpinned: Arc::new(unpinned) })
}

/// Writes what is not written yet, beside.
fn keep(core: &Core, slot: &Slot) {
    let pins = slot.pinned.take_unkept();
    if pins.is_empty() {
        return;
    }
    let (store, server) = (core.store.clone(), pinned_server(core, &slot.key));
    let limit = pin_limit(&slot.spec);
    let (unkept, ears) = (Arc::clone(&slot.pinned.unkept), Arc::clone(&core.ears));
    core.beside(async move {
        for some in pins {
            let kept = store.set_pins(&server, Arc::clone(&some), limit).await;
            let mut unkept = locked(&unkept);
            match kept {
                Err(error) => {
                    unkept.pins.push(some);
                    unkept.failed = Some((chain(&error), Instant::now()));
                }
                Ok(()) if unkept.pins.is_empty() => unkept.failed = None,
                Ok(()) => {}
            }
        }
        // What has changed of it is told there.
        ears.news.notify_one();
    });
}

fn locked(unkept: &Mutex<Unkept>) -> MutexGuard<'_, Unkept> {
    unkept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pure, and long where a server has thousands of tools.
fn find(mut known: HashMap<String, Print>, tools: &[Tool], limit: usize) -> Found {
    let Compared { changed, mut new, reworded } = compare(&known, tools);
    let unpinned = new.split_off(new.len().min(limit.saturating_sub(known.len())));
    let at = |place: &usize| tools.get(*place);
    let name_of = |tool: &Tool| tool.name().to_owned();
    let pins: Vec<Pin> = new.iter().chain(&reworded).filter_map(at).map(pin).collect();
    known.extend(pins.iter().map(|pin| (pin.tool.clone(), print(pin))));
    let definition_of = |tool: &Tool| (tool.name().to_owned(), definition(tool));
    Found {
        known,
        pins,
        new: new.iter().filter_map(at).map(name_of).collect(),
        unpinned: unpinned.iter().filter_map(at).map(name_of).collect(),
        changed: changed.iter().filter_map(at).map(definition_of).collect(),
    }
}

/// How each of them changed, as far as somebody would read it.
async fn told(
    core: &Core,
    slot: &Slot,
    server: &PinnedServer,
    changed: Vec<(String, Option<String>)>,
) -> Vec<ChangedDefinition> {
    let names = changed.iter().take(TOLD).map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let before = match names.is_empty() {
        true => HashMap::new(),
        false => core.store.pinned_definitions(server, names).await.unwrap_or_default(),
    };
    let spec = &slot.spec;
    let tell = |(place, (tool, now)): (usize, (String, Option<String>))| ChangedDefinition {
        server: Arc::clone(&slot.key),
        name: spec.policy.naming.names(&spec.id, &tool).map_or_else(|_| tool.clone(), |it| it.id),
        difference: match place < TOLD {
            true => difference(before.get(&tool).map(String::as_str), now.as_deref()),
            false => "too many tools changed at once to tell how".to_owned(),
        },
        tool,
    };
    changed.into_iter().enumerate().map(tell).collect()
}

impl Comparison {
    pub(super) fn of(self, catalog: Arc<Catalog>) -> Judged {
        Judged { catalog, changed: self.changed, unpinned: self.unpinned }
    }
}

impl From<Judged> for Comparison {
    fn from(judged: Judged) -> Self {
        Comparison { changed: judged.changed, unpinned: judged.unpinned }
    }
}

fn pin_limit(spec: &ServerSpec) -> usize {
    usize::try_from(spec.policy.limits.pins).unwrap_or(usize::MAX)
}

fn pinned_server(core: &Core, key: &str) -> PinnedServer {
    let root = core.workspace.root.canonicalize().unwrap_or_else(|_| core.workspace.root.clone());
    PinnedServer { root: root.display().to_string(), key: key.to_owned() }
}

fn pin(tool: &Tool) -> Pin {
    let Print { text, meaning } = Print::of(tool);
    Pin { tool: tool.name().to_owned(), text, meaning, definition: definition(tool) }
}

fn print(pin: &Pin) -> Print {
    Print { text: pin.text, meaning: pin.meaning }
}
