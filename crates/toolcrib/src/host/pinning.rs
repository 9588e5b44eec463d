//! Pins tool definitions: a tool with a definition that differs from its pin is reported, and with
//! `pins: enforce` withheld, until the new definition is accepted.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use toolcrib_config::ServerSpec;
use toolcrib_config::model::host::Pins;
use toolcrib_upstream::conn::Catalog;
use toolcrib_upstream::signals::chain;
use toolcrib_wire::view::ToolView;

use super::core::Core;
use super::events::HostEvent;
use super::host_snapshot::CheckedCatalog;
use super::pin_problems::{
    changed_definition, more_changed_definitions, too_many_tools, unreadable_pins, unwritten_pins,
};
use super::reconciler::{Reconciler, slots, slots_mut};
use super::slot::ServerSlot;
use crate::registry::{
    PinComparison, ToolFingerprint, canonical_definition, compare_definitions, definition_diff,
};
use crate::store::{Pin, PinnedServer, StoreError};

/// Maximum number of changed tools per server that are reported with their difference. Further
/// changes are only counted.
const MAX_DESCRIBED: usize = 100;

/// Delay before pins that could not be saved are saved again. A new list saves them earlier.
const SAVE_RETRY_DELAY: Duration = Duration::from_secs(10);

/// A tool that has changed since its definition was first seen or last accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedDefinition {
    /// The server's key.
    pub server: Arc<str>,
    /// The tool's name at the server.
    pub tool: String,
    /// The tool's name in the registry.
    pub name: String,
    /// Removed and added lines, marked with `-` and `+`. Terminal control characters are escaped.
    pub difference: String,
}

/// The pinned definitions of a slot's tools.
#[derive(Default)]
pub(super) struct SlotPins {
    /// Fingerprints by tool name; `None` until they are loaded.
    known: Option<HashMap<String, ToolFingerprint>>,
    /// The catalog that was last checked, with the pin mode of that check.
    checked: Option<(CheckedCatalog, Pins)>,
    /// Why the pins could not be loaded, as long as they are unknown.
    load_error: Option<String>,
    unsaved: Arc<Mutex<UnsavedPins>>,
}

/// Pins that are not saved yet, so that another host would not know them.
#[derive(Default)]
struct UnsavedPins {
    pins: Vec<Arc<[Pin]>>,
    /// Why and when the last attempt to save failed.
    failed: Option<(String, Instant)>,
}

/// The result of scanning a list.
struct PinScan {
    known: HashMap<String, ToolFingerprint>,
    pins: Vec<Pin>,
    new: Vec<String>,
    /// New tools above the limit `limits.pins`.
    unpinned: HashSet<String>,
    /// Name and canonical definition of each changed tool.
    changed: Vec<(String, Option<String>)>,
}

/// The changed tools of a list, and the tools that exceed `limits.pins`.
#[derive(Default)]
pub(super) struct PinCheck {
    pub(super) changed: Arc<Vec<ChangedDefinition>>,
    pub(super) unpinned: Arc<HashSet<String>>,
}

impl UnsavedPins {
    /// Whether failed pins are due to be saved again, although there are no new ones.
    fn is_due(&self) -> bool {
        self.failed.as_ref().is_some_and(|(_, at)| at.elapsed() >= SAVE_RETRY_DELAY)
    }
}

impl SlotPins {
    /// The catalog that may be offered to every dialog.
    pub(super) fn checked(&self) -> Option<CheckedCatalog> {
        self.checked.as_ref().map(|(checked, _)| checked.clone())
    }

    /// Forgets the catalog of a replaced server. The pins stay valid for its successor.
    pub(super) fn clear_list(&mut self) {
        self.checked = None;
    }

    /// Whether this catalog was checked in this mode. Pins that could not be loaded are loaded
    /// again at every opportunity.
    fn is_checked(&self, catalog: &Arc<Catalog>, pins: Pins) -> bool {
        let known =
            self.checked.as_ref().filter(|(_, by)| *by == pins && self.load_error.is_none());
        known.is_some_and(|(checked, _)| Arc::ptr_eq(&checked.catalog, catalog))
    }

