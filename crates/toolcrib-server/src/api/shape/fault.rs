//! An error as everybody is told it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    /// `unknown_tool`, `denied`, `invalid_arguments`, `config`, `connection`, `authentication`, `timeout`,
    /// `cancelled`, `protocol`, `tool`, `resource`, `not_found`, `conflict` or `internal`.
    pub kind: String,
    /// Stable and dotted.
    pub code: String,
    pub message: String,
}

/// The answer to a request that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Faulted {
    pub error: Fault,
}
