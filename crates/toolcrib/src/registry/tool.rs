//! A tool of a snapshot, from a server or native.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use toolcrib_wire::RawJson;
use toolcrib_wire::view::{self, ToolAnnotations};

use super::native::{NativeHandle, NativeTool};
use super::registered_server::RegisteredServer;

/// One tool of a snapshot. Its properties are read from the definition on demand and never copied into fields.
#[derive(Debug)]
pub struct Tool {
    name: Arc<str>,
    model_name: Arc<str>,
    toolset: Arc<str>,
    item: view::ToolView,
    source: ToolSource,
    availability: Availability,
    /// Built on first use, because most plans are replaced before.
    definition: OnceLock<RawJson>,
}

/// Availability of an item: listed or hidden, callable or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// Listed, and calls are executed.
    Ready,
    /// Listed, but calls fail because the server is unavailable.
    Away,
    /// Not listed while its server is unavailable. It keeps its name, so no other tool takes it meanwhile.
    Hidden,
}

#[derive(Debug)]
pub(super) enum ToolSource {
    Native(NativeHandle),
    Server(Arc<RegisteredServer>),
}

impl Availability {
    /// Returns whether the item is listed.
    pub fn is_listed(self) -> bool {
        self != Availability::Hidden
    }

    /// Returns whether calls are executed.
    pub fn is_available(self) -> bool {
        self == Availability::Ready
    }
}

impl Tool {
    pub(super) fn new(
        (name, model_name): (Arc<str>, Arc<str>),
        toolset: Arc<str>,
        item: view::ToolView,
        source: ToolSource,
        availability: Availability,
    ) -> Self {
        Tool { name, model_name, toolset, item, source, availability, definition: OnceLock::new() }
    }

    /// All names of the tool.
    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        let other = (self.model_name != self.name).then_some(&self.model_name);
        std::iter::once(&self.name).chain(other)
    }

    /// The id in the registry, in calls and in logs.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    /// The name for models. A call may use either name.
    pub fn model_name(&self) -> &str {
        &self.model_name
    }

    /// The tool's name at its server or in its native definition.
    pub fn original_name(&self) -> &str {
        self.item.name()
    }

    /// The name of the tool's toolset.
    pub fn toolset(&self) -> &str {
        &self.toolset
    }

    /// The tool's server. `None` for a native tool.
    pub fn server(&self) -> Option<&Arc<RegisteredServer>> {
        match &self.source {
            ToolSource::Server(server) => Some(server),
            ToolSource::Native(_) => None,
        }
    }

    /// The native tool. `None` for a tool of a server.
    pub fn native(&self) -> Option<&Arc<dyn NativeTool>> {
        match &self.source {
            ToolSource::Native(NativeHandle(tool)) => Some(tool),
            ToolSource::Server(_) => None,
        }
    }

    /// The display name.
    pub fn title(&self) -> Option<Cow<'_, str>> {
        self.item.title()
    }

    /// The description after the server's policy.
    pub fn description(&self) -> Option<Cow<'_, str>> {
        let own = self.item.description();
        match self.policy_description(own.as_deref()) {
            Some(new) => Some(Cow::Owned(new)),
            None => own,
        }
    }

    /// The input schema.
    pub fn input_schema(&self) -> &RawJson {
        self.item.input_schema()
    }

    /// The output schema.
    pub fn output_schema(&self) -> Option<&RawJson> {
        self.item.output_schema()
    }

    /// The annotations.
    pub fn annotations(&self) -> Option<RawJson> {
        self.item.raw().get("annotations").filter(|annotations| annotations.json().is_object())
    }

    /// The hints from the annotations. They are not verified.
    pub fn hints(&self) -> ToolAnnotations {
        self.item.annotations()
    }

    /// The tool's availability.
    pub fn availability(&self) -> Availability {
        self.availability
    }

    /// Returns whether calls are executed.
    pub fn is_available(&self) -> bool {
        self.availability.is_available()
    }

    /// The definition as listed by the server or native toolset.
    pub fn raw(&self) -> &RawJson {
        self.item.raw()
    }

    /// The definition for a model, with its name and description. All other bytes stay; without changes it shares the
    /// original text.
    pub fn definition(&self) -> &RawJson {
        self.definition.get_or_init(|| {
            let name = (self.model_name() != self.original_name())
                .then(|| RawJson::string(&self.model_name));
            let description = self.policy_description(self.item.description().as_deref());
            let description = description.map(|text| RawJson::string(&text));
            let changes = [("name", name), ("description", description)];
            if changes.iter().all(|(_, value)| value.is_none()) {
                return self.raw().clone();
            }
            let set = changes.into_iter().filter(|(_, value)| value.is_some());
            self.raw().with_members(set)
        })
    }

    /// Returns the description if the policy changes it.
    fn policy_description(&self, own: Option<&str>) -> Option<String> {
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
