//! Which items of a server pass its filters, and what they are called before others are asked.

use std::collections::HashMap;
use std::sync::Arc;

use toolcrib_config::model::filter::{self, Verdict};
use toolcrib_config::model::naming::{BadName, Names, Naming, Validity};
use toolcrib_config::model::policy::{FilterMode, InvalidSchemas, PromptsAs, ResourcesAs};
use toolcrib_config::{Problem, ServerSpec};
use toolcrib_wire::view;

use super::dropped::{Dropped, List, Reason};
use super::input::Offer;
use super::items::Addressed;
use super::{problems, versions};

/// An item that passed, and its names.
#[derive(Debug)]
pub(super) struct Chosen<'a, T> {
    pub(super) item: &'a T,
    pub(super) name: Arc<str>,
    /// What a model is given; the name itself for all but tools.
    pub(super) model_name: Arc<str>,
}

impl<'a, T> Chosen<'a, T> {
    pub(super) fn new(item: &'a T, names: Names) -> Self {
        let same = names.model == names.id;
        let name: Arc<str> = names.id.into();
        let model_name = if same { name.clone() } else { names.model.into() };
        Chosen { item, name, model_name }
    }

    fn plain(item: &'a T, name: String) -> Self {
        let name: Arc<str> = name.into();
        Chosen { item, model_name: name.clone(), name }
    }
}

/// The sorting of one server's lists. What does not pass stays here, with its reason.
#[derive(Debug)]
pub(super) struct Chooser<'s> {
    spec: &'s ServerSpec,
    key: Arc<str>,
    pub(super) dropped: Vec<Dropped>,
}

impl<'s> Chooser<'s> {
    pub(super) fn new(spec: &'s ServerSpec, key: Arc<str>) -> Self {
        Chooser { spec, key, dropped: Vec::new() }
    }

