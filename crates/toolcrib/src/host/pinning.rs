//! Tools held against the definitions that they were first seen with: what became another is told, and withheld
//! where that is wanted, until somebody accepts it.

use std::collections::HashMap;
use std::sync::Arc;

use toolcrib_config::model::host::Pins;
use toolcrib_config::{Problem, ServerSpec, clip};
use toolcrib_wire::view::Tool;

use super::core::Core;
use super::events::Event;
use super::slot::{Slot, placed};
use super::steward::{Steward, slots, slots_mut};
use crate::conn::Catalog;
use crate::registry::{Compared, Print, compare, definition, difference};
use crate::signals::chain;
use crate::store::{Pin, PinnedServer, StoreError};

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

/// How the tools of a slot are known.
#[derive(Default)]
pub(super) struct Pinned {
    /// Nothing until the store was asked.
    known: Option<HashMap<String, Print>>,
    judged: Option<Judged>,
    /// Why nobody knows how the tools were, as long as nobody does.
    unread: Option<String>,
}

/// A list that was looked at.
struct Judged {
    catalog: Arc<Catalog>,
    changed: Arc<Vec<ChangedDefinition>>,
    /// By which rule.
    pins: Pins,
}

/// What looking at a list found out.
struct Found {
    known: HashMap<String, Print>,
    pins: Vec<Pin>,
    new: Vec<String>,
    /// The names and definitions of what changed.
    changed: Vec<(String, Option<String>)>,
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
    fn is_judged(&self, catalog: &Arc<Catalog>, pins: Pins) -> bool {
        let is_it = |it: &Judged| Arc::ptr_eq(&it.catalog, catalog) && it.pins == pins;
        self.judged.as_ref().is_some_and(is_it) && self.unread.is_none()
    }

    /// A list that says the same as the one before needs no further look.
    fn is_alike(&self, catalog: &Catalog) -> bool {
        let known = self.judged.as_ref().filter(|it| it.pins != Pins::Off && self.unread.is_none());
        known.is_some_and(|judged| {
            let (old, new) = (&judged.catalog.tools, &catalog.tools);
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| old.raw() == new.raw())
        })
    }
}

impl Steward {
    /// Looks at every list that came since it last did.
    pub(super) async fn judge(&mut self) {
        let pins = self.root().config.host.pins;
        let unread = match pins {
            Pins::Off => None,
            _ => self.recall().await.err(),
        };
        let core = Arc::clone(&self.core);
        for slot in slots_mut(&mut self.folders, &mut self.added) {
            let Some(catalog) = slot.catalog() else {
                slot.pinned.forget_list();
                continue;
            };
            if slot.pinned.is_judged(&catalog, pins) {
                continue;
            }
            let looked = match pins {
                Pins::Off => Ok(Arc::default()),
                _ if slot.pinned.is_alike(&catalog) => Ok(slot.pinned.judged().1),
                _ => look(&core, slot, &catalog, unread.as_deref()).await.map(Arc::new),
            };
            slot.pinned.unread = looked.as_ref().err().cloned();
            slot.pinned.judged = match looked {
                // Nobody can tell what has changed, so that nothing of it is offered.
                Err(_) if pins == Pins::Enforce => None,
                looked => Some(Judged { catalog, changed: looked.unwrap_or_default(), pins }),
            };
        }
        self.tell_changed();
    }

    /// Reads how the tools of all servers were, together: one after the other they would wait for what is written of
    /// those that were first.
    async fn recall(&mut self) -> Result<(), String> {
        let all = slots_mut(&mut self.folders, &mut self.added);
        let unknown: Vec<&mut Slot> = all.filter(|slot| slot.pinned.known.is_none()).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let servers = unknown.iter().map(|slot| pinned_server(&self.core, &slot.key)).collect();
        let pins = self.core.store.pins(servers).await.map_err(|error| {
            tracing::warn!(%error, "nobody knows how tools were");
            chain(&error)
        })?;
        for (slot, pins) in unknown.into_iter().zip(pins) {
            let known = pins.into_iter().map(|pin| (pin.tool.clone(), print(&pin)));
            slot.pinned.known = Some(known.collect());
        }
        Ok(())
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
        let core = Arc::clone(&self.core);
        for slot in slots_mut(&mut self.folders, &mut self.added) {
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
            core.store.set_pins(&pinned_server(&core, &slot.key), pins).await?;
            judged.changed = Arc::new(rest);
            slot.pinned.known.get_or_insert_default().extend(prints);
            accepted.extend(meant);
        }
        Ok(accepted)
    }

