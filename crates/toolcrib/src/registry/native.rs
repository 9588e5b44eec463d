//! Tools that the embedding program brings along: the same to every caller as a server's.

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use toolcrib_wire::view::{Flaw, Item, Tool};
use toolcrib_wire::{ObjectWriter, Raw};

/// A tool that runs in this program.
pub trait NativeTool: Send + Sync {
    /// What the tool is. It is asked once, when its toolset is made.
    fn definition(&self) -> Definition;

    /// Runs the tool. The answer is the result of `tools/call`, whole; a tool that failed says so in it.
    /// Dropping the future cancels the call.
    fn call(&self, call: NativeCall) -> Answer<'_>;
}

/// What a call of a native tool comes to.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<Raw, NativeError>> + Send + 'a>>;

/// A call that gave no result at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NativeError(pub String);

/// One call of a native tool.
#[derive(Debug, Clone)]
pub struct NativeCall {
    pub arguments: Raw,
    /// Who asks.
    pub agent: Option<String>,
    /// In which dialog.
    pub dialog: Option<String>,
    /// The dialog's working directory.
    pub cwd: Option<PathBuf>,
}

impl NativeCall {
    pub fn new(arguments: Raw) -> Self {
        NativeCall { arguments, agent: None, dialog: None, cwd: None }
    }
}

/// What a native tool is, in the words of MCP.
#[derive(Debug, Clone)]
pub struct Definition(Raw);

impl Definition {
    /// The schema is a JSON object.
    pub fn new(name: &str, input_schema: &Raw) -> Self {
        let writer = ObjectWriter::new().string("name", name);
        Definition(writer.json("inputSchema", input_schema.json()).finish())
    }

    #[must_use]
    pub fn title(self, title: &str) -> Self {
        self.with("title", Raw::string(title))
    }

    #[must_use]
    pub fn description(self, description: &str) -> Self {
        self.with("description", Raw::string(description))
    }

    #[must_use]
    pub fn output_schema(self, schema: Raw) -> Self {
        self.with("outputSchema", schema)
    }

    #[must_use]
    pub fn annotations(self, annotations: Raw) -> Self {
        self.with("annotations", annotations)
    }

    fn with(self, key: &str, value: Raw) -> Self {
        Definition(self.0.with_members([(key, Some(value))]))
    }
}

/// A definition that no tool can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a tool of the native toolset `{toolset}` has no usable definition")]
pub struct BadDefinition {
    pub toolset: String,
    #[source]
    pub flaw: Flaw,
}

/// Native tools that are granted together.
#[derive(Debug, Clone)]
pub struct NativeToolset {
    pub(super) name: Arc<str>,
    pub(super) description: String,
    pub(super) tools: Vec<(Tool, Native)>,
}

impl NativeToolset {
    pub fn new(name: &str) -> Self {
        NativeToolset { name: name.into(), description: String::new(), tools: Vec::new() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    #[must_use]
    pub fn description(mut self, description: &str) -> Self {
        self.description = description.to_owned();
        self
    }

    /// Adds a tool.
    pub fn with(mut self, tool: impl NativeTool + 'static) -> Result<Self, BadDefinition> {
        let read = Tool::read(tool.definition().0, &mut Vec::new());
        let item = read.map_err(|flaw| BadDefinition { toolset: self.name.to_string(), flaw })?;
        self.tools.push((item, Native(Arc::new(tool))));
        Ok(self)
    }
}

/// The tool itself, which has nothing to show.
#[derive(Clone)]
pub(super) struct Native(pub(super) Arc<dyn NativeTool>);

impl fmt::Debug for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Native")
    }
}