    pub(super) fn tools<'a>(
        &mut self,
        offer: &Offer<'a>,
        told: &mut Vec<Problem>,
    ) -> Vec<Chosen<'a, view::Tool>> {
        let (spec, tools) = (self.spec, offer.tools);
        let is_unaccepted = |name: &str| offer.unaccepted.is_some_and(|all| all.contains(name));
        let invalid = offer.invalid.iter().map(|it| (it.tool.as_str(), it.reason.as_str()));
        let invalid: HashMap<&str, &str> = invalid.collect();
        let withholds = spec.policy.discovery.invalid_schemas != InvalidSchemas::Offer;
        let is_unpinned = |name: &str| offer.unpinned.is_some_and(|all| all.contains(name));
        let naming = &spec.policy.naming;
        let mut passed = Vec::with_capacity(tools.len());
        for (place, tool) in tools.iter().enumerate() {
            match reason(spec.policy.expose.tools.verdict(tool.name())) {
                None if is_unaccepted(tool.name()) => {
                    self.drop_tool(tool.name(), tool.name(), Reason::Unaccepted);
                }
                None if is_unpinned(tool.name()) => {
                    self.drop_tool(tool.name(), tool.name(), Reason::Unpinned);
                }
                None => match invalid.get(tool.name()) {
                    Some(why) if withholds => {
                        let reason = Reason::InvalidSchema((*why).to_owned());
                        self.drop_tool(tool.name(), tool.name(), reason);
                    }
                    Some(why) => {
                        told.push(problems::invalid_schema(spec, tool.name(), why));
                        passed.push((place, tool.name()));
                    }
                    None => passed.push((place, tool.name())),
                },
                Some(reason) => self.drop_tool(tool.name(), tool.name(), reason),
            }
        }
        let pins = versions::settle(&naming.versions, &passed);
        told.extend(pins.missing.iter().map(|missing| {
            let used = missing.used.map(|place| tools[place].name());
            problems::version_missing(spec, missing.tool, missing.wanted, used)
        }));
        let mut chosen = Vec::with_capacity(passed.len());
        for (place, own) in passed {
            if let Some(used) = pins.unused.get(&place) {
                let reason = Reason::OtherVersion(tools[*used].name().to_owned());
                self.drop_tool(own, own, reason);
                continue;
            }
            let base = pins.names.get(&place).copied().unwrap_or(own);
            match naming.names(&spec.id, base) {
                Ok(names) => chosen.push(Chosen::new(&tools[place], names)),
                Err(bad) => self.drop_tool(own, base, Reason::BadName(bad)),
            }
        }
        chosen
    }

    /// Prompts and resources have no mode of their own: an allow list beside a deny list excepts from it.
    pub(super) fn prompts<'a>(
        &mut self,
        prompts: &'a [view::Prompt],
    ) -> Vec<Chosen<'a, view::Prompt>> {
        let rules = &self.spec.policy.expose.prompts;
        let naming = prompt_naming(self.spec);
        let mut chosen = Vec::with_capacity(prompts.len());
        for prompt in prompts {
            let by_name = filter::verdict(
                rules.allow.as_deref(),
                &rules.deny,
                FilterMode::Dominds,
                prompt.name(),
            );
            let off = (rules.r#as == PromptsAs::Off).then_some(Reason::Off);
            let name = named(&naming, self.spec, prompt.name());
            match off.or_else(|| reason(by_name)) {
                None => chosen.push(Chosen::plain(prompt, name)),
                Some(reason) => self.drop_prompt(prompt.name(), name, reason),
            }
        }
        chosen
    }

    /// Resources and templates. Patterns are of the URI, which is what a server knows them by.
    pub(super) fn documents<'a, T: Addressed>(
        &mut self,
        list: List,
        items: &'a [T],
    ) -> Vec<Chosen<'a, T>> {
        let spec = self.spec;
        let rules = &spec.policy.expose.resources;
        let transforms = rules.transforms.as_ref().unwrap_or(&spec.policy.naming.transforms);
        let mut chosen = Vec::with_capacity(items.len());
        for item in items {
            let by_uri = filter::verdict(
                rules.allow.as_deref(),
                &rules.deny,
                FilterMode::Dominds,
                item.address(),
            );
            let off = (rules.r#as == ResourcesAs::Off).then_some(Reason::Off);
            let out = off.or_else(|| reason(by_uri)).or_else(|| wrong_type(&rules.mime, item));
            match out {
                None => chosen.push(Chosen::plain(item, transforms.apply(item.own_name()))),
                Some(reason) => self.drop(list, item.address(), None, reason),
            }
        }
        chosen
    }

    /// Leaves out everything for one reason.
    pub(super) fn none_of(&mut self, offer: &Offer<'_>, reason: &Reason) {
        for tool in offer.tools {
            self.drop_tool(tool.name(), tool.name(), reason.clone());
        }
        self.no_other(offer, reason);
    }

    /// Leaves out everything but the tools.
    pub(super) fn no_other(&mut self, offer: &Offer<'_>, reason: &Reason) {
        let naming = prompt_naming(self.spec);
        for prompt in offer.prompts {
            let name = named(&naming, self.spec, prompt.name());
            self.drop_prompt(prompt.name(), name, reason.clone());
        }
        for resource in offer.resources {
            self.drop(List::Resource, resource.uri(), None, reason.clone());
        }
        for template in offer.templates {
            self.drop(List::Template, template.uri_template(), None, reason.clone());
        }
    }

    /// Leaves out an item whose name is settled.
    pub(super) fn drop_chosen<T>(
        &mut self,
        list: List,
        own: &str,
        chosen: &Chosen<'_, T>,
        reason: Reason,
    ) {
        let names = Names { id: chosen.name.to_string(), model: chosen.model_name.to_string() };
        self.drop(list, own, Some(names), reason);
    }

    fn drop(&mut self, list: List, own: &str, names: Option<Names>, reason: Reason) {
        let (server, original_name) = (self.key.clone(), own.to_owned());
        self.dropped.push(Dropped { list, server, original_name, names, reason });
    }

    fn drop_prompt(&mut self, own: &str, name: String, reason: Reason) {
        let names = Names { model: name.clone(), id: name };
        self.drop(List::Prompt, own, Some(names), reason);
    }

    /// `base` is what its name is made from: not its own where a version is pinned.
    fn drop_tool(&mut self, own: &str, base: &str, reason: Reason) {
        let names = match self.spec.policy.naming.names(&self.spec.id, base) {
            Ok(names) => Some(names),
            Err(BadName::Transformed(name)) => Some(Names { model: name.clone(), id: name }),
            Err(BadName::Original(_)) => None,
        };
        self.drop(List::Tool, own, names, reason);
    }
}

fn reason(verdict: Verdict<'_>) -> Option<Reason> {
    match verdict {
        Verdict::Offered => None,
        Verdict::Denied(pattern) => Some(Reason::Denied(pattern.to_owned())),
        Verdict::NotAllowed => Some(Reason::NotAllowed),
    }
}

/// What does not say its type is offered: reading it tells.
fn wrong_type(allowed: &[String], item: &impl Addressed) -> Option<Reason> {
    let mime = item.media_type().filter(|_| !allowed.is_empty())?;
    let matches = allowed.iter().any(|pattern| filter::matches(pattern, &mime));
    (!matches).then_some(Reason::MediaType(mime))
}

/// No provider is given the name of a prompt: nothing makes it illegal.
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

fn named(naming: &Naming, spec: &ServerSpec, prompt: &str) -> String {
    naming.names(&spec.id, prompt).map_or_else(|_| prompt.to_owned(), |names| names.id)
}