    /// Whether the tools equal those of the last checked catalog, so that no new check is needed.
    fn has_same_tools_as(&self, catalog: &Catalog) -> bool {
        let known =
            self.checked.as_ref().filter(|it| it.1 != Pins::Off && self.load_error.is_none());
        known.is_some_and(|(checked, _)| checked.catalog.has_same_tools(catalog))
    }

    fn set_known(&mut self, pins: Vec<Pin>) {
        self.known =
            Some(pins.into_iter().map(|pin| (pin.tool.clone(), pin_fingerprint(&pin))).collect());
    }

    /// Takes the pins to save. After a failed attempt, pins that were accepted with another
    /// definition in the meantime are left out.
    fn take_unsaved(&self) -> Vec<Arc<[Pin]>> {
        let mut unsaved = self.lock_unsaved();
        let pins = std::mem::take(&mut unsaved.pins);
        if unsaved.failed.is_none() {
            return pins;
        }
        let known = |tool: &str| self.known.as_ref()?.get(tool);
        let is_newest = |pin: &&Pin| known(&pin.tool) == Some(&pin_fingerprint(pin));
        pins.iter().map(|some| some.iter().filter(is_newest).cloned().collect()).collect()
    }

    fn lock_unsaved(&self) -> MutexGuard<'_, UnsavedPins> {
        lock(&self.unsaved)
    }
}

impl Reconciler {
    /// Checks all catalogs that were delivered since the last check.
    pub(super) async fn check_definitions(&mut self) {
        let pins = self.root_folder().config.host.pins;
        if pins != Pins::Off {
            self.load_pins().await;
        }
        let core = Arc::clone(&self.core);
        for slot in slots_mut(&mut self.folders, &mut self.added) {
            let Some(catalog) = slot.catalog() else {
                slot.pins.clear_list();
                continue;
            };
            if slot.pins.is_checked(&catalog, pins) {
                if slot.pins.lock_unsaved().is_due() {
                    save_pins(&core, slot);
                }
                continue;
            }
            let result = match pins {
                Pins::Off => Ok(PinCheck::default()),
                _ if slot.pins.has_same_tools_as(&catalog) => {
                    Ok(slot.pins.checked().map(PinCheck::from).unwrap_or_default())
                }
                _ => check_catalog(&core, slot, &catalog).await,
            };
            save_pins(&core, slot);
            slot.pins.load_error = result.as_ref().err().cloned();
            slot.pins.checked = match result {
                // Without pins the changes are unknown, so that enforcement withholds the whole
                // catalog.
                Err(_) if pins == Pins::Enforce => None,
                result => Some((result.unwrap_or_default().with_catalog(catalog), pins)),
            };
        }
    }

    /// Loads the pins of all servers in one query, because single queries would wait for the writes
    /// of the servers before them. If the query fails, the servers are loaded one by one, so that
    /// one damaged server does not affect the others.
    async fn load_pins(&mut self) {
        let all = slots_mut(&mut self.folders, &mut self.added);
        let unknown: Vec<&mut ServerSlot> = all.filter(|slot| slot.pins.known.is_none()).collect();
        if unknown.is_empty() {
            return;
        }
        let server = |slot: &ServerSlot| pinned_server(&self.core, &slot.key);
        let servers = unknown.iter().map(|slot| server(slot)).collect();
        if let Ok(pins) = self.core.store.pins(servers).await {
            return unknown
                .into_iter()
                .zip(pins)
                .for_each(|(slot, pins)| slot.pins.set_known(pins));
        }
        for slot in unknown {
            match self.core.store.pins(vec![server(slot)]).await {
                Ok(pins) => slot.pins.set_known(pins.into_iter().flatten().collect()),
                Err(error) => slot.pins.load_error = Some(chain(&error)),
            }
        }
    }

    pub(super) fn changed_definitions(&self) -> Vec<ChangedDefinition> {
        let all = slots(&self.folders, &self.added);
        all.flat_map(ServerSlot::changed_definitions).map(|(changed, _)| changed).collect()
    }

