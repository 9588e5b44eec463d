//! Tools held against the definitions that they were first seen with: what became another is told, and withheld
//! where that is wanted, until somebody accepts it.

use std::collections::HashMap;
use std::sync::Arc;

use toolcrib_config::model::host::Pins;
use toolcrib_wire::view::Tool;

use super::core::Core;
use super::events::Event;
use super::pin_problems::{and_more, problem, too_many, unreadable, unwritten};
use super::pinned::{locked, print};
use super::slot::Slot;
use super::steward::{Steward, slots, slots_mut};
use crate::conn::Catalog;
use crate::registry::{Compared, Print, compare, definition, difference};
use crate::signals::chain;
use crate::store::{MOST_PINS, Pin, PinnedServer, StoreError};

/// Of so many tools is told how they changed; a server that changed all of thousands is told of by their number.
const TOLD: usize = 100;

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

/// What looking at a list found out.
struct Found {
    /// Whether anything was known of the server's tools before.
    was_known: bool,
    known: HashMap<String, Print>,
    pins: Vec<Pin>,
    new: Vec<String>,
    /// How many more were new.
    excess: usize,
    /// The names and definitions of what changed.
    changed: Vec<(String, Option<String>)>,
}

impl Steward {
    /// Looks at every list that came since it last did.
    pub(super) async fn judge(&mut self) {
        let pins = self.root().config.host.pins;
        if pins != Pins::Off {
            self.recall().await;
        }
        let (core, root) = (Arc::clone(&self.core), pinned_root(&self.core));
        let mut unseen = self.unseen(pins);
        let found = find_all(&mut unseen).await;
        for ((slot, catalog), found) in unseen.into_iter().zip(found) {
            let changed = match found {
                Ok(found) => Ok(learn(&core, &root, slot, found).await.into()),
                Err(why) => Err(why),
            };
            slot.pinned.judge(catalog, changed, pins);
        }
        keep(&core, &root, slots_mut(&mut self.folders, &mut self.added));
        self.tell_changed();
    }

    /// The lists that have to be held against what is known. Of all others it is clear what is to be said.
    fn unseen(&mut self, pins: Pins) -> Vec<(&mut Slot, Arc<Catalog>)> {
        let mut unseen = Vec::new();
        for slot in slots_mut(&mut self.folders, &mut self.added) {
            match slot.catalog() {
                None => slot.pinned.forget_list(),
                Some(catalog) if slot.pinned.is_judged(&catalog, pins) => {}
                Some(catalog) if pins == Pins::Off => {
                    slot.pinned.judge(catalog, Ok(Arc::default()), pins);
                }
                Some(catalog) if slot.pinned.is_alike(&catalog) => {
                    let (_, changed) = slot.pinned.judged();
                    slot.pinned.judge(catalog, Ok(changed), pins);
                }
                Some(catalog) => unseen.push((slot, catalog)),
            }
        }
        unseen
    }

    /// Reads how the tools of all servers were, together: one after the other they would wait for what is written of
    /// those that were first. Where that fails it is done one by one, so that one server's do not stand for all.
    async fn recall(&mut self) {
        let all = slots_mut(&mut self.folders, &mut self.added);
        let unknown: Vec<&mut Slot> = all.filter(|slot| slot.pinned.known.is_none()).collect();
        if unknown.is_empty() {
            return;
        }
        let root = pinned_root(&self.core);
        let server = |slot: &Slot| pinned_server(&root, slot);
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
        all.flat_map(|slot| slot.pinned.judged().1.to_vec()).collect()
    }

    /// Accepts what is called so, or all; what was accepted.
    pub(super) async fn accept(
        &mut self,
        tool: Option<&str>,
    ) -> Result<Vec<ChangedDefinition>, StoreError> {
        let mut accepted = Vec::new();
        let (core, root) = (Arc::clone(&self.core), pinned_root(&self.core));
        for slot in slots_mut(&mut self.folders, &mut self.added) {
            let server = pinned_server(&root, slot);
            let Some(judged) = &mut slot.pinned.judged else { continue };
            let is_meant =
                |it: &ChangedDefinition| tool.is_none_or(|name| it.name == name || it.tool == name);
            let (meant, rest): (Vec<_>, Vec<_>) =
                judged.changed.iter().cloned().partition(is_meant);
            if meant.is_empty() {
                continue;
            }
            let tools = &judged.catalog.tools;
            let now =
                meant.iter().filter_map(|it| tools.iter().find(|tool| tool.name() == it.tool));
            let pins: Vec<Pin> = now.map(pin).collect();
            let prints = pins.iter().map(|pin| (pin.tool.clone(), print(pin))).collect::<Vec<_>>();
            core.store.set_pins(vec![(server, pins.into())]).await?;
            judged.changed = Arc::new(rest);
            slot.pinned.known.get_or_insert_default().extend(prints);
            accepted.extend(meant);
        }
        Ok(accepted)
    }

