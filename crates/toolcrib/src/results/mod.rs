//! Arguments, results and errors of calls, in the forms that the policy selects. All functions are pure.
//!
//! Arguments: [`parse_arguments`] reads them from the command line, and [`apply_input_verdict`] acts on the schema
//! check. Results: [`CallResult`] is the unchanged result; [`deliver`] delivers it by policy, [`call_report()`] writes
//! the JSON report, [`truncate_result`] enforces a size limit, and [`model_items()`] separates images. Errors:
//! [`CallError`].

mod model_items;
mod arguments;
mod content_text;
mod truncation;
mod error;
mod validation;
mod error_message;
mod delivery;
mod output_object;
mod call_report;
mod rendering;

#[cfg(test)]
mod tests;

pub use model_items::{Artifact, ModelItem, model_items};
pub use arguments::{ArgumentError, parse_arguments};
pub use truncation::{TruncatedResult, StoredResult, truncate_result};
pub use error::{Blame, CallError, ErrorKind, RetryAdvice};
pub use validation::{Strictness, check_output, apply_input_verdict, apply_output_verdict};
pub use error_message::error_message;
pub use delivery::{CallResult, DeliveredResult, CallFacts, deliver};
pub use call_report::call_report;
pub use rendering::{Audience, RenderedResult, render_result};