    /// Accepts the changed definitions of tools with this name, or of all tools. Returns the
    /// accepted ones.
    pub(super) async fn accept_definitions(
        &mut self,
        tool: Option<&str>,
    ) -> Result<Vec<ChangedDefinition>, StoreError> {
        let mut accepted = Vec::new();
        let core = Arc::clone(&self.core);
        for slot in slots_mut(&mut self.folders, &mut self.added) {
            let is_meant =
                |it: &ChangedDefinition| tool.is_none_or(|name| it.name == name || it.tool == name);
            let meant: Vec<_> =
                slot.changed_definitions().filter(|(changed, _)| is_meant(changed)).collect();
            if meant.is_empty() {
                continue;
            }
            let (meant, pins): (Vec<_>, Vec<Pin>) =
                meant.into_iter().map(|(changed, tool)| (changed, tool_pin(&tool))).unzip();
            let prints =
                pins.iter().map(|pin| (pin.tool.clone(), pin_fingerprint(pin))).collect::<Vec<_>>();
            let (server, limit) = (pinned_server(&core, &slot.key), pin_limit(&slot.spec));
            core.store.set_pins(&server, pins.into(), limit).await?;
            if let Some((checked, _)) = &mut slot.pins.checked {
                let rest = checked.changed.iter().filter(|it| !is_meant(it)).cloned();
                checked.changed = Arc::new(rest.collect());
            }
            slot.session_lists.clear();
            slot.pins.known.get_or_insert_default().extend(prints);
            accepted.extend(meant);
        }
        Ok(accepted)
    }

    pub(super) fn report_changed_definitions(&self) {
        let pins = self.root_folder().config.host.pins;
        let is_enforced = pins == Pins::Enforce;
        for slot in slots(&self.folders, &self.added) {
            let changed: Vec<_> = slot.changed_definitions().map(|(changed, _)| changed).collect();
            let described = changed
                .iter()
                .take(MAX_DESCRIBED)
                .map(|it| changed_definition(&slot.spec, it, is_enforced));
            let more = changed.len().saturating_sub(MAX_DESCRIBED);
            let rest = (more > 0).then(|| more_changed_definitions(&slot.spec, more));
            let load_error = slot.pins.load_error.as_ref();
            let load_error = load_error.map(|why| unreadable_pins(&slot.spec, why, is_enforced));
            let unsaved = slot.pins.lock_unsaved().failed.clone().filter(|_| pins != Pins::Off);
            let unsaved = unsaved.map(|(why, _)| unwritten_pins(&slot.spec, &why));
            let excess = Some(slot.unpinned_count()).filter(|it| *it > 0 && pins != Pins::Off);
            let full = excess.map(|count| too_many_tools(&slot.spec, count, is_enforced));
            let all = described.chain(rest).chain(load_error).chain(unsaved).chain(full).collect();
            self.core.set_problems(&format!("{} pins", slot.problem_group()), all);
        }
    }
}

/// Compares a catalog with the pins and pins new tools. Returns an error if the pins are unknown.
pub(super) async fn check_catalog(
    core: &Arc<Core>,
    slot: &mut ServerSlot,
    catalog: &Arc<Catalog>,
) -> Result<PinCheck, String> {
    let server = pinned_server(core, &slot.key);
    let load_error =
        || slot.pins.load_error.clone().unwrap_or_else(|| "the pins are not loaded yet".to_owned());
    let known = slot.pins.known.take().ok_or_else(load_error)?;
    let (was_known, list) = (!known.is_empty(), Arc::clone(catalog));
    let limit = pin_limit(&slot.spec);
    let found = tokio::task::spawn_blocking(move || scan_tools(known, &list.tools, limit)).await;
    // The task does not panic. If it did, the pins would be loaded from the store again.
    let found = found.map_err(|error| error.to_string())?;
    let PinScan { known, pins, new, unpinned, changed } = found;
    slot.pins.known = Some(known);
    if was_known && !new.is_empty() {
        let server = Arc::clone(&slot.key);
        core.events.publish(HostEvent::ToolsPinned { server, tools: new });
    }
    if !pins.is_empty() {
        slot.pins.lock_unsaved().pins.push(pins.into());
    }
    let changed = describe_changes(core, slot, &server, changed).await;
    Ok(PinCheck { changed: Arc::new(changed), unpinned: Arc::new(unpinned) })
}

