//! API schema of errors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// `unknown_tool`, `denied`, `invalid_arguments`, `config`, `connection`, `authentication`, `timeout`, `cancelled`,
    /// `protocol`, `tool`, `resource`, `not_found`, `conflict` or `internal`.
    pub kind: String,
    /// Stable dotted code.
    pub code: String,
    pub message: String,
    /// Id of the affected server.
    #[serde(default)]
    pub server: Option<String>,
    /// Name of the affected tool.
    #[serde(default)]
    pub tool: Option<String>,
    /// Causes, outermost first.
    #[serde(default)]
    pub cause: Option<String>,
    /// Time of the error.
    #[serde(default)]
    pub timestamp: Option<String>,
    /// Everything in one line: `[MCP:<server>] <message>: <cause>`.
    #[serde(default)]
    pub text: Option<String>,
}

impl ErrorBody {
    /// Marks the error as one of a server operation. `message` already contains the cause.
    #[must_use]
    pub(crate) fn for_server(mut self, server: &str, cause: Option<String>) -> Self {
        self.text = Some(format!("[MCP:{server}] {}", self.message));
        self.server = Some(server.to_owned());
        self.cause = cause;
        self
    }
}

/// Response body of a failed request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorResponse {
    pub error: ErrorBody,
}
