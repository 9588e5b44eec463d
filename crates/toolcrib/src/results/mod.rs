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
mod tests;

pub use arguments::{ArgumentError, parse_arguments};
pub use call_report::call_report;
pub use delivery::{CallFacts, CallResult, DeliveredResult, deliver};
pub use error::{Blame, CallError, ErrorKind, RetryAdvice};
pub use error_message::error_message;
pub use model_items::{Artifact, ModelItem, model_items};
pub use rendering::{Audience, RenderedResult, render_result};
pub use truncation::{StoredResult, TruncatedResult, truncate_result};
pub use validation::{Strictness, apply_input_verdict, apply_output_verdict, check_output};
