//! Plans one server: its offered items, their names, and its dropped items.

use std::sync::Arc;

use toolcrib_config::model::naming::OnCollision;
use toolcrib_wire::view;

use super::dropped_items::{DropReason, DroppedItem, ItemKind};
use super::item_selector::{ItemSelector, SelectedItem};
use super::items::{Addressed, Document, Prompt};
use super::name_claims::{NameHolder, Namespace};
use super::plan::Planner;
use super::plan_input::{Presence, ServerInput, ServerLists};
use super::problems;
use super::registered_server::{RegisteredServer, ServerRefusal};
use super::snapshot::{ScopeLayer, Toolset};
use super::tool::{Availability, Tool, ToolSource};

/// A server under construction. Its ids are final; names for models follow when all ids are known.
pub(super) struct ServerPlan<'a> {
    pub(super) input: &'a ServerInput<'a>,
    pub(super) holder: NameHolder,
    key: Arc<str>,
    /// True if its toolset is is_toolset_shown.
    is_toolset_shown: bool,
    availability: Availability,
    refusal: Option<ServerRefusal>,
    pub(super) tools: Vec<SelectedItem<'a, view::ToolView>>,
    prompts: Vec<SelectedItem<'a, view::PromptView>>,
    resources: Vec<ClaimedItem<'a, view::ResourceView>>,
    templates: Vec<ClaimedItem<'a, view::ResourceTemplateView>>,
    dropped: Vec<DroppedItem>,
}

/// An item with a URI, and the other holder of the URI.
type ClaimedItem<'a, T> = (SelectedItem<'a, T>, Option<NameHolder>);

impl Planner<'_> {
    pub(super) fn plan_server<'a>(
        &mut self,
        input: &'a ServerInput<'a>,
        name_holder: Option<NameHolder>,
    ) -> ServerPlan<'a> {
        let spec = &*input.spec;
        let key: Arc<str> = spec.key().into();
        let mut selector = ItemSelector::new(spec, key.clone());
        let mut plan = ServerPlan::new(input, key, name_holder.is_none());
        let lists = input.lists.unwrap_or_default();
        if let Some(holder) = name_holder.filter(|_| input.is_enabled()) {
            plan.refusal = Some(ServerRefusal::Toolset { name: spec.toolset().to_owned(), holder });
        }
        match (input.availability(), &plan.refusal) {
            (Some(availability), None) => {
                plan.availability = availability;
                self.select_items(&mut plan, &mut selector, &lists);
            }
            (Some(_), Some(_)) => selector.drop_all(&lists, &DropReason::Refused),
            (None, _) if input.is_enabled() => selector.drop_all(&lists, &DropReason::Away),
            (None, _) => selector.drop_all(&lists, &DropReason::Disabled),
        }
        plan.dropped = selector.dropped;
        self.report_problems(&plan);
        plan
    }

    fn select_items<'a>(
        &mut self,
        plan: &mut ServerPlan<'a>,
        selector: &mut ItemSelector<'_>,
        lists: &ServerLists<'a>,
    ) {
        let spec = &*plan.input.spec;
        let tools = selector.select_tools(lists, &mut self.problems);
        match self.claim_tools(plan, selector, tools) {
            Ok(tools) => plan.tools = tools,
            Err(refusal) => plan.refusal = Some(refusal),
        }
        let wants_tools = spec.policy.discovery.require_tools && plan.input.lists.is_some();
        if wants_tools && plan.refusal.is_none() && plan.tools.is_empty() {
            plan.refusal = Some(ServerRefusal::NoTools { server: spec.id.clone() });
        }
        if plan.refusal.is_some() {
            return selector.drop_all_but_tools(lists, &DropReason::Refused);
        }
        for prompt in selector.select_prompts(lists.prompts) {
            match self.claims.claim(Namespace::Prompts, &prompt.name, &plan.holder) {
                Ok(()) => plan.prompts.push(prompt),
                Err(other) => {
                    let (own, reason) = (prompt.item.name(), DropReason::Taken(other));
                    selector.drop_selected(ItemKind::Prompt, own, &prompt, reason);
                }
            }
        }
        let resources = selector.select_documents(ItemKind::Resource, lists.resources);
        plan.resources = self.claim_uris(Namespace::Resources, plan, resources);
        let templates = selector.select_documents(ItemKind::Template, lists.templates);
        plan.templates = self.claim_uris(Namespace::Templates, plan, templates);
    }

    /// Claims the names of a server's tools: each on its own, or all or none, by policy.
    fn claim_tools<'a>(
        &mut self,
        plan: &ServerPlan<'a>,
        selector: &mut ItemSelector<'_>,
        tools: Vec<SelectedItem<'a, view::ToolView>>,
    ) -> Result<Vec<SelectedItem<'a, view::ToolView>>, ServerRefusal> {
        let is_all_or_nothing = plan.input.spec.policy.naming.on_collision != OnCollision::SkipTool;
        let mut claimed_tools = Vec::with_capacity(tools.len());
        let mut rest = tools.into_iter();
        while let Some(tool) = rest.next() {
            let Err(holder) = self.claims.claim(Namespace::Tools, &tool.name, &plan.holder) else {
                claimed_tools.push(tool);
                continue;
            };
            if !is_all_or_nothing {
                selector.drop_selected(
                    ItemKind::Tool,
                    tool.item.name(),
                    &tool,
                    DropReason::Taken(holder),
                );
                continue;
            }
            for claimed in &claimed_tools {
                self.claims.release(Namespace::Tools, &claimed.name);
            }
            let (own, name) = (tool.item.name().to_owned(), tool.name.to_string());
            for tool in claimed_tools.iter().chain([&tool]).chain(rest.as_slice()) {
                selector.drop_selected(ItemKind::Tool, tool.item.name(), tool, DropReason::Refused);
            }
            return Err(ServerRefusal::Tool { tool: own, name, holder });
        }
        Ok(claimed_tools)
    }

    fn claim_uris<'a, T: Addressed>(
        &mut self,
        namespace: Namespace,
        plan: &ServerPlan<'_>,
        items: Vec<SelectedItem<'a, T>>,
    ) -> Vec<ClaimedItem<'a, T>> {
        let kind =
            if namespace == Namespace::Resources { ItemKind::Resource } else { ItemKind::Template };
        let spec = &plan.input.spec;
        let mut claimed = Vec::with_capacity(items.len());
        for item in items {
            let uri = item.item.address();
            let other = self.claims.claim(namespace, &uri.into(), &plan.holder).err();
            if let Some(other) = &other {
                self.problems.push(problems::uri_collision(spec, kind, uri, other));
            }
            claimed.push((item, other));
        }
        claimed
    }

    fn report_problems(&mut self, plan: &ServerPlan<'_>) {
        let spec = &*plan.input.spec;
        let dropped = plan.dropped.iter();
        self.problems.extend(dropped.filter_map(|item| problems::dropped_item(spec, item)));
        match &plan.refusal {
            Some(refusal) => self.problems.push(problems::server_refused(spec, refusal)),
            None if plan.input.presence == Presence::Away => {
                self.problems.push(problems::server_away(spec));
            }
            None => {}
        }
    }
}