    fn tell_changed(&self) {
        let is_enforced = self.root().config.host.pins == Pins::Enforce;
        for slot in slots(&self.folders, &self.added) {
            let (_, changed) = slot.pinned.judged();
            let told = changed.iter().take(TOLD).map(|it| problem(&slot.spec, it, is_enforced));
            let more = changed.len().saturating_sub(TOLD);
            let rest = (more > 0).then(|| and_more(&slot.spec, more));
            let unread = slot.pinned.unread.as_ref();
            let unread = unread.map(|why| unreadable(&slot.spec, why, is_enforced));
            let all = told.chain(rest).chain(unread).collect();
            self.core.tell_problems(&format!("{} pins", slot.matter()), all);
        }
    }
}

/// Holds a list against what is known; what is new is known from now on. An error where nobody can tell.
async fn look(
    core: &Arc<Core>,
    slot: &mut Slot,
    catalog: &Arc<Catalog>,
    unread: Option<&str>,
) -> Result<Vec<ChangedDefinition>, String> {
    let server = pinned_server(core, &slot.key);
    let known = slot.pinned.known.take();
    let known = known.ok_or_else(|| unread.unwrap_or("nobody has looked yet").to_owned())?;
    let (was_known, list) = (!known.is_empty(), Arc::clone(catalog));
    let found = tokio::task::spawn_blocking(move || find(known, &list.tools)).await;
    // It does not panic; if it did, the store would be asked again.
    let Found { known, pins, new, changed } = found.map_err(|error| error.to_string())?;
    slot.pinned.known = Some(known);
    if was_known && !new.is_empty() {
        let server = Arc::clone(&slot.key);
        core.events.tell(Event::Pinned { server, tools: new });
    }
    if !pins.is_empty() {
        let (store, server) = (core.store.clone(), server.clone());
        core.beside(async move {
            if let Err(error) = store.set_pins(&server, pins).await {
                tracing::warn!(server = %server.key, %error, "its tools are not remembered");
            }
        });
    }
    Ok(told(core, slot, &server, changed).await)
}

/// Pure, and long where a server has thousands of tools.
fn find(mut known: HashMap<String, Print>, tools: &[Tool]) -> Found {
    let Compared { changed, new, reworded } = compare(&known, tools);
    let at = |place: &usize| tools.get(*place);
    let pins: Vec<Pin> = new.iter().chain(&reworded).filter_map(at).map(pin).collect();
    known.extend(pins.iter().map(|pin| (pin.tool.clone(), print(pin))));
    let definition_of = |tool: &Tool| (tool.name().to_owned(), definition(tool));
    Found {
        known,
        pins,
        new: new.iter().filter_map(at).map(|tool| tool.name().to_owned()).collect(),
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

fn problem(spec: &ServerSpec, changed: &ChangedDefinition, is_enforced: bool) -> Problem {
    let (name, server) = (clip(&changed.tool), &spec.id);
    let what = if is_enforced { ", so it is withheld" } else { "" };
    let text = format!(
        "tool `{name}` of `{server}` is not what it was when it was first seen{what}:\n{}",
        changed.difference
    );
    let problem = match is_enforced {
        true => Problem::error(CODE, text),
        false => Problem::warning(CODE, text),
    };
    let fix = format!("if the change is right, accept it: `toolcrib accept {}`", changed.name);
    placed(problem, spec).tool(&changed.tool).fix(fix)
}

fn and_more(spec: &ServerSpec, more: usize) -> Problem {
    let text = format!("{more} more tools of `{}` are not what they were", spec.id);
    let mut problem = placed(Problem::warning(CODE, text), spec).fix("see `toolcrib accept`");
    problem.id += ":more";
    problem
}

fn unreadable(spec: &ServerSpec, why: &str, is_enforced: bool) -> Problem {
    let server = &spec.id;
    let problem = match is_enforced {
        true => Problem::error(
            UNREADABLE,
            format!(
                "nobody can tell whether the tools of `{server}` changed, so they are withheld: {why}"
            ),
        ),
        false => Problem::warning(
            UNREADABLE,
            format!("nobody can tell whether the tools of `{server}` changed: {why}"),
        ),
    };
    placed(problem, spec).fix("see to the store in the state folder; it is tried again")
}

const CODE: &str = "definition.changed";

const UNREADABLE: &str = "pins.unreadable";

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
