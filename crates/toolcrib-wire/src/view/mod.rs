//! Typed views of message parts. Each view keeps its raw value with unknown members and reads on demand.

mod cache_hints;
mod call_result;
mod capabilities;
mod content;
pub(crate) mod field_error;
mod input;
mod log_level;
mod page;
mod prompt;
mod resource;
mod tool;

pub use cache_hints::{CacheHints, CacheScope};
pub use call_result::{CallToolResult, ResultType};
pub use capabilities::{ClientCapabilities, ServerCapabilities};
pub use content::{ContentBlock, ParsedContent};
pub use field_error::FieldError;
pub use input::{
    ElicitAction, ElicitMode, ElicitParams, InputRequest, InputRequired, elicit_result,
};
pub use log_level::LogLevel;
pub use page::{BadItem, ListItem, Page, PageWarning};
pub use prompt::{GetPromptResult, PromptArgument, PromptMessage, PromptView};
pub use resource::{ReadResourceResult, ResourceContents, ResourceTemplateView, ResourceView};
pub use tool::{ToolAnnotations, ToolView};