impl<'a> ServerPlan<'a> {
    fn new(input: &'a ServerInput<'a>, key: Arc<str>, is_toolset_shown: bool) -> Self {
        ServerPlan {
            input,
            holder: NameHolder::Server(key.clone()),
            key,
            is_toolset_shown,
            availability: Availability::Ready,
            refusal: None,
            tools: Vec::new(),
            prompts: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            dropped: Vec::new(),
        }
    }

    /// Adds the server and its items to the layer.
    pub(super) fn publish(self, layer: &mut ScopeLayer) {
        let server = Arc::new(self.registered_server());
        let availability = self.availability;
        let toolset: Arc<str> = server.spec.toolset().into();
        let tools = self.tools.into_iter().map(|tool| {
            let names = (tool.name, tool.model_name);
            let source = ToolSource::Server(server.clone());
            Arc::new(Tool::new(names, toolset.clone(), tool.item.clone(), source, availability))
        });
        let tools = tools.collect();
        if self.is_toolset_shown {
            layer.add_toolset(Toolset {
                name: toolset,
                description: server.spec.policy.description.clone(),
                server: Some(server.clone()),
                tools,
            });
        }
        let prompts = self.prompts.into_iter().map(|prompt| Prompt {
            name: prompt.name,
            item: prompt.item.clone(),
            server: server.clone(),
            availability,
        });
        layer.prompts.extend(prompts.map(Arc::new));
        let resources = self.resources.into_iter();
        let resources = resources.map(|claimed| document(claimed, &server, availability));
        layer.resources.extend(resources.map(Arc::new));
        let templates = self.templates.into_iter();
        let templates = templates.map(|claimed| document(claimed, &server, availability));
        layer.templates.extend(templates.map(Arc::new));
        layer.dropped.extend(self.dropped);
        layer.servers.push(server);
    }

    fn registered_server(&self) -> RegisteredServer {
        RegisteredServer {
            spec: self.input.spec.clone(),
            key: self.key.clone(),
            scope: self.input.scope.clone(),
            presence: self.input.presence,
            refusal: self.refusal.clone(),
            is_discovered: self.input.lists.is_some(),
            from_cache: self.input.lists.is_some_and(|lists| lists.from_cache),
        }
    }
}

fn document<T: Addressed + Clone>(
    (selected, other): ClaimedItem<'_, T>,
    server: &Arc<RegisteredServer>,
    availability: Availability,
) -> Document<T> {
    Document {
        uri: selected.item.address().into(),
        name: selected.name.to_string(),
        item: selected.item.clone(),
        server: server.clone(),
        availability,
        shadowed_by: match other {
            Some(NameHolder::Server(key)) => Some(key),
            _ => None,
        },
    }
}
