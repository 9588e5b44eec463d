//! API schema of changed tool definitions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib::ChangedDefinition;

/// Changed tool definitions.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DefinitionChanges {
    pub definitions: Vec<DefinitionChange>,
}

/// Changed definition of one tool.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DefinitionChange {
    /// Key of the server.
    pub server: String,
    /// Name under which the tool is offered.
    pub tool: String,
    pub original_name: String,
    /// Removed lines start with `-`, added lines with `+`.
    pub difference: String,
}

/// Request to accept changed definitions.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptDefinitions {
    /// The tool, by any of its names; all tools if absent.
    pub tool: Option<String>,
}

impl DefinitionChanges {
    /// Converts the changes that the host reports.
    pub fn new(changed: Vec<ChangedDefinition>) -> Self {
        let definitions = changed.into_iter().map(|it| DefinitionChange {
            server: it.server.to_string(),
            tool: it.name,
            original_name: it.tool,
            difference: it.difference,
        });
        DefinitionChanges { definitions: definitions.collect() }
    }
}
