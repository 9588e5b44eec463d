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
    /// The id of the server that it is about.
    #[serde(default)]
    pub server: Option<String>,
    /// The name of the tool that it is about.
    #[serde(default)]
    pub tool: Option<String>,
    /// The causes, from the outermost in.
    #[serde(default)]
    pub cause: Option<String>,
    /// When it happened.
    #[serde(default)]
    pub timestamp: Option<String>,
    /// All of it in one line: `[MCP:<server>] <message>: <cause>`.
    #[serde(default)]
    pub text: Option<String>,
}

impl Fault {
    /// The error of an operation on a server. `message` already holds the cause.
    #[must_use]
    pub(crate) fn of_server(mut self, server: &str, cause: Option<String>) -> Self {
        self.text = Some(format!("[MCP:{server}] {}", self.message));
        self.server = Some(server.to_owned());
        self.cause = cause;
        self
    }
}

/// The answer to a request that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Faulted {
    pub error: Fault,
}
