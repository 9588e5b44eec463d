//! One server of a plan: what of it is offered, which names it could take, and what became of the rest.

use std::sync::Arc;

use toolcrib_config::model::naming::OnCollision;
use toolcrib_wire::view;

use super::choose::{Chooser, Chosen};
use super::claims::{Holder, Space};
use super::dropped::{Dropped, List, Reason};
use super::input::{Offer, Presence, Upstream};
use super::items::{Addressed, Document, Prompt};
use super::plan::Planner;
use super::problems;
use super::server::{Refusal, Server};
use super::snapshot::{Layer, Toolset};
use super::tool::{Home, Standing, Tool};

/// One server in the making: its ids are settled, its names for models come when all ids are known.
pub(super) struct Draft<'a> {
    pub(super) upstream: &'a Upstream<'a>,
    pub(super) holder: Holder,
    key: Arc<str>,
    /// Whether its toolset is shown.
    shown: bool,
    standing: Standing,
    refusal: Option<Refusal>,
    pub(super) tools: Vec<Chosen<'a, view::Tool>>,
    prompts: Vec<Chosen<'a, view::Prompt>>,
    resources: Vec<Placed<'a, view::Resource>>,
    templates: Vec<Placed<'a, view::ResourceTemplate>>,
    dropped: Vec<Dropped>,
}

/// Something with a URI, and who else has it.
type Placed<'a, T> = (Chosen<'a, T>, Option<Holder>);

impl Planner<'_> {
    pub(super) fn draft<'a>(
        &mut self,
        upstream: &'a Upstream<'a>,
        taken: Option<Holder>,
    ) -> Draft<'a> {
        let spec = &*upstream.spec;
        let key: Arc<str> = spec.key().into();
        let mut chooser = Chooser::new(spec, key.clone());
        let mut draft = Draft::new(upstream, key, taken.is_none());
        let offer = upstream.offer.unwrap_or_default();
        if let Some(holder) = taken.filter(|_| upstream.is_enabled()) {
            draft.refusal = Some(Refusal::Toolset { name: spec.toolset().to_owned(), holder });
        }
        match (upstream.standing(), &draft.refusal) {
            (Some(standing), None) => {
                draft.standing = standing;
                self.fill(&mut draft, &mut chooser, &offer);
            }
            (Some(_), Some(_)) => chooser.none_of(&offer, &Reason::Refused),
            (None, _) if upstream.is_enabled() => chooser.none_of(&offer, &Reason::Away),
            (None, _) => chooser.none_of(&offer, &Reason::Disabled),
        }
        draft.dropped = chooser.dropped;
        self.tell(&draft);
        draft
    }

    fn fill<'a>(&mut self, draft: &mut Draft<'a>, chooser: &mut Chooser<'_>, offer: &Offer<'a>) {
        let spec = &*draft.upstream.spec;
        let tools = chooser.tools(offer, &mut self.problems);
        match self.claim_tools(draft, chooser, tools) {
            Ok(tools) => draft.tools = tools,
            Err(refusal) => draft.refusal = Some(refusal),
        }
        let wants_tools = spec.policy.discovery.require_tools && draft.upstream.offer.is_some();
        if wants_tools && draft.refusal.is_none() && draft.tools.is_empty() {
            draft.refusal = Some(Refusal::NoTools { server: spec.id.clone() });
        }
        if draft.refusal.is_some() {
            return chooser.no_other(offer, &Reason::Refused);
        }
        for prompt in chooser.prompts(offer.prompts) {
            match self.claims.claim(Space::Prompts, &prompt.name, &draft.holder) {
                Ok(()) => draft.prompts.push(prompt),
                Err(other) => {
                    let (own, reason) = (prompt.item.name(), Reason::Taken(other));
                    chooser.drop_chosen(List::Prompt, own, &prompt, reason);
                }
            }
        }
        let resources = chooser.documents(List::Resource, offer.resources);
        draft.resources = self.claim_uris(Space::Resources, draft, resources);
        let templates = chooser.documents(List::Template, offer.templates);
        draft.templates = self.claim_uris(Space::Templates, draft, templates);
    }

    /// Takes the names of a server's tools: each on its own, or all or none, as policy says.
    fn claim_tools<'a>(
        &mut self,
        draft: &Draft<'a>,
        chooser: &mut Chooser<'_>,
        tools: Vec<Chosen<'a, view::Tool>>,
    ) -> Result<Vec<Chosen<'a, view::Tool>>, Refusal> {
        let all_or_none = draft.upstream.spec.policy.naming.on_collision != OnCollision::SkipTool;
        let mut kept = Vec::with_capacity(tools.len());
        let mut rest = tools.into_iter();
        while let Some(tool) = rest.next() {
            let Err(holder) = self.claims.claim(Space::Tools, &tool.name, &draft.holder) else {
                kept.push(tool);
                continue;
            };
            if !all_or_none {
                chooser.drop_chosen(List::Tool, tool.item.name(), &tool, Reason::Taken(holder));
                continue;
            }
            for claimed in &kept {
                self.claims.release(Space::Tools, &claimed.name);
            }
            let (own, name) = (tool.item.name().to_owned(), tool.name.to_string());
            for tool in kept.iter().chain([&tool]).chain(rest.as_slice()) {
                chooser.drop_chosen(List::Tool, tool.item.name(), tool, Reason::Refused);
            }
            return Err(Refusal::Tool { tool: own, name, holder });
        }
        Ok(kept)
    }

    fn claim_uris<'a, T: Addressed>(
        &mut self,
        space: Space,
        draft: &Draft<'_>,
        items: Vec<Chosen<'a, T>>,
    ) -> Vec<Placed<'a, T>> {
        let list = if space == Space::Resources { List::Resource } else { List::Template };
        let spec = &draft.upstream.spec;
        let mut placed = Vec::with_capacity(items.len());
        for item in items {
            let uri = item.item.address();
            let other = self.claims.claim(space, &uri.into(), &draft.holder).err();
            if let Some(other) = &other {
                self.problems.push(problems::same_uri(spec, list, uri, other));
            }
            placed.push((item, other));
        }
        placed
    }

    fn tell(&mut self, draft: &Draft<'_>) {
        let spec = &*draft.upstream.spec;
        let dropped = draft.dropped.iter();
        self.problems.extend(dropped.filter_map(|item| problems::dropped(spec, item)));
        match &draft.refusal {
            Some(refusal) => self.problems.push(problems::refused(spec, refusal)),
            None if draft.upstream.presence == Presence::Away => {
                self.problems.push(problems::away(spec));
            }
            None => {}
        }
    }
}

