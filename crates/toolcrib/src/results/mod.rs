//! Arguments, results and errors of calls, in the forms that the policy selects. All functions are pure.
//!
//! Arguments: [`parse_arguments`] reads them from the command line, and [`apply_input_verdict`] acts on the schema
//! check. Results: [`CallResult`] is the unchanged result; [`deliver`] delivers it by policy, [`call_report()`] writes
//! the JSON report, [`truncate_result`] enforces a size limit, and [`model_items()`] separates images. Errors:
//! [`CallError`].

mod arguments;
mod call_report;
mod content_text;
mod delivery;
mod error;
mod error_message;
mod model_items;
mod output_object;
mod rendering;
mod truncation;
mod validation;

#[cfg(test)]
use rendering::render_result;

#[cfg(test)]
mod tests;

pub use arguments::parse_arguments;
pub(crate) use call_report::call_report;
pub use delivery::{CallFacts, CallResult};
pub(crate) use delivery::{DeliveredResult, deliver};
pub(crate) use error::{Blame, RetryAdvice};
pub use error::{CallError, ErrorKind};
pub(crate) use error_message::error_message;
pub use model_items::{Artifact, ModelItem, model_items};
pub use rendering::{Audience, RenderedResult};
pub(crate) use truncation::truncate_result;
pub(crate) use validation::{Strictness, apply_input_verdict, apply_output_verdict, check_output};
