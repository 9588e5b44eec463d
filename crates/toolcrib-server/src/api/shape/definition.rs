//! Tools that are not what they were when they were first seen.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib::host::ChangedDefinition;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Definitions {
    pub definitions: Vec<Definition>,
}

/// How one tool has changed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Definition {
    /// The key of its server.
    pub server: String,
    /// The name that it is offered by.
    pub tool: String,
    pub original_name: String,
    /// Lines that went begin with `-`, lines that came with `+`.
    pub difference: String,
}

/// What is accepted.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Accept {
    /// One tool, by any of its names; all where none is named.
    pub tool: Option<String>,
}

impl Definitions {
    pub fn of(changed: Vec<ChangedDefinition>) -> Self {
        let definitions = changed.into_iter().map(|it| Definition {
            server: it.server.to_string(),
            tool: it.name,
            original_name: it.tool,
            difference: it.difference,
        });
        Definitions { definitions: definitions.collect() }
    }
}