impl<'a> Draft<'a> {
    fn new(upstream: &'a Upstream<'a>, key: Arc<str>, shown: bool) -> Self {
        Draft {
            upstream,
            holder: Holder::Server(key.clone()),
            key,
            shown,
            standing: Standing::Ready,
            refusal: None,
            tools: Vec::new(),
            prompts: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            dropped: Vec::new(),
        }
    }

    /// Adds the server and what it offers.
    pub(super) fn publish(self, layer: &mut Layer) {
        let server = Arc::new(self.server());
        let standing = self.standing;
        let toolset: Arc<str> = server.spec.toolset().into();
        let tools = self.tools.into_iter().map(|tool| {
            let names = (tool.name, tool.model_name);
            let home = Home::Server(server.clone());
            Arc::new(Tool::new(names, toolset.clone(), tool.item.clone(), home, standing))
        });
        let tools = tools.collect();
        if self.shown {
            layer.add(Toolset {
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
            standing,
        });
        layer.prompts.extend(prompts.map(Arc::new));
        let resources = self.resources.into_iter();
        let resources = resources.map(|placed| document(placed, &server, standing));
        layer.resources.extend(resources.map(Arc::new));
        let templates = self.templates.into_iter();
        let templates = templates.map(|placed| document(placed, &server, standing));
        layer.templates.extend(templates.map(Arc::new));
        layer.dropped.extend(self.dropped);
        layer.servers.push(server);
    }

    fn server(&self) -> Server {
        Server {
            spec: self.upstream.spec.clone(),
            key: self.key.clone(),
            scope: self.upstream.scope.clone(),
            presence: self.upstream.presence,
            refusal: self.refusal.clone(),
            is_discovered: self.upstream.offer.is_some(),
            from_cache: self.upstream.offer.is_some_and(|offer| offer.from_cache),
        }
    }
}

fn document<T: Addressed + Clone>(
    (chosen, other): Placed<'_, T>,
    server: &Arc<Server>,
    standing: Standing,
) -> Document<T> {
    Document {
        uri: chosen.item.address().into(),
        name: chosen.name.to_string(),
        item: chosen.item.clone(),
        server: server.clone(),
        standing,
        shadowed_by: match other {
            Some(Holder::Server(key)) => Some(key),
            _ => None,
        },
    }
}