/// Saves unsaved pins in the background.
fn save_pins(core: &Core, slot: &ServerSlot) {
    let pins = slot.pins.take_unsaved();
    if pins.is_empty() {
        return;
    }
    let (store, server) = (core.store.clone(), pinned_server(core, &slot.key));
    let limit = pin_limit(&slot.spec);
    let (unsaved, connection_events) =
        (Arc::clone(&slot.pins.unsaved), Arc::clone(&core.connection_events));
    core.spawn_task(async move {
        for some in pins {
            let kept = store.set_pins(&server, Arc::clone(&some), limit).await;
            let mut unsaved = lock(&unsaved);
            match kept {
                Err(error) => {
                    unsaved.pins.push(some);
                    unsaved.failed = Some((chain(&error), Instant::now()));
                }
                Ok(()) if unsaved.pins.is_empty() => unsaved.failed = None,
                Ok(()) => {}
            }
        }
        // The reconciler reports changed save errors.
        connection_events.wakeup.notify_one();
    });
}

fn lock(unsaved: &Mutex<UnsavedPins>) -> MutexGuard<'_, UnsavedPins> {
    unsaved.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compares the tools with the pins. Pure, but slow for servers with thousands of tools, so it runs
/// in a blocking task.
fn scan_tools(
    mut known: HashMap<String, ToolFingerprint>,
    tools: &[ToolView],
    limit: usize,
) -> PinScan {
    let PinComparison { changed, mut new, reworded } = compare_definitions(&known, tools);
    let unpinned = new.split_off(new.len().min(limit.saturating_sub(known.len())));
    let at = |index: &usize| tools.get(*index);
    let name_of = |tool: &ToolView| tool.name().to_owned();
    let pins: Vec<Pin> = new.iter().chain(&reworded).filter_map(at).map(tool_pin).collect();
    known.extend(pins.iter().map(|pin| (pin.tool.clone(), pin_fingerprint(pin))));
    let definition_of = |tool: &ToolView| (tool.name().to_owned(), canonical_definition(tool));
    PinScan {
        known,
        pins,
        new: new.iter().filter_map(at).map(name_of).collect(),
        unpinned: unpinned.iter().filter_map(at).map(name_of).collect(),
        changed: changed.iter().filter_map(at).map(definition_of).collect(),
    }
}

/// Describes the changes, up to [`MAX_DESCRIBED`] tools with their difference.
async fn describe_changes(
    core: &Core,
    slot: &ServerSlot,
    server: &PinnedServer,
    changed: Vec<(String, Option<String>)>,
) -> Vec<ChangedDefinition> {
    let names =
        changed.iter().take(MAX_DESCRIBED).map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let before = match names.is_empty() {
        true => HashMap::new(),
        false => core.store.pinned_definitions(server, names).await.unwrap_or_default(),
    };
    let spec = &slot.spec;
    let tell = |(index, (tool, now)): (usize, (String, Option<String>))| ChangedDefinition {
        server: Arc::clone(&slot.key),
        name: spec.policy.naming.names(&spec.id, &tool).map_or_else(|_| tool.clone(), |it| it.id),
        difference: match index < MAX_DESCRIBED {
            true => definition_diff(before.get(&tool).map(String::as_str), now.as_deref()),
            false => "too many tools have changed to show each difference".to_owned(),
        },
        tool,
    };
    changed.into_iter().enumerate().map(tell).collect()
}

impl PinCheck {
    pub(super) fn with_catalog(self, catalog: Arc<Catalog>) -> CheckedCatalog {
        CheckedCatalog { catalog, changed: self.changed, unpinned: self.unpinned }
    }
}

impl From<CheckedCatalog> for PinCheck {
    fn from(checked: CheckedCatalog) -> Self {
        PinCheck { changed: checked.changed, unpinned: checked.unpinned }
    }
}

fn pin_limit(spec: &ServerSpec) -> usize {
    usize::try_from(spec.policy.limits.pins).unwrap_or(usize::MAX)
}

fn pinned_server(core: &Core, key: &str) -> PinnedServer {
    let root = core.workspace.root.canonicalize().unwrap_or_else(|_| core.workspace.root.clone());
    PinnedServer { root: root.display().to_string(), key: key.to_owned() }
}

fn tool_pin(tool: &ToolView) -> Pin {
    let ToolFingerprint { text, meaning } = ToolFingerprint::new(tool);
    Pin { tool: tool.name().to_owned(), text, meaning, definition: canonical_definition(tool) }
}

fn pin_fingerprint(pin: &Pin) -> ToolFingerprint {
    ToolFingerprint { text: pin.text, meaning: pin.meaning }
}
