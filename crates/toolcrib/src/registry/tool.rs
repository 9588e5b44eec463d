//! A tool as callers see it, whoever runs it.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use toolcrib_wire::Raw;
use toolcrib_wire::view::{self, ToolAnnotations};

use super::native::{Native, NativeTool};
use super::server::Server;

/// One tool of a snapshot. What it says of itself is read where it stands and never copied into fields.
#[derive(Debug)]
pub struct Tool {
    name: Arc<str>,
    model_name: Arc<str>,
    toolset: Arc<str>,
    item: view::Tool,
    home: Home,
    standing: Standing,
    /// Made when it is first asked for: most plans are replaced before anybody does.
    definition: OnceLock<Raw>,
}

/// Whether something is offered, and whether it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Listed, and calls go through.
    Ready,
    /// Listed, and a call fails because the server is away.
    Away,
    /// Not listed while its server is away. It keeps its name, so that no other tool answers to it meanwhile.
    Hidden,
}

#[derive(Debug)]
pub(super) enum Home {
    Native(Native),
    Server(Arc<Server>),
}

impl Standing {
    pub fn is_listed(self) -> bool {
        self != Standing::Hidden
    }

    pub fn is_available(self) -> bool {
        self == Standing::Ready
    }
}

impl Tool {
    pub(super) fn new(
        (name, model_name): (Arc<str>, Arc<str>),
        toolset: Arc<str>,
        item: view::Tool,
        home: Home,
        standing: Standing,
    ) -> Self {
        Tool { name, model_name, toolset, item, home, standing, definition: OnceLock::new() }
    }

    /// Every name that it answers to.
    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        let other = (self.model_name != self.name).then_some(&self.model_name);
        std::iter::once(&self.name).chain(other)
    }

    /// The id: in the registry, in calls and in logs.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    /// What a model is given. A call may use either name.
    pub fn model_name(&self) -> &str {
        &self.model_name
    }

    /// Who runs it calls it this.
    pub fn original_name(&self) -> &str {
        self.item.name()
    }

    pub fn toolset(&self) -> &str {
        &self.toolset
    }

    /// The server that it is of; nothing for a native tool.
    pub fn server(&self) -> Option<&Arc<Server>> {
        match &self.home {
            Home::Server(server) => Some(server),
            Home::Native(_) => None,
        }
    }

    /// The tool itself, where it runs in this program.
    pub fn native(&self) -> Option<&Arc<dyn NativeTool>> {
        match &self.home {
            Home::Native(Native(tool)) => Some(tool),
            Home::Server(_) => None,
        }
    }

    pub fn title(&self) -> Option<Cow<'_, str>> {
        self.item.title()
    }

    /// The description as the server's policy has it.
    pub fn description(&self) -> Option<Cow<'_, str>> {
        let own = self.item.description();
        match self.redescribed(own.as_deref()) {
            Some(new) => Some(Cow::Owned(new)),
            None => own,
        }
    }

    pub fn input_schema(&self) -> &Raw {
        self.item.input_schema()
    }

    pub fn output_schema(&self) -> Option<&Raw> {
        self.item.output_schema()
    }

    pub fn annotations(&self) -> Option<Raw> {
        self.item.raw().get("annotations").filter(|annotations| annotations.json().is_object())
    }

    /// What the annotations claim.
    pub fn hints(&self) -> ToolAnnotations {
        self.item.annotations()
    }

    pub fn standing(&self) -> Standing {
        self.standing
    }

    pub fn is_available(&self) -> bool {
        self.standing.is_available()
    }

    /// The definition as whoever runs it gave it.
    pub fn raw(&self) -> &Raw {
        self.item.raw()
    }

    /// The definition for a model: its name and its description, and every other byte as it was. Where
    /// neither differs it is the same text.
    pub fn definition(&self) -> &Raw {
        self.definition.get_or_init(|| {
            let name =
                (self.model_name() != self.original_name()).then(|| Raw::string(&self.model_name));
            let description = self.redescribed(self.item.description().as_deref());
            let description = description.map(|text| Raw::string(&text));
            let changes = [("name", name), ("description", description)];
            if changes.iter().all(|(_, value)| value.is_none()) {
                return self.raw().clone();
            }
            let set = changes.into_iter().filter(|(_, value)| value.is_some());
            self.raw().with_members(set)
        })
    }

    /// The description, if policy makes it another.
    fn redescribed(&self, own: Option<&str>) -> Option<String> {
        let server = self.server()?;
        let naming = &server.spec.policy.naming;
        let text = match own.filter(|own| !own.is_empty()) {
            Some(own) => Cow::Borrowed(own),
            None => Cow::Owned(naming.description_fallback(server.id(), self.original_name())),
        };
        let new = naming.description(server.id(), &text);
        (new != own.unwrap_or_default()).then_some(new)
    }
}
