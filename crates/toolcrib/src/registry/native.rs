//! Native tools of the embedding program. Callers use them like tools of servers.

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use toolcrib_wire::view::{FieldError, ListItem, ToolView};
use toolcrib_wire::{ObjectWriter, RawJson};

/// A tool that runs in this program.
pub trait NativeTool: Send + Sync {
    /// Returns the tool's definition. Called once, when the toolset is built.
    fn definition(&self) -> NativeToolDefinition;

    /// Runs the tool. Returns the complete result of `tools/call`; a failed tool reports its failure in the result.
    /// Dropping the future cancels the call.
    fn call(&self, call: NativeCall) -> NativeToolFuture<'_>;
}

/// The future of a native tool call.
pub type NativeToolFuture<'a> =
    Pin<Box<dyn Future<Output = Result<RawJson, NativeError>> + Send + 'a>>;

/// A native tool call without a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NativeError(pub String);

/// One call of a native tool.
#[derive(Debug, Clone)]
pub struct NativeCall {
    /// The arguments of the call.
    pub arguments: RawJson,
    /// The calling agent.
    pub agent: Option<String>,
    /// The dialog of the call.
    pub dialog: Option<String>,
    /// The dialog's working directory.
    pub cwd: Option<PathBuf>,
}

impl NativeCall {
    /// Creates a call without caller and dialog.
    pub fn new(arguments: RawJson) -> Self {
        NativeCall { arguments, agent: None, dialog: None, cwd: None }
    }
}

/// The MCP definition of a native tool.
#[derive(Debug, Clone)]
pub struct NativeToolDefinition(RawJson);

impl NativeToolDefinition {
    /// Creates a definition. The schema must be a JSON object.
    pub fn new(name: &str, input_schema: &RawJson) -> Self {
        let writer = ObjectWriter::new().string("name", name);
        NativeToolDefinition(writer.json("inputSchema", input_schema.json()).finish())
    }

    /// Sets the display name.
    #[must_use]
    pub fn title(self, title: &str) -> Self {
        self.with("title", RawJson::string(title))
    }

    /// Sets the description.
    #[must_use]
    pub fn description(self, description: &str) -> Self {
        self.with("description", RawJson::string(description))
    }

    /// Sets the output schema.
    #[must_use]
    pub fn output_schema(self, schema: RawJson) -> Self {
        self.with("outputSchema", schema)
    }

    /// Sets the annotations.
    #[must_use]
    pub fn annotations(self, annotations: RawJson) -> Self {
        self.with("annotations", annotations)
    }

    fn with(self, key: &str, value: RawJson) -> Self {
        NativeToolDefinition(self.0.with_members([(key, Some(value))]))
    }
}

/// An invalid definition of a native tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a tool of the native toolset `{toolset}` has an invalid definition")]
pub struct NativeDefinitionError {
    /// The toolset of the tool.
    pub toolset: String,
    /// The error in the definition.
    #[source]
    pub error: FieldError,
}

/// Native tools that are granted together.
#[derive(Debug, Clone)]
pub struct NativeToolset {
    pub(super) name: Arc<str>,
    pub(super) description: String,
    pub(super) tools: Vec<(ToolView, NativeHandle)>,
}

impl NativeToolset {
    /// Creates an empty toolset.
    pub fn new(name: &str) -> Self {
        NativeToolset { name: name.into(), description: String::new(), tools: Vec::new() }
    }

    /// The name of the toolset.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the description.
    #[must_use]
    pub fn description(mut self, description: &str) -> Self {
        self.description = description.to_owned();
        self
    }

    /// Adds a tool.
    pub fn with(mut self, tool: impl NativeTool + 'static) -> Result<Self, NativeDefinitionError> {
        let read = ToolView::read(tool.definition().0, &mut Vec::new());
        let item =
            read.map_err(|error| NativeDefinitionError { toolset: self.name.to_string(), error })?;
        self.tools.push((item, NativeHandle(Arc::new(tool))));
        Ok(self)
    }
}

/// The tool with an opaque `Debug`.
#[derive(Clone)]
pub(super) struct NativeHandle(pub(super) Arc<dyn NativeTool>);

impl fmt::Debug for NativeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NativeHandle")
    }
}
