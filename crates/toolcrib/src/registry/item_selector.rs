//! Applies a server's filters to its lists, and names the items that pass.

use std::collections::HashMap;
use std::sync::Arc;

use toolcrib_config::model::filter::{self, FilterVerdict};
use toolcrib_config::model::naming::{InvalidName, Naming, ToolNames, Validity};
use toolcrib_config::model::policy::{FilterMode, InvalidSchemas, PromptsAs, ResourcesAs};
use toolcrib_config::{Problem, ServerSpec};
use toolcrib_wire::view;

use super::dropped_items::{DropReason, DroppedItem, ItemKind};
use super::items::Addressed;
use super::plan_input::ServerLists;
use super::{problems, version_pins};

/// An item that passed the filters, and its names.
#[derive(Debug)]
pub(super) struct SelectedItem<'a, T> {
    pub(super) item: &'a T,
    pub(super) name: Arc<str>,
    /// The name for models. It differs from `name` only for tools.
    pub(super) model_name: Arc<str>,
}

impl<'a, T> SelectedItem<'a, T> {
    pub(super) fn new(item: &'a T, names: ToolNames) -> Self {
        let is_same = names.model == names.id;
        let name: Arc<str> = names.id.into();
        let model_name = if is_same { name.clone() } else { names.model.into() };
        SelectedItem { item, name, model_name }
    }

    fn with_one_name(item: &'a T, name: String) -> Self {
        let name: Arc<str> = name.into();
        SelectedItem { item, model_name: name.clone(), name }
    }
}

/// Sorts the items of one server. Keeps the dropped items with their reasons.
#[derive(Debug)]
pub(super) struct ItemSelector<'s> {
    spec: &'s ServerSpec,
    key: Arc<str>,
    pub(super) dropped: Vec<DroppedItem>,
}

impl<'s> ItemSelector<'s> {
    pub(super) fn new(spec: &'s ServerSpec, key: Arc<str>) -> Self {
        ItemSelector { spec, key, dropped: Vec::new() }
    }