    fn tell_changed(&self) {
        let pins = self.root().config.host.pins;
        let is_enforced = pins == Pins::Enforce;
        for slot in slots(&self.folders, &self.added) {
            let (_, changed) = slot.pinned.judged();
            let told = changed.iter().take(TOLD).map(|it| problem(&slot.spec, it, is_enforced));
            let more = changed.len().saturating_sub(TOLD);
            let rest = (more > 0).then(|| and_more(&slot.spec, more));
            let unread = slot.pinned.unread.as_ref();
            let unread = unread.map(|why| unreadable(&slot.spec, why, is_enforced));
            let unkept = slot.pinned.unkept().failed.clone().filter(|_| pins != Pins::Off);
            let unkept = unkept.map(|(why, _)| unwritten(&slot.spec, &why));
            let excess = Some(slot.pinned.excess).filter(|it| *it > 0 && pins != Pins::Off);
            let full = excess.map(|count| too_many(&slot.spec, count, is_enforced));
            let all = told.chain(rest).chain(unread).chain(unkept).chain(full).collect();
            self.core.tell_problems(&format!("{} pins", slot.matter()), all);
        }
    }
}

/// Holds lists against what is known of them; why not, where nobody can tell. All in one go: to hand each to another
/// thread takes longer than most of them.
async fn find_all(unseen: &mut [(&mut Slot, Arc<Catalog>)]) -> Vec<Result<Found, String>> {
    if unseen.is_empty() {
        return Vec::new();
    }
    let each = unseen.iter_mut().map(|(slot, catalog)| {
        let unread = slot.pinned.unread.clone();
        let unread = || unread.unwrap_or_else(|| "nobody has looked yet".to_owned());
        (slot.pinned.known.take().ok_or_else(unread), Arc::clone(catalog))
    });
    let each: Vec<_> = each.collect();
    let found = tokio::task::spawn_blocking(move || {
        each.into_iter().map(|(known, list)| Ok(find(known?, &list.tools))).collect()
    });
    // It does not panic; if it did, the store would be asked again.
    found.await.unwrap_or_else(|error| unseen.iter().map(|_| Err(error.to_string())).collect())
}

/// What is new is known from now on. What has changed.
async fn learn(core: &Core, root: &str, slot: &mut Slot, found: Found) -> Vec<ChangedDefinition> {
    let Found { was_known, known, pins, new, excess, changed } = found;
    (slot.pinned.known, slot.pinned.excess) = (Some(known), excess);
    if was_known && !new.is_empty() {
        let server = Arc::clone(&slot.key);
        core.events.tell(Event::Pinned { server, tools: new });
    }
    if !pins.is_empty() {
        slot.pinned.unkept().pins.push(pins.into());
    }
    told(core, slot, &pinned_server(root, slot), changed).await
}

/// Writes what is not written yet, beside: of all servers together, because each time takes long.
fn keep<'a>(core: &Core, root: &str, slots: impl Iterator<Item = &'a mut Slot>) {
    let mut some = Vec::new();
    for slot in slots {
        if std::mem::take(&mut slot.pinned.is_news) || slot.pinned.unkept().is_due() {
            let pins = slot.pinned.take_unkept().into_iter();
            let (server, unkept) = (pinned_server(root, slot), &slot.pinned.unkept);
            some.extend(pins.map(|pins| (server.clone(), pins, Arc::clone(unkept))));
        }
    }
    if some.is_empty() {
        return;
    }
    let (store, ears) = (core.store.clone(), Arc::clone(&core.ears));
    core.beside(async move {
        let all = some.iter().map(|(server, pins, _)| (server.clone(), Arc::clone(pins)));
        // What fails is not tried again from here: what is accepted meanwhile would be undone.
        let kept = store.set_pins(all.collect()).await;
        for (_, pins, unkept) in some {
            locked(&unkept).tried(pins, kept.as_ref().err());
        }
        // What has changed of it is told there.
        ears.news.notify_one();
    });
}

/// Pure, and long where a server has thousands of tools.
fn find(mut known: HashMap<String, Print>, tools: &[Tool]) -> Found {
    let was_known = !known.is_empty();
    let Compared { changed, mut new, reworded } = compare(&known, tools);
    let excess = new.split_off(new.len().min(MOST_PINS.saturating_sub(known.len()))).len();
    let at = |place: &usize| tools.get(*place);
    let pins: Vec<Pin> = new.iter().chain(&reworded).filter_map(at).map(pin).collect();
    known.extend(pins.iter().map(|pin| (pin.tool.clone(), print(pin))));
    let definition_of = |tool: &Tool| (tool.name().to_owned(), definition(tool));
    Found {
        was_known,
        known,
        pins,
        new: new.iter().filter_map(at).map(|tool| tool.name().to_owned()).collect(),
        excess,
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

fn pinned_server(root: &str, slot: &Slot) -> PinnedServer {
    PinnedServer { root: root.to_owned(), key: slot.key.to_string() }
}

/// Whatever way leads to it.
fn pinned_root(core: &Core) -> String {
    let root = core.workspace.root.canonicalize().unwrap_or_else(|_| core.workspace.root.clone());
    root.display().to_string()
}

fn pin(tool: &Tool) -> Pin {
    let Print { text, meaning } = Print::of(tool);
    Pin { tool: tool.name().to_owned(), text, meaning, definition: definition(tool) }
}
