//! Reading what messages hold: each view keeps the raw value, unknown members included, and reads on demand.

mod cache;
mod call;
mod capabilities;
mod content;
pub(crate) mod flaw;
mod input;
mod log_level;
mod page;
mod prompt;
mod resource;
mod tool;

pub use cache::{Cache, CacheScope};
pub use call::{CallToolResult, ResultType};
pub use capabilities::{ClientCapabilities, ServerCapabilities};
pub use content::{Content, Part};
pub use flaw::Flaw;
pub use input::{
    CreateMessage, Elicit, ElicitAction, ElicitMode, InputRequest, InputRequired, elicit_result,
};
pub use log_level::LogLevel;
pub use page::{BadItem, Item, Note, Page};
pub use prompt::{GetPromptResult, Prompt, PromptArgument, PromptMessage};
pub use resource::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
pub use tool::{Tool, ToolAnnotations};