    pub(super) fn select_tools<'a>(
        &mut self,
        lists: &ServerLists<'a>,
        problems_out: &mut Vec<Problem>,
    ) -> Vec<SelectedItem<'a, view::ToolView>> {
        let (spec, tools) = (self.spec, lists.tools);
        let is_unaccepted = |name: &str| lists.unaccepted.is_some_and(|all| all.contains(name));
        let invalid = lists.invalid.iter().map(|it| (it.tool.as_str(), it.reason.as_str()));
        let invalid: HashMap<&str, &str> = invalid.collect();
        let withholds = spec.policy.discovery.invalid_schemas != InvalidSchemas::Offer;
        let is_unpinned = |name: &str| lists.unpinned.is_some_and(|all| all.contains(name));
        let naming = &spec.policy.naming;
        let mut passed = Vec::with_capacity(tools.len());
        for (index, tool) in tools.iter().enumerate() {
            match drop_reason(spec.policy.expose.tools.verdict(tool.name())) {
                None if is_unaccepted(tool.name()) => {
                    self.drop_tool(tool.name(), tool.name(), DropReason::Unaccepted);
                }
                None if is_unpinned(tool.name()) => {
                    self.drop_tool(tool.name(), tool.name(), DropReason::Unpinned);
                }
                None => match invalid.get(tool.name()) {
                    Some(schema_error) if withholds => {
                        let reason = DropReason::InvalidSchema((*schema_error).to_owned());
                        self.drop_tool(tool.name(), tool.name(), reason);
                    }
                    Some(reason) => {
                        problems_out.push(problems::invalid_schema(spec, tool.name(), reason));
                        passed.push((index, tool.name()));
                    }
                    None => passed.push((index, tool.name())),
                },
                Some(reason) => self.drop_tool(tool.name(), tool.name(), reason),
            }
        }
        let pins = version_pins::resolve_pins(&naming.versions, &passed);
        problems_out.extend(pins.missing.iter().map(|missing| {
            let used = missing.used.map(|index| tools[index].name());
            problems::version_missing(spec, missing.tool, missing.wanted, used)
        }));
        let mut selected = Vec::with_capacity(passed.len());
        for (index, own) in passed {
            if let Some(used) = pins.unused.get(&index) {
                let reason = DropReason::OtherVersion(tools[*used].name().to_owned());
                self.drop_tool(own, own, reason);
                continue;
            }
            let base = pins.names.get(&index).copied().unwrap_or(own);
            match naming.names(&spec.id, base) {
                Ok(names) => selected.push(SelectedItem::new(&tools[index], names)),
                Err(bad) => self.drop_tool(own, base, DropReason::InvalidName(bad)),
            }
        }
        selected
    }

    /// Selects prompts. Prompts and resources have no filter mode: entries of an allow list are exceptions to the
    /// deny list.
    pub(super) fn select_prompts<'a>(
        &mut self,
        prompts: &'a [view::PromptView],
    ) -> Vec<SelectedItem<'a, view::PromptView>> {
        let rules = &self.spec.policy.expose.prompts;
        let naming = prompt_naming(self.spec);
        let mut selected = Vec::with_capacity(prompts.len());
        for prompt in prompts {
            let by_name = filter::verdict(
                rules.allow.as_deref(),
                &rules.deny,
                FilterMode::Dominds,
                prompt.name(),
            );
            let off = (rules.r#as == PromptsAs::Off).then_some(DropReason::Off);
            let name = prompt_name(&naming, self.spec, prompt.name());
            match off.or_else(|| drop_reason(by_name)) {
                None => selected.push(SelectedItem::with_one_name(prompt, name)),
                Some(reason) => self.drop_prompt(prompt.name(), name, reason),
            }
        }
        selected
    }

    /// Selects resources and templates. Patterns match the URI, which is the server's own name for them.
    pub(super) fn select_documents<'a, T: Addressed>(
        &mut self,
        kind: ItemKind,
        items: &'a [T],
    ) -> Vec<SelectedItem<'a, T>> {
        let spec = self.spec;
        let rules = &spec.policy.expose.resources;
        let transforms = rules.transforms.as_ref().unwrap_or(&spec.policy.naming.transforms);
        let mut selected = Vec::with_capacity(items.len());
        for item in items {
            let by_uri = filter::verdict(
                rules.allow.as_deref(),
                &rules.deny,
                FilterMode::Dominds,
                item.address(),
            );
            let off = (rules.r#as == ResourcesAs::Off).then_some(DropReason::Off);
            let reason =
                off.or_else(|| drop_reason(by_uri)).or_else(|| wrong_type(&rules.mime, item));
            match reason {
                None => selected
                    .push(SelectedItem::with_one_name(item, transforms.apply(item.own_name()))),
                Some(reason) => self.drop_item(kind, item.address(), None, reason),
            }
        }
        selected
    }

    /// Drops all items for one reason.
    pub(super) fn drop_all(&mut self, lists: &ServerLists<'_>, reason: &DropReason) {
        for tool in lists.tools {
            self.drop_tool(tool.name(), tool.name(), reason.clone());
        }
        self.drop_all_but_tools(lists, reason);
    }

    /// Drops all items except the tools.
    pub(super) fn drop_all_but_tools(&mut self, lists: &ServerLists<'_>, reason: &DropReason) {
        let naming = prompt_naming(self.spec);
        for prompt in lists.prompts {
            let name = prompt_name(&naming, self.spec, prompt.name());
            self.drop_prompt(prompt.name(), name, reason.clone());
        }
        for resource in lists.resources {
            self.drop_item(ItemKind::Resource, resource.uri(), None, reason.clone());
        }
        for template in lists.templates {
            self.drop_item(ItemKind::Template, template.uri_template(), None, reason.clone());
        }
    }

    /// Drops an item that already has names.
    pub(super) fn drop_selected<T>(
        &mut self,
        kind: ItemKind,
        own: &str,
        selected: &SelectedItem<'_, T>,
        reason: DropReason,
    ) {
        let names =
            ToolNames { id: selected.name.to_string(), model: selected.model_name.to_string() };
        self.drop_item(kind, own, Some(names), reason);
    }

    fn drop_item(
        &mut self,
        kind: ItemKind,
        own: &str,
        names: Option<ToolNames>,
        reason: DropReason,
    ) {
        let (server, original_name) = (self.key.clone(), own.to_owned());
        self.dropped.push(DroppedItem { kind, server, original_name, names, reason });
    }

    fn drop_prompt(&mut self, own: &str, name: String, reason: DropReason) {
        let names = ToolNames { model: name.clone(), id: name };
        self.drop_item(ItemKind::Prompt, own, Some(names), reason);
    }

    /// Drops a tool. `base` is the name from which its names are made; it differs from the own name if a version is
    /// pinned.
    fn drop_tool(&mut self, own: &str, base: &str, reason: DropReason) {
        let names = match self.spec.policy.naming.names(&self.spec.id, base) {
            Ok(names) => Some(names),
            Err(InvalidName::Transformed(name)) => {
                Some(ToolNames { model: name.clone(), id: name })
            }
            Err(InvalidName::Original(_)) => None,
        };
        self.drop_item(ItemKind::Tool, own, names, reason);
    }
}

fn drop_reason(verdict: FilterVerdict<'_>) -> Option<DropReason> {
    match verdict {
        FilterVerdict::Offered => None,
        FilterVerdict::Denied(pattern) => Some(DropReason::Denied(pattern.to_owned())),
        FilterVerdict::NotAllowed => Some(DropReason::NotAllowed),
    }
}

/// Checks the media type. An item without a type is offered, because reading it reveals the type.
fn wrong_type(allowed: &[String], item: &impl Addressed) -> Option<DropReason> {
    let mime = item.media_type().filter(|_| !allowed.is_empty())?;
    let matches = allowed.iter().any(|pattern| filter::matches_pattern(pattern, &mime));
    (!matches).then_some(DropReason::MediaType(mime))
}

/// Returns the naming rules for prompts. Prompt names never reach a model provider, so every name is legal.
fn prompt_naming(spec: &ServerSpec) -> Naming {
    let mut naming = spec.policy.naming.clone();
    if let Some(own) = &spec.policy.expose.prompts.transforms {
        naming.transforms = own.clone();
    }
    if naming.validity == Validity::Reject {
        naming.validity = Validity::Off;
    }
    naming
}

fn prompt_name(naming: &Naming, spec: &ServerSpec, prompt: &str) -> String {
    naming.names(&spec.id, prompt).map_or_else(|_| prompt.to_owned(), |names| names.id)
}
